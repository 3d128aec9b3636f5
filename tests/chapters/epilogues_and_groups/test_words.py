"""What the page says in words of its record: a new measurement must keep it."""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest

from phasebit import measure
from phasebit.chapters.epilogues_and_groups import epilogue_bench as benchmark
from phasebit.chapters.epilogues_and_groups import (
    epilogue_controls,
    epilogue_orders,
    fetching,
    groups,
    view,
)
from phasebit.chapters.epilogues_and_groups.epilogue_bench import LONG, PLAIN, SHORT

LARGE, WIDE, FLAT = [8192] * 3, [4096, 14336, 4096], [4096, 4096, 512]
INSTRUCTIONS = {SHORT: 4605, LONG: 5890}
"""Of a warp for a tile, as the page counts them."""


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    return measure.read(benchmark.NAME)


def rows(record: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    return [(row, chain) for row in record["epilogues"] for chain in (SHORT, LONG)]


def test_fused_loses_to_one_kernel_and_beats_one_for_each_step(record: dict[str, Any]) -> None:
    for row, chain in rows(record):
        fused, one, each = (row["times"][f"{chain}, {way}"]["us"]
                            for way in ("fused", "then one kernel", "apart"))  # fmt: skip
        assert median(one) < 0.93 * median(fused)
        if (row["shape"], chain) == (LARGE, SHORT):
            assert min(each) < median(fused) < max(each), "too close to call"
        else:
            assert min(each) > max(fused)


def test_products_alone(record: dict[str, Any]) -> None:
    for row in record["epilogues"]:
        ours, vendor = (
            view.microseconds(row, name) for name in (f"{PLAIN}, fused", benchmark.CUBLAS)
        )
        assert (ours < vendor) == (row["shape"] == FLAT)


def test_what_the_steps_add(record: dict[str, Any]) -> None:
    """At K = 512, three steps: more than a kernel of their own, and cuBLASLt's a few µs."""
    row = next(row for row in record["epilogues"] if row["shape"] == FLAT)
    plain, vendor = (view.microseconds(row, x) for x in (f"{PLAIN}, fused", benchmark.CUBLAS))
    fused, one = (view.microseconds(row, f"{SHORT}, {x}") for x in ("fused", "then one kernel"))
    assert fused > 2 * plain and fused - plain > one - vendor
    assert 5 < view.microseconds(row, benchmark.CUBLASLT) - vendor < 10


def test_the_arithmetic_was_wrong(record: dict[str, Any]) -> None:
    count, depths = INSTRUCTIONS[SHORT], [row["k"] for row in record["hidden"]]
    said = {k: view.predicted(k, count, "by turns") - 1 for k in depths}
    seen = dict(zip(depths, view.over_plain(record, SHORT, "by turns"), strict=True))
    assert (round(100 * said[512]), round(100 * seen[512]) - 100) == (19, 167)
    assert all(seen[k] - 1 > 2 * said[k] for k in depths)
    for k, low, high in ((1024, 1.2, 1.3), (8192, 1.13, 1.16)):
        (row,) = (row for row in record["hidden"] if row["k"] == k)
        assert low < view.cycles(row, f"by turns, {PLAIN}") / 8 / (8 * k) < high
    apart = [view.cycles_an_instruction(record, *each) for each in INSTRUCTIONS.items()]
    assert all(5 < each < 6.5 for each in apart)


def test_orders(record: dict[str, Any]) -> None:
    for row in record["hidden"]:
        short, long = (
            view.microseconds(row, f"by turns, {chain}")
            < view.microseconds(row, f"together, {chain}")
            for chain in (SHORT, LONG)
        )
        assert short and long == (row["k"] >= 4096)


@pytest.fixture(scope="module")
def fetched() -> dict[str, Any]:
    return measure.read(fetching.NAME)


def test_groups(fetched: dict[str, Any]) -> None:
    *few, many = fetched["groups"]
    ours_, loops, theirs = (
        [view.microseconds(row, name) for row in few]
        for name in (benchmark.GROUPED, benchmark.LOOP, benchmark.TORCHS)
    )
    factors = [round(loop / own, 1) for loop, own in zip(loops, ours_, strict=True)]
    assert factors == [2.5, 2.8, 2.2]
    less = [round(100 * (1 - own / other)) for own, other in zip(ours_, theirs, strict=True)]
    assert (min(less), max(less)) == (16, 26)
    least = few[0]
    bytes_ = view.moved(63, least["n"], least["k"], 39)
    assert sum(least["sizes"]) == 63 and sum(map(bool, least["sizes"])) == 39
    one = view.microseconds(least, fetching.ONE)
    assert one < view.microseconds(least, benchmark.GROUPED) / 3, "less than a third"
    assert round(bytes_ / view.microseconds(least, benchmark.GROUPED) * 1e-6, 1) == 3.6
    ours, loop, torchs, one, vendor = (
        view.microseconds(many, name)
        for name in (benchmark.GROUPED, benchmark.LOOP, benchmark.TORCHS, fetching.ONE,
                     fetching.ONE_CUBLAS)
    )  # fmt: skip
    assert torchs < ours and round(loop / ours, 1) == 1.2
    assert round(100 * (ours / torchs - 1)) == 5
    assert one > vendor and round(100 * (ours / one - 1)) == 18


def test_tiles_of_groups(fetched: dict[str, Any]) -> None:
    small, down = (
        [view.microseconds(row, name) / view.microseconds(row, benchmark.GROUPED)
         for row in fetched["groups"]]
        for name in (fetching.SMALL_TILES, fetching.DOWN)
    )  # fmt: skip
    off = [[round(100 * (1 - 1 / each)) for each in case] for case in (small, down)]
    assert [(min(each), max(each)) for each in off] == [(8, 24), (3, 7)]
    assert max(small) == small[-1] and max(down) == down[-1]


def test_what_was_taken_back(fetched: dict[str, Any]) -> None:
    us = {name: median(each["us"]) for name, each in fetched["back"].items()}
    assert round(us[LONG] - us[PLAIN]) == 17
    assert abs(us[SHORT] - us["alpha, GELU"]) < 0.5
    assert round(us[LONG] - us[f"{LONG} but the residual"]) == 5
    assert round(us[f"{LONG}, GELU by erff"] - us[LONG]) == 8
    for name in ("every box in full", "each lane its warp"):
        assert round(us[f"{LONG}, {name}"] - us[LONG]) == 3


def test_fetched_beats_cublas_and_one_kernel(fetched: dict[str, Any]) -> None:
    share = {}
    for row, chain in rows(fetched):
        best = min(view.microseconds(row, f"{chain}, {way}")
                   for way in (fetching.TURNS, fetching.SHARED))  # fmt: skip
        shape = tuple(row["shape"])
        share[shape, chain] = best / view.microseconds(row, f"{chain}, then one kernel")
        if chain == SHORT:
            share[shape, "Lt"] = best / view.microseconds(row, benchmark.CUBLASLT)
        plain = min(view.microseconds(row, f"{PLAIN}, {way}")
                    for way in (fetching.TURNS, fetching.SHARED))  # fmt: skip
        share[shape, "product"] = plain / view.microseconds(row, benchmark.CUBLAS)
    large, wide, flat = map(tuple, (LARGE, WIDE, FLAT))
    assert [round(100 * (1 - share[shape, SHORT])) for shape in (large, wide, flat)] == [2, 4, 33]
    assert [round(100 * (1 - share[shape, LONG])) for shape in (large, wide, flat)] == [11, 20, 55]
    assert [round(100 * share[shape, "Lt"] - 100) for shape in (large, wide, flat)] == [5, 5, -3]
    assert [round(100 * share[shape, "product"] - 100) for shape in (large, wide)] == [2, 3]


def test_where_a_wide_tile_shared_is_better(fetched: dict[str, Any]) -> None:
    for row in fetched["epilogues"] + fetched["hidden"]:
        if row["shape"][:2] == [benchmark.SQUARE] * 2:
            turns, shared = (view.microseconds(row, f"{LONG}, {way}")
                             for way in (fetching.TURNS, fetching.SHARED))  # fmt: skip
            assert (turns < shared) == (row["shape"][2] <= 2048)


def test_bands(fetched: dict[str, Any]) -> None:
    all_, eight, sixteen = (median(fetched["orders"][f"{PLAIN}, bands of {n}"]["us"])
                            for n in (64, 8, 16))  # fmt: skip
    assert eight < sixteen < all_ and round(100 * (1 - sixteen / all_)) == 1


@pytest.fixture(scope="module")
def controls() -> dict[str, Any]:
    return measure.read("epilogue_controls")


def test_strips_that_blocks_read_at_one_time() -> None:
    assert [groups.touched(groups.bands(64, 64, high), 132) for high in (64, 8)] == [67, 25]


def test_the_order_of_tiles(controls: dict[str, Any]) -> None:
    down, bands, vendor = (median(each["us"]) for each in controls["products"].values())
    assert abs(1 - bands / down - 1 / 6) < 0.01 and round(bands / vendor, 2) == 1.07
    assert max(controls["products"][epilogue_controls.BANDS]["us"]) < 0.93 * down
    mhz = [median(each["mhz"]) for each in controls["products"].values()]
    assert mhz[0] < mhz[1] < mhz[2]


def test_what_was_switched_off(controls: dict[str, Any]) -> None:
    us = {name: median(each["us"]) for name, each in controls["epilogues"].items()}
    assert round(us[LONG]) == 123 and round(us[f"{LONG} but the residual"]) == 69
    without = us[f"{LONG} but the residual"]
    assert us[LONG] - without > without - us[PLAIN], "the residual costs more than the others"
    bias = us[SHORT] - us["alpha, GELU"]
    assert round(bias) == 12 and abs(bias / (us["alpha, GELU"] - us[PLAIN]) - 0.5) < 0.03
    assert round(us[SHORT] - us[f"{SHORT}, by tanh.approx"]) == 19
    assert round(us[SHORT] - us[PLAIN]) == 38
    assert round(100 * (1 - us[f"{LONG}, a loop"] / us[LONG])) == 13
    gained = {chain: 1 - us[f"{chain}, a loop"] / us[chain]
              for chain in (SHORT, f"{SHORT}, by tanh.approx", LONG)}  # fmt: skip
    assert 0 < gained[SHORT] == min(gained.values())
    assert round(us[f"{PLAIN}, a loop"] - us[PLAIN]) == 2
    assert round(us[f"{SHORT}, by tanh.approx, a loop"]) == 38
    assert round(us[benchmark.CUBLAS], 1) == 30.5


def test_what_was_counted(controls: dict[str, Any]) -> None:
    seen = {name: view.issued(controls, name) for name in controls["counters"]}
    assert round(seen[SHORT][0]) == 4409
    assert all(abs(seen[chain][0] / count - 1) < 0.12 for chain, count in INSTRUCTIONS.items())


def test_two_runs(record: dict[str, Any]) -> None:
    row = next(row for row in record["epilogues"] if row["shape"] == FLAT)
    assert round(view.microseconds(row, benchmark.CUBLAS), 1) == 29.8
    assert round(view.microseconds(row, benchmark.CUBLASLT)) == 36


def test_the_arithmetic_with_measured_cycles(record: dict[str, Any]) -> None:
    each = view.cycles_an_instruction(record, SHORT, INSTRUCTIONS[SHORT])
    for order in benchmark.TEAMS:
        seen = view.over_plain(record, SHORT, order)
        for row, measured in zip(record["hidden"], seen, strict=True):
            plain = view.cycles(row, f"{order}, {PLAIN}") / 8
            said = view.by_arithmetic(plain, each * INSTRUCTIONS[SHORT], order)
            if order == "together":
                assert abs(said / measured - 1) < 0.07
            else:
                assert abs(said / measured - 1) < 0.105
                assert row["k"] != 256 or said > measured
                assert row["k"] != 2048 or said < 0.91 * measured


def test_what_makes_sharing_faster() -> None:
    record = measure.read(epilogue_orders.NAME)
    loop, depths = f"{LONG}, {epilogue_orders.LOOP}", list(record["times"])
    ratio = {name: [view.over_shared(record, name, depth) for depth in depths]
             for name in view.SWITCHED}  # fmt: skip
    assert depths == ["256", "512", "1024", "2048"] and all(each > 1 for each in ratio[LONG])
    for name in (f"{LONG} but the residual", epilogue_orders.NOT_READ, loop):
        assert all(each < 1 for each in ratio[name]), "turns are faster at every K"
    for more, less in zip(ratio[f"{LONG} but GELU"], ratio[LONG], strict=True):
        assert more > less, "without GELU sharing gains even more"
    assert abs(ratio[epilogue_orders.ONE_PLACE][2] - 1) < 0.005
    assert ratio[epilogue_orders.WIDE][0] > 1 > ratio[epilogue_orders.WIDE][1]
    for kind, low, high in ((epilogue_orders.ONE_PLACE, 2, 3), (epilogue_orders.EARLY, 1, 2),
                            (epilogue_orders.WIDE, 0, 1)):  # fmt: skip
        assert ratio[kind][low] > 1 > ratio[kind][high], "the border lies between"
    us = {name: median(each["us"]) for name, each in record["times"]["256"].items()}
    for order, adds in zip(benchmark.TEAMS, (53, 24), strict=True):
        assert round(us[f"{order}: {LONG}"] - us[f"{order}: {LONG} but the residual"]) == adds
        for kind in (epilogue_orders.ONE_PLACE, epilogue_orders.EARLY, epilogue_orders.WIDE):
            assert us[f"{order}: {kind}"] < us[f"{order}: {LONG}"], "cheaper reads"
    few = us[f"together: {LONG}, {epilogue_orders.FEW}"]
    assert abs(few / us[f"together: {LONG}"] - 1) < 0.01
    us = {name: median(each["us"]) for name, each in record["times"]["2048"].items()}
    few = us[f"together: {LONG}, {epilogue_orders.FEW}"]
    assert round(100 * few / us[f"together: {LONG}"]) == 104
    assert abs(few / us[f"by turns: {LONG}"] - 1) < 0.01


def test_what_was_counted_in_both_orders() -> None:
    record = measure.read(epilogue_orders.NAME)
    loop = f"{LONG}, {epilogue_orders.LOOP}"
    for why in view.WAITS:
        waits = {name: [view.waits(record, f"{order}: {name}", why) for order in benchmark.TEAMS]
                 for name in (LONG, loop)}  # fmt: skip
        assert waits[LONG][0] > 1.3 * waits[LONG][1], "longer by turns"
        assert abs(waits[loop][0] / waits[loop][1] - 1) < 0.15, "in the loop they are not"
    plain = measure.read(epilogue_controls.NAME)["counters"][PLAIN]
    assert round(view.waits({"counters": {PLAIN: plain}}, PLAIN, "long_scoreboard")) == 3
    for name in waits:
        for order in benchmark.TEAMS:
            counts = record["counters"][f"{order}: {name}"]
            sectors = counts["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
            hit = counts["l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"]
            assert 0.54 < hit / sectors < 0.57, "just over half"
