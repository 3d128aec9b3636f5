"""How fast tensor memory is read and written: ``kernels/tensor_memory/fetch_rate.cu``, timed.

For whoever has a GPU that runs ``sm_100a``, as a B200 is: none was at hand when this was written.
No document that we know gives these rates.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from phasebit import measure, toolchain
from phasebit.chapters.tensor_memory import cells

if TYPE_CHECKING:
    from phasebit.emulator import Run

NAME = "tensor_memory"
TARGET = "sm_100a"
"""What a GPU must run for this to be measured."""

SHAPES = {"ld.32x32b.x32": 0, "ld.16x256b.x8": 1, "st.32x32b.x32": 2}
"""Instruction -> the kernel's number for it. Four of them, a warp each, move 16 KiB."""

FEW, MANY = 1_000, 11_000
"""How often a launch does it; the difference of two launches is what so many cost."""

_COUNT = 40


def repeat(name: str, times: int, blocks: int = 1, **options: Any) -> tuple[Any, Run]:
    """Run the kernel: what each thread fetched last, or stored [blocks, 128, 32], and the run."""
    import numpy as np

    out = np.zeros((blocks, 128, 32), np.uint32)
    return out, _kernel(name).launch(blocks, 128, [out, times], **options)


def _kernel(name: str) -> Any:
    from phasebit.launching.launch import compile

    return compile(cells.source("fetch_rate", SHAPE=SHAPES[name]), TARGET)["rate"]


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU, or one that does not run
    :data:`TARGET`, or where a thread gets other numbers than on the emulator.
    """
    import numpy as np

    from phasebit.instruments import beside_torch

    facts = beside_torch.facts_for(NAME, TARGET)
    rates = []
    for name in SHAPES:
        if not np.array_equal(repeat(name, 2, device="gpu")[0], repeat(name, 2)[0]):
            raise toolchain.CudaError(f"{name}: a thread gets other numbers than on the emulator")
        out = np.zeros((1, 128, 32), np.uint32)
        few, many = (
            _kernel(name).times(1, 128, [[out, times]], count=_COUNT) for times in (FEW, MANY)
        )
        spent = statistics.median(many) - statistics.median(few)
        rates.append({
            "instruction": name, "us_few": few, "us_many": many,
            "ns_each": round(spent * 1e3 / (MANY - FEW), 3),
            "bytes_each": 16_384,
        })  # fmt: skip
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "clock": "events around each launch of one block with four warps",
            "each": f"the difference of the medians of {_COUNT} launches that do it {MANY} and "
            f"{FEW} times, divided by the difference; bytes_each is what the four warps move",
            "check": "before timing, what each thread gets, bit by bit, against the emulator",
        },
        "rates": rates,
    }


def table(record: dict[str, Any]) -> measure.Table:
    """What the page shows of a record: how long each instruction takes."""
    rows = []
    for rate in record["rates"]:
        each = rate["ns_each"]
        rows.append((rate["instruction"], f"{each:.1f}", f"{rate['bytes_each'] / each:,.0f}"))
    return measure.Table(("four warps, one instruction each", "ns", "GB/s of a multiprocessor"),
                         tuple(rows), measure.source(record))  # fmt: skip
