"""What is cold in a flushed launch, and what was tried against it: numbers of the record."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from phasebit import measure
from phasebit.chapters.every_shape import cold, view
from phasebit.chapters.every_shape.cold import CHANGES, STATES, Change, name_of
from phasebit.chapters.every_shape.shapes import Shape

ROWS = {
    "lines": (Change(lines=True),),
    "by warps": (Change(tail=0),),
    "by warps, dry": (Change(tail=0, dry=True),),
    "parts": (Change(tail=1), Change(tail=2)),
    "dry": (Change(dry=True),),
    "turned": (Change(turned=True),),
}
"""What was tried -> the changes that it shows, of which a shape has one at most."""


def states(record: Mapping[str, Any]) -> measure.Table:
    """Flushed launches where nothing, the operands, the code or both are warm."""
    rows = []
    for each in record["states"]:
        us = {state: median(each["flushed_us"][state]) for state in STATES}
        rows.append((str(Shape(*each["shape"])), *(f"{us[state]:.1f}" for state in STATES)))
    return measure.Table(
        ("M × N × K", *STATES), tuple(rows),
        f"µs, flushed, not early; {measure.source(dict(record))}",
    )  # fmt: skip


def changed(record: Mapping[str, Any], shape: Shape, what: str) -> tuple[float, float] | None:
    """How much longer a change of :data:`ROWS` takes than the plan as it was, warm and flushed."""
    times = view.row_of(record, shape)["times"]
    for plan, change in CHANGES[shape]:
        if change in ROWS[what]:
            before = name_of(plan, cold.Change())
            base = times.get(before) or times[name_of(*CHANGES[shape][0])]
            after = times[name_of(plan, change)]
            warm, flushed = (view.median(after, way) / view.median(base, way) - 1
                             for way in view.WAYS)  # fmt: skip
            return warm, flushed
    return None
