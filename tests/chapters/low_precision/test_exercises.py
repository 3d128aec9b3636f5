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
    for each in (check.scale_at, check.block, check.pieces):
        assert each.verdict(lambda *a: ...).endswith("not answered yet")
    assert check.multiply.verdict("// yours").endswith("not answered yet")


def test_the_solutions_in_the_chapter_are_right() -> None:
    for name in ("scale_at", "block", "pieces"):
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


def test_the_tests_of_the_chapter_are_right() -> None:
    names = solved(CHAPTER)
    assert check.tests.verdict(names["seen"], names["own"]) == "tests: OK (6 tests and yours)"


@pytest.mark.drawn
@pytest.mark.parametrize(
    "own, words",
    [
        (lambda row, block: 1 + row % 2, "slip 1"),
        (lambda row, block: 1 + (row + block // 4) % 2, "slip 2"),
        (lambda row, block: 1 + (row + block // 4 + block // 16) % 2, "slip 3"),
        (lambda row, block: 1 + (row + block) % 2, "slip 1"),
        (lambda row, block: 3, "1 or 2"),
    ],
)
def test_tests_refuses(own: Callable[[int, int], int], words: str) -> None:
    seen = solved(CHAPTER)["seen"]
    assert words in check.tests.verdict(seen, own)
    assert "test b" in check.tests.verdict({**seen, "b": [4]}, own)
    assert "give a list" in check.tests.verdict({"a": []}, own)


@pytest.mark.nvcc
def test_the_kernel_with_a_slip_is_wrong_where_a_test_sees_it() -> None:
    """On the emulator, as the check's own sums say."""
    text = nvfp4.source()
    for test, slips in {"a": (4,), "c": (1,), "d": (1, 2), "e": (3, 4), "f": (3, 4)}.items():
        sides = [check.scales_of(said) for said in check.TESTS[test]]
        a, b = (nvfp4.plain(check.ROWS, 16 * check.BLOCKS, seed) for seed in (3, 4))
        for each, scales in zip((a, b), sides, strict=True):
            each.scales[:] = np.where(scales == 2, 0x40, 0x38)  # 2 and 1 in ue4m3
        for slip in slips:
            changed = replace_once(text, *check.SLIPS[slip])
            _, c = nvfp4.multiply(a, b, changed, schedule="late")
            seen = not np.array_equal(c, a.values() @ b.values().T)
            assert seen == (slip in check.seen_by(*sides)), (test, slip)


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
