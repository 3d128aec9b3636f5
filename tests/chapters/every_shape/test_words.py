"""What the page says in words of its records: a new measurement must keep it."""

from __future__ import annotations

from dataclasses import replace
from statistics import median, quantiles
from typing import Any

import pytest

from phasebit import measure
from phasebit.chapters.every_shape import (
    cuts,
    narrower,
    open_kernels,
    plans,
    record,
    row_ends,
    shape_slips,
    shape_tables,
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


def test_the_table_of_aims_says_what_the_record_holds(recorded: dict[str, Any]) -> None:
    fastest, chosen, pairs = shape_tables.summaries(recorded).rows
    best = view.summary(recorded)
    assert fastest[1:3] == tuple(f"{best[f'warm, {what}']:.3f}"
                                 for what in ("geometric mean", "least"))  # fmt: skip
    assert float(pairs[1]) < float(chosen[1]) < float(fastest[1])


def test_what_is_shown_had_no_part_in_the_choice(recorded: dict[str, Any]) -> None:
    for row in recorded["shapes"]:
        assert view.best(row) == fastest_of(row["all"])
        for name, times in row["times"].items():
            before = row["all"][name]["warm_us"]
            assert times["warm_us"][: len(before)] != before


def test_leads_are_largest_at_small_products(recorded: dict[str, Any]) -> None:
    rows = sorted(recorded["shapes"], key=lambda row: Shape(*row["shape"]).flop)
    leads = {Shape(*row["shape"]): [view.ratio(row, view.best(row), way) for way in view.WAYS]
             for row in rows}  # fmt: skip
    *_, third, second, first = sorted(leads, key=lambda shape: leads[shape][0])
    assert [first, second, third] == [ODD, Shape(16, 14336, 4096), SMALL]
    shapes = list(leads)
    large = shapes[shapes.index(Shape(4096, 4096, 4096)) :]
    assert len(large) == 6 and max(max(leads[shape]) for shape in large) < 1.03


def test_the_table_of_losses_has_the_largest_first(recorded: dict[str, Any]) -> None:
    said = [float(row[-1].rstrip("%")) for row in view.lost(recorded, 16).rows]
    assert said == sorted(said, reverse=True)
    assert view.lost(recorded, 3).rows == view.lost(recorded, 16).rows[:3]
    assert sum(each < 3 for each in said) == 14 and len(said) == 16


def test_where_open_kernels_are_ahead() -> None:
    beside = measure.read(open_kernels.NAME)
    said = shape_tables.ahead(beside).splitlines()
    assert len(said) == 2 and all(float(line.split()[-1].rstrip("%")) < 3 for line in said)
    means = view.makers_table(beside).rows[-1][1:]
    assert all(f" {mean}" in shape_tables.rates_of_makers(beside) for mean in means)
    for row in beside["shapes"]:
        shares = view.by_maker(row, "warm")
        for who in shares.keys() - {"ours", view.VENDOR}:
            line = any(each.startswith(f"{who} ") and f" {Shape(*row['shape'])}," in each
                       for each in said)  # fmt: skip
            assert line == (shares[who] > shares["ours"])


def test_which_are_decided(recorded: dict[str, Any]) -> None:
    """By the middle halves of the times: who is named is faster by the medians, too."""
    for way in view.WAYS:
        for who, shapes in shape_tables.decided(recorded, way).items():
            for shape in shapes:
                row = view.row_of(recorded, shape)
                assert (view.ratio(row, view.best(row), way) > 1) == (who == "ours")


def test_early_launch(recorded: dict[str, Any]) -> None:
    table = shape_tables.early(recorded, SMALL, *shape_tables.OTHERS)
    changes = {row[0]: int(row[4].rstrip("%")) for row in table.rows}
    worst = max(changes, key=changes.__getitem__)
    assert worst == "64 × 10240 × 8192" and changes[worst] > 10
    blocks = {row[0]: row[1] for row in table.rows}
    assert blocks["256 × 4096 × 14336"] == blocks["1024³"] and changes["1024³"] < 0
    assert sum(each > 0 for each in changes.values()) == 4
    vendor = view.median(view.row_of(recorded, SMALL)["all"][view.VENDOR], "warm")
    assert us(recorded, SMALL, ALONE) < vendor < us(recorded, SMALL, LATE)


def test_few_rows(recorded: dict[str, Any]) -> None:
    for shape in (Shape(16, 14336, 4096), Shape(64, 10240, 8192), Shape(128, 14336, 4096)):
        row = view.row_of(recorded, shape)
        floor = shape.bytes / waves.H200.memory * 1e-6
        assert 1 < view.median(row["times"][view.best(row)], "flushed") / floor < 1.2
        assert abs(view.ratio(row, view.best(row), "flushed") - 1) < 0.06
    assert round(waves.H200.memory / waves.H200.one, -1) == 100
    with_policies, without = (Plan(kernel, 2, 112, 7) for kernel in (plans.WEIGHTS, plans.EARLY))
    both = (view.row_of(recorded, shape)["all"][str(each)]["flushed_us"]
            for each in (with_policies, without))  # fmt: skip
    (first, _, third), (low, _, high) = (quantiles(each, n=4) for each in both)
    assert third > low and high > first
    said = shape_tables.policies(recorded)
    assert [row[0] for row in said.rows] == [plan.short for plan in (with_policies, without)]
    assert said.heading[0] == str(shape) and said.rows[1][2] == f"{low:.1f} to {high:.1f}"


def test_where_the_model_chooses_worst(recorded: dict[str, Any]) -> None:
    lost = {
        Shape(*row["shape"]): view.median(row["times"][view.chosen(row)], "warm")
        / view.median(row["times"][view.best(row)], "warm") - 1
        for row in recorded["shapes"]
    }  # fmt: skip
    *others, first, second = sorted(lost, key=lost.__getitem__)
    assert {first, second} == {ODD, (256, 4096, 14336)}
    assert lost[others[-1]] < 0.03 < lost[first]


def test_the_models_times_are_too_short_where_products_bind(recorded: dict[str, Any]) -> None:
    found = {}
    for row in recorded["shapes"]:
        shape = Shape(*row["shape"])
        said = waves.estimate(choose(shape), shape)
        assert str(choose(shape)) == view.chosen(row)
        found[shape] = said.binds, said.us / view.median(row["times"][view.chosen(row)], "warm")
    for binds, ratio in found.values():
        assert ratio < 1 or binds != "products"
    others = [ratio for binds, ratio in found.values() if binds != "products"]
    assert sum(ratio > 1 for ratio in others) > len(others) / 2
    row = view.row_of(recorded, Shape(2048, 2048, 2048))
    assert median(row["times"][view.chosen(row)]["mhz"]) / 1000 > waves.H200.ghz
    drawn = view.modelled(recorded).alt
    assert all(f"{shape}: {binds} bind" in drawn for shape, (binds, _) in found.items())


def test_tries(recorded: dict[str, Any]) -> None:
    row = recorded["tries"]
    lost = {
        name: [view.median(row["times"][name], way) / view.median(row["times"][tries.BASE], way) - 1
               for way in view.WAYS]
        for name in tries.TRIES
    }  # fmt: skip
    assert max(map(abs, lost["6 slots"])) < 0.045
    assert abs(lost["4 slots"][0]) < 0.01 and round(lost["4 slots"][1], 1) == 0.2
    assert 0.095 < lost["no early launch"][0] < 0.12 and lost["no early launch"][1] < 0.02
    assert 1 / 3 < lost["no product in flight while a slot is given back"][0] < 0.4
    assert round(lost["C from registers"][0], 1) == 0.3 and lost["C from registers"][0] < 0.27
    helpless = [name for name, each in tries.TRIES.items() if each.expected.startswith("faster")]
    assert len(helpless) == 3 and all(min(lost[name]) > 0.02 for name in helpless)


def test_some_of_the_tries_are_rows_of_the_whole(recorded: dict[str, Any]) -> None:
    whole, some = view.tries_table(recorded), ("4 slots", "C from registers")
    assert view.tries_table(recorded, some).rows == tuple(r for r in whole.rows if r[0] in some)


def test_a_tile_for_two_blocks(recorded: dict[str, Any]) -> None:
    """At the shape where the model chooses it: early launches, and whole tiles without one."""
    shape, halves = Shape(256, 4096, 14336), Plan(plans.SPLIT_K, 2, 128, 5, split=2)
    assert choose(shape) == halves and halves.early and halves == replace(halves, early=True)
    whole, early, split = (us(recorded, shape, each) for each in (LATE, ALONE, halves))
    assert whole < split < early
    row = view.row_of(recorded, shape)
    assert view.best(row) == str(LATE) and str(replace(halves, early=False)) not in row["all"]


def test_rows_inside_lines_cost_blocks_alone_nearly_all_again(recorded: dict[str, Any]) -> None:
    alone = [us(recorded, shape, ALONE) for shape in (ODD, SMALL)]
    assert f"{alone[0] / alone[1]:.1f}" == "1.6"


def test_cuts(recorded: dict[str, Any]) -> None:
    measured = [cuts.ratios(recorded, *case) for case in cuts.CASES.values()]
    fours, two, large, *full = (each[cuts.MEASURED] for each in measured)
    assert 0.93 < min(fours, two) <= max(fours, two) < 1 < min(full) and abs(large - 1) < 0.01
    by_steps = [each[cuts.STEPS] for each in measured]
    assert max(by_steps) < 1 and min(by_steps) == by_steps[1]
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
    assert min(more(recorded, large, turns)) > 0.06
    alone, square = Plan(plans.PAIRS, 2, 256, 4), Plan(plans.PAIRS, 2, 128, 6, pair=2)
    at_once = us(recorded, large, replace(alone, later=False))
    assert 1.01 < at_once / us(recorded, large, alone) < 1.1
    row = view.row_of({"shapes": recorded["further"]}, large)
    took = view.median(row["times"][str(turns)], "warm")
    assert abs(us(recorded, large, square) / took - 1) < 0.01


def test_what_did_not_work_at_1000(recorded: dict[str, Any]) -> None:
    base = tries.FURTHER[0].base
    fours = replace(base, pair=4), Plan(plans.PAIRS, 1, 160, 6, pair=4)
    assert [each.tiles(ODD) for each in fours] == [32, 28]
    assert min(more(recorded, ODD, fours[0])) > 0.1 and max(more(recorded, ODD, fours[1])) < 0
    base_us = view.row_of({"shapes": recorded["further"]}, ODD)["times"]
    warm = {name: view.median(times, "warm") for name, times in base_us.items()}
    assert [name for name in warm if warm[name] < warm[str(base)]] == [str(fours[1])]
    for slower in (replace(base, pair=1), Plan(plans.SPLIT_K, 2, 128, 5, split=2),
                   Plan(plans.PING_PONG, 1, 128, 7, pair=2)):  # fmt: skip
        assert min(more(recorded, ODD, slower)) > 0.03


def test_what_did_not_work_at_5000(recorded: dict[str, Any]) -> None:
    base = tries.FURTHER[1].base
    fours = replace(base, waves=1, pair=4)
    gains = [plan for tried in tries.FURTHER[1:] for plan in tried.plans
             if min(more(recorded, tried.shape, plan)) < -0.02]  # fmt: skip
    assert gains == [] and max(map(abs, more(recorded, AWKWARD, fours))) < 0.005
    (earlier,) = (each for each in measure.every(record.NAME) if "H100" in each["gpu"])
    assert max(more(earlier, AWKWARD, fours)) < -0.02
    assert fours.tiles(AWKWARD) % 30 == 20 and base.tiles(AWKWARD) % 66 == 4
    assert min(more(recorded, AWKWARD, replace(base, waves=1))) > 0.1
    whole = Plan(plans.PAIRS, 2, 256, 4, pair=2, super=4)
    cut = replace(whole, kernel=plans.STREAM, waves=1)
    steps = [waves.walk(plan, AWKWARD).clocks for plan in (whole, cut)]
    for lost in more(recorded, AWKWARD, whole):
        assert 0.35 < lost / (steps[0] / steps[1] - 1) < 0.6
    times = view.row_of({"shapes": recorded["further"]}, AWKWARD)["times"]
    clocks = [median(times[str(plan)]["mhz"]) for plan in (whole, base)]
    assert f"{clocks[0] / clocks[1]:.2f}" == "1.03"
    for tried in tries.FURTHER[2:]:
        assert all(min(more(recorded, tried.shape, plan)) > -0.02 for plan in tried.plans)


def test_what_did_not_work_at_a_layer(recorded: dict[str, Any]) -> None:
    tried = tries.FURTHER[2]
    row = view.row_of({"shapes": recorded["further"]}, tried.shape)
    level = [plan for plan in tried.plans if plan.kernel != plans.PING_PONG and plan.pair < 4]
    assert len(level) == 4
    for plan in level:
        assert max(map(abs, more(recorded, tried.shape, plan))) < 0.02
    names = [row["base"], view.VENDOR, *map(str, level)]
    clocks = [median(row["times"][name]["mhz"]) for name in names]
    small = view.row_of({"shapes": recorded["further"]}, ODD)["times"]
    fast = min(median(times["mhz"]) for times in small.values())
    assert max(clocks) < 1.03 * min(clocks) and max(clocks) < 0.95 * fast


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


def test_some_rows_of_a_table_are_those_of_the_whole(recorded: dict[str, Any]) -> None:
    """The rows that the page shows before the tables that it folds."""
    hard = [each.shape for each in tries.FURTHER[1:]]
    whole, names = view.changes_table(recorded, hard), {"C at once", "no cut"}
    few = view.changes_table(recorded, hard, [*names])
    assert few.rows == (whole.rows[0], *(row for row in whole.rows if row[0] in names))
    every = view.further_table(recorded, ODD)
    fours = view.further_table(recorded, ODD, ["fours 64 × 160 / 6"])
    assert fours.rows == (every.rows[0], next(r for r in every.rows if "64 × 160" in r[0]))
    large = view.changes_table(recorded, hard[1:], ("C at once", "blocks alone, no cut",
                                                    "ping-pong, 128 × 128"))  # fmt: skip
    costs = {row[0]: [float(each.rstrip("%")) for cell in row[2:] for each in cell.split(" / ")]
             for row in large.rows[1:]}  # fmt: skip
    assert [name for name, each in costs.items() if max(each) > 2] == ["ping-pong, 128 × 128"]


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
    costs = []
    for row in recorded["any"]:
        copied, rounded, theirs = (view.median(each, "warm") for each in row["times"].values())
        costs.append(copied / rounded - 1)
        assert theirs > copied
    assert abs(costs[0] - 0.5) < 0.1 and costs[1] < costs[0] / 3


def test_rows(ends: dict[str, Any]) -> None:
    for row, said in zip(ends["rows"], zip(*[iter(view.rows_table(ends).rows)] * 2, strict=True),
                         strict=True):  # fmt: skip
        ours, vendor = (int(each[-1].rstrip("%")) for each in said)
        assert 0 < ours < vendor
        padded = view.median(row["times"][row_ends.PADDED], "warm")
        assert padded > view.median(row["times"][f"{view.VENDOR}, {row_ends.PADDED}"], "warm")


def test_promotion(ends: dict[str, Any]) -> None:
    changes = []
    for row in ends["promotion"]:
        for way in view.WAYS:
            none, *some = (view.median(row["times"][each], way) for each in row_ends.PROMOTIONS)
            changes += [each / none - 1 for each in some]
    assert min(changes) > -0.01 and 0.05 < max(changes) < 0.055
    assert choose(AWKWARD).pair == 4
    times = view.row_of({"shapes": ends["promotion"]}, AWKWARD)["times"]
    plain, *promoted = (view.median(times[each], "warm") for each in row_ends.PROMOTIONS)
    assert all(abs(each / plain - 1) < 0.005 for each in promoted)


def test_narrower() -> None:
    seen = measure.read(narrower.NAME)
    for way in view.WAYS:
        slow, wide = (view.ratio(seen, f"{plan} NONE", way)
                      for plan in (narrower.NARROWER, narrower.WIDE))  # fmt: skip
        assert 0.035 < 1 - slow / wide < 0.055
        for plan in (narrower.NARROWER, narrower.WIDE):
            names = (f"{plan} L2_256B", f"{plan} NONE")
            promoted, plain = (view.ratio(seen, each, way) for each in names)
            assert 0.09 < 1 - promoted / plain < 0.12


def test_thirty_slips() -> None:
    assert len(shape_slips.SLIPS) == 30
