"""What the chapter says in words of its record: a new measurement must keep it."""

from __future__ import annotations

import itertools
from statistics import median

import pytest

from phasebit import measure
from phasebit.chapters.tiling_on_the_gpu import ladder, view
from phasebit.chapters.tiling_on_the_gpu import tiling_controls as controls
from tests.book.notebooks import CHAPTERS, prose


def test_tiling_on_the_gpu() -> None:
    record = measure.read("tiling_on_the_gpu")
    machine = measure.read("threads_and_memory")
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
        name: {metric: gain(metric, name, "tuned") - 1 for metric in kinds} for name in ladder.TUNED
    }
    for name in ("row_by_row", "one_resident"):
        assert all(abs(each) < 0.005 for metric, each in change[name].items() if metric != fetched)
    assert change["always_ask"][executed] > 0.03 and change["depth_8"][executed] > 0.05
    assert change["lanes_in_rows"][wavefronts] > 0.49 and change["row_order"][fetched] > 0.2
    assert round(slower["lanes_in_rows"], 3) == 0.005, "half a percent"
    assert abs(slower["row_order"]) < 0.001
    every = [mhz for found in record["mhz"].values() for each in found.values() for mhz in each]
    assert min(every) > 0.99 * machine["most_mhz"], "the clock stayed within a percent"
    assert change["small_tile"][sectors] > 0.99
    small = {size: each["small_tile"] / each["tuned"] for size, each in took.items()}
    assert small["2048"] > 1.3 > small["4096"] > 1.1 > 0.95 > small["1024"]


def test_what_the_chapter_says_of_the_controls() -> None:
    products = measure.read("tiling_on_the_gpu")["products"]
    ms = {name: median(times) / 1000 for name, times in products["4096"].items()}

    def square(tile: int, each: int) -> float:
        return ms[ladder.SQUARES[tile, each]]

    for tile, squares in ((32, (1, 2, 4)), (64, (2, 4))):
        times = [square(tile, each) for each in squares]
        assert sorted(times, reverse=True) == times and times[0] > 2 * times[-1]
    fours = [square(tile, 4) for tile in (32, 64, 128)]
    assert max(fours) < 1.03 * min(fours), "the tile does nothing for the time"
    assert square(64, 2) > square(32, 2), "the larger tile is slower"
    assert 0.5 < ms["deep"] / square(32, 1) < 0.6, "the depth nearly halves the time"
    second = 1 - ms["two_resident"] / ms["square"]
    rest = 1 - ms["vectorised"] / ms["two_resident"]
    assert 0.3 < second < 0.36 and 0.25 < rest < 0.36, "a third; as much again"
    for name in ("warp_tile", "double_buffered"):
        assert 0.8 < ms["through_registers"] / ms[name] < 0.83, "almost a fifth off"
    without_gap = median(products["2048"]["naive"]) / median(products["2048"]["coalesced"])
    assert 12 < without_gap < 14, "three times the 4.3 of the cells on the page"


def test_what_the_chapter_says_of_meetings_squares_and_marks() -> None:
    record = measure.read("tiling_controls")

    def took(part: str, name: str) -> float:
        return median(record[part][name]["times_us"]) / 1000

    deep, shallow = (took("depth", name) for name in (controls.DEEP, controls.SHALLOW))
    assert took("depth", "32 deep, meets every 8") < 1.005 * deep, "the meetings cost nothing"
    assert controls.MEETINGS["32 deep, meets every 8"] == controls.MEETINGS[controls.SHALLOW]
    assert took("depth", "32 deep, meets every 4") > 1.05 * deep, "twice as many cost"
    assert controls.MEETINGS["32 deep, meets every 4"] == 2 * controls.MEETINGS[controls.SHALLOW]
    others = took("depth", "8 deep, B by other warps")
    assert 0.19 < 1 - others / shallow < 0.23, "a fifth of the time goes"
    ahead = took("depth", "8 deep, loads ahead")
    assert 0.97 * deep < ahead < deep, "as fast as 32 deep"
    assert controls.MEETINGS["8 deep, loads ahead"] == controls.MEETINGS[controls.SHALLOW]
    assert round(shallow - ahead) == 18
    started = {row[0]: float(row[2]) for row in view.meetings(record).rows}
    assert 3.5 < started[controls.SHALLOW] - started["8 deep, loads ahead"] < 4

    for limited in (False, True):
        for count in (64, 256, 1024):
            times = []
            for each in (1, 2, 4):
                name = controls.Square(each, count).name
                at_once = record["at_once"][name] * count
                if limited and at_once != 1024:
                    name = f"{name}, 1024 at once"
                times.append(took("squares", name if limited else f"{name}, usual share"))
            assert times[0] > 1.6 * times[1] > 2 * times[2], (limited, count)
    twos = [took("squares", f"2 × 2, {count} threads") for count in (64, 256, 1024)]
    assert twos[1] < twos[0] < twos[2], "fewer threads do not always help"

    tuned = took("tuned", "tuned")
    assert round(took("tuned", "tuned, meets every 8") / tuned - 1, 3) == 0.013
    one, other = ([took("tuned", f"{rung}, {way}") for way in (controls.MARKS, controls.NO_MARKS)]
                  for rung in controls.MARKED)  # fmt: skip
    for marked, bare in (one, other):
        assert 1.3 < bare / marked < 1.35, "about a third longer"
    assert [round(1000 * (b - a)) for a, b in zip(one, other, strict=True)] == [107, 33]


def test_the_page_tells_of_each_variant_that_is_measured() -> None:
    (path,) = (path for path in CHAPTERS if path.stem.endswith("_tiling_on_the_gpu"))
    told = prose(path)
    apart = [name for name in ladder.SEPARATED if name not in (*ladder.SQUARES.values(), "deep")]
    for name in (*ladder.TUNED, *apart, "swizzled", "reordered"):
        assert f"`{name}`" in told, name


def test_a_difference_is_the_lines_that_change() -> None:
    for before, after in itertools.pairwise(ladder.RUNGS):
        found = ladder.difference(before, after).splitlines()
        changed = [line for line in found if line != "        …"]
        assert {line[0] for line in changed} == {"-", "+"}
        for sign, name in (("-", before), ("+", after)):
            own = ladder.text(name).splitlines()
            assert all(line[1:] in own for line in changed if line[0] == sign)
    assert ladder.difference("tuned", "tuned") == ""
    assert "__global__" not in ladder.difference("square", "vectorised"), "a name is no change"
    assert "int T = " not in ladder.difference("square", "vectorised", "constexpr int T = ")
    with pytest.raises(ValueError, match="has no 'turn'"):
        ladder.difference("square", "vectorised", "turn")


def test_the_turned_tile_is_the_kernels() -> None:
    text = ladder.text("vectorised")
    assert "am = t / (BK / 4), ak = t % (BK / 4) * 4;" in text
    assert "y = t / (BN / T) * T;" in text
    for i, word in enumerate("xyzw"):
        assert f"a[ak{f' + {i}' if i else ''}][am] = left.{word}" in text
