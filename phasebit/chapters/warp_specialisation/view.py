"""What tables show of the record: the time of each kernel whose registers are looked at."""

from __future__ import annotations

from typing import Any

from phasebit import measure


def rates(recorded: dict[str, Any]) -> dict[str, str]:
    """Kernel -> its time in a warm launch."""
    return {
        f"registers/{name}": f"{measure.summary(said['warm_us']).median:.0f} µs"
        for name, said in recorded["registers"].items()
        if said["warm_us"]
    }
