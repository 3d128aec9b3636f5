"""What tables show of the record: the rate of each rung."""

from __future__ import annotations

from typing import Any

from phasebit import measure
from phasebit.chapters.gemm.cpu_ladder import RUNGS


def rates(recorded: dict[str, Any]) -> dict[str, str]:
    """Kernel -> its rate on one core, on the largest product of the record."""
    size = max(map(int, recorded["ladder"]))
    times = recorded["ladder"][str(size)]
    return {
        file: measure.spoken([size] * 3, measure.summary(times[name]).median * 1e6)
        for name, file in RUNGS.items()
    }
