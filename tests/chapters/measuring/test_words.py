"""What the chapter says in words of its record: a new measurement must keep it."""

from __future__ import annotations

from statistics import median

from phasebit import measure


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
