"""The checks of *Caches and tiles* accept what is right and reject what is nearly right."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from phasebit import native
from phasebit.chapters.caches_and_tiles import exercises as checks
from tests.book.notebooks import ROOT, prose

pytestmark = pytest.mark.nvcc

CHAPTER = next(ROOT.glob("book/*/??_caches_and_tiles.ipynb"))


def walk(count: int, stride: int, times: int, ways: int) -> int:
    lines: dict[int, int] = {}
    for step in range(count):
        line = step * stride // 64
        lines[line % 64] = lines.get(line % 64, 0) + 1
    return sum(each if each <= ways else times * each for each in lines.values())


def padding(ld: int, rows: int, columns: int, ways: int = 6, by: int = 1) -> int:
    """Floats to add to each row, by its own count of the lines in each set."""
    extra = 0
    while True:
        lines = {
            ((ld + extra) * row + column) // 16 for row in range(rows) for column in range(columns)
        }
        if max(Counter(line % 64 for line in lines).values()) <= ways:
            return extra
        extra += by


def order(c: str, a: str, b: str) -> str:
    """The loop whose step asks for the fewest lines goes inside."""

    def lines(letter: str) -> float:
        return sum((letter == pair[0]) + (letter == pair[1]) / 16 for pair in (c, a, b))

    return "".join(sorted("ijk", key=lines, reverse=True))


RIGHT: dict[str, Callable[..., Any]] = {
    "order": order,
    "misses_of_a_walk": walk,
    "padding": padding,
}

WRONG: list[tuple[str, Callable[..., Any]]] = [
    ("order", lambda c, a, b: "ikj"),  # right for one way to store them
    ("order", lambda c, a, b: order(c[::-1], a[::-1], b[::-1])),  # columns for rows
    ("order", lambda c, a, b: order(c, a, a)),  # forgets one
    ("order", lambda c, a, b: order(c, a, b)[::-1]),  # innermost first
    ("order", lambda c, a, b: "ij"),
    ("order", lambda c, a, b: 1),
    ("misses_of_a_walk", lambda count, stride, times, ways: count),
    ("misses_of_a_walk", lambda count, stride, times, ways: count * times),
    ("misses_of_a_walk", lambda c, s, t, w: c if c <= 64 * w else c * t),
    ("padding", lambda ld, rows, columns: 0),  # it fits, counted in bytes
    ("padding", lambda ld, rows, columns: padding(ld, rows, columns, by=16)),  # whole lines
    ("padding", lambda ld, rows, columns: padding(ld, rows, columns, ways=8)),  # no way free
    ("padding", lambda ld, rows, columns: padding(ld, rows, -(-columns // 16) * 16)),
]


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_answer_is_accepted(name: str) -> None:
    check = getattr(checks, name)
    assert check.verdict(RIGHT[name]).startswith(f"{name}: OK")
    assert check.verdict(lambda *given: ...) == f"{name}: not answered yet"


@pytest.mark.parametrize(("name", "answer"), WRONG)
def test_a_wrong_answer_is_rejected(name: str, answer: Callable[..., Any]) -> None:
    assert getattr(checks, name).verdict(answer).startswith(f"{name}: not right yet")


HEAD = """
#include <algorithm>
#include "watch.h"
template <class Array>
static void transpose(int64_t n, int64_t ld, Array from, Array to) {
"""
TAIL = """
}
extern "C" void watched(int64_t n, int64_t ld, float* from, float* to, const int64_t* at,
                        int64_t count, const int64_t* levels, int64_t* counts) {
    Memory memory(count, levels);
    transpose(n, ld, Watched<float>(memory, from, at[0]), Watched<float>(memory, to, at[1]));
    memory.report(counts);
}
"""


def transposed(body: str) -> str:
    return checks.transpose.verdict(native.compile(HEAD + body + TAIL))


def solution() -> str:
    _, _, folded = prose(CHAPTER).partition("{solution} ex-caches-and-tiles-transpose")
    return folded.partition("~~~cpp\n")[2].partition("~~~")[0]


def test_the_solution_in_the_chapter_is_right() -> None:
    assert transposed(solution()) == f"transpose: OK ({len(checks.SIZES)} matrices)"
    assert transposed("") == "transpose: not answered yet"


ELEMENT = "to[j * ld + i] = float(from[i * ld + j]);"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("for (int64_t i0 = 0; i0 < n; i0 += 16)", "const int64_t i0 = 0;", "is nan, not"),
        ("16", "1024", "misses L1"),
        ("16", "8", "misses L1"),
        ("16", "32", "misses L1"),
        ("to[j * ld + i]", "to[i * ld + j]", r"to\[0\]\[1\] is"),
        ("j * ld", "j * n", "for n 100"),
        ("i < std::min(i0 + 16, n)", "i < i0 + 16", "between the rows"),
        ("std::min(j0 + 16, n)", "std::min(j0 + 16, ld)", "between the rows"),
        ("i0 < n", "i0 + 16 <= n", "is nan, not"),
        (ELEMENT, "{ const float e = from[i * ld + j]; to[j * ld + i] = e; from[i * ld + j] = e; }",
         "accesses: one load"),
        ("to[j * ld + i] =", "to[j * ld + i] +=", "is nan, not"),
        (ELEMENT, "from[j * ld + i] = float(from[i * ld + j]);", "it writes to from"),
        (ELEMENT, "to[j * ld + i] = from[i * ld + j] + to[j * ld + i];", "is nan, not"),
        (ELEMENT, "to[j * ld + i - (1ll << 40)] = float(from[i * ld + j]);", "ended by SIGSEGV"),
        (ELEMENT, "for (;;) to[0] = 1;", "did not come back"),
    ],
)  # fmt: skip
def test_a_wrong_transposition_is_rejected(
    old: str, new: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "SECONDS", 2.0)
    right = solution()
    assert old in right
    verdict = transposed(right.replace(old, new))
    assert verdict.startswith("transpose: not right yet")
    assert re.search(said, verdict), verdict


def test_another_cell_is_rejected() -> None:
    other = native.compile('#include <cstdint>\nextern "C" void watched(int64_t n) {}')
    for given in (other, 5):
        said = checks.transpose.verdict(given)
        assert said.startswith("transpose: not right yet: give a %%cpp cell with the function")
