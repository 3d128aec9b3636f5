"""The checks of *Epilogues and groups* accept what is right, refuse what people write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from phasebit.chapters.epilogues_and_groups import exercises as check
from phasebit.edits import replace_each, replace_once
from tests.book.notebooks import ROOT
from tests.chapters.answers import solved

CHAPTER = next(ROOT.glob("book/*/epilogues_and_groups.ipynb"))


def test_no_answer_yet() -> None:
    for each in (check.moved, check.orders, check.place):
        assert each.verdict(lambda *a: ...).endswith("not answered yet")
    assert check.step.verdict("// yours").endswith("not answered yet")
    assert check.by_box.verdict("// yours").endswith("not answered yet")


def test_the_solutions_in_the_chapter_are_right() -> None:
    for name in ("moved", "orders", "place"):
        assert f"{name}: OK" in getattr(check, name).verdict(solved(CHAPTER)[name])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda m, n, kernels: 2 * m * n * (1 + kernels),
        lambda m, n, kernels: m * n * (1 + 2 * kernels),
        lambda m, n, kernels: 4 * m * n * kernels,
        lambda m, n, kernels: 2 * m * n,
    ],
)
def test_moved_refuses(wrong: Callable[..., int]) -> None:
    assert "not right yet" in check.moved.verdict(wrong)


def _turns(products: int, epilogue: int, own: bool = True, other: bool = True) -> int:
    over, ready = 0, [0, 0]
    for tile in range(8):
        begin = max(over * other, ready[tile % 2] * own)
        over = begin + products
        ready[tile % 2] = over + epilogue
    return max(ready)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda p, e: (8 * p + 8 * e, _turns(p, e)),  # the whole epilogue by both groups
        lambda p, e: (8 * p + 4 * e, 8 * p + e),  # it is always hidden
        lambda p, e: (8 * p + 4 * e, 8 * p),  # the last one is not seen
        lambda p, e: (8 * p + 4 * e, _turns(p, e, own=False)),
        lambda p, e: (8 * p + 4 * e, _turns(p, e, other=False)),
        lambda p, e: (8 * p + 4 * e, _turns(p, e))[::-1],
    ],
)
def test_orders_refuses(wrong: Callable[..., tuple[int, int]]) -> None:
    assert "orders: OK" in check.orders.verdict(lambda p, e: (8 * p + 4 * e, _turns(p, e)))
    assert "not right yet" in check.orders.verdict(wrong)


def _place(sizes: list[int], n: int, number: int, least: int = 0, down: bool = False,
           up: bool = True) -> Any:  # fmt: skip
    for group, size in enumerate(sizes):
        rows = max(least, -(-size // 128) if up else size // 128)
        columns = -(-n // 256)
        if number < rows * columns:
            if down:
                return group, number % rows * 128, number // rows * 256
            return group, number // columns * 128, number % columns * 256
        number -= rows * columns
    return -1, -1, -1


@pytest.mark.parametrize(
    "wrong",
    [
        lambda *a: _place(*a, least=1),  # an empty group has a tile
        lambda *a: _place(*a, down=True),
        lambda *a: _place(*a, up=False),
        lambda *a: (_place(*a) or (0, 0, 0))[:2],
        lambda sizes, n, number: (0, number * 128, 0),
    ],
)
def test_place_refuses(wrong: Callable[..., Any]) -> None:
    assert "not right yet" in check.place.verdict(wrong)


BIAS = "x = {x.x + g.bias[col], x.y + g.bias[col + 1]};"
BOTH = "return scale * (v < 0 ? 0 : v * v);"
SEEN = "g.seen = max(g.seen, max(__float_as_uint(fabsf(x.x)), __float_as_uint(fabsf(x.y))));"
WRONG = {
    "bias by row": (BIAS, "x = {x.x + g.bias[row], x.y + g.bias[row]};"),
    "one bias for both columns": (BIAS, "x = {x.x + g.bias[col], x.y + g.bias[col]};"),
    "no bias": (BIAS, ""),
    "ReLU without the square": (BOTH, "return scale * (v < 0 ? 0 : v);"),
    "the square without ReLU": (BOTH, "return scale * v * v;"),
    "a NaN becomes 0": (BOTH, "const float r = fmaxf(v, 0.0f); return scale * r * r;"),
    "the scale before the square": (BOTH, "v *= scale; return v < 0 ? 0 : v * v;"),
    "scale by column": ("g.row_scale[row]", "g.row_scale[col % 40]"),
    "scale beyond its end": ("g.row_scale[row]", "g.row_scale[col + 64]"),
    "no amax": (SEEN, ""),
    "amax of one of the two": (SEEN, "g.seen = max(g.seen, __float_as_uint(fabsf(x.x)));"),
    "amax without the magnitude": (SEEN, SEEN.replace("fabsf", "")),
    "amax of the rounded value": (
        SEEN, SEEN.replace("fabsf(", "__bfloat162float(__float2bfloat16(fabsf(").replace(
            ")))", ")))))").replace("x.x))", "x.x))))")),
    "amax before the scale": (SEEN, SEEN.replace("x.x", "x.x / scale").replace(
        "x.y", "x.y / scale")),
    "not a step": ("float2 apply(", "float2 applied("),
    "another name": ("struct Step {", "struct Mine {"),
}  # fmt: skip


@pytest.mark.nvcc
def test_the_solution_runs() -> None:
    assert check.step.verdict(solved(CHAPTER)["STEP"]) == "step: OK (3 products, no finding)"


@pytest.mark.nvcc
@pytest.mark.parametrize("name", WRONG)
def test_step_refuses(name: str) -> None:
    said = check.step.verdict(replace_once(str(solved(CHAPTER)["STEP"]).strip(), *WRONG[name]))
    assert said.startswith("step: not right yet: "), said


READ = "        if (box == {0}) ptx::cp_async_bulk_wait_group_read<ALL - {1}>();\n"
WAITS = [READ.format(box, box + 1) for box in range(4)]
BYTES = "(box == 0 ? BN * sizeof(float) : 0)"
PLACES = "place.of(box).col, place.of(box).row"
BOXES = {
    "no box has left": [(each, "") for each in WAITS],
    "a group too few": [(f"<ALL - {box + 1}>", f"<ALL - {box}>") for box in range(4)],
    "all boxes have left": [(f"<ALL - {box + 1}>", "<0>") for box in range(4)],
    "the residual is not announced": [("(full, bytes + ", "(full, ")],
    "the bias is not announced": [(BYTES, "0")],
    "all come at the first barrier": [
        ("place.of(box).row, full)", "place.of(box).row, &s.fetched[warp][0])")],
    "nobody arrives without a residual": [
        ("ptx::mbarrier_arrive_expect", "if (boxes_too || box == 0) ptx::mbarrier_arrive_expect")],
    "announced without a residual": [("boxes_too ? BOX_ROWS * BOX_COLS * sizeof(bf16) : 0",
                                      "BOX_ROWS * BOX_COLS * sizeof(bf16)")],
    "every box has the first one's place": [(PLACES, "place.col, place.row")],
    "the bias of the row": [("bias, place.col, 0", "bias, place.row, 0")],
    "nobody waits": [("    ptx::mbarrier_wait(&s.fetched[threadIdx.x / 32][box], phase);\n", "")],
    "the other parity": [("[box], phase)", "[box], !phase)")],
    "only the first box is waited for": [("[threadIdx.x / 32][box]", "[threadIdx.x / 32][0]")],
}  # fmt: skip


@pytest.mark.nvcc
def test_the_boxes_run() -> None:
    functions = solved(CHAPTER)["BOXES"]
    assert check.by_box.verdict(functions) == "by_box: OK (3 products, no finding)"


@pytest.mark.nvcc
@pytest.mark.parametrize("name", BOXES)
def test_by_box_refuses(name: str) -> None:
    said = check.by_box.verdict(replace_each(str(solved(CHAPTER)["BOXES"]), BOXES[name]))
    assert said.startswith("by_box: not right yet: "), said
    assert ("a later one has left" in said) == (name == "all boxes have left")
