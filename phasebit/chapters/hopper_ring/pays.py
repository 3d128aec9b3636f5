"""When does a pair of blocks pay? Boxes of C and pairs, in two tiles: bytes, energy, cycles.

A tile of 128 × 256 needs more clocks for its products than for its copies, one of 128 × 128 needs
the copy engine for longer. The copies of B are what a pair shares.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from phasebit import files, measure, toolchain
from phasebit.chapters.hopper_ring.variants import BOXES, PAIRS, source
from phasebit.edits import replace_each, replace_once
from phasebit.instruments import beside_torch, clocks, energy, profiler
from phasebit.instruments.beside_torch import Launch

NAME = "hopper_ring_pairs"
SIZE = 8192
_NARROW = (("BM = 128, BN = 256;", "BM = 128, BN = 128;"),
           ("ptx::wgmma_m64n256k16(", "ptx::wgmma_m64n128k16("))  # fmt: skip
CONTENDERS = {
    f"{who}, 128 × {columns}": (kernel, columns)
    for columns in (256, 128)
    for who, kernel in (("boxes of C", BOXES), ("pairs", PAIRS))
}
"""Name -> the file, and the columns of its tile."""
METRICS = {
    "asked_of_l2": "lts__t_sectors_srcunit_tex_op_read.sum",
    "brought": "l1tex__m_xbar2l1tex_read_sectors.sum",
    "from_memory": "dram__bytes_read.sum",
}
"""What is counted -> the profiler's name: sectors of 32 bytes, and bytes."""

_ROUNDS, _REST, _WARM, _EACH, _SECONDS = 12, 0.01, 5, 5, 2.0


def text(name: str) -> str:
    """A contender's text: with the narrower tile the header stands in it, changed."""
    kernel, columns = CONTENDERS[name]
    if columns == 256:
        return source(kernel)
    include = '#include "hopper_ring/product.cuh"\n'
    header = (files.kernels() / "hopper_ring/product.cuh").read_text("utf-8")
    narrow = replace_each(header.replace("#pragma once\n", ""), _NARROW, "product.cuh")
    return replace_once(
        replace_once(source(kernel), include, narrow), "SLOTS = 4;", "SLOTS = 6;"
    )


def build(name: str) -> toolchain.Build:
    """A contender as a library."""
    return toolchain.build(text(name), name=NAME, target="sm_90a", library=True)


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, when a kernel fails or is
    wrong, :class:`toolchain.ToolMissing` without Nsight Compute.
    """
    facts, version = measure.facts(), profiler.version()
    torch = beside_torch.torch_here(NAME)
    built = clocks.built(build, CONTENDERS)
    meter = energy.Meter()
    launches = {name: _launch(torch, each) for name, each in built.items()}
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            **clocks.protocol(_ROUNDS, _REST, warm=_WARM, each=_EACH),
            "inputs": "normal random bf16 numbers, M = N = K",
            "check": "before timing, 128 rows by 128 columns of the result against a product in "
            "double, within (K + K/8 + 4)·2⁻²³·Σ|a·b| + 2⁻⁸·|c|",
            "slots": "4 of tiles of 128 × 256, 6 of 128 × 128",
            "energy": f"NVML's counter over {_SECONDS:g} s in which the GPU repeats the launch",
            "counted": f"{version}, one launch, caches flushed: " + ", ".join(METRICS.values()),
        },
        "size": SIZE,
        "times": clocks.times(torch, launches, _ROUNDS, _REST, warm=_WARM, each=_EACH),
        "energy": {name: energy.of(torch, meter, launch, _SECONDS)
                   for name, launch in launches.items()},
        "counted": _counted(),
    }  # fmt: skip


def _launch(torch: Any, built: toolchain.Build) -> Launch:
    library = ctypes.CDLL(str(built.program))
    a, b = (torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    c = torch.empty_like(a)
    units = torch.cuda.get_device_properties(0).multi_processor_count
    given = beside_torch.pointers((a, b, c))

    def launch() -> None:
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        library.product(*given, SIZE, SIZE, SIZE, units, stream)

    beside_torch.check(
        torch, built.program.name, launch, (a, b.t(), c), beside_torch.cut_sums(SIZE), 2.0**-8
    )
    return launch


def _counted() -> dict[str, dict[str, float]]:
    """What the profiler counts of each contender's second launch; the first is checked."""
    command = (sys.executable, "-m", __name__)
    seen = profiler.second_launches(command, tuple(METRICS.values()), "matmul")
    return {
        name: {what: counted[metric] for what, metric in METRICS.items()}
        for name, counted in zip(CONTENDERS, seen, strict=True)
    }


def _main() -> None:
    """Two launches of each contender, for the profiler."""
    import torch

    for name in CONTENDERS:
        _launch(torch, build(name))()
        torch.cuda.synchronize()


if __name__ == "__main__":
    _main()
