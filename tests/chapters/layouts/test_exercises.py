"""The checks of *Layouts* accept what is right and refuse planted wrong answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tensor_layouts import Layout

from phasebit.chapters.layouts import exercises as check
from phasebit.edits import replace_once
from tests.book.notebooks import ROOT, solutions

CHAPTER = next(ROOT.glob("book/*/??_layouts.ipynb"))
FUNCTIONS = ("packed", "held", "swizzle", "pays")


def test_no_answer_yet() -> None:
    for name in FUNCTIONS:
        assert getattr(check, name).verdict(lambda *a: ...).endswith("not answered yet")


def test_the_solutions_in_the_chapter_are_right() -> None:
    names: dict[str, object] = {}
    for solution in solutions(CHAPTER):
        exec(solution, names)
    for name in FUNCTIONS:
        assert f"{name}: OK" in getattr(check, name).verdict(names[name])
    assert "no_gap: OK" in check.no_gap.verdict(names["CODE"])  # type: ignore[attr-defined]
    assert "taken_apart: OK" in check.taken_apart.verdict(names["PACK"])  # type: ignore[attr-defined]


WRONG: list[tuple[str, Callable[..., Any], str]] = [
    ("packed", lambda r, c, h, w: Layout((r, c), (c, 1)), "element"),
    ("packed", lambda r, c, h, w: 7, "no layout"),
    ("packed", lambda r, c, h, w: 1 // 0, "ZeroDivisionError"),
    (
        "packed",  # tiles column by column
        lambda r, c, h, w: Layout(((h, r // h), (w, c // w)), ((w, h * w), (1, r * w))),
        "element",
    ),
    (
        "packed",  # elements of a tile column by column
        lambda r, c, h, w: Layout(((h, r // h), (w, c // w)), ((1, h * c), (h, h * w))),
        "element",
    ),
    ("held", lambda: Layout(((4, 8), (2, 2)), ((32, 1), (16, 8))), "value 0 of lane 1"),  # C's
    ("held", lambda: Layout(((4, 8), (2, 2)), ((2, 16), (8, 1))), "value 1 of lane 0"),
    ("held", lambda: Layout((32, 2), (2, 1)), "extent"),
    ("swizzle", lambda row: (3, 4, 3), "rows of 32 bytes"),
    ("swizzle", lambda row: (min(3, row.bit_length() - 5), 4, 3), "rows of 256 bytes"),
    ("swizzle", lambda row: (3, 4, max(3, row.bit_length() - 5)), "rows of 32 bytes"),
    ("swizzle", lambda row: (0, 4, 3), "wavefronts"),
    ("swizzle", lambda row: (3, 2, 5), "begins"),
    ("swizzle", lambda row: 3, "three whole numbers"),
    ("swizzle", lambda row: (True, 4, 3), "three whole numbers"),
    ("pays", lambda place, tiles, copy: 1, "N = 128: in place"),
    ("pays", lambda place, tiles, copy: int(copy // (place - tiles)) + 1, "it never pays"),
    (
        "pays",  # breaks even, but for where it never pays
        lambda place, tiles, copy: math.ceil(copy / (place - tiles)) if place > tiles else 0,
        "it pays from 2 products on, not 1",
    ),
    ("pays", lambda place, tiles, copy: True, "not True"),
]


def test_what_the_check_of_one_copy_tells() -> None:
    def pays(place: float, tiles: float, copy: float) -> int:
        return int(copy // (place - tiles)) + 1 if place > tiles else 0

    verdict = check.pays.verdict(pays)  # type: ignore[attr-defined]
    assert verdict == (
        "pays: OK (25 measured cases: a dense A from 2 to 5 products on; "
        "never: 2 interleaved, N = 256)"
    )


@pytest.mark.parametrize(("name", "wrong", "words"), WRONG)
def test_refuses(name: str, wrong: Callable[..., Any], words: str) -> None:
    said = getattr(check, name).verdict(wrong)
    assert said.startswith(f"{name}: not right yet") and words in said


def test_whole_numbers_of_numpy_are_whole() -> None:
    def swizzle(row_bytes: int) -> list[Any]:
        bits = row_bytes.bit_length() - 5
        return [np.int64(min(3, bits)), 4, np.int32(max(3, bits))]

    assert check.swizzle.verdict(swizzle).startswith("swizzle: OK")  # type: ignore[attr-defined]


CODE = """
extern "C" __global__ void transpose(const float* in, float* out) {
    __shared__ float tile[32][32];
    const int x = threadIdx.x;
    for (int row = threadIdx.y; row < 32; row += 8) tile[row][x ^ row] = in[32 * row + x];
    __syncthreads();  // the tile is full
    for (int row = threadIdx.y; row < 32; row += 8) out[32 * row + x] = tile[x][row ^ x];
}
"""
PLANTED = {
    "plain": ([("x ^ row]", "x]"), ("row ^ x]", "row]")], "bank conflicts of its loads"),
    "padded": ([("[32][32]", "[32][33]"), ("x ^ row]", "x]"), ("row ^ x]", "row]")],
               "4224 bytes of shared memory"),
    "the swizzle of chunks": ([("x ^ row]", "x ^ row % 8 * 4]"), ("row ^ x]", "row ^ x % 8 * 4]")],
                              "bank conflicts of its loads"),
    "half of the bits": ([("x ^ row]", "x ^ row % 16]"), ("row ^ x]", "row ^ x % 16]")],
                         "bank conflicts of its loads"),
    "the row is not used, its half is": (
        [("x ^ row]", "x ^ row / 2]"), ("row ^ x]", "row ^ x / 2]")], "bank conflicts"),
    "swizzled on one side only": ([("row ^ x]", "row]")], "elements are wrong"),
    "not transposed": ([("tile[x][row ^ x]", "tile[row][x ^ row]")], "elements are wrong"),
    "nobody waits": ([("    __syncthreads();  // the tile is full\n", "")], "race"),
    "half of the rows": ([("row < 32; row += 8) out", "row < 16; row += 8) out")],
                         "elements are wrong"),
    "rows left out of the tile": ([("row < 32; row += 8) tile", "row < 32; row += 16) tile")],
                                  "tile"),
    "reads beyond the matrix": ([("in[32 * row + x]", "in[33 * row + x]")], "in"),
    "stores by columns": (
        [("out[32 * row + x] = tile[x][row ^ x]", "out[32 * x + row] = tile[row][x ^ row]")],
        "its stores ask for 1024 sectors"),
    "past shared memory": (
        [("tile[x][row ^ x]", "in[32 * x + row]"), ("tile[row][x ^ row] = ", "")],
        "shared memory"),
    "does not compile": ([("__shared__ float", "__shared__ flat")], "does not compile"),
    "another name": ([("transpose(", "turn(")], "no kernel is called transpose"),
    "a parameter too many": ([("float* out)", "float* out, int n)")], "it stops"),
    "never ends": ([("    __syncthreads();  // the tile is full\n", "    for (;;) {}\n")],
                   "it stops"),
}  # fmt: skip


@pytest.mark.nvcc
@pytest.mark.parametrize("mistake", PLANTED)
def test_a_wrong_transpose_is_refused(mistake: str) -> None:
    edits, words = PLANTED[mistake]
    code = CODE
    for old, new in edits:
        code = replace_once(code, old, new)
    said = check.no_gap.verdict(code)  # type: ignore[attr-defined]
    assert said.startswith("no_gap: not right yet") and words in said, said


@pytest.mark.nvcc
def test_a_rotation_is_right_too() -> None:
    code = CODE.replace("x ^ row]", "(x + row) % 32]").replace("row ^ x]", "(row + x) % 32]")
    verdict = check.no_gap.verdict  # type: ignore[attr-defined]
    assert verdict(code).startswith("no_gap: OK")
    assert verdict("") == verdict("// ...") == "no_gap: not answered yet"
    assert "give the CUDA code as a text" in verdict(0)


@pytest.mark.nvcc
def test_the_transpose_goes_through_a_padded_tile() -> None:
    through = check.transposed_through
    assert through(Layout((32, 32), (33, 1))).startswith("2,048 of 2,048 addresses")
    assert through(Layout((32, 32), (32, 1))).startswith("64 of 2,048 addresses")


PACK = """
extern "C" __global__ void pack(const float* in, float* out) {
    __shared__ float tile[64][65];
    for (int i = threadIdx.x; i < 4096; i += 256) tile[i / 64][i % 64] = in[i];
    __syncthreads();  // the tile is full
    for (int i = threadIdx.x; i < 4096; i += 256)
        out[i] = tile[i % 64][i / 64 % 16 * 4 + i / 1024];
}
"""
PACK_PLANTED = {
    "no gap": ("[64][65]", "[64][64]", "bank conflicts of its loads"),
    "a gap too much": ("[64][65]", "[64][66]", "bank conflicts of its loads"),
    "nobody waits": ("    __syncthreads();  // the tile is full\n", "", "race"),
    "still interleaved": ("i / 64 % 16 * 4 + i / 1024", "i / 64", "elements are wrong"),
    "two of four": ("i < 4096; i += 256)\n", "i < 2048; i += 256)\n", "elements are wrong"),
    "reads apart": ("tile[i % 64][i / 64 % 16 * 4 + i / 1024]",
                    "in[i % 64 * 64 + i / 64 % 16 * 4 + i / 1024]", "its loads ask for"),
    "another name": ("pack(", "copy(", "no kernel is called pack"),
}  # fmt: skip


@pytest.mark.nvcc
@pytest.mark.parametrize("mistake", PACK_PLANTED)
def test_a_wrong_copy_is_refused(mistake: str) -> None:
    old, new, words = PACK_PLANTED[mistake]
    verdict = check.taken_apart.verdict  # type: ignore[attr-defined]
    said = verdict(replace_once(PACK, old, new))
    assert said.startswith("taken_apart: not right yet") and words in said, said
    assert verdict("// ...") == "taken_apart: not answered yet"
