"""What tables show of the record: the time of a tile in each kernel."""

from __future__ import annotations

from typing import Any

from phasebit import measure


def rates(recorded: dict[str, Any]) -> dict[str, str]:
    """Kernel -> nanoseconds a tile, by one block from memory, with the best number of stages."""
    best: dict[str, tuple[float, int]] = {}
    for row in recorded["rows"]:
        if row["blocks"] == 1:
            each = measure.summary(row["flushed_us"]).median * 1e3 / row["tiles"]
            best[row["kernel"]] = min(
                best.get(row["kernel"], (each, row["stages"])), (each, row["stages"])
            )
    return {
        kernel: f"{each:.0f} ns a tile, one block, {stages} slot{'s' * (stages > 1)}"
        for kernel, (each, stages) in best.items()
    }
