"""What chapters say in words of their records: a new measurement must keep it, or be rewritten.

Chapters 4 and 13 have theirs in tests/test_threads_and_memory.py and tests/test_clinic.py.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from statistics import median, quantiles
from typing import Any

from phasebit import ladder, measure
from phasebit.benchmarks import async_copies, copy_engine


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


def test_chapter_9() -> None:
    record = measure.read("09_tiling_on_the_gpu")
    machine = measure.read("04_threads_and_memory")
    sectors, wavefronts, *_ = ladder.METRICS
    executed, fetched = "smsp__inst_executed.sum", "dram__bytes_read.sum"
    counted = record["counters"]
    took = {
        size: {name: median(times) / 1000 for name, times in products.items()}
        for size, products in record["products"].items()
    }
    ms = took["4096"]
    clocks = machine["multiprocessors"] * machine["most_mhz"] * 1e3  # of all together, each ms
    busy = {name: counted[name][executed] / 4 / clocks for name in ladder.RUNGS}

    def gain(metric: str, before: str, after: str) -> float:
        return float(counted[before][metric] / counted[after][metric])

    assert 1.7 < ms["naive"] / ms["coalesced"] / gain(sectors, "naive", "coalesced") < 2.3
    assert gain(sectors, "coalesced", "shared_tile") > 19
    assert ms["coalesced"] / ms["shared_tile"] < 1.5
    assert counted["shared_tile"][wavefronts] / clocks > 0.7 * ms["shared_tile"]
    beyond = {}
    for name in list(ladder.RUNGS)[2:]:
        bounds = [busy[name], counted[name][wavefronts] / clocks]
        assert counted[name][fetched] / measure.roofline().bandwidth / 1e9 < 0.5 * max(bounds)
        beyond[name] = ms[name] / max(bounds)
    assert max(beyond, key=lambda name: beyond[name]) == "square"
    assert min(beyond, key=lambda name: beyond[name]) == "tuned"
    for before, after in (("conflict_free", "warp_tile"), ("warp_tile", "double_buffered")):
        assert 0.9 < ms[before] / ms[after] < 1, "two known ideas gain nothing"
    more = busy["double_buffered"] - busy["warp_tile"]
    less = ms["warp_tile"] - busy["warp_tile"] - ms["double_buffered"] + busy["double_buffered"]
    assert more > 0.4 and abs(more - less) < 0.1
    assert took["1024"]["double_buffered"] < 0.95 * took["1024"]["warp_tile"]
    assert 1.6 < took["1024"]["square"] / took["1024"]["column"] < 1.8, "by seven tenths"

    slower = {name: ms[name] / ms["tuned"] - 1 for name in ladder.TUNED if name != "small_tile"}
    assert sorted(slower, key=lambda name: -slower[name])[:4] == [
        "one_resident", "depth_8", "row_by_row", "always_ask"
    ]  # fmt: skip
    kinds = executed, sectors, wavefronts, fetched
    change = {
        name: {metric: gain(metric, name, "tuned") - 1 for metric in kinds}
        for name in ladder.TUNED
    }
    for name in ("row_by_row", "one_resident"):
        assert all(abs(each) < 0.005 for metric, each in change[name].items() if metric != fetched)
    assert change["always_ask"][executed] > 0.03 and change["depth_8"][executed] > 0.05
    assert change["lanes_in_rows"][wavefronts] > 0.49 and change["row_order"][fetched] > 0.2
    assert max(abs(slower["lanes_in_rows"]), abs(slower["row_order"])) < 0.005
    assert change["small_tile"][sectors] > 0.99
    small = {size: each["small_tile"] / each["tuned"] for size, each in took.items()}
    assert small["2048"] > 1.3 > small["4096"] > 1.1 > 0.95 > small["1024"]


def test_chapter_10() -> None:
    record = measure.read("10_layouts")
    together = {
        (each["interleaved"], each["shape"][1] // 128): {
            name: median(times["times_us"]) for name, times in each["times"].items()
        }
        for each in record["interleaved"]
    }
    wrong = []
    for s in (1, 2, 4, 8, 16):
        most = together[s, 16]
        saved = (most["strided"] - most["copy and packed"] + most["copy"]) / 16
        for columns in (1, 2, 4, 8, 16):
            took = together[s, columns]
            if (columns > most["copy"] / saved) != (took["copy and packed"] < took["strided"]):
                wrong.append((s, columns))
    assert wrong == [(8, 2)], "the rule of the copy's price decides right but for one"

    *_, wide = record["orders"]
    for entry in record["orders"]:
        rows = sorted(entry["rows"], key=lambda row: row["dram__bytes_read.sum"])
        assert [row["order"] for row in rows[:2]] == ["super-rows of 16", "Hilbert"]
    read = {row["order"]: row["dram__bytes_read.sum"] for row in wide["rows"]}
    assert 9 < read["row by row"] / read["super-rows of 16"] < 11
    restless = {name: median(each["times_us"]) for name, each in wide["without_rest"].items()}
    assert 1.15 < restless["row by row"] / restless["super-rows of 16"] < 1.25
    assert restless["drawn by lot"] < restless["row by row"]
    clocks = [median(row["mhz"]) for row in wide["rows"]]
    assert max(clocks) < 1.01 * min(clocks), "with rests, one clock"


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


ONE, RING, STAY, BOXES, PAIRS = copy_engine.LADDER


class TestChapter15:
    """Rates in FLOP a cycle on each multiprocessor, as the chapter compares them."""

    @cached_property
    def record(self) -> dict[str, Any]:
        return measure.read("15_copy_engine")

    @property
    def launch(self) -> dict[str, Any]:
        """The ladder's row of the largest product."""
        row: dict[str, Any]
        (row,) = (row for row in self.record["ladder"] if row["size"] == 8192)
        return row

    def rate(self, name: str, size: int = 8192, part: str = "ladder") -> float:
        return copy_engine.per_cycle(self.record, name, size, part)

    def variant(self, name: str, size: int = 8192) -> float:
        return self.rate(name, size, "variants")

    def test_slots(self) -> None:
        record, variant = self.record, self.variant
        roof = self.rate("wgmma alone")
        alone, ringed = (copy_engine.stamps(record, name) for name in copy_engine.STAMPED)
        multiply = measure.matmul_flop(128, 256, 64) / roof
        both = (alone.copy + multiply, ringed.copy + ringed.multiply)
        assert all(2 < cycles / multiply < 3 for cycles in both), "three slots, and two are too few"
        for slots in (1, 2):
            law = roof * multiply * slots / both[0]
            assert 0.94 < variant(f"slots {slots}") / law < 1, "within a few per cent of the law"
        assert variant("slots 1") < roof / 2
        three, four = (variant(f"slots {slots}") / roof for slots in (3, 4))
        assert 0.89 < three < 0.93 and abs(four / three - 1) < 0.02, "about a tenth is missing"
        assert 1.02 < ringed.tile / multiply < 1.06 and 1 - multiply / ringed.tile < (1 - four) / 2
        tiles = 64 * 32
        rounds = -(-tiles // record["multiprocessors"])
        shares = (
            tiles / rounds / record["multiprocessors"],
            ringed.tile * 128 * rounds / copy_engine.cycles(self.launch, RING),
            multiply / ringed.tile,
        )
        assert all(0.955 < share < 0.985 for share in shares), "each costs a few per cent"

    def test_ladder(self) -> None:
        rate, variant, vendor = self.rate, self.variant, copy_engine.VENDOR
        roof, units = rate("wgmma alone"), self.record["multiprocessors"]
        full = 2048 / units / -(-2048 // units)  # of the last round of tiles
        for row in self.record["ladder"]:
            size, times = row["size"], row["times_us"]
            assert (rate(RING, size) > 2 * rate(ONE, size)) is (size != 2048), "twice"
            assert rate(BOXES, size) / rate(STAY, size) > rate(STAY, size) / rate(RING, size) > 0.97
            assert 0.94 < rate(PAIRS, size) / rate(BOXES, size) < 1, "a little behind"
            ours, theirs = (quantiles(times[name], n=4) for name in (BOXES, vendor))
            assert ours[0] <= theirs[2] and theirs[0] <= ours[2], "the middle halves overlap"
            assert abs(rate(BOXES, size) / rate(vendor, size) - 1) < 0.03
            assert (rate(BOXES, size) > 1.01 * rate(vendor, size)) is (size == 8192)
        gains = [rate(BOXES, size) / rate(STAY, size) for size in copy_engine.SIZES]
        assert gains == sorted(gains), "most of all where the loop is short"
        assert rate(BOXES) / roof > full - 0.005, "no more than the last round costs"
        for size in copy_engine.SIZES[:2]:
            assert variant("boxes in rows", size) < 0.985 * variant(BOXES, size)
            assert 0.6 < variant("released to the cluster", size) / variant(BOXES, size) < 0.7
        assert 2 * self.record["pairs_at_once"] == self.record["multiprocessors"], "all of them fit"
        for name in ("no setmaxnreg", "one producer warp"):
            assert abs(variant(name) / variant("slots 4") - 1) < 0.01, "here it buys nothing"

    def test_neighbours(self) -> None:
        rate = self.rate
        near = self.record["neighbours"]
        assert near["kernel"] == BOXES
        for name, times in near["after_us"].items():
            assert abs(rate(name, part="neighbours") / rate(BOXES) - 1) < 0.01, "the same in cycles"
            assert copy_engine.rate(8192, times) > 1.05 * copy_engine.rate(
                8192, self.launch["times_us"][BOXES]
            )

    def test_power(self) -> None:
        power = {
            name: {field: median(values) for field, values in seen.items()}
            for name, seen in self.record["power"].items()
        }
        limit = power[ONE]["limit_watts"]
        assert power[ONE]["watts"] < 0.95 * limit and 1900 < power[ONE]["sm_mhz"] < 2000
        assert median(self.launch["mhz"][ONE]) < 0.85 * power[ONE]["sm_mhz"]
        for name in (RING, STAY, BOXES, PAIRS, copy_engine.VENDOR):
            assert power[name]["watts"] > 0.93 * limit and power[name]["sm_mhz"] < 1500


def test_chapter_15_broken() -> None:
    record = measure.read("15_broken_ring")["programs"]
    quiet = [
        name for name, said in record.items()
        if name != "as it is" and set(said["alone"]) == {"right"}
    ]  # fmt: skip
    assert quiet == ["empty before the wait", "no wgmma.fence"], "two of the six"
    for name in ("as it is", *quiet):
        assert {tool["verdict"] for tool in record[name]["tools"].values()} == {"nothing"}
    assert not any(tool["lines"] for said in record.values() for tool in said["tools"].values())
