"""The last wave of 5000³ alone: the same plan, which leaves out tiles of its last wave.

400 tiles for 66 pairs are six waves and four tiles. A copy of ``e_pairs.cu`` makes only the first
330, 396, 398 or 400 of them: five waves, six, and six with two or four tiles behind them. What a
tile costs behind six waves can then be set beside what a wave costs.
"""

from __future__ import annotations

import statistics
from typing import Any

from phasebit import measure
from phasebit.chapters.every_shape import bench, plans
from phasebit.chapters.every_shape.plans import Plan
from phasebit.chapters.every_shape.shapes import Shape
from phasebit.edits import replace_each
from phasebit.instruments import beside_torch

NAME = "every_shape_last_wave"
SHAPE = Shape(5000, 5000, 5000)
WHOLE = Plan(plans.PAIRS, 2, 256, 4, pair=2, super=4)
CUT = Plan(plans.STREAM, 2, 256, 4, pair=2, super=4, waves=2)
COUNTS = (330, 396, 398, 400)
"""Tiles that are made, of 400."""


def only(count: int, plan: Plan = WHOLE) -> str:
    """The plan's text, which makes its first ``count`` tiles and no others."""
    edits = (
        ("struct Walk {\n", f"constexpr int MADE = {count};  // tiles, at most\nstruct Walk {{\n"),
        ("return piece.tile < tiles.count();",
         "return piece.tile < (tiles.count() < MADE ? tiles.count() : MADE);"),
    )  # fmt: skip
    return replace_each(plan.text, edits, plan.kernel)


def texts() -> dict[str, str]:
    """What is timed, by name."""
    return {**{f"{count} tiles": only(count) for count in COUNTS}, str(CUT): CUT.text}


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel fails or is
    wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    wanted = texts()
    by_turns = bench.Bench(torch, bench.loaded(wanted.values()))
    right = [name for name in wanted if not name.endswith("tiles") or name == f"{COUNTS[-1]} tiles"]
    found = by_turns.changed(SHAPE, wanted, right)
    for name, times in found["times"].items():
        warm, flushed, mhz = (
            statistics.median(times[what]) for what in ("warm_us", "flushed_us", "mhz")
        )
        print(f"⏱ {name}: {warm:.1f} µs warm, {flushed:.1f} flushed, {mhz:.0f} MHz", flush=True)
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            **bench.protocol(torch),
            "expected": "four tiles behind six waves take less than a wave: copies bind no more, "
            "and the clock is higher; more than half of it, as the steps are as many",
            "check": "as of every_shape, for what makes all tiles",
            "tiles": "the first so many in the order of the walk, whose pairs are 66",
        },
        **found,
    }
