"""What the page shows of *Attention*: rates of the record, and roles drawn from a run."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from phasebit import measure
from phasebit.chapters.attention.variants import HEADS, LADDER, TOKENS


def flop(d: int, causal: bool, length: int) -> float:
    """Operations of both products for all heads; causal ones are counted as half of the full."""
    return 4.0 * TOKENS * length * d * HEADS / (2 if causal else 1)


def row(
    recorded: Mapping[str, Any], d: int, causal: bool, length: int, part: str = "ladder"
) -> dict[str, float]:
    """Contender -> TFLOP/s by its median time."""
    (found,) = [
        each for each in recorded[part]
        if (each["d"], each["causal"], each["sequence"]) == (d, causal, length)
    ]  # fmt: skip
    return {
        name: measure.tflops(flop(d, causal, length), statistics.median(times) * 1e-6)
        for name, times in found["times_us"].items()
    }


def rates(recorded: dict[str, Any]) -> dict[str, str]:
    """Kernel -> its rate in the ladder of the record, full attention over 4096 tokens."""
    found = row(recorded, 128, False, 4096)
    return {
        kernel: f"{found[rung]:.0f} TFLOP/s, heads of 128, 4096 tokens"
        for rung, kernel in LADDER.items()
    }
