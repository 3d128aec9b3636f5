"""What the chapter says in words of its record: a new measurement must keep it."""

from __future__ import annotations

from statistics import median
from typing import Any

from phasebit import measure
from phasebit.chapters.asynchronous_copies import record as async_copies


def test_asynchronous_copies() -> None:
    record = measure.read("asynchronous_copies")

    def tile(kernel: str, stages: int, state: str) -> float:
        """Median µs of a tile, one block."""
        (row,) = [
            row for row in record["rows"]
            if (row["kernel"], row["stages"], row["blocks"]) == (kernel, stages, 1)
        ]  # fmt: skip
        return float(median(row[state]) / row["tiles"])

    there = median(record["resident"]["warm_us"]) / async_copies.ONE_BLOCK
    started = median(record["unwaited"]["warm_us"]) / async_copies.ONE_BLOCK
    floor = tile("groups", 8, "warm_us")
    assert floor > 2 * there and abs(floor / started - 1) < 0.05
    for state in ("warm_us", "flushed_us"):
        for stages in (4, 8, 16):
            assert abs(tile("groups", stages, state) / floor - 1) < 0.05
            assert tile("mbarrier", stages, state) < tile("groups", stages, state)
            assert tile("groups", stages, state) < tile("pipeline", stages, state)
        assert tile("groups", 3, state) < tile("mbarrier", 8, state)
    for where, state in {"l2_us": "warm_us", "memory_us": "flushed_us"}.items():
        latency = median(record["latency"][where]) / 4096
        gap = tile("loads", 1, state) - tile("groups", 1, state)
        assert 0.8 < gap / latency < 1.3, "one latency more"
    rates: dict[Any, float] = {
        (row["kernel"], row["stages"], row["blocks"] // record["multiprocessors"]): 1
        / median(row["warm_us"])
        for row in record["rows"]
        if row["tiles"] == async_copies.WHOLE_GPU
    }
    assert rates["groups", 4, 1] > 2 * rates["groups", 1, 1]
    crowded = [rate for (_, _, blocks), rate in rates.items() if blocks == 8]
    copies = [
        time for row in record["rows"] if row["tiles"] == async_copies.WHOLE_GPU
        for time in row["copy_warm_us"]
    ]  # fmt: skip
    assert max(crowded) < 1.2 * min(crowded) and max(rates.values()) < 1 / median(copies)
