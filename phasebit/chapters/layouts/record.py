"""*Layouts*: packed operands beside strided ones, and the vendor's library in the same process.

Needs torch and ncu.
"""

from __future__ import annotations

from typing import Any

from phasebit import measure
from phasebit.chapters.layouts import (
    layouts_controls,
    layouts_interleaved,
    layouts_lines,
    packed_operands,
)
from phasebit.instruments import beside_torch, programs

NAME = "layouts"
FURTHER = (layouts_controls.NAME, layouts_interleaved.NAME, layouts_lines.NAME)
"""Records that are saved beside this one."""


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU, torch or ncu, or when a kernel
    fails or is wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here("layouts")
    torch.backends.cuda.matmul.allow_tf32 = False
    checked = {"packing": programs.output(programs.kernel("layouts/packing")).strip()}
    seed = torch.seed()
    measure.save(layouts_controls.record())
    measure.save(layouts_interleaved.record())
    measure.save(layouts_lines.record())
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "clock": "CUDA events before and after each launch",
            "order": "each turn: a rest, a launch that is not counted and one that is; the order "
            "of the contenders drawn anew for each round",
            "mhz": "clock of a multiprocessor, counted for 50 µs right after the timed launch",
            "inputs": f"normal random numbers, drawn anew for each shape, seed {seed}; no flush "
            "of the caches before a timed launch",
            "check": "before timing, 128 rows by 128 columns of a result against a product in "
            "double, within (K + K/8 + 4)·2⁻²³·Σ|a·b|, all of it poisoned before; and the "
            "program named under checked, ragged shapes on whole numbers",
            "vendor": f"cuBLAS through torch {torch.__version__}: matmul, which copies an operand "
            "itself where cuBLAS cannot read it; f32 without TF32",
            "counters": "Nsight Compute, caches flushed before each launch, clocks left alone",
        },
        "checked": checked,
        "multiprocessors": programs.multiprocessors(),
        "most_mhz": int(programs.sensor("clocks.max.sm")),
        "interleaved": [
            packed_operands.interleaved(torch, together, columns)
            for together in packed_operands.INTERLEAVED
            for columns in packed_operands.COLUMNS
        ],
        "interleaved_counted": [
            packed_operands.counted(together) for together in packed_operands.INTERLEAVED
        ],
        "alone": [packed_operands.alone(torch, name) for name in packed_operands.ALONE],
    }
