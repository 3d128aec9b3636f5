"""What the page says in words of its records: a new measurement must keep it."""

from __future__ import annotations

import json
from dataclasses import replace
from statistics import median, quantiles
from typing import Any

import pytest

from phasebit import files, measure
from phasebit.chapters.every_shape import (
    cuts,
    narrower,
    open_kernels,
    plans,
    record,
    row_ends,
    shape_slips,
    tries,
    view,
    waves,
)
from phasebit.chapters.every_shape.bench import fastest_of
from phasebit.chapters.every_shape.choice import CLUSTERS, PAIRS_EVERYWHERE, PLANS, choose
from phasebit.chapters.every_shape.plans import Plan
from phasebit.chapters.every_shape.shapes import Shape

SMALL, ODD, AWKWARD = (Shape(*[size] * 3) for size in (1024, 1000, 5000))
ALONE, LATE = Plan(plans.EARLY, 1, 128, 8), Plan(plans.SMALL, 1, 128, 8)


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    return measure.read(record.NAME)


@pytest.fixture(scope="module")
def ends() -> dict[str, Any]:
    return measure.read(row_ends.NAME)


def us(recorded: dict[str, Any], shape: Shape, plan: Plan, way: str = "warm") -> float:
    """Of the run in which all plans took part."""
    return view.median(view.row_of(recorded, shape)["all"][str(plan)], way)


def more(recorded: dict[str, Any], shape: Shape, plan: Plan) -> list[float]:
    """How much longer a plan takes than the one meant for a shape, warm and flushed."""
    row = view.row_of({"shapes": recorded["further"]}, shape)
    base = row["times"][row["base"]]
    return [view.median(row["times"][str(plan)], way) / view.median(base, way) - 1
            for way in view.WAYS]  # fmt: skip


def percent(changes: list[float]) -> list[int]:
    return [round(100 * each) for each in changes]


def test_aims(recorded: dict[str, Any]) -> None:
    best, chosen = (view.summary(recorded, name) for name in (view.best, view.chosen))
    assert round(best["warm, geometric mean"], 3) == 1.028
    assert round(best["flushed, geometric mean"], 3) == 1.024
    assert [round(chosen[f"{way}, geometric mean"], 3) for way in view.WAYS] == [1.013, 1.007]
    ours = view.row_of(recorded, ODD)
    assert view.ratio(ours, view.chosen(ours), "flushed") == chosen["flushed, least"]
    assert round(chosen["flushed, least"], 2) == 0.95
    pairs = view.summary(recorded, lambda row: str(PAIRS_EVERYWHERE))
    assert round(pairs["warm, geometric mean"], 2) == 0.82
    warm, flushed = (
        {str(Shape(*row["shape"])): view.ratio(row, view.best(row), way)
         for row in recorded["shapes"]}
        for way in view.WAYS
    )
    below = {shape: value for shape, value in warm.items() if value < 0.97}
    assert below.keys() == {"4096 × 768 × 3072"} and min(below.values()) > 0.969
    assert min(flushed.values()) > 0.98
    assert round(warm["4096³"], 3) == 0.997


def test_what_is_shown_had_no_part_in_the_choice(recorded: dict[str, Any]) -> None:
    for row in recorded["shapes"]:
        assert view.best(row) == fastest_of(row["all"])
        for name, times in row["times"].items():
            before = row["all"][name]["warm_us"]
            assert times["warm_us"][: len(before)] != before


def test_where_open_kernels_are_ahead() -> None:
    beside = measure.read(open_kernels.NAME)
    ahead: dict[str, list[str]] = {}
    means: dict[str, list[float]] = {}
    for row in beside["shapes"]:
        shares = view.by_maker(row, "warm")
        for who, share in shares.items():
            means.setdefault(who, []).append(share)
        fastest = max(shares.keys() - {view.VENDOR}, key=lambda who: shares[who])
        by = shares[fastest] / shares["ours"] - 1
        if by:
            ahead.setdefault(fastest, []).append(f"{Shape(*row['shape'])}, {by:.1%}")
    assert ahead == {"fast.cu": ["8192³, 0.6%"], "CUTLASS": ["256 × 4096 × 14336, 2.0%"]}
    assert round(view.geomean(means["ours"]), 3) == 1.031
    assert all(view.geomean(means[who]) < 1 for who in means.keys() - {"ours", view.VENDOR})


def test_what_an_earlier_record_says_of_the_rival_that_is_missing() -> None:
    assert "DeepGEMM" not in measure.read(open_kernels.NAME)["versions"]
    path = files.records() / f"{open_kernels.NAME}.nvidia-h200.json"
    by = {}
    for row in json.loads(path.read_text("utf-8"))["shapes"]:
        shares = view.by_maker(row, "warm")
        by[str(Shape(*row["shape"]))] = shares["DeepGEMM"] / shares["ours"] - 1
    assert sum(each > 0 for each in by.values()) == 3
    assert max(by, key=by.__getitem__) == "1024 × 28672 × 8192"
    assert round(max(by.values()), 2) == 0.07


def test_which_are_decided(recorded: dict[str, Any]) -> None:
    """By the middle halves of the times."""
    found: dict[str, list[str]] = {}
    for row in recorded["shapes"]:
        for way, field in view.WAYS.items():
            times = row["times"]
            ours, vendor = (quantiles(times[name][field], n=4)
                            for name in (view.best(row), view.VENDOR))  # fmt: skip
            if ours[2] < vendor[0] or vendor[2] < ours[0]:
                who = "ours" if ours[2] < vendor[0] else view.VENDOR
                found.setdefault(f"{way}, {who}", []).append(str(Shape(*row["shape"])))
    assert {who: len(shapes) for who, shapes in found.items()} == {
        "warm, ours": 12, f"warm, {view.VENDOR}": 2, "flushed, ours": 7,
    }  # fmt: skip
    assert found[f"warm, {view.VENDOR}"] == ["4096³", "4096 × 768 × 3072"]


def test_early_launch(recorded: dict[str, Any]) -> None:
    def lost(*shape: int) -> int:
        early, late = (us(recorded, Shape(*shape), plan) for plan in (ALONE, LATE))
        return round(100 * (early / late - 1))

    assert lost(256, 4096, 14336) == 22 and lost(64, 10240, 8192) == 6
    assert lost(16, 14336, 4096) == -1 and lost(128, 14336, 4096) == 3
    vendor = view.median(view.row_of(recorded, SMALL)["all"][view.VENDOR], "warm")
    assert [round(vendor / us(recorded, SMALL, each), 2) for each in (LATE, ALONE)] == [0.96, 1.08]


def test_few_rows(recorded: dict[str, Any]) -> None:
    for shape in (Shape(16, 14336, 4096), Shape(64, 10240, 8192), Shape(128, 14336, 4096)):
        row = view.row_of(recorded, shape)
        floor = shape.bytes / waves.H100.memory * 1e-6
        assert 1 < view.median(row["times"][view.best(row)], "flushed") / floor < 1.11
        assert abs(view.ratio(row, view.best(row), "flushed") - 1) < 0.02
    assert round(waves.H100.memory / waves.H100.one, -1) == 70
    with_policies, without = (Plan(kernel, 2, 112, 7) for kernel in (plans.WEIGHTS, plans.EARLY))
    gain = us(recorded, shape, without) / us(recorded, shape, with_policies) - 1
    assert round(gain, 2) == 0.02
    both = (view.row_of(recorded, shape)["all"][str(each)]["warm_us"]
            for each in (with_policies, without))  # fmt: skip
    (_, _, high), (low, _, _) = (quantiles(each, n=4) for each in both)
    assert high > low


def test_the_model_chooses_well_at_fourteen(recorded: dict[str, Any]) -> None:
    lost = {
        Shape(*row["shape"]): view.median(row["times"][view.chosen(row)], "warm")
        / view.median(row["times"][view.best(row)], "warm") - 1
        for row in recorded["shapes"]
    }  # fmt: skip
    assert sum(each < 0.03 for each in lost.values()) == 14
    worst = sorted(lost, key=lost.__getitem__)[-2:]
    assert worst == [ODD, (256, 4096, 14336)] and round(lost[worst[1]], 1) == 0.1


def test_the_models_times_are_too_short_where_products_bind(recorded: dict[str, Any]) -> None:
    found = {}
    for row in recorded["shapes"]:
        shape = Shape(*row["shape"])
        said = waves.estimate(choose(shape), shape)
        assert str(choose(shape)) == view.chosen(row)
        found[shape] = said.binds, said.us / view.median(row["times"][view.chosen(row)], "warm")
    for binds, ratio in found.values():
        assert abs(ratio - 1) < 0.1 and (ratio < 1 or binds != "products")
    largest = sorted(found, key=lambda shape: shape.flop)[-4:]
    assert sorted(round(100 - 100 * found[shape][1]) for shape in largest)[:: 3] == [2, 7]
    drawn = view.modelled(recorded).alt
    assert "8192³: products bind 0.94" in drawn and "1024³: copies bind 1.10" in drawn


def test_tries(recorded: dict[str, Any]) -> None:
    row = recorded["tries"]
    lost = {
        name: [view.median(row["times"][name], way) / view.median(row["times"][tries.BASE], way) - 1
               for way in view.WAYS]
        for name in tries.TRIES
    }  # fmt: skip
    assert percent(lost["4 slots"]) == [5, 7] and abs(lost["6 slots"][0]) < 0.01
    for name in ("no product in flight while a slot is given back", "C from registers"):
        assert 0.29 < lost[name][0] < 1 / 3
    helpless = [name for name, each in tries.TRIES.items() if each.expected.startswith("faster")]
    assert len(helpless) == 3 and all(min(lost[name]) > 0.02 for name in helpless)


def test_the_same_plan_in_two_tables(recorded: dict[str, Any]) -> None:
    assert round(us(recorded, SMALL, ALONE), 2) == 5.31
    assert round(view.median(recorded["tries"]["times"][tries.BASE], "warm"), 2) == 5.14
    alone = [us(recorded, shape, ALONE) for shape in (ODD, SMALL)]
    assert round(alone[0] / alone[1], 2) == 1.84


def test_cuts(recorded: dict[str, Any]) -> None:
    measured = [cuts.ratios(recorded, *case) for case in cuts.CASES.values()]
    assert percent([each[cuts.MEASURED] - 1 for each in measured]) == [-2, -2, 0, 8, 12]
    assert percent([each[cuts.STEPS] - 1 for each in measured]) == [-5, -13, -3, -2, -1]
    assert measured[-1][cuts.MODEL] > 1.4
    last = [walk.tiles % walk.workers / walk.workers for walk in
            (waves.walk(plan, shape) for shape, plan in cuts.CASES.values())]  # fmt: skip
    assert [round(each, 2) for each in last] == [0.67, 0.06, 0.52, 0.91, 0.94]
    two, four = (Plan(plans.PAIRS, 2, 256, 4, pair=pair) for pair in (2, 4))
    assert [round(waves.copies_clocks(each, AWKWARD)) for each in (two, four)] == [1138, 853]
    assert waves.H100.in_fours == 4 * 30


def test_c_on_its_way_out(recorded: dict[str, Any]) -> None:
    large = Shape(8192, 8192, 8192)
    base = tries.FURTHER[3].base
    assert max(map(abs, more(recorded, large, replace(base, later=False)))) < 0.005
    turns = Plan(plans.PING_PONG, 2, 128, 6, pair=2)
    assert percent(more(recorded, large, turns)) == [18, 18]
    alone, square = Plan(plans.PAIRS, 2, 256, 4), Plan(plans.PAIRS, 2, 128, 6, pair=2)
    assert round(us(recorded, large, replace(alone, later=False)) / us(recorded, large, alone), 2) \
        == 1.02
    row = view.row_of({"shapes": recorded["further"]}, large)
    took = view.median(row["times"][str(turns)], "warm")
    assert abs(us(recorded, large, square) / took - 1) < 0.01


def test_what_did_not_work_at_1000(recorded: dict[str, Any]) -> None:
    base = tries.FURTHER[0].base
    fours = replace(base, pair=4), Plan(plans.PAIRS, 1, 160, 6, pair=4)
    assert [each.tiles(ODD) for each in fours] == [32, 28]
    assert min(more(recorded, ODD, fours[0])) > 0.1 and max(more(recorded, ODD, fours[1])) < 0
    assert percent(more(recorded, ODD, replace(base, pair=1))) == [23, 15]
    assert 0.12 < min(more(recorded, ODD, Plan(plans.SPLIT_K, 2, 128, 5, split=2))) < 0.14
    assert percent(more(recorded, ODD, Plan(plans.PING_PONG, 1, 128, 7, pair=2))) == [7, 6]
    warm, flushed = more(recorded, ODD, replace(base, early=False))
    assert round(warm, 2) == 0.07 and abs(flushed) < 0.01
    row = view.row_of(recorded, ODD)
    assert 1 < view.ratio(row, view.best(row), "flushed") < 1.02


def test_what_did_not_work_at_5000(recorded: dict[str, Any]) -> None:
    base = tries.FURTHER[1].base
    fours = replace(base, waves=1, pair=4)
    assert percent(more(recorded, AWKWARD, fours)) == [-5, -7]
    assert fours.tiles(AWKWARD) % 30 == 20 and base.tiles(AWKWARD) % 66 == 4
    assert percent(more(recorded, AWKWARD, replace(base, waves=1)))[0] == 20
    assert percent(more(recorded, AWKWARD, replace(base, slots=3, boxes=4))) == [4, 3]
    whole = Plan(plans.PAIRS, 2, 256, 4, pair=2, super=4)
    assert percent(more(recorded, AWKWARD, whole)) == [1, 7]


def test_what_did_not_work_at_a_layer(recorded: dict[str, Any]) -> None:
    tried = tries.FURTHER[2]
    row = view.row_of({"shapes": recorded["further"]}, tried.shape)
    level = [plan for plan in tried.plans if plan.kernel != plans.PING_PONG and plan.pair < 4]
    assert len(level) == 4
    for plan in level:
        assert max(map(abs, more(recorded, tried.shape, plan))) < 0.02
    names = [row["base"], view.VENDOR, *map(str, level)]
    assert all(abs(median(row["times"][name]["mhz"]) / 1600 - 1) < 0.02 for name in names)
    small = view.row_of({"shapes": recorded["further"]}, ODD)["times"]
    assert min(median(times["mhz"]) for times in small.values()) > 1800


def test_plans_have_names_of_their_own_that_are_short() -> None:
    tried = (plan for each in tries.FURTHER for plan in (each.base, *each.plans))
    every = {*PLANS, *CLUSTERS, *tried}
    assert len({plan.short for plan in every}) == len(every)
    assert all(len(plan.short) < len(str(plan)) and len(plan.short) < 45 for plan in every)
    bare = replace(PAIRS_EVERYWHERE, super=8)
    assert bare.short == "pairs 128 × 256 / 4"
    told = ("later", False), ("boxes", 4), ("super", 4), ("early", False), ("slots", 3)
    for field, value in told:
        assert replace(bare, **{field: value}).short != bare.short


def test_changes_stand_in_one_table_with_what_was_expected(recorded: dict[str, Any]) -> None:
    shapes = [each.shape for each in tries.FURTHER[1:]]
    table = view.changes_table(recorded, shapes)
    assert len({row[:2] for row in table.rows}) == len(table.rows)
    for column, each in enumerate(tries.FURTHER[1:]):
        told = {row[:2]: row[2 + column] for row in table.rows}
        for plan, expected in each.plans.items():
            cell = told[tries.change(plan, each.base), expected]
            assert cell == " / ".join(f"{x:+.1%}" for x in more(recorded, each.shape, plan))
        assert sum(cell != "–" for cell in told.values()) == len(each.plans) + 4


def test_the_last_wave_that_was_miscounted_says_so() -> None:
    large = tries.FURTHER[3]
    expected = next(said for plan, said in large.plans.items() if "2 tiles" in said)
    assert expected == ("slower: the last wave has 2 tiles [we miscounted: 34 pairs' tiles for 66 "
                        "pairs]")  # fmt: skip
    assert waves.walk(large.base, large.shape).workers == 66


def test_majors(recorded: dict[str, Any]) -> None:
    times = recorded["majors"]["times"]
    for ours in (True, False):
        all_of = [times[name] for name in times if name.startswith(view.VENDOR) != ours]
        assert len(all_of) == 4
        for way in view.WAYS:
            medians = [view.median(each, way) for each in all_of]
            assert max(medians) / min(medians) < 1.005


def test_any_k(recorded: dict[str, Any]) -> None:
    for row, cost, vendor in zip(recorded["any"], (0.5, 0.11), (1.85, 2.6), strict=True):
        copied, rounded, theirs = (view.median(each, "warm") for each in row["times"].values())
        assert abs(copied / rounded - 1 - cost) < 0.03 and abs(theirs / copied - vendor) < 0.05


def test_rows(ends: dict[str, Any]) -> None:
    for row, ours, vendor, behind in zip(
        ends["rows"], (1 / 7, 0.03), (0.23, 0.16), (0.11, 0.1), strict=True
    ):
        base, padded = row_ends.AS_THEY_ARE, row_ends.PADDED
        times = {name: view.median(each, "warm") for name, each in row["times"].items()}
        assert abs(1 - times[padded] / times[base] - ours) < 0.011
        theirs = times[f"{view.VENDOR}, {padded}"]
        assert abs(1 - theirs / times[f"{view.VENDOR}, {base}"] - vendor) < 0.011
        assert abs(times[padded] / theirs - 1 - behind) < 0.011


def test_promotion(ends: dict[str, Any]) -> None:
    for row in ends["promotion"]:
        for way in view.WAYS:
            none, some, most = (view.median(row["times"][each], way)
                                for each in row_ends.PROMOTIONS)  # fmt: skip
            assert abs(some / none - 1) < 0.0145
            if tuple(row["shape"]) in (ODD, AWKWARD):
                assert 0.015 < most / none - 1 < 0.055
            else:
                assert abs(most / none - 1) < 0.03


def test_narrower() -> None:
    seen = measure.read(narrower.NAME)
    for way in view.WAYS:
        slow, wide = (view.ratio(seen, f"{plan} NONE", way)
                      for plan in (narrower.NARROWER, narrower.WIDE))  # fmt: skip
        assert 0.095 < 1 - slow / wide < 0.115
        for plan in (narrower.NARROWER, narrower.WIDE):
            names = (f"{plan} L2_256B", f"{plan} NONE")
            assert view.ratio(seen, names[0], way) < view.ratio(seen, names[1], way)


def test_thirty_slips() -> None:
    assert len(shape_slips.SLIPS) == 30
