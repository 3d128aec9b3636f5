"""Which plan for which shape: by the model of waves and bytes, among some."""

from __future__ import annotations

from phasebit.chapters.every_shape import plans
from phasebit.chapters.every_shape.model import H200, Rates, estimate
from phasebit.chapters.every_shape.plans import Plan
from phasebit.chapters.every_shape.shapes import Shape

PLANS = (
    *(Plan(plans.EARLY, *each) for each in (
        (1, 128, 8), (2, 128, 6), (2, 192, 5), (2, 224, 5), (2, 256, 4))),
    *(Plan(plans.WEIGHTS, *each) for each in ((2, 112, 7), (1, 80, 12))),
    *(Plan(plans.FEW, *each) for each in ((2, 16, 10), (2, 64, 9), (1, 64, 13))),
    *(Plan(plans.PAIRS, groups, bn, slots, pair=2)
      for groups, bn, slots in ((1, 128, 7), (2, 128, 6), (2, 256, 4))),
    *(Plan(plans.PAIRS, 2, bn, 4) for bn in (192, 224, 256)),
    *(Plan(plans.STREAM, 2, 256, 4, pair=pair) for pair in (1, 2)),
)  # fmt: skip
"""Those that are built."""


def fits(plan: Plan, shape: Shape) -> bool:
    """Whether a plan is meant for such a shape at all."""
    if plan.kernel == plans.WEIGHTS:
        return shape.m <= 512
    if plan.kernel == plans.FEW:
        return shape.m <= 128
    return True


def candidates(shape: Shape, within: float = 1.4, rates: Rates = H200) -> list[Plan]:
    """The plans that the model thinks are nearly as good as its best, best first."""
    times = {plan: estimate(plan, shape, rates).us for plan in PLANS if fits(plan, shape)}
    least = min(times.values())
    return sorted((p for p, us in times.items() if us <= within * least), key=times.__getitem__)


def choose(shape: Shape, rates: Rates = H200) -> Plan:
    """The plan that the model thinks takes the least time."""
    return candidates(shape, rates=rates)[0]
