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


def _by_warps(
    groups: int, bn: int, slots: int, *tails: int, early: bool = True
) -> tuple[Plan, ...]:
    return tuple(Plan(plans.BY_WARPS, groups, bn, slots, tail=each, early=early) for each in tails)


BY_WARPS: dict[Shape, tuple[Plan, ...]] = {
    Shape(1024, 1024, 1024): (
        *_by_warps(1, 128, 4, 0), *_by_warps(1, 128, 6, 0, 1), *_by_warps(1, 128, 8, 0, 2),
        *_by_warps(1, 128, 9, 0),
    ),
    Shape(1000, 1000, 1000): _by_warps(1, 128, 8, 0, 2),
    Shape(64, 10240, 8192): _by_warps(1, 80, 12, 0),
    Shape(2048, 2048, 2048): _by_warps(2, 256, 4, 0, 1, 2, 3),
    Shape(4096, 4096, 4096): _by_warps(2, 256, 4, 2),
    Shape(4096, 768, 3072): _by_warps(2, 192, 5, 0, 1, 2),
    Shape(2048, 6144, 4096): _by_warps(2, 256, 4, 0, 2),
    Shape(128, 14336, 4096): _by_warps(2, 112, 7, 0, 1),
    Shape(512, 14336, 4096): _by_warps(2, 224, 4, 0),
    Shape(256, 4096, 14336): _by_warps(1, 128, 8, 0, 2, early=False),
}  # fmt: skip
"""Where C by warps is timed, too: what it won at two squares, and shapes that are like them."""

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
    by_warps = BY_WARPS.get(shape, ())
    return list(dict.fromkeys([*candidates(shape), PAIRS_EVERYWHERE, *shared, *by_warps]))
