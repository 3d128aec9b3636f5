"""What a cut along K costs: plans with a cut over the same plans without, modelled and measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from phasebit import measure
from phasebit.chapters.every_shape import plans, view, waves
from phasebit.chapters.every_shape.plans import Plan
from phasebit.chapters.every_shape.shapes import Shape

if TYPE_CHECKING:
    from phasebit.draw import Picture

_FOURS = Plan(plans.STREAM, 2, 256, 4, pair=4, super=4, waves=1)
_PAIRS = Plan(plans.STREAM, 2, 256, 4, pair=2, waves=1)
_TWO_WAVES = Plan(plans.STREAM, 2, 256, 4, pair=2, super=4, waves=2)
_NARROW = Plan(plans.STREAM, 2, 128, 6, pair=2, waves=2)
CASES = {
    "5000³, fours": (Shape(5000, 5000, 5000), _FOURS),
    "5000³, pairs": (Shape(5000, 5000, 5000), _TWO_WAVES),
    "8192³, pairs": (Shape(8192, 8192, 8192), _PAIRS),
    "2048 × 6144 × 4096, pairs": (Shape(2048, 6144, 4096), _PAIRS),
    "2048³, pairs of 128 × 128": (Shape(2048, 2048, 2048), _NARROW),
}
"""What is drawn -> the shape, and the plan with a cut; tiles of 128 × 256 where none are named."""
STEPS, MODEL, MEASURED = "by its steps alone", "by the model", "measured, warm"
FREE = replace(waves.H200, join_us=0, further_us=0, cut=0)
"""As if sums were handed over in no time."""


def without(plan: Plan) -> Plan:
    """The same plan, which cuts no tile."""
    return replace(plan, kernel=plans.PAIRS, waves=0)


def ratios(record: Mapping[str, Any], shape: Shape, plan: Plan) -> dict[str, float]:
    """The time with a cut over that without."""
    times = view.row_of(record, shape)["all"]
    whole = waves.estimate(without(plan), shape).us
    return {
        STEPS: waves.estimate(plan, shape, FREE).us / whole,
        MODEL: waves.estimate(plan, shape).us / whole,
        MEASURED: view.median(times[str(plan)], "warm")
        / view.median(times[str(without(plan))], "warm"),
    }


def drawn(record: Mapping[str, Any]) -> Picture:
    """The three ratios of each case."""
    from phasebit.draw import dots

    return dots(
        {name: ratios(record, *case) for name, case in CASES.items()},
        x_label="time with a cut / without; below 1 the cut gains", line=1,
        title=f"The same plan with a cut along K; {measure.source(dict(record))}",
    )  # fmt: skip
