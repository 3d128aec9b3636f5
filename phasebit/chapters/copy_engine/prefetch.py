"""What a prefetch is worth: how long a copy takes some cycles after the engine was told of it."""

from __future__ import annotations

import re
from typing import Any

from phasebit import measure
from phasebit.instruments import programs

NAME = "copy_engine_prefetch"
KERNEL = "copy_engine/prefetched"
MEMORY, CACHE = "from memory", "in the cache"


def record() -> dict[str, Any]:
    """Measure on this machine's GPU; raises :class:`toolchain.CudaError` when there is none."""
    facts = measure.facts()
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "prefetch": "prefetched.cu: one thread; 256 pieces of 8 KiB, each told to the engine "
            "so many cycles before it is copied to shared memory; cycles by the multiprocessor's "
            "clock, from asking for the copy to the end of the wait: the median piece of each of "
            f"5 launches; L2 flushed before each; {MEMORY}: no prefetch; {CACHE}: each piece was "
            "copied once before",
        },
        "cycles": read(programs.output(programs.kernel(KERNEL), "time")),
    }


def read(said: str) -> dict[str, list[int]]:
    """How many cycles before, or where a piece was -> cycles of a copy in each launch."""
    found: dict[str, list[int]] = {}
    for what, before, took in re.findall(r"^⏱ ([^,]+), (\d+) cycles before: (\d+)$", said, re.M):
        found.setdefault(before if what == "prefetched" else what, []).append(int(took))
    return found
