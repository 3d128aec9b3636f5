"""What the chapter says in words of its record: a new measurement must keep it."""

from __future__ import annotations

from statistics import median

from phasebit import measure
from phasebit.chapters.measuring import view


def test_measuring() -> None:
    record = measure.read("measuring")
    ways = {name[0]: median(times) for name, times in record["ways"].items()}
    caches = {name: median(times) for name, times in record["caches"].items()}
    copy = measure.roofline().bandwidth
    moved = 4 * record["shape"][0] * record["shape"][1]  # bytes

    def bandwidth(us: float) -> float:
        return moved / us / 1e6

    assert ways["2"] < ways["6"] < ways["5"] < ways["4"] < ways["3"] < ways["1"]
    assert bandwidth(ways["6"]) > 1.2 * copy > bandwidth(ways["4"]), "faster than memory, unseen"
    assert bandwidth(ways["6"]) > view.MEMORY_TBS, "faster than the data sheet's memory"
    assert 0.17 < view.MEMORY_TBS / copy - 1 < 0.23, "a fifth higher"
    empty, _ = view.empty_kernel(record)
    assert 2.5 < empty["4 events around each launch"] < 3.5, "three microseconds"
    assert empty["5 events around 200 launches"] < 0.9 * empty["4 events around each launch"]
    assert ways["2"] < ways["5"], "the host keeps up"
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


def test_what_the_next_record_adds_is_shown() -> None:
    record = measure.read("measuring")
    without = {name: value for name, value in record.items() if name not in ("empty", "ceilings")}
    assert [row[4] != "" for row in view.ways_table(without).rows] == [False] * 3 + [True] * 2 + [
        False
    ]
    assert view.ceilings(without) == {}
    empty = {name: [1.0, 2.0, 9.0] for name in record["ways"]}
    added = without | {"empty": empty, "ceilings": {"read only": [4.0, 4.4, 4.5]}}
    assert {row[4] for row in view.ways_table(added).rows} == {"2.00"}
    assert view.ceilings(added) == {"read only": 4.4}


def test_the_launch_to_scale() -> None:
    record = measure.read("measuring")
    length = {
        span.row: span.end - span.start for span in view.covers(record).spans if span.kind == "time"
    }
    ways = {f"way {name[0]}": median(times) for name, times in record["ways"].items()}
    for row, time in length.items():
        assert abs(time - ways[row]) < 1e-9, row
    kernel = next(span for span in view.covers(record).spans if span.kind == "kernel")
    assert ways["way 2"] < kernel.start and kernel.end < ways["way 3"]
