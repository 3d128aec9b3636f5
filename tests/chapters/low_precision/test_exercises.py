"""The checks of *Low precision, block by block* accept what is right, refuse what people write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from phasebit.chapters.low_precision import exercises as check
from phasebit.edits import replace_once
from phasebit.emulator import formats
from tests.book.notebooks import ROOT
from tests.chapters.answers import solved

CHAPTER = next(ROOT.glob("book/*/??_low_precision.ipynb"))


def test_no_answer_yet() -> None:
    for each in (check.byte_of, check.block):
        assert each.verdict(lambda *a: ...).endswith("not answered yet")
    assert check.multiply.verdict("// yours").endswith("not answered yet")


def test_the_solutions_in_the_chapter_are_right() -> None:
    for name in ("byte_of", "block"):
        assert f"{name}: OK" in getattr(check, name).verdict(solved(CHAPTER)[name])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda row, j: 4 * row + j,
        lambda row, j: row % 32 * 16 + 4 * j + row // 32,
        lambda row, j: row // 4 * 16 + row % 4 * 4 + j,
        lambda row, j: row // 32 * 128 + row % 32 * 4 + j,
        lambda row, j: j * 128 + row,
    ],
)
def test_byte_of_refuses(wrong: Callable[..., int]) -> None:
    assert "not right yet" in check.byte_of.verdict(wrong)


def rounded(x: Any, scale: float) -> Any:
    by = scale or 1.0
    return formats.decode("e2m1", formats.encode("e2m1", x / by, satfinite=True)) * by


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x,
        lambda x: rounded(x, np.abs(x).max() / 6),  # the scale is not rounded
        lambda x: rounded(x, float(formats.decode("e4m3", formats.encode("e4m3", x.max() / 6)))),
        lambda x: rounded(x, float(formats.decode("e4m3", formats.encode("e4m3", x.max())))),
        lambda x: rounded(x, 2.0 ** np.floor(np.log2(np.abs(x).max() + 1e-9) - 2)),
        lambda x: rounded(x, 1.0),
        lambda x: x[:3],
        lambda x: "none",
    ],
)
def test_block_refuses(wrong: Callable[[Any], Any]) -> None:
    assert "not right yet" in check.block.verdict(wrong)


COPY_A = (
    "            ptx::tcgen05_cp_scales(a_scales + SCALES * step, s.slots[slot].a_scales[step]);\n"
)
COPY_B = COPY_A.replace("a_scales", "b_scales")
FULL = "        ptx::mbarrier_wait(&s.full[slot], slice / STAGES % 2);\n"
FREED = "        ptx::tcgen05_commit(&s.empty[slot]);\n"
WRONG = {
    "no scales of A": ((COPY_A, ""),),
    "no scales of B": ((COPY_B, ""),),
    "the first step's scales of A": ((COPY_A, COPY_A.replace("a_scales[step]", "a_scales[0]")),),
    "scales one column apart": ((COPY_A, COPY_A.replace("SCALES * step", "step")),),
    "no wait": ((FULL, ""),),
    "a parity that never changes": (("slice / STAGES % 2", "0"),),
    "never frees a slot": ((FREED, ""),),
    "frees it at once": ((FREED, ""), (FULL, FULL + FREED)),
    "never says done": (("    ptx::tcgen05_commit(&s.done);\n", ""),),
    "says done after each slice": ((FREED, FREED + "        ptx::tcgen05_commit(&s.done);\n"),),
    "begins anew with each slice": (("slice + step > 0", "step > 0"),),
    "adds to what was there": (("slice + step > 0", "true"),),
    "the same 64 of k": (("(s.slots[slot].a) + 2 * step", "(s.slots[slot].a)"),),
    "another type": (("ptx::tcgen05_nvfp4(TILE_M, TILE_N)", "ptx::tcgen05_bf16_f32(128, 128)"),),
    "scales over the sum": (("sum + TILE_N + slot * 2", "sum + slot * 2"),),
    "scales of B over those of A": (("a_scales + STEPS * SCALES;", "a_scales;"),),
    "another head": (("int slices", "int n"),),
}


@pytest.mark.nvcc
def test_the_solution_runs() -> None:
    assert check.multiply.verdict(solved(CHAPTER)["role"]) == "multiply: OK (4 runs, no finding)"


@pytest.mark.nvcc
@pytest.mark.parametrize("name", WRONG)
def test_multiply_refuses(name: str) -> None:
    role = str(solved(CHAPTER)["role"])
    for old, new in WRONG[name]:
        role = replace_once(role, old, new)
    assert check.multiply.verdict(role).startswith("multiply: not right yet: ")
