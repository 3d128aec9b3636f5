"""The fused kernels of *Epilogues and groups*: several under way at a time, each with its amax."""

from __future__ import annotations

import pytest

from phasebit import hardware
from phasebit.chapters.epilogues_and_groups import clean, epilogues, under_way
from phasebit.chapters.epilogues_and_groups.epilogues import FETCHED, FUSED
from phasebit.edits import replace_each
from tests.kernels import in_flight

HERE = "// here"
SMALL = "{{130, 136, 80}, {1, 8, 16}, {129, 264, 72}}"
KINDS = FUSED, FETCHED, clean.TOGETHER


def text(kind: str, shapes: str) -> str:
    """The program."""
    return in_flight.program(clean.text(kind, f"\n{HERE}\n"), HERE, clean.UNDER_WAY, shapes)


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["late", "random"])
@pytest.mark.parametrize("kind", KINDS)
def test_several_under_way(kind: str, schedule: str) -> None:
    in_flight.on_the_emulator(text(kind, SMALL), schedule)


@pytest.mark.nvcc
def test_a_scale_of_another_row_is_wrong() -> None:
    right = text(FETCHED, SMALL)
    wrong = right.replace("f.scale = scale[p % 2];", "f.scale = scale[0];")
    assert wrong != right and in_flight.said(wrong) == "wrong\n"


ASKS = """        if (first) {
            ptx::cp_async_bulk_wait_group_read<0>();  // the last tile has left the boxes
            fetch(s, residual, bias, place, with_residual);
        }
"""
MULTIPLIES = "        multiply(s.ring, sums, group, tile, at, steps);\n"


@pytest.mark.nvcc
def test_the_picture_tells_whether_the_residual_comes_under_the_products() -> None:
    steps = "Alpha", "Residual"
    right = epilogues.with_steps(epilogues.source(FETCHED), steps)
    late = replace_each(right, [(ASKS, ""), (MULTIPLIES, MULTIPLIES + ASKS)])
    built = epilogues.Programs({"right": right, "late": late})
    given = epilogues.Numbers.draw(128, 512, 256, seed=2)
    for name, word in (("right", "yes"), ("late", "no")):
        _, *said = str(under_way.boxes(built, name, given, steps)).splitlines()
        assert [line.rpartition(": ")[2] for line in said] == 4 * [word]


@pytest.mark.gpu
@pytest.mark.skipif(hardware.gpu() is None, reason="no NVIDIA GPU")
@pytest.mark.parametrize("kind", KINDS)
def test_several_under_way_on_the_gpu(kind: str) -> None:
    in_flight.on_the_gpu(text(kind, in_flight.LARGE))
