"""What tables show of the record: the rate of each kernel."""

from __future__ import annotations

from typing import Any

from phasebit import measure

KERNELS = {
    "naive": "fragments from global memory",
    "one_slot": "swizzle",
    "gemm": "super-rows",
}
"""Kernel -> the best rung that is one of it."""


def rates(recorded: dict[str, Any]) -> dict[str, str]:
    """Kernel -> its rate on the product of the ladder."""
    ladder = recorded["ladder"]
    return {
        kernel: measure.spoken(
            [ladder["size"]] * 3, measure.summary(ladder["times_us"][rung]).median
        )
        for kernel, rung in KERNELS.items()
    }
