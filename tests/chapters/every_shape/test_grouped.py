"""Producers that ask for several steps at a time, and slots of several steps, are right."""

from __future__ import annotations

import json

import pytest

from phasebit import files
from phasebit.chapters.every_shape import few_rows, grouped, on_emulator, plans
from phasebit.chapters.every_shape.plans import SHARED, Plan
from phasebit.chapters.every_shape.shapes import Shape
from phasebit.edits import replace_each
from phasebit.emulator import Schedule
from tests.kernels.emulated import emulate

_SLOTS = ((1, 2), (2, 3), (2, 4), (4, 5))
TEXTS = {
    **{f"{kernel}, {steps} of {slots}": grouped.together(Plan(kernel, 1, 16, slots), steps)
       for kernel in (plans.WEIGHTS, plans.FEW) for steps, slots in _SLOTS},
    "by warps": grouped.together(Plan(plans.BY_WARPS, 1, 32, 3), 2),
    **{f"pairs of {pair}": grouped.together(Plan(plans.PAIRS, 1, 64, 3, pair=pair), 2)
       for pair in (1, 2, 4)},
    **{f"K by two, turns {turns}": grouped.by_two(Plan(plans.SPLIT_K, 1, 32, 3, split=2), turns)
       for turns in (False, True)},
}  # fmt: skip


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("name", TEXTS)
def test_right_and_without_findings(name: str, schedule: Schedule) -> None:
    m, n = (10, 136) if plans.FEW in name else (200, 136) if "pairs" in name else (60, 72)
    done = on_emulator.multiply(TEXTS[name], m, n, 328, schedule=schedule)
    assert done.exact and done.clean and not done.run.findings, done.run.findings


@pytest.mark.nvcc
@pytest.mark.parametrize("k", [8, 712])
@pytest.mark.parametrize("name", [name for name in TEXTS if "pairs" not in name])
def test_one_step_and_many(name: str, k: int) -> None:
    m, n = (10, 136) if plans.FEW in name else (60, 72)
    done = on_emulator.multiply(TEXTS[name], m, n, k, schedule="random")
    assert done.exact and not done.run.findings, done.run.findings


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize(("steps", "slots", "eights"), [(2, 2, True), (4, 2, True), (2, 3, False)])
@pytest.mark.parametrize("kernel", [plans.WEIGHTS, plans.FEW])
def test_slots_of_several_steps_are_right(
    kernel: str, steps: int, slots: int, eights: bool, schedule: str
) -> None:
    plan = Plan(kernel, 2 if kernel == plans.FEW else 1, 16, slots)
    shape = ("10", "136") if plan.swapped else ("60", "72")
    text = grouped.deep(plan, steps, eights)
    done = emulate(text, *shape, "448", schedule=schedule)  # 7 steps: the last slot is not full
    assert done.ok and not done.stderr, done.stdout + done.stderr


@pytest.mark.nvcc
def test_a_slot_that_is_not_waited_for_is_found() -> None:
    """Of two slots the second must be free, too."""
    edit = ("        for (int i = 0; i < count; ++i, advance<SLOTS>(at, turn))\n"
            "            ptx::mbarrier_wait(", "        for (int i = 0; i < 1; ++i)\n"
            "            ptx::mbarrier_wait(")  # fmt: skip
    text = replace_each(TEXTS[f"{plans.WEIGHTS}, 2 of 3"], [edit])
    done = on_emulator.multiply(text, 60, 72, 712, schedule="late")
    assert done.run.findings or not done.exact


@pytest.mark.parametrize("shape", few_rows.PLANS | grouped.NEAR_ONE)
def test_what_is_timed_fits(shape: Shape) -> None:
    found = grouped.tried(shape)
    assert len(set(found.values())) == len(found) and grouped.AS_IT_IS in found
    for steps, slots in grouped._DEEP.get(shape, ()):
        plan = few_rows.PLANS[shape]
        assert slots * (steps * plan.slot + 16) <= SHARED and shape.k % (64 * steps) == 0
        assert shape.n % 8 == 0 and (plan.rows if plan.swapped else plan.bn) % 8 == 0


def test_the_other_shapes_have_the_plans_of_the_record() -> None:
    (path,) = files.records().glob("every_shape_processes.nvidia-h200.json")
    (run, *_) = json.loads(path.read_text("utf-8"))["processes"]
    names = {Shape(*row["shape"]): set(row["times"]) for row in run}
    for shape, plan in grouped.NEAR_ONE.items():
        assert str(plan) in names[shape]
