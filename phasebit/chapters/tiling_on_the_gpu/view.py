"""What tables show of the record: the rate of each rung."""

from __future__ import annotations

from typing import Any

from phasebit import measure
from phasebit.chapters.tiling_on_the_gpu.ladder import RUNGS
from phasebit.chapters.tiling_on_the_gpu.record import SIZES


def rates(recorded: dict[str, Any]) -> dict[str, str]:
    """Kernel -> its rate on the largest product of the record."""
    times = recorded["products"][str(SIZES[0])]
    return {
        rung.file: measure.spoken([SIZES[0]] * 3, measure.summary(times[name]).median)
        for name, rung in RUNGS.items()
    }
