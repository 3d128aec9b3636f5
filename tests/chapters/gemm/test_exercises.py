"""The checks of *The anatomy of a fast GEMM* accept what is right and reject what nearly is."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from phasebit import native
from phasebit.chapters.gemm import exercises as checks
from tests.book.notebooks import ROOT, prose, solutions

pytestmark = pytest.mark.nvcc

CHAPTER = next(ROOT.glob("book/*/??_gemm.ipynb"))

PACK = """
#include <cstdint>
extern "C" void pack(int64_t mc, int64_t kc, int64_t width, const float* a, int64_t lda,
                     float* to) {
    for (int64_t i = 0; i < mc; i += width)
        for (int64_t p = 0; p < kc; p++)
            for (int64_t r = 0; r < width; r++) *to++ = i + r < mc ? a[p * lda + i + r] : 0;
}
"""
MICRO = """
#include <algorithm>
#include <cstdint>
extern "C" void micro(int64_t kc, const float* a, const float* b, const float* bias, float* c,
                      int64_t ldc) {
    float sum[4][16] = {};
    for (int64_t p = 0; p < kc; p++)
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 16; j++) sum[i][j] += a[p * 4 + i] * b[p * 16 + j];
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 16; j++) c[i * ldc + j] = std::max(0.0f, sum[i][j] + bias[j]);
}
"""



def tile(
    registers: int, width: int, units: int, latency: int, from_l2: float, most: int = 1
) -> tuple[int, int]:
    """A core's tile; ``most``: which tile of equal loads, 1 for more rows."""
    found = []
    for rows in range(1, registers):
        for vectors in range(1, registers):
            sums, bytes_of_b = rows * vectors, 4 * width * vectors
            if (
                sums + vectors + 1 <= registers
                and sums >= units * latency
                and bytes_of_b <= from_l2 * sums / units
            ):
                found.append(((rows + vectors) / sums, -most * rows, rows, vectors))
    return min(found)[2:]


RIGHT: dict[str, Callable[..., Any]] = {
    "share": lambda rows, vectors: min(1, rows * vectors / (rows + vectors)),
    "tile_for": tile,
}
WRONG: list[tuple[str, Callable[..., Any]]] = [
    ("share", lambda rows, vectors: rows * vectors / (rows + vectors)),
    ("share", lambda rows, vectors: min(1, (rows + vectors) / (rows * vectors))),
    ("share", lambda rows, vectors: min(1, rows * vectors / (rows + 1))),
    ("share", lambda rows, vectors: float("nan")),
    ("share", lambda rows, vectors: np.arange(2)),
    ("tile_for", lambda r, w, u, t, b: (14, 2)),
    ("tile_for", lambda r, w, u, t, b: tile(r, w, u, t, 10**6)),  # B costs nothing
    ("tile_for", lambda r, w, u, t, b: tile(r + 3, w, u, t, b)),  # a register too many
    ("tile_for", lambda r, w, u, t, b: tile(r, w, u, t, b)[::-1]),
]


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_answer_is_accepted(name: str) -> None:
    check = getattr(checks, name)
    assert check.verdict(RIGHT[name]).startswith(f"{name}: OK")
    assert check.verdict(lambda *given: ...) == f"{name}: not answered yet"


@pytest.mark.parametrize(("name", "answer"), WRONG)
def test_a_wrong_answer_is_rejected(name: str, answer: Callable[..., Any]) -> None:
    assert getattr(checks, name).verdict(answer).startswith(f"{name}: not right yet")


def body_of(source: str) -> tuple[str, str]:
    """A function's text up to its brace, and what stands between its braces."""
    begin = source.index(") {") + 3
    return source[:begin], source[begin : source.rindex("}")]


def test_the_solutions_in_the_chapter_are_right() -> None:
    names: dict[str, Any] = {}
    for solution in solutions(CHAPTER):
        exec(solution, names)
    for name in RIGHT:
        assert getattr(checks, name).verdict(names[name]).startswith(f"{name}: OK")
    _, _, folded = prose(CHAPTER).partition("{solution} ex-gemm-transposed")
    transposed, plain, rows = re.findall(r"~~~cpp\n(.*?)~~~", folded, re.DOTALL)
    relu_end = plain[plain.index("\nfor (int i = 0") :]  # the second one shows only the sums
    for name, texts in {"pack_transposed": [transposed], "relu": [plain, rows + relu_end]}.items():
        for text in texts:
            head, _ = body_of(SOURCES[name])
            verdict = getattr(checks, name).verdict(native.compile(f"{head}\n{text}}}\n"))
            assert verdict.startswith(f"{name}: OK"), verdict


SOURCES = {"pack_transposed": PACK, "relu": MICRO}


@pytest.mark.parametrize("name", SOURCES)
def test_right_cpp_is_accepted(name: str) -> None:
    check, source = getattr(checks, name), SOURCES[name]
    assert check.verdict(native.compile(source)).startswith(f"{name}: OK")
    nothing = native.compile(f"{body_of(source)[0]}\n}}\n")
    assert check.verdict(nothing) == f"{name}: not answered yet"


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("pack_transposed", "a[p * lda + i + r]", "a[(i + r) * lda + p]", r"of row|ended by"),
        ("pack_transposed", "i + r < mc ? a[p * lda + i + r] : 0", "a[p * lda + i + r]", "instead"),
        ("pack_transposed", "p * lda", "p * mc", "instead of"),
        ("pack_transposed", "i < mc;", "i < mc + 1;", "behind the last panel"),
        ("pack_transposed", "*to++ =", "*(to++ - (1ll << 40)) =", "was ended by SIGSEGV"),
        ("pack_transposed", "void pack(", "void packs(", "give a %%cpp cell with a function pack"),
        ("relu", "std::max(0.0f, sum[i][j] + bias[j])", "sum[i][j] + bias[j]", "not 0"),
        ("relu", "sum[i][j] + bias[j])", "sum[i][j]) + bias[j]", "is"),
        ("relu", "c[i * ldc + j] =", "c[i * 16 + j] =", r"c\[1\]\[0\] is"),
        ("relu", "p < kc", "p < kc - 1", "for kc 1"),
        ("relu", "sum[i][j] + bias[j])", "c[i * ldc + j] + sum[i][j] + bias[j])", "for kc 1"),
        ("relu", "c[i * ldc + j] =", "c[i * ldc + j] +=", "it reads c, which holds nothing yet"),
        ("relu", "float sum", "if (kc == 0) return; float sum", "for kc 0 nothing is written"),
        ("relu", "std::max(0.0f,", "std::min(0.0f,", "is"),
        ("relu", "sum[i][j] + bias[j])", "sum[i][j] + bias[i])", "is"),
        ("relu", "a[p * 4 + i]", "a[i * kc + p]", "is|ended by"),
        ("relu", "b[p * 16 + j]", "b[p * ldc + j]", "is|ended by"),
        ("relu", "p++)", "p += 2)", "is"),
        ("relu", "j++) c[", "j++) c[i * ldc + 16] = c[", "between the rows"),
    ],
)
def test_wrong_cpp_is_rejected(name: str, old: str, new: str, said: str) -> None:
    source = SOURCES[name]
    assert old in source
    verdict = getattr(checks, name).verdict(native.compile(source.replace(old, new)))
    assert verdict.startswith(f"{name}: not right yet")
    assert re.search(said, verdict), verdict
