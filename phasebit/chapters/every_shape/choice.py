"""Which plan for which shape: by the model of waves and bytes, among some."""

from __future__ import annotations

from phasebit.chapters.every_shape import plans
from phasebit.chapters.every_shape.plans import Plan
from phasebit.chapters.every_shape.shapes import Shape
from phasebit.chapters.every_shape.waves import H200, Rates, estimate

PAIRS_EVERYWHERE = Plan(plans.PAIRS, 2, 256, 4, pair=2)
"""The kernel of the chapters before this one."""

CLUSTERS = tuple(
    Plan(kernel, 1, 128, slots, pair=pair)
    for kernel, slots, pair in ((plans.EARLY, 8, 1), (plans.PAIRS, 7, 2), (plans.PAIRS, 7, 4))
)
"""The same tile by a block alone, by two and by four that share B."""

SMALL_SQUARES = (Shape(1024, 1024, 1024), Shape(1000, 1000, 1000))
"""Where :data:`CLUSTERS` are timed, too."""

PLANS = (
    PAIRS_EVERYWHERE,
    *(Plan(kernel, *each) for kernel in (plans.EARLY, plans.SMALL) for each in (
        (1, 128, 8), (2, 64, 9), (2, 112, 7), (2, 128, 6), (2, 192, 5), (2, 224, 5))),
    Plan(plans.EARLY, 2, 256, 4),
    *(Plan(plans.WEIGHTS, *each, early=early)
      for each in ((2, 112, 7), (1, 80, 12), (1, 80, 6)) for early in (True, False)),
    *(Plan(plans.FEW, 2, 16, slots, early=early)
      for slots in (5, 6, 10) for early in (True, False)),
    Plan(plans.EARLY, 1, 128, 6),
    *(Plan(plans.SPLIT_K, groups, bn, slots, split=2)
      for groups, bn, slots in ((2, 128, 5), (1, 160, 6))),
    Plan(plans.PAIRS, 1, 128, 7),
    *(Plan(plans.PAIRS, 2, bn, 4, later=later)
      for bn in (192, 224, 256) for later in (True, False)),
    Plan(plans.PAIRS, 2, 192, 4, boxes=3),
    *(Plan(plans.PAIRS, 2, 256, 4, pair=2, super=rows) for rows in (4, 16)),
    *(Plan(plans.PAIRS, groups, bn, slots, pair=2)
      for groups, bn, slots in ((1, 128, 7), (2, 128, 6), (2, 192, 4), (2, 224, 4))),
    Plan(plans.PAIRS, 2, 256, 4, pair=2, later=False),
    *(Plan(plans.PAIRS, 2, 256, 3, pair=pair, boxes=4) for pair in (1, 2)),
    *(Plan(plans.PAIRS, 1, bn, slots, pair=4) for bn, slots in ((128, 7), (160, 6), (192, 5))),
    Plan(plans.PAIRS, 2, 256, 4, pair=4, super=4),
    *(Plan(plans.STREAM, 2, 256, 4, pair=2, super=rows, waves=2) for rows in (4, 8, 16)),
    *(Plan(plans.STREAM, 2, 256, 4, pair=2, waves=1, later=later) for later in (True, False)),
    Plan(plans.STREAM, 2, 256, 3, pair=2, waves=1, boxes=4),
    *(Plan(plans.STREAM, 2, 256, 4, pair=4, super=4, waves=waves) for waves in (1, 2)),
    Plan(plans.STREAM, 2, 128, 6, pair=2, waves=2),
)  # fmt: skip
"""Those that are built."""


def fits(plan: Plan, shape: Shape) -> bool:
    """Whether a plan is meant for such a shape at all."""
    if plan.kernel == plans.WEIGHTS:
        return shape.m <= 512
    if plan.kernel == plans.FEW:
        return shape.m <= 16
    return True


def candidates(shape: Shape, within: float = 1.6, rates: Rates = H200) -> list[Plan]:
    """The plans that the model does not think much slower than its best, best first."""
    times = {plan: estimate(plan, shape, rates).us for plan in PLANS if fits(plan, shape)}
    least = min(times.values())
    return sorted((p for p, us in times.items() if us <= within * least), key=times.__getitem__)


def choose(shape: Shape, rates: Rates = H200) -> Plan:
    """The plan that the model thinks takes the least time."""
    return candidates(shape, rates=rates)[0]


def contenders(shape: Shape) -> list[Plan]:
    """The plans that are timed at a shape."""
    shared = CLUSTERS if shape in SMALL_SQUARES else ()
    return list(dict.fromkeys([*candidates(shape), PAIRS_EVERYWHERE, *shared]))
