"""What chapters say in words of their records: a new measurement must keep it, or be rewritten.

Chapters 4 and 13 have theirs in tests/test_threads_and_memory.py and tests/test_clinic.py.
"""

from __future__ import annotations

from itertools import pairwise
from statistics import median
from typing import Any

from phasebit import measure
from phasebit.benchmarks import async_copies


def test_chapter_5() -> None:
    record = measure.read("05_measuring")
    ways = {name[0]: median(times) for name, times in record["ways"].items()}
    caches = {name: median(times) for name, times in record["caches"].items()}
    copy = measure.roofline().bandwidth
    moved = 4 * record["shape"][0] * record["shape"][1]  # bytes

    def bandwidth(us: float) -> float:
        return moved / us / 1e6

    assert ways["2"] < ways["6"] < ways["5"] < ways["4"] < ways["3"] < ways["1"]
    assert bandwidth(ways["6"]) > 1.2 * copy > bandwidth(ways["4"]), "faster than memory, unseen"
    cold = [caches["8 sets in rotation"], caches["caches flushed"]]
    assert max(cold) < 1.08 * min(cold), "two cures that agree"
    assert min(cold) > 1.5 * ways["4"] and bandwidth(min(cold)) < 0.75 * copy
    for where in ("same buffers", "caches flushed"):
        assert 0.92 < caches[f"{where}, zeros"] / caches[where] < 1.05, "the data hardly matters"
    data = {
        kind: {name: median(values) for name, values in kept.items()}
        for kind, kept in record["data"].items()
    }
    zeros, whole, normal = (data[kind] for kind in ("zeros", "whole", "normal"))
    assert zeros["times_us"] < whole["times_us"] < normal["times_us"]
    assert zeros["mhz"] > whole["mhz"] > normal["mhz"]
    assert zeros["watt"] < 0.7 * whole["watt"] and whole["watt"] < 0.97 * record["power_limit_w"]
    assert normal["watt"] > 0.97 * record["power_limit_w"]


def test_chapter_12() -> None:
    record = measure.read("12_asynchronous_copies")

    def tile(kernel: str, stages: int, state: str) -> float:
        """Median µs of a tile, one block."""
        (row,) = [
            row for row in record["rows"]
            if (row["kernel"], row["stages"], row["blocks"]) == (kernel, stages, 1)
        ]  # fmt: skip
        return float(median(row[state]) / row["tiles"])

    there = median(record["resident"]["warm_us"]) / async_copies.ONE_BLOCK
    started = median(record["unwaited"]["warm_us"]) / async_copies.ONE_BLOCK
    floor = tile("12_groups", 8, "warm_us")
    assert floor > 2 * there and abs(floor / started - 1) < 0.05
    for state in ("warm_us", "flushed_us"):
        for stages in (4, 8, 16):
            assert abs(tile("12_groups", stages, state) / floor - 1) < 0.05
            assert tile("12_mbarrier", stages, state) < tile("12_groups", stages, state)
            assert tile("12_groups", stages, state) < tile("12_pipeline", stages, state)
        assert tile("12_groups", 3, state) < tile("12_mbarrier", 8, state)
    for where, state in {"l2_us": "warm_us", "memory_us": "flushed_us"}.items():
        latency = median(record["latency"][where]) / 4096
        gap = tile("12_loads", 1, state) - tile("12_groups", 1, state)
        assert 0.8 < gap / latency < 1.3, "one latency more"
    rates: dict[Any, float] = {
        (row["kernel"], row["stages"], row["blocks"] // record["multiprocessors"]): 1
        / median(row["warm_us"])
        for row in record["rows"]
        if row["tiles"] == async_copies.WHOLE_GPU
    }
    assert rates["12_groups", 4, 1] > 2 * rates["12_groups", 1, 1]
    crowded = [rate for (_, _, blocks), rate in rates.items() if blocks == 8]
    copies = [
        time for row in record["rows"] if row["tiles"] == async_copies.WHOLE_GPU
        for time in row["copy_warm_us"]
    ]  # fmt: skip
    assert max(crowded) < 1.2 * min(crowded) and max(rates.values()) < 1 / median(copies)


def test_chapter_14() -> None:
    record = measure.read("14_tensor_cores")
    times = [median(each) for each in record["ladder"]["times_us"].values()]
    steps = [before / after for before, after in pairwise(times)]
    assert sorted(steps)[-2:] == sorted(steps[:2]), "two steps stand out"
    assert min(steps[:2]) > 2 * max(steps[2:]) and abs(steps[-1] - 1) < 0.03
    heights = record["heights"]["rows"]
    read = [row["dram__bytes_read.sum"] for row in heights]
    assert 0.5 < min(read) / max(read) < 0.56, "by almost half"
    assert heights[read.index(min(read))]["height"] == 16
    waited = [median(row["times_us"]) for row in heights]
    assert max(waited) < 1.02 * min(waited), "the last column hardly moves"
    assert measure.roofline().bandwidth * 1e12 < record["copy_bytes_per_second"]
    whole, four, _, two = (
        {name: median(times) for name, times in row["times_us"].items()} for row in record["ragged"]
    )
    assert 0.5 < whole["super-rows"] / four["super-rows"] < 0.6
    assert whole["cuBLAS"] / four["cuBLAS"] < 0.45
    assert two["super-rows"] > 2 * four["super-rows"]
