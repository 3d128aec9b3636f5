"""Times of the record, and shapes and plans, as the tests of two pages ask for them."""

from __future__ import annotations

from typing import Any

from phasebit.chapters.every_shape import plans, view
from phasebit.chapters.every_shape.plans import Plan
from phasebit.chapters.every_shape.shapes import Shape

SMALL, ODD, AWKWARD = (Shape(*[size] * 3) for size in (1024, 1000, 5000))
ALONE, LATE = Plan(plans.EARLY, 1, 128, 8), Plan(plans.SMALL, 1, 128, 8)
"""Tiles of 64 × 128 by blocks alone, with an early launch and without."""


def us(recorded: dict[str, Any], shape: Shape, plan: Plan, way: str = "warm") -> float:
    """Of the run in which all plans took part."""
    return view.median(view.row_of(recorded, shape)["all"][str(plan)], way)


def more(recorded: dict[str, Any], shape: Shape, plan: Plan) -> list[float]:
    """How much longer a plan takes than the one meant for a shape, warm and flushed."""
    row = view.row_of({"shapes": recorded["further"]}, shape)
    base = row["times"][row["base"]]
    return [view.median(row["times"][str(plan)], way) / view.median(base, way) - 1
            for way in view.WAYS]  # fmt: skip
