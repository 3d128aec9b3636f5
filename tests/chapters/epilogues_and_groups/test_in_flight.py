"""The fused kernels of *Epilogues and groups*: several under way at a time, each with its amax."""

from __future__ import annotations

import pytest

from phasebit import hardware
from phasebit.chapters.epilogues_and_groups import clean
from phasebit.chapters.epilogues_and_groups.epilogues import FETCHED, FUSED
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


@pytest.mark.gpu
@pytest.mark.skipif(hardware.gpu() is None, reason="no NVIDIA GPU")
@pytest.mark.parametrize("kind", KINDS)
def test_several_under_way_on_the_gpu(kind: str) -> None:
    in_flight.on_the_gpu(text(kind, in_flight.LARGE))
