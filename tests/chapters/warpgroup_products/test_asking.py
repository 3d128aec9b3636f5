"""The program that looks which instruction of a thread that asks slows the products beside it."""

from __future__ import annotations

import pytest

from phasebit.chapters.warpgroup_products import asking
from phasebit.edits import replace_each
from tests.kernels.emulated import emulate

_LESS = ("LANDING = 128 * 1024", "LANDING = 64 * 1024")


def test_what_it_prints_is_read() -> None:
    line = "⏱ N=64 A=shared blocks=132 boxes={} bytes=16384 warps=1 same=0 asked={} 32.5 {}\n"
    said = line.format(2, -1, 24.5) * 2 + line.format(1, -3, 0) + line.format(1, 0, 0) + "rate: OK"
    bulk, looks, nothing = asking.named(said)
    assert bulk == {"n": 64, "a": "shared", "beside": "bulk, added", "cycles": [32.5, 32.5],
                    "arrived": [24.5, 24.5]}  # fmt: skip
    assert looks["beside"] == "looks" and nothing["beside"] == "nothing"


@pytest.mark.nvcc
def test_right_on_the_emulator() -> None:
    done = emulate(replace_each(asking.text(), (_LESS,)))
    assert done.ok and "every sum of ones is exact" in done.stdout, done.stdout + done.stderr
    assert not done.stderr


@pytest.mark.nvcc
def test_an_address_that_is_added_wrongly_is_seen() -> None:
    right = replace_each(asking.text(), (_LESS,))
    slip = ("                if (s + way.warps >= slots) next -= LANDING;\n", "")
    done = emulate(replace_each(right, (slip,)))
    seen = "words copied badly" in done.stdout or "invalid global access" in done.stderr
    assert not done.ok and seen, done.stdout + done.stderr
