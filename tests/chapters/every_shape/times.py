"""Times of the record, as the tests of two pages ask for them."""

from __future__ import annotations

from typing import Any

from phasebit.chapters.every_shape import view
from phasebit.chapters.every_shape.plans import Plan
from phasebit.chapters.every_shape.shapes import Shape


def us(recorded: dict[str, Any], shape: Shape, plan: Plan, way: str = "warm") -> float:
    """Of the run in which all plans took part."""
    return view.median(view.row_of(recorded, shape)["all"][str(plan)], way)


def more(recorded: dict[str, Any], shape: Shape, plan: Plan) -> list[float]:
    """How much longer a plan takes than the one meant for a shape, warm and flushed."""
    row = view.row_of({"shapes": recorded["further"]}, shape)
    base = row["times"][row["base"]]
    return [view.median(row["times"][str(plan)], way) / view.median(base, way) - 1
            for way in view.WAYS]  # fmt: skip
