"""The checks of *Attention beside others* accept what is right and refuse what people write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from phasebit.chapters.attention_again import shared_keys
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


ORDERS: dict[str, Callable[[int, int], Any]] = {
    "tile by tile": lambda b, h: [(i, j) for i in range(h) for j in range(b)],
    "a head's longest first": lambda b, h: [(i, j) for i in range(h) for j in range(b)[::-1]],
    "the shortest first": lambda b, h: [(i, j) for j in range(b) for i in range(h)],
    "one is left out": lambda b, h: [(i, j) for j in range(b)[::-1] for i in range(h)][1:],
    "one is there twice": lambda b, h: [(0, 0)] * b * h,
    "block before head": lambda b, h: [(j, i) for j in range(b)[::-1] for i in range(h)],
    "numbers": lambda b, h: list(range(b * h)),
    "a number": lambda b, h: b * h,
    "it raises": lambda b, h: [][b],
}  # fmt: skip


@pytest.mark.parametrize("name", ORDERS)
def test_order_refuses(name: str) -> None:
    assert "not right yet" in check.order.verdict(ORDERS[name])


def test_any_order_that_ends_as_early_is_taken() -> None:
    verdict = check.order.verdict(
        lambda b, h: [[i, j] for j in range(b)[::-1] for i in range(h)[::-1]]
    )
    assert verdict.startswith("order: OK")
