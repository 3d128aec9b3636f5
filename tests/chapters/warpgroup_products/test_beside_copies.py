"""The program that multiplies while copies land in other parts of shared memory."""

from __future__ import annotations

import pytest

from phasebit import files
from phasebit.chapters.warpgroup_products import beside_copies
from phasebit.edits import replace_each
from tests.kernels.emulated import emulate


def test_an_edit_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    given = files.kernel(beside_copies.KERNEL)
    monkeypatch.setattr(files, "kernel", lambda name: given.replace("clock64", "clock"))
    with pytest.raises(ValueError, match="once to be changed there"):
        beside_copies.text()


def test_what_it_prints_is_read() -> None:
    line = "⏱ N=64 A=shared blocks=16 boxes=1 bytes=8192 warps=2 same=0 asked=-1 42.125 31.5\n"
    (row,) = beside_copies.read(line * 2 + "rate: OK\n")
    assert row == {"n": 64, "a": "shared", "blocks": 16, "boxes": True, "bytes": 8192, "warps": 2,
                   "same": False, "asked": -1, "cycles": [42.125, 42.125],
                   "arrived": [31.5, 31.5]}  # fmt: skip


@pytest.mark.nvcc
def test_right_on_the_emulator() -> None:
    """Every way as fast as it goes, and rates, beside products of either kind and beside none."""
    few = replace_each(beside_copies.text(), (
        ("{132, 16}", "{16}"),
        ("LANDING = 128 * 1024", "LANDING = 64 * 1024"),
        ("{0, DRY, 16, 32, 48, 64}", "{0, DRY, 64}"),
        ("    both<32>(runs), both<128>(runs), both<256>(runs);\n", ""),
    ))  # fmt: skip
    done = emulate(few)
    assert done.ok and "every sum of ones is exact" in done.stdout, done.stdout + done.stderr
