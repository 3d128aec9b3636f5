"""Kernels that others' compilers made, replayed from their saved PTX under every schedule."""

from __future__ import annotations

import functools

import pytest

from tests.foreign.saved import NAMES, Saved

SCHEDULES = [("eager", 0), ("late", 0), ("random", 1)]


@functools.cache
def saved(name: str) -> Saved:
    return Saved.load(name)


@pytest.mark.drawn
@pytest.mark.parametrize("how", SCHEDULES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_the_product_is_right_and_nothing_is_found(name: str, how: tuple[str, int]) -> None:
    right, run = saved(name).multiply(*how)
    assert right and not run.findings, run.findings[:2]


def test_there_are_some() -> None:
    assert len(NAMES) >= 14
    for name in NAMES:
        assert {"compiler", "date", "target"} <= saved(name).about.keys()
