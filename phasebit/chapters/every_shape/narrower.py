"""Tiles 240 wide at 5000³, whose last column of tiles is nearly full: does it pay?

20 tiles of 256 cover 5000 columns with 120 to spare, 21 of 240 with 40.
"""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from phasebit import measure
from phasebit.chapters.every_shape import bench, plans, row_ends
from phasebit.chapters.every_shape.plans import Plan
from phasebit.chapters.every_shape.shapes import Shape
from phasebit.instruments import beside_torch

NAME = "every_shape_5000"
SHAPE = Shape(5000, 5000, 5000)
WIDE = Plan(plans.STREAM, 2, 256, 4, pair=2, super=4, waves=2)
NARROWER = Plan(plans.STREAM, 2, 240, 4, pair=2, super=4, waves=2)
"""The same but for the tile's columns."""
CONTENDERS = {
    f"{plan} {promotion}": (plan, promotion)
    for plan, promotion in (
        (NARROWER, "NONE"), (NARROWER, "L2_256B"),
        (Plan(plans.STREAM, 2, 240, 4, pair=2, waves=2), "NONE"),
        (Plan(plans.STREAM, 2, 240, 4, pair=2, waves=2), "L2_256B"),
        (Plan(plans.PAIRS, 2, 240, 4, pair=2, super=4), "NONE"),
        (WIDE, "NONE"), (WIDE, "L2_256B"),
    )
}  # fmt: skip
"""Name -> plan, and what its tensor maps ask of L2."""


def record() -> dict[str, Any]:
    """Measure on this machine's GPU. Raises as :func:`row_ends.record` does."""
    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    with ThreadPoolExecutor(len(CONTENDERS)) as pool:
        built = list(pool.map(lambda each: row_ends.build(*each), CONTENDERS.values()))
    texts = {name: row_ends.text(*each) for name, each in CONTENDERS.items()}
    libraries = {
        text: ctypes.CDLL(str(one.program))
        for text, one in zip(texts.values(), built, strict=True)
    }
    return {
        "benchmark": NAME,
        **facts,
        "protocol": bench.protocol(torch),
        **bench.Bench(torch, libraries).side_by_side(SHAPE, texts),
    }
