"""*The order of blocks*: nine orders of one product, their counters, and cuBLAS by turns.

Needs torch and ncu.
"""

from __future__ import annotations

from typing import Any

from phasebit import measure
from phasebit.chapters.block_order import (
    block_order_controls,
    block_order_times,
    joined,
    neighbours,
)
from phasebit.instruments import beside_torch, programs

NAME = "block_order"
FURTHER = (block_order_controls.NAME, neighbours.NAME, joined.NAME)
"""Records that are saved beside this one."""


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU, torch or ncu, or when a kernel
    fails or is wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here("block_order")
    checked = {"order": programs.output(programs.kernel("block_order/order")).strip()}
    seed = torch.seed()
    measure.save(block_order_controls.record())
    measure.save(neighbours.record())
    measure.save(joined.record())
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "clock": "CUDA events before and after each launch",
            "order": "each turn: a rest, a launch that is not counted and one that is; the order "
            "of the contenders drawn anew for each round; under without_rest no rest, three "
            "launches, one order; under sustained each alone, as long at rest as at work before",
            "mhz": "clock of a multiprocessor, counted for 50 µs right after the timed launch",
            "inputs": f"normal random numbers, drawn anew for each shape, seed {seed}; no flush "
            "of the caches before a timed launch",
            "check": "before timing, 128 rows by 128 columns of a result against a product in "
            "double, within (K + K/8 + 4)·2⁻²³·Σ|a·b|, all of it poisoned before; and the "
            "program named under checked, ragged shapes on whole numbers",
            "vendor": f"cuBLAS through torch {torch.__version__}: matmul, bf16",
            "counters": "Nsight Compute, caches flushed before each launch, clocks left alone",
        },
        "checked": checked,
        "multiprocessors": programs.multiprocessors(),
        "most_mhz": int(programs.sensor("clocks.max.sm")),
        "l2_bytes": int(torch.cuda.get_device_properties(0).L2_cache_size),
        "copy_bytes_per_second": beside_torch.copy_rate(torch),
        "orders": [block_order_times.measured(torch, shape) for shape in block_order_times.SHAPES],
    }
