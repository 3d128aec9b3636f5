"""*Layouts*: packed operands beside strided ones, and the order of blocks beside the L2 cache.

Both beside the vendor's library, in the same process and by turns. Needs torch and ncu.
"""

from __future__ import annotations

from typing import Any

from phasebit import measure
from phasebit.chapters.layouts import block_order_times, packed_operands
from phasebit.instruments import beside_torch, programs

NAME = "layouts"
CHECKED = ("packing", "order")
"""Programs that check the measured kernels: ragged shapes, poisoned results, exact sums."""


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU, torch or ncu, or when a kernel
    fails or is wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here("layouts")
    torch.backends.cuda.matmul.allow_tf32 = False
    checked = {name: _said(name) for name in CHECKED}
    seed = torch.seed()
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
            "programs named under checked, ragged shapes on whole numbers",
            "vendor": f"cuBLAS through torch {torch.__version__}: matmul, which copies an operand "
            "itself where cuBLAS cannot read it; f32 without TF32 for the packing, bf16 for the "
            "order of blocks",
            "counters": "Nsight Compute, caches flushed before each launch, clocks left alone",
        },
        "checked": checked,
        "multiprocessors": programs.multiprocessors(),
        "most_mhz": int(programs.sensor("clocks.max.sm")),
        "l2_bytes": int(torch.cuda.get_device_properties(0).L2_cache_size),
        "copy_bytes_per_second": beside_torch.copy_rate(torch),
        "interleaved": [
            packed_operands.interleaved(torch, together, columns)
            for together in packed_operands.INTERLEAVED
            for columns in packed_operands.COLUMNS
        ],
        "interleaved_counted": [
            packed_operands.counted(together) for together in packed_operands.INTERLEAVED
        ],
        "alone": [packed_operands.alone(torch, name) for name in packed_operands.ALONE],
        "orders": [block_order_times.measured(torch, shape) for shape in block_order_times.SHAPES],
    }


def _said(name: str) -> str:
    return programs.output(programs.kernel(f"layouts/{name}")).strip()
