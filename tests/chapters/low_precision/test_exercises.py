"""The checks of *Low precision, block by block* accept what is right, refuse what people write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from phasebit.chapters.low_precision import exercises as check
from phasebit.chapters.low_precision import nvfp4
from phasebit.edits import replace_once
from phasebit.emulator import EmulatorError, formats
from tests.book.notebooks import ROOT
from tests.chapters.answers import solved

CHAPTER = next(ROOT.glob("book/*/??_low_precision.ipynb"))


def test_no_answer_yet() -> None:
    for each in (check.scale_at, check.scales_of, check.block, check.pieces):
        assert each.verdict(lambda *a: ...).endswith("not answered yet")
    assert check.multiply.verdict("// yours").endswith("not answered yet")


def test_the_solutions_in_the_chapter_are_right() -> None:
    for name in ("scale_at", "scales_of", "block", "pieces"):
        assert f"{name}: OK" in getattr(check, name).verdict(solved(CHAPTER)[name])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda byte: divmod(byte, 4),
        lambda byte: (byte // 16 + byte // 4 % 4, byte % 4),
        lambda byte: (byte // 16 + byte % 4 * 32, byte // 4 % 4),
        lambda byte: (byte // 16 * 4 + byte // 4 % 4, byte % 4),
        lambda byte: (byte // 16, byte % 16),
    ],
)
def test_scale_at_refuses(wrong: Callable[..., tuple[int, int]]) -> None:
    assert "not right yet" in check.scale_at.verdict(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda per_row, step: (step // 4, step % 4),  # as if each took one
        lambda per_row, step: (step, 0),
        lambda per_row, step: (per_row * step // 4, step % 4),
        lambda per_row, step: (per_row * step // 4, step % per_row),
        lambda per_row, step: (per_row * step % 4, per_row * step // 4),
    ],
)
def test_scales_of_refuses(wrong: Callable[..., tuple[int, int]]) -> None:
    assert "not right yet" in check.scales_of.verdict(wrong)


def test_the_ids_are_those_that_the_emulator_takes() -> None:
    from phasebit.emulator import scaled_descriptors

    solution = solved(CHAPTER)["scales_of"]
    for per_row, ids in scaled_descriptors.IDS.items():
        assert {solution(per_row, step)[1] for step in range(8)} == set(ids)


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


@pytest.mark.parametrize(
    "wrong",
    [
        lambda n, slots: 5,
        lambda n, slots: -(-(2 * n + slots * 16 * (1 + -(-n // 128)) - 512) // 32),  # below zero
        lambda n, slots: max(0, 2 * n + slots * 48 - 512) // 32,  # rounded down
        lambda n, slots: -(-max(0, 2 * n + slots * 48 - 512) // 32),  # B of 128 rows has one atom
        lambda n, slots: -(-max(0, 2 * n + slots * 32 - 512) // 32),
        lambda n, slots: n // 32,
    ],
)
def test_pieces_refuses(wrong: Callable[..., int]) -> None:
    assert "not right yet" in check.pieces.verdict(wrong)


@pytest.mark.nvcc
@pytest.mark.parametrize("slots", [1, 2, 3])
def test_the_pieces_are_those_that_the_kernel_needs(slots: int) -> None:
    """With one less the next tile overwrites what is still to be fetched."""
    needed = solved(CHAPTER)["pieces"](256, slots)
    text = replace_once(nvfp4.source(nvfp4.TWO_SUMS), "STAGES = 3;", f"STAGES = {slots};")
    for pieces, clean in (needed, True), (needed - 1, False):
        changed = replace_once(text, "piece == BOTH - 1", f"piece == {pieces} - 1")
        a, b = nvfp4.plain(700, 544, 1), nvfp4.plain(260, 544, 2)
        try:
            run, c = nvfp4.multiply(a, b, changed, schedule="late")
            good = not run.findings and np.array_equal(c, a.values() @ b.values().T)
        except EmulatorError:
            good = False
        assert good is clean, pieces


COPY_A = (
    "            ptx::tcgen05_cp_scales(a_scales + SCALES * atom, s.slots[slot].a_scales[atom]);\n"
)
COPY_B = COPY_A.replace("a_scales", "b_scales")
FULL = "        ptx::mbarrier_wait(&s.full[slot], slice / STAGES % 2);\n"
FREED = "        ptx::tcgen05_commit(&s.empty[slot]);\n"
WRONG = {
    "no scales of A": ((COPY_A, ""),),
    "no scales of B": ((COPY_B, ""),),
    "the first atom's scales of A": ((COPY_A, COPY_A.replace("a_scales[atom]", "a_scales[0]")),),
    "scales one column apart": ((COPY_A, COPY_A.replace("SCALES * atom", "atom")),),
    "every instruction has id 0": (("2 * (step % EACH)", "0"),),
    "an atom for each instruction": (("atom = step / EACH,", "atom = step,"),),
    "no wait": ((FULL, ""),),
    "a parity that never changes": (("slice / STAGES % 2", "0"),),
    "never frees a slot": ((FREED, ""),),
    "frees it at once": ((FREED, ""), (FULL, FULL + FREED)),
    "never says done": (("    ptx::tcgen05_commit(&s.done);\n", ""),),
    "says done after each slice": ((FREED, FREED + "        ptx::tcgen05_commit(&s.done);\n"),),
    "begins anew with each slice": (("slice + step > 0", "step > 0"),),
    "adds to what was there": (("slice + step > 0", "true"),),
    "the same 64 of k": (("(s.slots[slot].a) + 2 * step", "(s.slots[slot].a)"),),
    "another type": (("ptx::tcgen05_mxfp4(TILE_M, TILE_N, id)", "ptx::tcgen05_nvfp4(128, 128)"),),
    "scales over the sum": (("sum + TILE_N + slot * 2", "sum + slot * 2"),),
    "scales of B over those of A": (("a_scales + ATOMS * SCALES;", "a_scales;"),),
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
