"""What tables show of the record: the rate of each kernel."""

from __future__ import annotations

from typing import Any

from phasebit import measure


def rates(recorded: dict[str, Any]) -> dict[str, str]:
    """Kernel -> its rate in warm launches, on the record's one shape."""
    shape = recorded["shape"]
    return {
        row["kernel"]: measure.spoken(shape, measure.summary(row["warm_us"]).median)
        for row in recorded["rows"]
        if row["kernel"] != measure.VENDOR
    }
