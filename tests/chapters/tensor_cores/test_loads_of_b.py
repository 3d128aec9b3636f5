"""Loads of B that are switched off when the kernel runs: what the loop multiplies, and its code."""

from __future__ import annotations

import pytest

from phasebit.chapters.tensor_cores import loads_of_b, warp_tiles
from phasebit.launching.build import ptx
from tests.chapters.tensor_cores import test_warp_tiles
from tests.kernels.emulated import emulate


@pytest.mark.nvcc
@pytest.mark.parametrize("loop", loads_of_b.LOOPS[2:5])
def test_a_loop_multiplies_what_it_should(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = loads_of_b.source(loop)
    monkeypatch.setattr(warp_tiles, "source", lambda loop: text)
    program = test_warp_tiles.program(loop, loads_of_b.BEHIND.get(loop, loads_of_b.LEFT_OUT))
    done = emulate(program, timeout=300)
    assert done.ok and done.stdout == "OK\n" and not done.stderr, done.stdout + done.stderr


@pytest.mark.nvcc
def test_the_loads_stay_in_the_code() -> None:
    text = ptx(loads_of_b.source(loads_of_b.OFF), "sm_80")
    left_out = ptx(loads_of_b.source(loads_of_b.LEFT_OUT), "sm_80").count("ldmatrix.")
    # Of B a small tile has 2 loads in a step, a large one 4; a tile has four steps.
    assert text.count("ldmatrix.") == left_out + 4 * (2 + 4)
    assert text.count("p ldmatrix.") == 4 * (2 + 4)
