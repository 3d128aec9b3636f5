"""Pipelines to test with: a small domain in full, and whatever hypothesis thinks of."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from hypothesis import strategies as st

from phasebit.pipeline import Pipeline

WORKED = Pipeline(producers=4, consumers=6, slots=6, produce=5, consume=3)
"""The worked example of *Producers, consumers, buffers*, with 20 jobs."""


def grid() -> Iterator[Pipeline]:
    """1,728 small systems with fixed latencies."""
    for p, c, b, produce, consume, full, empty in product(
        (1, 2, 3), (1, 2, 3), (1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 4), (0, 1), (0, 2)
    ):
        yield Pipeline(p, c, b, produce, consume, full, empty)


latency = st.integers(1, 7)
latencies = st.one_of(latency, st.lists(latency, min_size=1, max_size=6))


def pipelines(order: str | None = None, latencies: st.SearchStrategy = latencies):
    small, clocks = st.integers(1, 5), st.integers(0, 4)
    orders = st.sampled_from(["ring", "any"]) if order is None else st.just(order)
    return st.builds(
        Pipeline, small, small, st.integers(1, 7), latencies, latencies, clocks, clocks, orders
    )
