"""The checks of *Tensor memory* accept what is right and refuse planted wrong answers."""

from __future__ import annotations

import re
from typing import Any

import pytest

from phasebit.chapters.tensor_memory import allocation_slips
from phasebit.chapters.tensor_memory import exercises as check
from phasebit.edits import replace_once
from tests.book.notebooks import ROOT, code, solutions, source

CHAPTER = next(ROOT.glob("book/*/??_tensor_memory.ipynb"))
RESCALE = next(text for text in solutions(CHAPTER) if "rescale" in text).split('"""')[1]
ROWS: dict[str, Any] = {}
exec(next(text for text in solutions(CHAPTER) if "def row_in" in text), ROWS)
RIGHT = ROWS["row_in"]
FUNCTIONS = ("addresses", "row_in", "columns", "stops", "cell_of")


def part(
    base: int, warp: int, columns: int, *, lanes: int | None = None, first: int | None = None
) -> list[int]:
    """A warp's addresses, right unless its first lane or its first column is given."""
    lanes = warp % 4 * 32 if lanes is None else lanes
    first = warp // 4 * columns // 2 if first is None else first
    return [base + (lanes << 16) + first + column for column in range(0, columns // 2, 32)]


@pytest.mark.nvcc
def test_no_answer_yet() -> None:
    for name in FUNCTIONS:
        assert getattr(check, name).verdict(lambda *a: ...).endswith("not answered yet")
    blank = next(text for cell in code(CHAPTER) if "check.rescale" in (text := source(cell)))
    assert check.rescale.verdict(blank.split('"""')[1]).endswith("not answered yet")


@pytest.mark.nvcc
def test_the_solutions_in_the_chapter_are_right() -> None:
    names: dict[str, object] = {}
    for solution in solutions(CHAPTER):
        exec(solution, names)
    for name in FUNCTIONS:
        assert f"{name}: OK" in getattr(check, name).verdict(names[name])


@pytest.mark.nvcc
@pytest.mark.parametrize(
    "wrong",
    [
        lambda shape, lane: lane,
        lambda shape, lane: lane % 32 if "warpx" in shape else lane,
        lambda shape, lane: 0 if shape == "4x256b" else RIGHT(shape, lane),
        lambda shape, lane: RIGHT(shape.replace("02_13", "01_23"), lane),
        lambda shape, lane: lane // 32 if shape == "4x256b" else RIGHT(shape, lane),
    ],
)
def test_row_in_refuses(wrong: object) -> None:
    assert "not right yet" in check.row_in.verdict(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda requests, blocks: len(requests) > 1,
        lambda requests, blocks: sum(requests) * blocks > 512,  # waiting alone stops nobody
        lambda requests, blocks: False,
        lambda requests, blocks: requests[0] * blocks + requests[-1] > 512,  # only after the first
    ],
)
def test_stops_refuses(wrong: object) -> None:
    assert "not right yet" in check.stops.verdict(wrong)


@pytest.mark.nvcc
@pytest.mark.parametrize("name", allocation_slips.SLIPS)
def test_every_slip_with_columns_is_found(name: str) -> None:
    said = allocation_slips.said(name)
    assert re.search(allocation_slips.SLIPS[name].says, said), said


@pytest.mark.nvcc
def test_the_kernel_in_the_chapter_is_right() -> None:
    assert "rescale: OK" in check.rescale.verdict(RESCALE)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda base, warp, columns: part(base, warp, columns, lanes=warp * 32),  # for four warps
        lambda base, warp, columns: part(base, warp, columns, lanes=warp % 4),
        lambda base, warp, columns: part(0, warp, columns),
        lambda base, warp, columns: part(base, warp, columns, first=warp % 2 * columns // 2),
        lambda base, warp, columns: part(base, warp, columns, first=0),
        lambda base, warp, columns: part(base, warp, 2 * columns, first=0),  # no half
        lambda base, warp, columns: part(base, warp, columns)[:1],  # the first load alone
    ],
)
def test_addresses_refuses(wrong: object) -> None:
    assert "not right yet" in check.addresses.verdict(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda n, sums: n * sums,
        lambda n, sums: min(512, 1 << (n * sums - 1).bit_length()),  # 0 where they do not fit
        lambda n, sums: 1 << (n * sums - 1).bit_length(),  # at least 32
        lambda n, sums: 512,
    ],
)
def test_columns_refuses(wrong: object) -> None:
    assert "not right yet" in check.columns.verdict(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda t, j: (t, j),  # 32x32b
        lambda t, j: (t // 4 + 8 * (j % 2), t % 4 + 4 * (j // 2)),  # 16x128b
        lambda t, j: (t // 4, 2 * (t % 4) + j % 2 + 8 * (j // 2)),
        lambda t, j: (t // 4 + 8 * (j // 2 % 2), 2 * (t % 4) + j % 2),
        lambda t, j: (2 * (t % 4) + j % 2 + 8 * (j // 4), t // 4 + 8 * (j // 2 % 2)),
        lambda t, j: t // 4,
    ],
)
def test_cell_of_refuses(wrong: object) -> None:
    assert "not right yet" in check.cell_of.verdict(wrong)


ALLOCATION = "    if (warp == 0) ptx::tcgen05_alloc<COLUMNS>(&address);\n"
STORED = "    ptx::tcgen05_wait_st();\n    meet();\n"
FILLED = (
    "x[row * COLUMNS + first + j]);\n"
    "            ptx::tcgen05_st_32x32b_x32(mine + first, r);\n        }\n"
)
RESCALES = {
    "nothing is allocated": (ALLOCATION, "    if (warp == 0) address = 0;\n", "not allocated"),
    "the address is taken for 0": ("mine = address +", "mine = 0 +", "not allocated"),
    "nothing is given back": (
        "        ptx::tcgen05_dealloc<COLUMNS>(address);\n", "", "finds tensor"),
    "too few columns": ("tcgen05_alloc<COLUMNS>", "tcgen05_alloc<32>", "not allocated"),
    "the warp's number, not its quarter": ("warp % 4 * 32", "warp * 32", "lanes 128-159"),
    "every warp in the first quarter": ("(warp % 4 * 32 << 16)", "0", "finds tensor"),
    "the lane in the lower half": (
        "(warp % 4 * 32 << 16)", "warp % 4 * 32", "not allocated"),
    "x is not waited for": (f"{FILLED}{STORED}", f"{FILLED}    meet();\n", "finds async"),
    "the first meeting is left out": (
        f"{ALLOCATION}    meet();\n", ALLOCATION, "finds race"),
    "the warps of the second group begin at once": (
        f"{FILLED}{STORED}", f"{FILLED}    ptx::tcgen05_wait_st();\n", "finds async"),
    "given back while others fetch": (
        "        }\n    meet();\n    if (warp == 0) {", "        }\n    if (warp == 0) {",
        "finds race"),
    "no fence before": ("    ptx::tcgen05_fence_before_thread_sync();\n", "", "no tcgen05.fence"),
    "no fence behind": ("    ptx::tcgen05_fence_after_thread_sync();\n", "", "no tcgen05.fence"),
    "one group does it all": ("    if (warp >= 4)", "    if (warp < 4)", "4 to 7 have no loads"),
    "half of the columns": (
        "    if (warp >= 4)\n        for (int first = 0",
        "    if (warp >= 4)\n        for (int first = 32", "y is not x"),
    "the factor of a lane of the warp": ("factor[row]", "factor[row % 32]", "y is not x"),
    "the factor of a thread": ("factor[row]", "factor[threadIdx.x]", "after the end of"),
    "every warp gives back": ("    if (warp == 0) {\n", "    {\n", "second time"),
    "past tensor memory": (
        "= __uint_as_float(r[j]);\n        }\n    meet",
        "= factor[row] * x[row * COLUMNS + first + j];\n        }\n    meet", "more than once"),
}  # fmt: skip
"""What is replaced by what in the solution, and what must be said."""


@pytest.mark.nvcc
@pytest.mark.parametrize("name", RESCALES)
def test_rescale_refuses(name: str) -> None:
    old, new, says = RESCALES[name]
    said = check.rescale.verdict(replace_once(RESCALE, old, new))
    assert said.startswith("rescale: not right yet") and says in said, said


@pytest.mark.parametrize(("wrong", "says"), [(1, "as a string"), ("__global__", "keep the line")])
def test_rescale_wants_a_kernel(wrong: object, says: str) -> None:
    assert says in check.rescale.verdict(wrong)
