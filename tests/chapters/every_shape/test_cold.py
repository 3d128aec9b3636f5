"""The changes for cold caches, and the plan without its last tiles, compute what they should."""

import pytest

from phasebit.chapters.every_shape import cold, last_wave, on_emulator, plans
from phasebit.chapters.every_shape.cold import Change
from phasebit.chapters.every_shape.plans import Plan

ALONE, TWO_GROUPS = Plan(plans.EARLY, 1, 32, 3), Plan(plans.EARLY, 2, 96, 3)
WEIGHTS, FEW = Plan(plans.WEIGHTS, 1, 48, 3), Plan(plans.FEW, 1, 16, 3)
PAIRS = Plan(plans.PAIRS, 1, 32, 3, pair=2, later=False)
CASES = (
    (ALONE, Change(lines=True)), (ALONE, Change(tail=0)), (ALONE, Change(tail=0, dry=True)),
    (ALONE, Change(tail=1, lines=True)), (ALONE, Change(turned=True)),
    (TWO_GROUPS, Change(tail=0, dry=True, lines=True)), (TWO_GROUPS, Change(tail=2)),
    (WEIGHTS, Change(tail=1)), (WEIGHTS, Change(tail=0, dry=True, turned=True)),
    (FEW, Change(turned=True)),
    (PAIRS, Change(lines=True)), (PAIRS, Change(dry=True)), (PAIRS, Change(dry=True, lines=True)),
)  # fmt: skip


@pytest.mark.nvcc
@pytest.mark.parametrize("k", [40, 264])  # one step, and more than there are slots
@pytest.mark.parametrize(("plan", "change"), CASES, ids=lambda each: str(each))
def test_right_and_without_findings(plan: Plan, change: Change, k: int) -> None:
    m, n = (20, 136) if plan.swapped else (130, 136)
    done = on_emulator.multiply(cold.text(plan, change), m, n, k)
    assert done.exact and not done.run.findings, done.run.findings


def test_what_is_timed_fits_and_differs() -> None:
    for shape, pairs in cold.CHANGES.items():
        found = {cold.text(*each) for each in pairs}
        assert len(found) == len(pairs) and pairs[0][1] == Change(), shape


def test_parts_are_not_run_dry() -> None:
    with pytest.raises(ValueError, match="by warps"):
        cold.text(ALONE, Change(tail=1, dry=True))


@pytest.mark.nvcc
def test_the_last_tiles_alone_are_left_out() -> None:
    plan = Plan(plans.PAIRS, 1, 32, 3, pair=2)
    assert on_emulator.multiply(last_wave.only(9, plan), 256, 96, 136).exact
    assert not on_emulator.multiply(last_wave.only(5, plan), 256, 96, 136).exact
    assert last_wave.WHOLE.tiles(last_wave.SHAPE) == max(last_wave.COUNTS)
