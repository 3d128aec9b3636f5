"""What the chapter says in words of its record: a new measurement must keep it."""

from __future__ import annotations

from itertools import pairwise
from statistics import median, quantiles

from phasebit import files, measure
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
    assert max(waited) < 1.02 * min(waited), "the last column hardly moves"
    assert measure.roofline().bandwidth * 1e12 < record["copy_bytes_per_second"]
    whole, four, _, two = (
        {name: median(times) for name, times in row["times_us"].items()} for row in record["ragged"]
    )
    assert 0.5 < whole["super-rows"] / four["super-rows"] < 0.6
    assert whole["cuBLAS"] / four["cuBLAS"] < 0.45
    assert two["super-rows"] > 2 * four["super-rows"]


def test_what_the_controls_say() -> None:
    times = [median(each) for each in measure.read("tensor_cores")["controls"]["times_us"].values()]
    ring, ahead, block, warp, wide = (before / after for before, after in pairwise(times))
    assert 1.35 < ring < 1.5 and 1.35 < warp < 1.5, "about 1.4 times as fast"
    assert 1.09 < block < 1.16, "about an eighth"
    assert abs(wide - 1) < 0.02, "nothing more"
    low, high = quantiles(
        measure.read("tensor_cores")["controls"]["times_us"]["a ring, no fragments ahead"], n=4
    )[::2]
    assert low < times[2] < high and ahead < 1.03, "not told from the spread"


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
