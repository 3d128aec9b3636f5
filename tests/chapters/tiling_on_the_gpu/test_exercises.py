"""The checks of *Tiling on the GPU* accept what is right and reject what is nearly right."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from phasebit.chapters.tiling_on_the_gpu import exercises as checks
from phasebit.edits import replace_once
from tests.book.notebooks import ROOT, solutions

pytestmark = pytest.mark.nvcc

RIGHT: dict[str, Callable[..., Any]] = {
    "sectors": lambda n, r, c: (n // r) * (n // c) * n * (r + c) * 4 // 32,
}
WRONG: list[tuple[str, Callable[..., Any]]] = [
    ("sectors", lambda n, r, c: n * n * 2 // 8),
    ("sectors", lambda n, r, c: (n // r) * (n // c) * n * (r + c) // 8 + 1),
    ("sectors", lambda n, r, c: str(n)),
    ("sectors", lambda n, r, c: (n // r) * (n // c) * n * (r + c) * 4),
    ("sectors", lambda n, r, c: 2 * n**3 // r // 8),
    ("sectors", lambda n, r, c: n**3 // r // 8 + n**3 // c // 8 + 1),
]


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_answer_is_accepted(name: str) -> None:
    check = getattr(checks, name)
    assert check.verdict(RIGHT[name]).startswith(f"{name}: OK")
    assert check.verdict(lambda *given: ...) == f"{name}: not answered yet"


def test_sums_of_floats_are_right_too() -> None:
    """They may be off by a rounding error; one sector too many is not one."""
    said = checks.sectors.verdict(lambda n, r, c: n**3 / 8 * (1 / r + 1 / c))
    assert said.startswith("sectors: OK")


def test_a_fraction_is_a_number() -> None:
    said = checks.sectors.verdict(lambda n, r, c: Fraction(n**3 * (r + c), 8 * r * c))
    assert said.startswith("sectors: OK")


@pytest.mark.parametrize(("name", "answer"), WRONG)
def test_a_wrong_answer_is_rejected(name: str, answer: Callable[..., Any]) -> None:
    assert getattr(checks, name).verdict(answer).startswith(f"{name}: not right yet")


def test_an_order_of_lanes() -> None:
    verdict = checks.lanes.verdict  # type: ignore[attr-defined]
    assert verdict("lane >> 1 & 1 | lane >> 3 & 2", "lane & 1 | lane >> 1 & 6").startswith(
        "lanes: OK"
    )
    assert verdict(..., ...) == verdict("", "") == "lanes: not answered yet"


@pytest.mark.parametrize(
    ("row", "column", "said"),
    [
        ("lane / 8", "lane % 8", "where lane / 8 needs"),
        ("lane % 4", "lane / 4", "where lane / 8 needs"),
        ("lane / 8", "lane / 4", "no longer right"),
        ("lane / 8", "lame % 8", "does not compile"),
        ("1000000", "lane % 8", "a lane leaves its tile"),
        (0, 1, "give two texts"),
    ],
)
def test_other_orders_of_lanes(row: Any, column: Any, said: str) -> None:
    assert said in checks.lanes.verdict(row, column)  # type: ignore[attr-defined]


def squares(name: str = "CODE") -> str:
    """The kernel in a solution of the chapter."""
    (path,) = ROOT.glob("book/*/??_tiling_on_the_gpu.ipynb")
    (solution,) = (each for each in solutions(path) if each.startswith(name))
    names: dict[str, str] = {}
    exec(solution, names)
    return names[name]


NO_SHARED = """
__global__ void __launch_bounds__(256) squares(Product g) {
    const int row0 = blockIdx.y * 64, col0 = blockIdx.x * 64, t = threadIdx.x;
    for (int i = t; i < 64 * 64; i += 256) {
        float sum = 0;
        for (int k = 0; k < g.K; ++k)
            sum += element(g.A, g.M, g.K, g.lda, row0 + i / 64, k)
                 * element(g.B, g.K, g.N, g.ldb, k, col0 + i % 64);
        store(g, row0 + i / 64, col0 + i % 64, sum);
    }
}
"""
A_COLUMN = """
__global__ void __launch_bounds__(256) squares(Product g) {
    __shared__ float a[64][8], b[8][64];
    const int row0 = blockIdx.y * 64, col0 = blockIdx.x * 64, t = threadIdx.x;
    const int x = t % 64, y = t / 64 * 16;
    float sum[16] = {};
    for (int k0 = 0; k0 < g.K; k0 += 8) {
        for (int i = t; i < 64 * 8; i += 256) {
            a[i / 8][i % 8] = element(g.A, g.M, g.K, g.lda, row0 + i / 8, k0 + i % 8);
            b[i / 64][i % 64] = element(g.B, g.K, g.N, g.ldb, k0 + i / 64, col0 + i % 64);
        }
        __syncthreads();
        for (int k = 0; k < 8; ++k)
            for (int i = 0; i < 16; ++i)
                sum[i] += *(volatile float*)&a[y + i][k] * *(volatile float*)&b[k][x];
        __syncthreads();
    }
    for (int i = 0; i < 16; ++i) store(g, row0 + y + i, col0 + x, sum[i]);
}
"""
PLANTED: dict[str, tuple[str, str]] = {
    "nobody waits for the tiles": ("        __syncthreads();  // the tiles are there\n", ""),
    "tiles are filled while they are read": (
        "        __syncthreads();  // nobody needs them any more\n", ""),
    "the last columns of A are left out": ("k0 < g.K", "k0 + 8 <= g.K"),
    "A is read beyond its edge": (
        "element(g.A, g.M, g.K, g.lda, row0 + i / 8, k0 + i % 8)",
        "g.A[(row0 + i / 8) * g.lda + k0 + i % 8]"),
    "B is read beyond its edge": (
        "element(g.B, g.K, g.N, g.ldb, k0 + i / 64, col0 + i % 64)",
        "g.B[(k0 + i / 64) * g.ldb + col0 + i % 64]"),
    "C is written beyond its edge": (
        "store(g, row0 + y + i, col0 + x + j, sum[i][j])",
        "g.C[(row0 + y + i) * g.ldc + col0 + x + j] = g.alpha * sum[i][j]"),
    "alpha and beta are forgotten": (
        "store(g, row0 + y + i, col0 + x + j, sum[i][j])",
        "if (row0 + y + i < g.M && col0 + x + j < g.N)"
        " g.C[(row0 + y + i) * g.ldc + col0 + x + j] = sum[i][j]"),
    "rows and columns of C exchanged": ("row0 + y + i, col0 + x + j, sum[i][j]",
                                        "row0 + y + i, col0 + x + j, sum[j][i]"),
    "half of the tiles is filled": ("i < 64 * 8", "i < 32 * 8"),
    "squares overlap": ("t % 16 * 4, y", "t % 16 * 3, y"),
    "blocks exchanged": ("row0 = blockIdx.y * 64, col0 = blockIdx.x * 64",
                         "row0 = blockIdx.x * 64, col0 = blockIdx.y * 64"),
    "one k too few": ("k < 8; ++k", "k < 7; ++k"),
    "the sums begin anew with each tile": (
        "        __syncthreads();  // the tiles are there\n",
        "        __syncthreads();\n        for (int i = 0; i < 16; ++i) sum[i / 4][i % 4] = 0;\n"),
    "does not compile": ("float sum[4][4] = {}", "float sum[4][4] = {"),
    "another name": ("squares(Product", "square(Product"),
    "never ends": ("        __syncthreads();  // the tiles are there\n", "        for (;;) {}\n"),
    "a parameter too many": ("squares(Product g)", "squares(Product g, int n)"),
}  # fmt: skip


def test_the_squares_of_the_chapter_are_right() -> None:
    said = checks.squares.verdict(squares())  # type: ignore[attr-defined]
    assert said.startswith("squares: OK"), said


@pytest.mark.parametrize("mistake", PLANTED)
def test_wrong_squares_are_refused(mistake: str) -> None:
    code = replace_once(squares(), *PLANTED[mistake])
    said = checks.squares.verdict(code)  # type: ignore[attr-defined]
    assert said.startswith("squares: not right yet"), said


def test_right_kernels_that_ask_too_much_are_refused() -> None:
    verdict = checks.squares.verdict  # type: ignore[attr-defined]
    assert "sectors: 1024 hold" in verdict(NO_SHARED)
    assert "shared loads for each multiply-add of a warp: at most" in verdict(A_COLUMN)
    assert "call it squares" in verdict(squares().replace(" squares(", " mine("))
    assert "give the CUDA code as a text" in verdict(3)
    assert verdict(" ") == verdict("// ...") == "squares: not answered yet"


PLANTED_IN_SLOTS: dict[str, tuple[str, str]] = {
    "no barrier": ("__syncthreads();  // this slot is full", "// this slot is full"),
    "the slot that is read is filled": ("put(slot ^ 1)", "put(slot)"),
    "the slots are not exchanged": ("slot ^= 1", "slot ^= 0"),
    "the last tile is left out": ("k0 < g.K; k0 += 8", "k0 + 8 < g.K; k0 += 8"),
    "the first tile is never stored": ("load(0), put(0);", "load(0);"),
    "two barriers for each tile": (
        "        if (k0 + 8 < g.K) put(slot ^ 1);",
        "        __syncthreads();\n        if (k0 + 8 < g.K) put(slot ^ 1);"),
}  # fmt: skip


def test_two_slots_are_right() -> None:
    said = checks.slots.verdict(squares("TWO_SLOTS"))  # type: ignore[attr-defined]
    assert said.startswith("slots: OK") and "8 barriers" in said, said


def test_tiles_may_go_straight_to_the_other_slot() -> None:
    code = replace_once(squares("TWO_SLOTS"), "        if (k0 + 8 < g.K) put(slot ^ 1);\n", "")
    code = replace_once(
        code, "if (k0 + 8 < g.K) load(k0 + 8);", "if (k0 + 8 < g.K) load(k0 + 8), put(slot ^ 1);"
    )
    said = checks.slots.verdict(code)  # type: ignore[attr-defined]
    assert said.startswith("slots: OK"), said


@pytest.mark.parametrize("mistake", PLANTED_IN_SLOTS)
def test_wrong_slots_are_refused(mistake: str) -> None:
    code = replace_once(squares("TWO_SLOTS"), *PLANTED_IN_SLOTS[mistake])
    said = checks.slots.verdict(code)  # type: ignore[attr-defined]
    assert said.startswith("slots: not right yet"), said


def test_one_slot_is_refused_also_when_it_is_deeper() -> None:
    verdict = checks.slots.verdict  # type: ignore[attr-defined]
    assert "16 barriers for K = 64" in verdict(squares())
    deeper = squares()
    for old, new in (("a[64][8], b[8][64]", "a[64][16], b[16][64]"), ("k0 += 8", "k0 += 16"),
                     ("i < 64 * 8", "i < 64 * 16"), ("k < 8", "k < 16"),
                     ("a[i / 8][i % 8]", "a[i / 16][i % 16]"),
                     ("row0 + i / 8, k0 + i % 8", "row0 + i / 16, k0 + i % 16")):  # fmt: skip
        deeper = replace_once(deeper, old, new)
    assert checks.squares.verdict(deeper).startswith("squares: OK")  # type: ignore[attr-defined]
    assert "it makes 4 tiles, and not eight" in verdict(deeper)
    assert verdict("// ...") == "slots: not answered yet"
