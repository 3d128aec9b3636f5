"""The program that multiplies while copies land in other parts of shared memory."""

from __future__ import annotations

import pytest

from phasebit import files
from phasebit.chapters.warpgroup_products import beside_copies
from tests.kernels.emulated import emulate


def test_an_edit_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    given = files.kernel(beside_copies.KERNEL)
    monkeypatch.setattr(files, "kernel", lambda name: given.replace("clock64", "clock"))
    with pytest.raises(ValueError, match="once to be changed there"):
        beside_copies.text()


def test_what_it_prints_is_read() -> None:
    said = "⏱ N=64 A=shared blocks=16 asked=-1 42.125 31.5\n" * 2 + "rate: OK\n"
    (row,) = beside_copies.read(said)
    assert row == {"n": 64, "a": "shared", "blocks": 16, "asked": -1,
                   "cycles": [42.125, 42.125], "arrived": [31.5, 31.5]}  # fmt: skip


@pytest.mark.nvcc
def test_right_on_the_emulator() -> None:
    """Two rates, one of them as fast as it goes: sums of ones, and what was copied."""
    few = beside_copies.text().replace("{0, 16, 32, 48, 64, FAST}", "{64, FAST}")
    few = few.replace("{132, 16}", "{16}").replace("SLOTS = 16;", "SLOTS = 2;")
    few = few.replace("both<32>(runs), both<128>(runs), both<256>(runs);", "")
    done = emulate(few)
    assert done.ok and "every sum of ones is exact" in done.stdout, done.stdout + done.stderr
