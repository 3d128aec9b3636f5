"""What the time of a transpose through a tile is made of: each of its two memories alone.

*Threads and memory* leaves open how far the accesses to device memory and those to shared memory
overlap. Here each half runs by itself, at the same addresses, beside the whole; and all of it also
with fewer blocks at once on a multiprocessor, which have less to overlap with.
"""

from __future__ import annotations

from typing import Any

from phasebit import measure
from phasebit.instruments import programs

NAME = "threads_and_memory_controls"
WHOLE = ("tiled", "padded")
DEVICE, WITHOUT, NOTHING = "device memory alone", "no barrier", "no accesses"
SHARED = {kernel: f"{kernel}, shared memory alone" for kernel in WHOLE}
"""Kernel -> its accesses to shared memory by themselves."""
FEWER = (6, 4, 2)
"""Blocks of a multiprocessor at once, beside as many as fit."""


def named(contender: str, at_once: int) -> str:
    """What the record calls a contender with so many blocks at once."""
    return f"{contender}, {at_once} at once"


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`phasebit.toolchain.CudaError` when there is no GPU, or when a kernel is wrong.
    """
    facts = measure.facts()
    times = programs.times(programs.kernel("threads_and_memory/halves"))
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "clock": "CUDA events before and after each launch",
            "order": "15 rounds, the contenders in a new random order in each; a rest of 10 ms "
            "before each turn, then a launch that does not count and 2 that do; no flush, each "
            "array has 256 MiB",
            "at once": "blocks of a multiprocessor, as the runtime's occupancy calculator says; "
            "blocks are kept away by shared memory that nobody uses, with its largest share of "
            "the L1 cache's memory",
            DEVICE: "the transpose's loads and stores at its addresses, a barrier between, the "
            "numbers held in registers",
            "shared memory alone": "the transpose's stores and loads of the tile, a barrier "
            "between; nothing else is read or written",
            WITHOUT: "the same without the barrier; of a whole transpose the result is wrong",
            "inputs": f"random bits, 8192 × 8192; the tile's numbers under {SHARED['tiled']} are 0",
            "checked": "before timing, on random numbers of 64 × 96: every word, but for those "
            "that race",
            "vendor": "cudaMemcpyAsync from device to device, the same bytes, in the same process",
        },
        "bytes": 2 << 28,
        "times_us": times,
    }
