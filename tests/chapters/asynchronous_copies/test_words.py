"""What the chapter says in words of its record: a new measurement must keep it."""

from __future__ import annotations

from statistics import median
from typing import Any

from phasebit import measure
from phasebit.chapters.asynchronous_copies import record as async_copies
from phasebit.chapters.asynchronous_copies import view


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
    near, far = (median(record["latency"][what]) / 4096 for what in ("l2_us", "memory_us"))
    assert (near + there) / 2 <= 1.01 * there, "two slots are enough from the L2 cache"
    assert (far + there) / 3 > 1.05 * there >= (far + there) / 4, "and four from memory"
    assert (near + started) / 2 <= 1.01 * started and (far + started) / 3 <= started < far + started
    assert abs(tile("groups", 16, "warm_us") / floor - 1) < 0.02
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
    assert 1.9 < rates["groups", 4, 1] / rates["groups", 1, 1] < 2.1, "double"
    crowded = [rate for (_, _, blocks), rate in rates.items() if blocks == 8]
    copies = [
        time for row in record["rows"] if row["tiles"] == async_copies.WHOLE_GPU
        for time in row["copy_warm_us"]
    ]  # fmt: skip
    assert max(crowded) < 1.2 * min(crowded) and max(rates.values()) < 1 / median(copies)


def test_a_second_pass_of_copies() -> None:
    record = measure.read("asynchronous_copies")
    times = {
        (what, fits): median(where["warm_us"])
        for fits, each in (("", record), ("fits", record["fits"]))
        for what in ("resident", "unwaited")
        for where in [each[what]]
    }
    add, add_one = (times["unwaited", fits] - times["resident", fits] for fits in ("", "fits"))
    assert 0.4 < 1 - add_one / add < 0.6, "about half"
    stalls = record["stalls"]
    at_barrier = [stalls[what]["barrier"] for what in ("resident", "unwaited", "unwaited, fits")]
    assert at_barrier[1] > 3 * at_barrier[0] > 3 * at_barrier[2], "these waits are gone"
    results = [stalls[what]["wait"] for what in ("resident", "unwaited, fits")]
    assert 1.6 < results[1] / results[0] < 2.1, "nearly twice"


def test_the_rings_of_the_matrix_product() -> None:
    waits, sweep = measure.read("double_buffering_waits"), measure.read("clock_stamps")
    (b, c) = (
        [
            [median(waits["times"][f"{ring}, {slots}"][kind]) for kind in ("warm_us", "flushed_us")]
            for slots in ("1 slot", "2 slots", "3 slots")
        ]
        for ring in "bc"
    )
    assert all(abs(c[0][state] / b[0][state] - 1) < 0.03 for state in (0, 1)), "one slot: alike"
    for two, three in zip(b[1:], c[1:], strict=True):
        assert three[0] > two[0] and three[1] < 0.9 * two[1], "only when flushed"
    assert all(0.99 < b[2][state] / b[1][state] < 1.02 for state in (0, 1)), "gives b nothing"
    assert 0.89 < c[2][1] / c[1][1] < 0.91 and abs(c[2][1] / c[2][0] - 1) < 0.02, "a tenth"
    times = {
        (point["kernel"], *point["constants"].values()): (point["warm_us"], point["flushed_us"])
        for point in sweep["sweep"]
    }
    six, d = ("c_async_copies", 6), "d_few_arrivals"
    for state in (0, 1):
        assert 0.93 < times[d, 256][state] / times[six][state] < 1, "little more"
        assert times[d, 128][state] < times[d, 256][state] < 0.9 * times[d, 64][state]
    assert len(str(view.matrix_rings(waits, sweep)).splitlines()) == 1 + 10
