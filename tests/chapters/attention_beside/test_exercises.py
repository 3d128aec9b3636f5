"""The checks of *Attention beside others* accept what is right and refuse what people write."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from phasebit.chapters.attention_again import shared_keys
from phasebit.chapters.attention_beside import block_lengths
from phasebit.chapters.attention_beside import exercises as check
from tests.book.notebooks import ROOT, solutions

CHAPTER = ROOT / "book/part6_blackwell/attention_beside.ipynb"


def answers() -> list[dict[str, Any]]:
    found = []
    for solution in solutions(CHAPTER):
        names: dict[str, Any] = {}
        exec(solution, names)
        found.append(names)
    return found


PRODUCTS, ORDER, _ = answers()  # the third is tried beside the kernel it changes


def test_no_answer_yet() -> None:
    for judge in check.products, check.order:
        assert judge.verdict(lambda *a: ...).endswith("not answered yet")


def test_the_solutions_are_taken() -> None:
    assert check.products.verdict(PRODUCTS["products"]).startswith("products: OK")
    assert check.order.verdict(ORDER["order"]).startswith("order: OK")


@pytest.mark.nvcc
@pytest.mark.parametrize(("positions", "keys", "heads"), [(1, 200, 8), (40, 130, 8), (257, 100, 2)])
def test_runs_issue_what_the_check_expects(positions: int, keys: int, heads: int) -> None:
    runs = shared_keys.launches(positions, keys, heads, False)
    assert tuple(run.products for run in runs) == check.issued(positions, heads, keys, 64)


Products = Callable[[int, int, int, int], Any]
FEW: dict[str, Products] = {
    "a block has one tile": lambda p, h, k, d: tuple(x // 2 for x in check.issued(p, h, k, d)),
    "rows are whole": lambda p, h, k, d: (
        check.issued(p, h, k, d)[0], check.issued(p, h, k, d)[0] // h),
    "the scores alone": lambda p, h, k, d: tuple(
        x * d // (d + 128) for x in check.issued(p, h, k, d)),
    "keys rounded down": lambda p, h, k, d: check.issued(p, h, k // 128 * 128, d),
    "the other way round": lambda p, h, k, d: check.issued(p, h, k, d)[::-1],
    "one number": lambda p, h, k, d: check.issued(p, h, k, d)[0],
}  # fmt: skip


@pytest.mark.parametrize("name", FEW)
def test_products_refuses(name: str) -> None:
    assert "not right yet" in check.products.verdict(FEW[name])


def groups(cuts: list[int], blocks: int) -> list[tuple[int, int]]:
    return [(head, block) for first, end in pairwise(cuts) for block in reversed(range(blocks))
            for head in range(first, end)]  # fmt: skip


def left_over_last(b: int, h: int, t: int) -> list[tuple[int, int]]:
    return groups([*range(0, h, t), h], b)


def right(b: int, h: int, t: int) -> list[tuple[int, int]]:
    return block_lengths.by_groups(b, h, t)


Order = Callable[[int, int, int], Any]
ORDERS: dict[str, Order] = {
    "tile by tile": lambda b, h, t: [(i, j) for i in range(h) for j in range(b)],
    "a head's longest first": lambda b, h, t: [(i, j) for i in range(h) for j in range(b)[::-1]],
    "the longest of all heads first": lambda b, h, t: [
        (i, j) for j in range(b)[::-1] for i in range(h)],
    "the shortest first": lambda b, h, t: [(i, j) for j in range(b) for i in range(h)],
    "groups, the shortest first": lambda b, h, t: [
        (i, j) for f in range(0, h, t) for j in range(b) for i in range(f, min(f + t, h))],
    "what is left over comes last": left_over_last,
    "groups of half as many": lambda b, h, t: groups([*range(0, h, -(-t // 2)), h], b),
    "groups of one more": lambda b, h, t: groups([*range(0, h, t + 1), h], b),
    "groups of one more, the smaller first": lambda b, h, t: right(b, h, t + 1),
    "groups of twice as many": lambda b, h, t: right(b, h, 2 * t),
    "as many groups as heads together": lambda b, h, t: groups([*range(0, h, -(-h // t)), h], b),
    "what is left over is left out": lambda b, h, t: groups([*range(0, h + 1, t)], b),
    "heads that there are not": lambda b, h, t: groups([*range(0, h + t, t)], b),
    "the longest and the shortest by turns": lambda b, h, t: [
        (i, (b - 1 - j // 2) if j % 2 == 0 else j // 2) for i in range(h) for j in range(b)],
    "all backwards": lambda b, h, t: right(b, h, t)[::-1],
    "one is left out": lambda b, h, t: right(b, h, t)[1:],
    "one is there twice": lambda b, h, t: [*right(b, h, t), (0, 0)],
    "block before head": lambda b, h, t: [(j, i) for i, j in right(b, h, t)],
    "numbers": lambda b, h, t: list(range(b * h)),
    "a number": lambda b, h, t: b * h,
    "it raises": lambda b, h, t: [][b],
}  # fmt: skip


@pytest.mark.parametrize("name", ORDERS)
def test_order_refuses(name: str) -> None:
    assert "not right yet" in check.order.verdict(ORDERS[name])


def test_order_says_which_of_the_two_is_missing() -> None:
    early, close = (check.order.verdict(ORDERS[name]) for name in (
        "the longest of all heads first", "a head's longest first"))  # fmt: skip
    assert "from the first block of a head to its last" in early
    assert "the last block is done" in close


EVEN: dict[str, Order] = {
    "lists, heads backwards": lambda b, h, t: [[h - 1 - i, j] for i, j in right(b, h, t)],
    "groups that are nearly equal": lambda b, h, t: groups(
        [h * i // -(-h // t) for i in range(-(-h // t) + 1)], b),
}  # fmt: skip


@pytest.mark.parametrize("name", EVEN)
def test_any_order_that_is_close_and_ends_about_as_early_is_taken(name: str) -> None:
    assert check.order.verdict(EVEN[name]).startswith("order: OK")


def test_without_either_condition_something_wrong_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted mistakes: a check that looks at one thing alone."""
    with monkeypatch.context() as patch:
        patch.setattr(block_lengths, "farthest", lambda blocks: 0)
        assert check.order.verdict(ORDERS["the longest of all heads first"]).startswith("order: OK")
    monkeypatch.setattr(check, "LATER", 10)
    assert check.order.verdict(ORDERS["a head's longest first"]).startswith("order: OK")
