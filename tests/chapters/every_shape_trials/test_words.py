"""What the page of trials says in words of the records: a new measurement must keep it."""

from __future__ import annotations

import doctest
import re
from dataclasses import replace
from itertools import pairwise
from statistics import median, quantiles
from typing import Any

import pytest

from phasebit import measure
from phasebit.chapters.every_shape import (
    cold,
    cold_tables,
    few_rows,
    floor_of_reads,
    floor_texts,
    grouped,
    last_wave,
    narrower,
    plans,
    processes,
    record,
    row_ends,
    trial_pictures,
    trial_tables,
    tries,
    view,
    waves,
)
from phasebit.chapters.every_shape.choice import choose
from phasebit.chapters.every_shape.plans import Plan
from phasebit.chapters.every_shape.shapes import Shape
from tests.chapters.every_shape.times import ALONE, AWKWARD, LATE, ODD, SMALL, more, us


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    return measure.read(record.NAME)


@pytest.fixture(scope="module")
def ends() -> dict[str, Any]:
    return measure.read(row_ends.NAME)


def test_the_examples_hold() -> None:
    result = doctest.testmod(trial_tables)
    assert result.attempted and not result.failed


def test_how_many_came_true(recorded: dict[str, Any]) -> None:
    found = [*trial_tables.outcomes(recorded)]
    assert len(found) == len(tries.TRIES) + sum(len(each.plans) for each in tries.FURTHER) == 36
    assert len(tries.TRIES) == 11 and len({SMALL, *(each.shape for each in tries.FURTHER)}) == 5
    assert sum(expected == was for expected, was in found) == 19
    assert sum(expected == was for expected, was in found[:11]) == 4, "at 1024³"
    of = {word: [was for expected, was in found if expected == word]
          for word in trial_tables.EXPECTED}  # fmt: skip
    assert (len(of["faster"]), of["faster"].count("faster")) == (7, 1)
    assert (len(of["slower"]), of["slower"].count("slower")) == (22, 15)
    assert of["slower"].count("faster") == 1
    assert sum(was == "slower" for _, was in found) == 23
    table = trial_tables.expectations(recorded)
    assert sum(int(cell) for row in table.rows for cell in row[1:]) == 36
    assert table.rows[0] == ("faster", "1", "5", "1")


def test_policies(recorded: dict[str, Any]) -> None:
    shape = Shape(128, 14336, 4096)
    with_policies, without = (Plan(kernel, 2, 112, 7) for kernel in (plans.WEIGHTS, plans.EARLY))
    both = (view.row_of(recorded, shape)["all"][str(each)]["flushed_us"]
            for each in (with_policies, without))  # fmt: skip
    (first, _, third), (low, _, high) = (quantiles(each, n=4) for each in both)
    assert third > low and high > first
    said = trial_tables.policies(recorded)
    assert [row[0] for row in said.rows] == [plan.short for plan in (with_policies, without)]
    assert said.heading[0] == str(shape) and said.rows[1][2] == f"{low:.1f} to {high:.1f}"


def test_what_is_cold() -> None:
    found = measure.read(cold.NAME)
    changes = {}
    for row in found["states"]:
        us = {state: median(row["flushed_us"][state]) for state in cold.STATES}
        changes[Shape(*row["shape"])] = [us[state] / us["all cold"] - 1
                                         for state in cold.STATES[1:]]  # fmt: skip
    _, code, both = zip(*changes.values(), strict=True)
    assert f"{max(map(abs, code)):.1%}" == "1.3%" and max(code) > 0 > min(code)
    assert f"{-changes[SMALL][0]:.0%}" == "5%" and changes[ODD][0] > 0
    fewest = [changes[shape][0] for shape in (Shape(16, 14336, 4096), Shape(64, 10240, 8192))]
    assert sorted(round(-100 * each) for each in fewest) == [8, 10]
    assert changes[SMALL][2] > -0.1 and min(both[3:]) > 0
    assert len(cold_tables.states(found).rows) == 6


def test_what_was_tried_against_it() -> None:
    found = measure.read(cold.NAME)

    def percent(shape: Shape, what: str) -> list[int]:
        more = cold_tables.changed(found, shape, what)
        assert more is not None
        return [round(100 * each) for each in more]

    middle = Shape(2048, 2048, 2048)
    assert percent(SMALL, "by warps") == percent(SMALL, "by warps, dry") == [-4, -5]
    assert percent(middle, "parts") == [-4, -3] and percent(SMALL, "parts")[0] == 3
    assert percent(ODD, "dry")[0] == 9 and percent(middle, "lines")[1] == 8
    assert percent(SMALL, "turned")[0] == 27
    for what, least in (("lines", -0.005), ("turned", 0.005)):
        every = [cold_tables.changed(found, shape, what) for shape in cold.CHANGES]
        assert min(min(each) for each in every if each) > least
    assert cold_tables.changed(found, ODD, "parts") is None
    times = view.row_of(found, SMALL)["times"]
    six = next(iter(times))
    assert [f"{view.median(times[who], way):.1f}" for way in view.WAYS
            for who in (six, view.VENDOR)] == ["4.7", "5.3", "8.6", "8.3"]  # fmt: skip
    rows = drawn_rows(trial_pictures.against_cold(found))
    assert len(rows) == 16
    assert [round(each) for each in rows["by warps, 1024³ – the same"].values()] == [-4, -5]
    assert "turned, 1024³" in rows, "of which nothing was expected"
    assert f"turned, {Shape(16, 14336, 4096)} – faster where rows are few" in rows


def test_the_same_plan_in_two_runs(recorded: dict[str, Any]) -> None:
    shape = Shape(16, 14336, 4096)
    beside, row = (view.row_of(each, shape)
                   for each in (measure.read("every_shape_rivals"), recorded))  # fmt: skip
    best = view.best(row)
    assert f"{view.ratio(beside, f'ours: {best}', 'warm'):.3f}" == "1.142"
    anew = (view.row_of({"shapes": run}, shape)
            for run in measure.read(processes.NAME)["processes"])  # fmt: skip
    shares = [view.ratio(row, best, "warm"), *(processes.ratio(each, "warm_us") for each in anew)]
    assert {f"{each:.2f}" for each in shares} == {"1.03"}


def test_the_last_wave_alone() -> None:
    times = measure.read(last_wave.NAME)["times"]
    us = {name: view.median(each, "warm") for name, each in times.items()}
    clocks = {name: us[name] * median(each["mhz"]) for name, each in times.items()}
    five, six, _, all_ = (f"{count} tiles" for count in last_wave.COUNTS)
    assert (round(us[six] - us[five]), round(us[all_] - us[six])) == (56, 37)
    assert round(100 * (clocks[all_] - clocks[six]) / (clocks[six] - clocks[five])) == 94
    ideal = clocks[six] / (6 * 79) * waves.walk(last_wave.CUT, AWKWARD).clocks
    assert round(100 * (clocks[str(last_wave.CUT)] / ideal - 1)) == 4
    assert waves.walk(last_wave.CUT, AWKWARD).clocks == 479


def test_fours_at_5000() -> None:
    two, four = (Plan(plans.PAIRS, 2, 256, 4, pair=pair) for pair in (2, 4))
    assert [round(waves.copies_clocks(each, AWKWARD)) for each in (two, four)] == [1138, 853]
    assert waves.products_clocks(two) == 1024 and waves.estimate(two, AWKWARD).binds == "copies"
    assert waves.H100.in_fours == 4 * 30


def test_tries(recorded: dict[str, Any]) -> None:
    row = recorded["tries"]
    lost = {
        name: [view.median(row["times"][name], way) / view.median(row["times"][tries.BASE], way) - 1
               for way in view.WAYS]
        for name in tries.TRIES
    }  # fmt: skip
    said = {name: [round(100 * each) for each in both] for name, both in lost.items()}
    assert said["6 slots"][1] == 3 and said["4 slots"][0] == -2
    assert [name for name in lost if lost[name][0] < -0.02] == ["6 slots", "4 slots"]
    assert said["fours that share B"][0] == 57 and said["128 × 128, cut along K"][0] == 94
    over = [name for name in ("4 slots", "no product in flight while a slot is given back",
                              "pairs that share B") if lost[name][0] > 0.1]  # fmt: skip
    assert len(over) == 2 and "4 slots" not in over
    assert round(lost["4 slots"][1], 1) == 0.2
    assert 0.05 < lost["no early launch"][0] < 0.12 and lost["no early launch"][1] < 0.02
    assert 1 / 4 < lost["no product in flight while a slot is given back"][0] < 0.3
    assert round(lost["C from registers"][0], 1) == 0.2
    helpless = [name for name, each in tries.TRIES.items() if each.expected.startswith("faster")]
    assert len(helpless) == 3 and all(min(lost[name]) > 0.02 for name in helpless)


def test_a_tile_for_two_blocks(recorded: dict[str, Any]) -> None:
    """At the shape where the model chooses it: early launches, and whole tiles without one."""
    shape, halves = Shape(256, 4096, 14336), Plan(plans.SPLIT_K, 2, 128, 5, split=2)
    assert choose(shape) == halves and halves.early and halves == replace(halves, early=True)
    whole, early, split = (us(recorded, shape, each) for each in (LATE, ALONE, halves))
    assert whole < split < early
    row = view.row_of(recorded, shape)
    assert view.best(row) == str(LATE) and str(replace(halves, early=False)) not in row["all"]


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
    by_turns = view.median(row["times"][str(turns)], "warm")
    by_turns /= view.median(row["times"][str(base)], "warm")
    wide = Plan(plans.PAIRS, 2, 256, 4, pair=2)
    assert abs(us(recorded, large, square) / us(recorded, large, wide) - by_turns) < 0.01


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
    assert gains == [] and max(map(abs, more(recorded, AWKWARD, fours))) < 0.01
    (earlier,) = (each for each in measure.every(record.NAME) if "H100" in each["gpu"])
    assert max(more(earlier, AWKWARD, fours)) < -0.02
    assert fours.tiles(AWKWARD) % 30 == 20 and base.tiles(AWKWARD) % 66 == 4
    assert min(more(recorded, AWKWARD, replace(base, waves=1))) > 0.1
    whole = Plan(plans.PAIRS, 2, 256, 4, pair=2, super=4)
    cut = replace(whole, kernel=plans.STREAM, waves=1)
    steps = [waves.walk(plan, AWKWARD).clocks for plan in (whole, cut)]
    assert round(100 * (steps[0] / steps[1] - 1)) == 15
    assert [round(100 * lost) for lost in more(recorded, AWKWARD, whole)] == [6, 8]
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


def test_the_clocks_that_the_page_names(recorded: dict[str, Any]) -> None:
    def mhz(shape: Shape) -> dict[str, float]:
        row = view.row_of({"shapes": recorded["further"]}, shape)
        return {name: median(times["mhz"]) for name, times in row["times"].items()}

    large, layer = (tries.FURTHER[place] for place in (3, 2))
    turns = Plan(plans.PING_PONG, 2, 128, 6, pair=2)
    of = mhz(large.shape)
    assert (round(of[str(turns)]), round(of[str(large.base)])) == (1462, 1568)
    level = [clock for tried in (large, layer) for name, clock in mhz(tried.shape).items()
             if name == str(tried.base) or (name in map(str, tried.plans)
             and max(map(abs, more(recorded, tried.shape, name))) < 0.02)]  # fmt: skip
    assert (len(level), round(min(level)), round(max(level))) == (10, 1568, 1635)
    whole = Plan(plans.PAIRS, 2, 256, 4, pair=2, super=4)
    of = mhz(AWKWARD)
    assert (round(of[str(whole)]), round(of[str(tries.FURTHER[1].base)])) == (1625, 1575)


def drawn_rows(picture: Any) -> dict[str, dict[str, float]]:
    """Row of a picture -> its times, in per cent, as its sentence says them."""
    found = {}
    for line in str(picture).splitlines()[1:]:
        label, _, values = line.rpartition(": ")
        found[label] = {name: float(value) for name, value in
                        re.findall(r"(?:^|, )(.+?) ([+-][\d.]+)%", values)}  # fmt: skip
    return found


def test_the_picture_of_the_small_square_has_every_try(recorded: dict[str, Any]) -> None:
    row, rows = recorded["tries"], drawn_rows(trial_pictures.small(recorded))
    assert len(rows) == len(tries.TRIES)
    for (label, said), (name, each) in zip(rows.items(), tries.TRIES.items(), strict=True):
        assert label == f"{name} – {each.expected}"
        for way in view.WAYS:
            more = view.median(row["times"][name], way) / view.median(row["times"][tries.BASE], way)
            assert said[way] == round(100 * (more - 1), 1)


@pytest.mark.parametrize("some", [[0], [3, 2], [1]])
def test_a_picture_has_every_change_at_its_shapes(
    recorded: dict[str, Any], some: list[int]
) -> None:
    """A row for each change and what was expected of it; the vendor has the last."""
    tried = [tries.FURTHER[n] for n in some]
    rows = drawn_rows(trial_pictures.further(recorded, *(each.shape for each in tried)))
    *labels, last = rows
    assert last == view.VENDOR and sum(map(len, rows.values())) == 2 * sum(
        len(each.plans) + 1 for each in tried
    )
    for each in tried:
        for plan, expected in each.plans.items():
            name = plan.short if len(tried) == 1 else tries.change(plan, each.base)
            said = rows[f"{name} – {expected}"]
            for way, long in zip(view.WAYS, more(recorded, each.shape, plan), strict=True):
                key = way if len(tried) == 1 else f"{each.shape}, {way}"
                assert said[key] == round(100 * long, 1)
    assert len({*labels}) == len(labels)


def test_what_is_shaded_is_what_was_expected() -> None:
    assert doctest.testmod(trial_pictures) == (0, 1)
    assert trial_pictures.zone("faster: a third fewer bytes from L2")[1] == -2


def test_which_changes_cost_at_large_products(recorded: dict[str, Any]) -> None:
    """The three of the guess; and fours, of which the page says how much."""
    rows = drawn_rows(trial_pictures.further(recorded, *(tries.FURTHER[n].shape for n in (3, 2))))
    asked = "C at once", "blocks alone, no cut", "ping-pong, 128 × 128"
    of = {name: rows[label] for name in asked for label in rows if label.startswith(f"{name} –")}
    assert [name for name in of if max(of[name].values()) > 2] == ["ping-pong, 128 × 128"]
    (fours,) = (rows[label] for label in rows if label.startswith("fours, no cut"))
    assert [round(each) for way, each in fours.items() if "warm" in way] == [7, 2]
    vendor = rows[view.VENDOR].values()
    assert [round(each) for each in vendor][:2] == [2, 2] and max(map(abs, [*vendor][2:])) < 2


def test_the_last_wave_that_was_miscounted_says_so() -> None:
    large = tries.FURTHER[3]
    expected = next(said for plan, said in large.plans.items() if "2 tiles" in said)
    assert expected == ("slower: the last wave has 2 tiles [we miscounted: 34 pairs' tiles for 66 "
                        "pairs]")  # fmt: skip
    assert waves.walk(large.base, large.shape).workers == 66


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


def test_few_rows() -> None:
    """What goes with the products, what the changes cost, and that cuBLAS is near."""
    found: dict[str, list[float]] = {}
    for row in measure.read(few_rows.NAME)["shapes"]:
        whole = view.median(row["times"][few_rows.WHOLE], "flushed")
        for name, times in row["times"].items():
            found.setdefault(name, []).append(view.median(times, "flushed") / whole - 1)
    assert all(-0.03 < more < -0.01 for more in found[few_rows.NO_PRODUCTS])
    assert all(abs(more) < 0.02 for more in found[view.VENDOR])
    assert [f"{more:.0%}" for more in sorted(found[few_rows.AHEAD])][::2] == ["6%", "17%"]
    rows = drawn_rows(trial_pictures.few(measure.read(few_rows.NAME)))
    assert [row.partition(" – ")[0] for row in rows] == [
        few_rows.NO_PRODUCTS, few_rows.AHEAD, *few_rows.SHARED, view.VENDOR]  # fmt: skip
    assert [*map(len, rows.values())] == [3, 3, 2, 2, 3]
    two, four = (found[name] for name in few_rows.SHARED)
    assert all(0.005 < more < 0.02 for more in two)
    assert [f"{more:.0%}" for more in four] == ["21%", "31%"]


def test_how_long_the_weights_must_take() -> None:
    """A launch, and its bytes at the rate at which many more are read; the rest by its parts."""
    floor = measure.read(floor_of_reads.NAME)

    def took(row: dict[str, Any], name: str) -> float:
        return view.median(row["times"][name], "flushed")

    def rate(row: dict[str, Any], us: float) -> float:
        return row["bytes"] / us / 1e6  # TB/s

    rows = floor["shapes"]
    assert [row["shape"][0] for row in rows] == [16, 64, 128]
    least = [trial_pictures.least(row) for row in rows]
    whole = [took(row, few_rows.WHOLE) for row in rows]
    assert [round(100 * (1 - a / b)) for a, b in zip(least, whole, strict=True)] == [5, 10, 13]
    assert f"{least[0]:.1f} {whole[0]:.1f}" == "29.2 30.9"
    for row, read in zip(rows, least, strict=True):
        nothing = took(row, floor_texts.NOTHING)
        assert f"{nothing:.1f}" in ("3.5", "3.6")
        assert f"{rate(row, read - nothing):.1f}" == "4.6"
    many = floor["steady"]
    assert many["bytes"] == 8 * rows[0]["bytes"]
    reads = min(took(many, way) for way in many["times"]) - took(rows[0], floor_texts.NOTHING)
    assert f"{rate(many, reads):.1f}" == "4.7"
    sooner = [[took(row, floor_texts.PLANS_BOXES) - took(row, way)
               for way in (trial_pictures.TURNS, trial_pictures.WIDER)]
              for row in rows]  # fmt: skip
    assert max(map(abs, sooner[0])) < 0.15
    gains = [each / us for some, us in zip(sooner[1:], whole[1:], strict=True) for each in some]
    assert (f"{min(gains):.0%}", f"{max(gains):.0%}") == ("1%", "5%")
    for row, read, said in zip(rows[1:], least[1:], ([5, 3, 3], [6, 4, 4]), strict=True):
        steps = [read, *(took(row, name) for name in (
            floor_texts.PLANS_BOXES, few_rows.NO_PRODUCTS, few_rows.WHOLE))]  # fmt: skip
        assert [round(100 * (b - a) / steps[-1]) for a, b in pairwise(steps)] == said
    drawn = drawn_rows(trial_pictures.floor(floor))
    fastest, *others = drawn
    assert fastest == "weights, fastest of 19 ways" and others == [*trial_pictures.FLOOR]
    assert [round(each) for each in drawn[fastest].values()] == [-5, -10, -13]
    assert {*map(len, drawn.values())} == {3}


def test_two_steps_at_a_time() -> None:
    gained = measure.read(grouped.NAME)
    rows = {Shape(*row["shape"]): row["times"] for row in gained["shapes"]}

    def took(shape: Shape, name: str, way: str = "flushed") -> float:
        return view.median(rows[shape][name], way)

    few, odd, many = few_rows.PLANS
    assert [few_rows.PLANS[shape].slots for shape in (few, odd, many)] == [6, 12, 7]
    drawn = drawn_rows(trial_pictures.grouped(gained))
    assert [*drawn] == [*trial_pictures.TWO_STEPS] and {*map(len, drawn.values())} == {3}
    more = {(shape, name): took(shape, known) / took(shape, grouped.AS_IT_IS) - 1
            for shape in (few, odd, many) for name in trial_pictures.TWO_STEPS
            for pairs in [few_rows.PLANS[shape].slots // 2] for known in rows[shape]
            if known.removesuffix(f", {pairs} slots") == name}  # fmt: skip
    assert len(more) == 9
    gains = [-100 * more[odd, each] for each in trial_pictures.TWO_STEPS]
    assert min(gains) > 1.5 and sorted(gains)[1] < 2 and round(gains[2]) == 3
    low, _, _ = quantiles(rows[odd][grouped.AS_IT_IS]["flushed_us"], n=4)
    assert all(quantiles(times["flushed_us"], n=4)[2] > low for name, times in rows[odd].items()
               if name.partition(", ")[0] in trial_pictures.TWO_STEPS)  # fmt: skip
    alone, two = (
        took(few, f"{each}, 12 slots") for each in (grouped.AS_IT_IS, grouped.STEPS.format(2))
    )
    assert 0 < two / alone - 1 < 0.02
    assert min(each for (shape, _), each in more.items() if shape != odd) > 0.02
    vendor = took(odd, view.VENDOR)
    assert abs(took(odd, grouped.ONE_BOX) / vendor - 1) < 0.01
    assert round(100 * took(odd, grouped.AS_IT_IS) / vendor) == 103
    warm = took(odd, grouped.ONE_BOX, "warm") / took(odd, grouped.AS_IT_IS, "warm")
    assert round(100 * (1 - warm)) == 2
    cost = sorted(took(shape, grouped.STEPS.format(2)) / took(shape, grouped.AS_IT_IS) - 1
                  for shape in grouped.NEAR_ONE)  # fmt: skip
    assert [f"{each:.0%}" for each in cost][::3] == ["10%", "17%"]
