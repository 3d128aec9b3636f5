"""What the chapter says in words of its record: a new measurement must keep it."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

import pytest

from phasebit import files, measure
from phasebit.chapters.tensor_cores import view
from tests.book.notebooks import ROOT, prose

CHAPTER = next(ROOT.glob("book/*/??_tensor_cores.ipynb"))


def test_tensor_cores() -> None:
    record = measure.read("tensor_cores")
    times = [median(each) for each in record["ladder"]["times_us"].values()]
    steps = [before / after for before, after in pairwise(times)]
    assert sorted(steps)[-2:] == sorted(steps[:2]), "two steps stand out"
    assert min(steps[:2]) > 2 * max(steps[2:]) and abs(steps[-1] - 1) < 0.03
    heights = record["heights"]["rows"]
    read = [row["dram__bytes_read.sum"] for row in heights]
    assert 0.5 < min(read) / max(read) < 0.56, "by almost half"
    assert heights[read.index(min(read))]["height"] == 16
    waited = [median(row["times_us"]) for row in heights]
    assert 1.02 < max(waited) / min(waited) < 1.035, "by 3 per cent only"
    cycles = [median(row["times_us"]) * median(row["mhz"]) for row in heights]
    assert max(cycles) < 1.01 * min(cycles), "the cycles by less than 1"
    drawn = view.heights(record).alt.splitlines()[1:]
    assert [line.split(": ")[0] for line in drawn] == [
        "time", "cycles", "read from memory", "rows and columns needed",
    ]  # fmt: skip
    for line, values in zip(drawn, (waited, cycles, read), strict=False):
        ratios = [f"{value / values[0]:.2f}" for value in values]
        assert line.split(": ")[1].split() == ratios
    needed = (8832, 8960, 9216, 5376, 4352, 5376)
    assert drawn[-1].split(": ")[1].split() == [f"{each / 8832:.2f}" for each in needed]
    longest = max(read) / record["copy_bytes_per_second"]
    best = record["best"][1]["times_us"]["super-rows"]
    assert 0.23 < longest / median(best) * 1e6 < 0.27, "a quarter"
    assert measure.roofline().bandwidth * 1e12 < record["copy_bytes_per_second"]
    whole, four, _, two = (
        {name: median(times) for name, times in row["times_us"].items()} for row in record["ragged"]
    )
    assert 0.5 < whole["super-rows"] / four["super-rows"] < 0.6
    assert whole["cuBLAS"] / four["cuBLAS"] < 0.45
    assert two["super-rows"] > 2 * four["super-rows"]


def test_what_the_controls_say() -> None:
    record = measure.read("tensor_cores")
    controls = record["controls"]
    times = [median(each) for each in controls["times_us"].values()]
    ring, ahead, block, warp, wide = (before / after for before, after in pairwise(times))
    assert 1.35 < ring < 1.5 and 1.35 < warp < 1.5, "about 1.4 times as fast"
    assert 1.095 < block < 1.125, "a ninth"
    assert 1.01 < wide < 1.015 and 1.015 < ahead < 1.025, "1 per cent and 2"
    clocks = [median(each) for each in controls["mhz"].values()]
    assert 1.015 < clocks[-1] / clocks[-2] < 1.025, "at a clock that is 2 per cent higher"
    alone = [
        median(record["ladder"]["times_us"][rung]) for rung in ("swizzle", "larger warp tiles")
    ]
    here = [times[0], times[-1]]
    best = median(record["best"][0]["times_us"]["super-rows"])
    for one, other in [*zip(here, alone, strict=True), (best, alone[-1])]:
        assert abs(one / other - 1) < 0.01, "as long here as in the ladder"


def test_what_the_ring_in_parts_says(capsys: pytest.CaptureFixture[str]) -> None:
    controlled = measure.read("tensor_cores_controls")
    time = {name: median(each["times_us"]) for name, each in controlled["contenders"].items()}
    cycles = {
        name: time[name] * median(each["mhz"]) for name, each in controlled["contenders"].items()
    }
    small, large = (
        lambda name, of=of, size=size: of[f"{size}: {name}"] / of[f"{size}: whole"]
        for size, of in (("small", cycles), ("large", cycles))
    )
    assert 0.25 < 1 - small("no copies") < 0.27, "a quarter"
    assert 0.15 < 1 - small("no loads") < 0.18, "a sixth"
    assert 0.05 < 1 - small("no products") < 0.07, "6 per cent"
    assert 0.88 < small("copies alone") < 0.92, "nine tenths"
    assert max(small(f"{part} alone") for part in ("loads", "products")) < 0.75
    assert 0.88 < large("products alone") < 0.92 and large("no loads") > 1, "nine tenths"
    assert 0.08 < 1 - large("no copies") < 0.1
    assert max(large(f"{part} alone") for part in ("loads", "copies")) < 0.66
    asked = view.copied(controlled) * time["small: copies alone"] / time["small: whole"]
    apart, together = (
        median(controlled["reads"][f"cp.async, blocks {way}, 32 MiB"])
        for way in ("apart", "together")
    )
    assert abs(asked / apart - 1) < 0.02 and together > 2 * view.copied(controlled)
    branch, stays = "a branch around the copies", "a branch that stays one"
    said = [
        round(100 * (time[f"{size}: {name}"] / time[f"{size}: whole"] - 1))
        for name in (branch, stays)
        for size in ("small", "large")
    ]
    assert said == [-1, 4, 1, 6], "1 per cent less, 4 more; 1 and 6 more"
    assert [round(large(name), 2) for name in (branch, stays)] == [1.04, 1.06], "in cycles, too"
    drawn = view.parts(controlled).alt.splitlines()[1:]
    assert [line.split(": ")[0] for line in drawn] == [
        *(f"no {part}" for part in ("copies", "loads", "products")),
        *(f"{part} alone" for part in ("copies", "loads", "products")),
    ]
    for line in drawn:
        name = line.split(": ")[0]
        assert line.endswith(f"small tiles {small(name):.2f}, large tiles {large(name):.2f}")
    assert "a branch that stays one: 1.06 of the cycles" in capsys.readouterr().out


def test_what_the_warps_larger_tile_gains() -> None:
    found = measure.read("tensor_cores_warp_tiles")
    table = view.warp_tiles(found)
    assert table.rows[0][1:] == ("1", "2", "1"), "two blocks fit"
    said = {loop: [int(each.replace(",", "")) for each in cells] for loop, *cells in table.rows[1:]}
    small, two, one = said["whole"]
    assert (small - two, small - one, one - two) == (215, 118, 97)
    assert small - said["no loads"][0] == 172 and small == 734
    assert said["each load twice"][1:] == [758, 972] and small > 758 / 1.04, "nearly level"
    for tiles, held in ((two, 1), (one, 2)):
        assert said["no loads of B"][held] > 1.05 * tiles, "slower than whole"
    assert said["no loads"][2] > one, "without any, too"
    loads = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
    counted = found["counters"]
    as_many = counted["each load twice"]["warps of 64 × 64"][loads]
    assert abs(as_many / counted["whole"]["warps of 32 × 32"][loads] - 1) < 0.01


def test_what_is_excluded_where_loads_of_b_are_left_out() -> None:
    found = measure.read("tensor_cores_loads_of_b")
    table = view.loads_of_b(found)
    assert [row[0] for row in table.rows] == ["whole", "no loads of B", "loads of B switched off"]
    said = [[float(each.replace(",", "")) for each in row[1:]] for row in table.rows]
    whole, left_out, off = said
    assert whole == [337, 328, 244, 0, 94, 0.3, 0.03]
    assert 0 <= off[0] / left_out[0] - 1 < 0.01 < left_out[0] / whole[0] - 1, "as slow"
    assert (off[2], off[3]) == (243, 0) and left_out[3] > 0, "nothing spilled"
    assert left_out[4] < off[4] < whole[4], "a later wait"
    three, four = (left_out[i] / whole[i] - 1 for i in (0, 1))
    assert 0.09 < three < four, "a fourth slot does not help"
    assert all(2 < each[5] / whole[5] < 2.4 for each in (left_out, off)), "more than twice"
    assert all(each[6] > 5 * whole[6] for each in (left_out, off)), "longer at dispatch"
    (clock, *others) = (median(found["contenders"][f"warps of 64 × 64, one block: {row[0]}"]["mhz"])
                        for row in table.rows)  # fmt: skip
    assert all(abs(other / clock - 1) < 0.005 for other in others), "nor is it the clock"


def test_the_direct_way_is_slower_than_no_tensor_cores() -> None:
    record, size = measure.read("tensor_cores"), "4096"
    assert record["ladder"]["size"] == int(size), "as large as the f32 product"
    direct = median(record["ladder"]["times_us"]["fragments from global memory"])
    assert direct > median(measure.read("tiling_on_the_gpu")["products"][size]["tuned"])
    alone = record["peak"]["flop"] / median(record["peak"]["times_us"])
    assert measure.matmul_flop(*[int(size)] * 3) / direct < 0.05 * alone, "nearly always idle"


def test_what_is_said_of_f32_in_three_products() -> None:
    kernels, inside = measure.load("double_buffering"), measure.read("clock_stamps")
    normal, positive = inside["errors"], inside["errors_positive"]
    three, sums = normal["h_tensor_cores"]
    assert normal["h_tensor_cores, one product"][0] > 300 * sums and three <= sums
    three, sums = positive["h_tensor_cores"]
    assert three > sums, "err more than f32 sums"
    assert 0.45 < positive["h_tensor_cores, rounded parts"][0] / three < 0.55, "halves"
    assert 0.65 < kernels["h_tensor_cores"].warm / kernels["g_own_ring"].warm < 0.75
    text = files.kernel("double_buffering/h_tensor_cores")
    for line in (
        "b_low, a_high);",
        "b_high, a_low);",
        "b_high, a_high);  // low · low is left out",
    ):
        assert f"mma(c[h][i], {line}" in text and f"mma(c[h][i], {line}" in prose(CHAPTER)


def test_changing_operands_cost_mma_nothing() -> None:
    changing = median(measure.read("measuring")["ceilings"]["f16 mma, normal, in turn"])
    assert changing >= measure.roofline().rates["f16 mma, normal"]
