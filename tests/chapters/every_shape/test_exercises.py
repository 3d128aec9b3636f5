"""The checks of *Past the vendor* accept what is right, refuse what people write."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from phasebit.chapters.every_shape import exercises as check
from phasebit.chapters.every_shape import plans
from phasebit.edits import replace_once
from tests.book.notebooks import ROOT
from tests.chapters.answers import solved

CHAPTER = next(ROOT.glob("book/*/??_every_shape.ipynb"))


def test_no_answer_yet() -> None:
    for each in (check.busy, check.clocks):
        assert each.verdict(lambda *a: ...).endswith("not answered yet")
    for each in (check.split, check.stored):
        assert each.verdict("// yours").endswith("not answered yet")


def test_the_solutions_of_arithmetic_are_right() -> None:
    for name in ("busy", "clocks"):
        assert f"{name}: OK" in getattr(check, name).verdict(solved(CHAPTER)[name])


def up(a: int, b: int) -> int:
    return -(-a // b)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda m, n, bm, bn, w: min(1, up(m, bm) * up(n, bn) / w),  # one wave
        lambda m, n, bm, bn, w: m * n / (bm * bn) / w,  # no waves, no edges
        lambda m, n, bm, bn, w: (m // bm) * (n // bn) / (up((m // bm) * (n // bn), w) * w or 1),
        lambda m, n, bm, bn, w: up(m, bm) * up(n, bn) / up(up(m, bm) * up(n, bn), w),
        lambda m, n, bm, bn, w: 1 - 1 / up(up(m, bm) * up(n, bn), w),
        lambda m, n, bm, bn, w: m * n / (up(up(m, bm) * up(n, bn), w) * w * bm * bn),  # C only
    ],
)
def test_busy_refuses(wrong: Callable[..., float]) -> None:
    assert "not right yet" in check.busy.verdict(wrong)


def counted(m: int, n: int, k: int, bm: int, bn: int, p: int, **other: float) -> float:
    """The count of the solution; ``other`` values are a slip's."""
    steps = other.get("steps", up(up(m, bm * p) * up(n, bn), 132 // p) * up(k, 64))
    asked = (bm + bn / p) * other.get("lines", 2 if k % 64 else 1)
    copies = max(asked / other.get("rate", 0.9), other.get("slot", bm + bn)) * 2
    return steps * max(other.get("products", bm * bn / 32), other.get("copies", copies))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda m, n, k, bm, bn, p: counted(m, n, k, bm, bn, 1),  # no pairs
        lambda *case: counted(*case, lines=1),
        lambda *case: counted(*case, rate=1),
        lambda *case: counted(*case, slot=0),
        lambda *case: counted(*case, copies=0),
        lambda *case: counted(*case, products=0),
        lambda m, n, k, bm, bn, p: counted(
            m, n, k, bm, bn, p, steps=up(up(m, bm) * up(n, bn), 132) * up(k, 64)),  # odd rows
        lambda m, n, k, bm, bn, p: counted(
            m, n, k, bm, bn, p, steps=up(up(m, bm * p) * up(n, bn), 132 // p) * k / 64),
        lambda m, n, k, bm, bn, p: counted(
            m, n, k, bm, bn, p, steps=up(m, bm * p) * up(n, bn) / (132 // p) * up(k, 64)),
    ],
)  # fmt: skip
def test_clocks_refuses(wrong: Callable[..., float]) -> None:
    assert "not right yet" in check.clocks.verdict(wrong)


def test_what_a_choice_by_counts_loses() -> None:
    said = check.clocks.verdict(solved(CHAPTER)["clocks"])
    assert "take 6.4% longer" in said and "most at 64 × 10240 × 8192 by 36%" in said
    assert "the model's 1.7%" in said

    def steps(m: int, n: int, k: int, bm: int, bn: int, p: int) -> float:
        return counted(m, n, k, bm, bn, p, products=1, copies=1)

    def copied(m: int, n: int, k: int, bm: int, bn: int, p: int) -> float:
        return up(m, bm * p) * up(n, bn) * (bm * p + bn)

    loses = [check._loses(rule)[1] for rule in (steps, copied)]
    assert [round(100 * each - 100) for each in loses] == [18, 26]


@pytest.mark.nvcc
def test_stores_from_registers_and_through_shared_memory_are_right() -> None:
    ours = plans.function(plans.source(plans.ANY), "store")
    for store in (solved(CHAPTER)["one_function"], ours):
        assert "stored: OK (2 products" in check.stored.verdict(store)


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ("beta == 0 ? x : ", "", "full of NaN, is wrong"),  # 0 · NaN
        ("if (r >= M || c >= N) continue;", "", "invalid global access"),
        ("r >= M || c >= N", "r >= M", "race|invalid"),
        ("i / 2 % 2 * 8", "0", "race|wrong"),
        ("t / 32 * 16", "t / 32 % 4 * 16", "β = 3: .* race"),  # the second warp group
        ("size_t(r) * N", "size_t(r) * M", "invalid|wrong"),
        ("+ beta * float(to)", "+ float(to)", "β = 3: C is wrong"),
    ],
)
def test_the_store_refuses(right: str, wrong: str, says: str) -> None:
    text = replace_once(str(solved(CHAPTER)["one_function"]), right, wrong)
    said = check.stored.verdict(text)
    assert "not right yet" in said and re.search(says, said), said


@pytest.mark.nvcc
def test_a_store_over_slots_that_are_multiplied_is_refused() -> None:
    ours = plans.function(plans.source(plans.ANY), "store")
    wait = "    ptx::bar_sync(1, CONSUMERS);  // nobody multiplies from the slots any more\n"
    assert "finds async" in check.stored.verdict(replace_once(ours, wait, ""))


@pytest.mark.nvcc
def test_the_split_of_the_page_is_right() -> None:
    assert "split: OK (4 products" in check.split.verdict(solved(CHAPTER)["two_functions"])


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("static_cast<long long>(streamed) * tiles.steps * pair / pairs",
         "streamed * pair / pairs * tiles.steps"),  # shares of whole tiles
        ("streamed) * tiles.steps * pair / pairs", "streamed) * tiles.steps / pairs * pair"),
        ("min(tiles.steps, piece.first + end - at)", "piece.first + end - at"),
        ("min(tiles.steps, piece.first + end - at)", "tiles.steps"),
        ("piece.first + end - at)", "end - at)"),
        ("{at / tiles.steps, at % tiles.steps, 0}", "{at / tiles.steps, 0, 0}"),
        ("whole += pairs;", "whole += 1;"),
        ("piece.tile < tiles.count()", "piece.tile <= tiles.count()"),
        ("piece.tile < tiles.count()", "piece.tile < tiles.rows"),
        ("if (at < end)", "if (false)"),  # nothing is streamed
        ("if (at < end)", "if (at <= end)"),
        ("piece = {whole, 0, tiles.steps};", "return false;"),  # nothing is whole
    ],
)  # fmt: skip
def test_the_split_refuses(right: str, wrong: str) -> None:
    text = replace_once(str(solved(CHAPTER)["two_functions"]), right, wrong)
    said = check.split.verdict(text)
    assert "not right yet" in said, said


@pytest.mark.parametrize("wrong", [7, "bool next(Piece& piece) { return false; }"])
def test_what_is_no_kernel_is_refused(wrong: object) -> None:
    assert "not right yet" in check.split.verdict(wrong)
