"""Occupancy, sectors and banks as a GPU has them, and the bandwidth they leave.

What the runtime's occupancy calculator says of many configurations; what Nsight Compute counts of
the chapter's small kernels; how long one load takes, by where it is answered; how fast a large
array is copied, by stride and by resident warps; how long three transposes take. The times of the
last two stand beside those of cudaMemcpy from device to device in the same run.
"""

from __future__ import annotations

import statistics
import sys
from typing import Any

import numpy as np

from phasebit import files, measure, toolchain
from phasebit.chapters.threads_and_memory import counted_transposes, transpose_halves
from phasebit.emulator import Run
from phasebit.instruments import profiler, programs
from phasebit.launching.devices import Device
from phasebit.launching.launch import Module
from phasebit.launching.launch import compile as compile_ptx

NAME = "threads_and_memory"
FURTHER = (counted_transposes.NAME, transpose_halves.NAME)

METRICS = (
    *(
        f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum"
        for what in ("requests", "sectors")
        for op in ("ld", "st")
    ),
    *(
        f"l1tex__data_{what}_mem_shared_op_{op}.sum"
        for what in ("pipe_lsu_wavefronts", "bank_conflicts_pipe_lsu")
        for op in ("ld", "st")
    ),
)
"""What is counted: requests and sectors of global memory, wavefronts and conflicts of shared."""

DRAM = ("dram__bytes_read.sum", "dram__bytes_write.sum")
"""Bytes that came from DRAM, and bytes that went there."""

ISSUED = ("smsp__inst_executed.sum", "smsp__thread_inst_executed.sum")
"""Instructions that warps executed, and their threads, each by itself."""

LOGS = range(6)
"""Strides of the copy: 2 to the power of these."""

FETCHES = ("32", "128")
"""Bytes that the L2 cache is allowed to fetch at a time."""

ONE_WAY = tuple(f"{way}, stride {1 << log}" for way in ("loads", "stores") for log in LOGS)
"""The launches of ``one_way.cu``, in its order."""

PROGRAMS = ("sectors", "banks", "transpose")
SHAPE = (64, 96)
"""Rows and columns of the matrix whose transposes are counted: six whole tiles."""

_MYSELF = (sys.executable, "-m", __name__)  # with a word for what to launch


def launch_all(device: Device) -> dict[str, Run]:
    """One launch of each kernel that is counted, on ``"gpu"`` or ``"emulator"``: name -> run."""
    runs: dict[str, Run] = {}
    for program in PROGRAMS:
        module = compile_ptx(files.kernel(f"threads_and_memory/{program}"), "sm_75")
        for kernel in (module[name].name for name in module.kernels):
            runs[kernel] = _launch(module, kernel, program, device)
    return runs


def _launch(module: Module, kernel: str, program: str, device: Device) -> Run:
    if program == "transpose":
        rows, cols = SHAPE
        matrix = np.arange(rows * cols, dtype=np.float32)
        args: list[Any] = [matrix, np.zeros_like(matrix), rows, cols]
        return module[kernel].launch((cols // 32, rows // 32), (32, 8), args, device=device)
    x, y = np.arange(4096, dtype=np.float32), np.zeros(32, np.float32)
    return module[kernel].launch(1, 32, [x, y], device=device)


def deals() -> dict[str, Any]:
    """2560 turns of a loop, dealt to the 128 threads of a block in three ways: name -> (128)."""
    thread = np.arange(128, dtype=np.int32)
    return {
        "alike in each warp": 8 * (1 + thread // 32),
        "mixed in each warp": 8 * (1 + thread % 4),
        "one lane a warp": np.where(thread % 32 == 0, 640, 0).astype(np.int32),
    }


def launch_deals(device: Device) -> dict[str, Run]:
    """The loop of ``divergence.cu``, once for each deal: name -> run."""
    kernel = compile_ptx(files.kernel("threads_and_memory/divergence"), "sm_75")["turn"]
    return {
        name: kernel.launch(1, 128, [turns, np.zeros(128, np.uint32)], device=device)
        for name, turns in deals().items()
    }


def launch_strided() -> None:
    """One strided copy of 256 MiB for each of :data:`LOGS`, on the GPU."""
    kernel = compile_ptx(files.kernel("threads_and_memory/bandwidth"), "sm_75")["strided"]
    x = np.random.default_rng().random(1 << 26, np.float32)
    for log in LOGS:
        y = np.empty_like(x)
        kernel.launch(len(x) // 1024, 256, [x, y, log], device="gpu")


def record() -> dict[str, Any]:
    """Measure on this machine's GPU, and save beside it what is counted and timed of transposes.

    Raises :class:`toolchain.CudaError` when there is no GPU, no Nsight Compute, or a program
    fails.
    """
    facts = measure.facts()
    measure.save(counted_transposes.record())
    measure.save(transpose_halves.record())
    bandwidth = programs.times(programs.kernel("threads_and_memory/bandwidth"))
    transpose = programs.times(programs.kernel("threads_and_memory/transpose"))
    for name, times in transpose.items():
        print(f"⏱ {name}: {statistics.median(times):.0f} µs")
    latency = programs.times(programs.kernel("threads_and_memory/latencies"))
    configurations, registers = _occupancy()
    print(f"⏱ {len(configurations)} configurations")
    counted = dict(profiler.count([*_MYSELF, "kernels"], METRICS))
    strided = [counts for _, counts in profiler.count([*_MYSELF, "strided"], DRAM)]
    one_way = programs.kernel("threads_and_memory/one_way")
    ways = {
        fetched: [counts for _, counts in profiler.count([one_way, fetched], DRAM)]
        for fetched in FETCHES
    }
    diverged = [counts for _, counts in profiler.count([*_MYSELF, "deals"], ISSUED)]
    print(f"⏱ {len(counted)} kernels counted")
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "clock": "CUDA events before and after each launch, one launch at a time",
            "warm-up": "5 launches that do not count",
            "repeats": "bandwidth: 20 launches of each configuration, then 3 of cudaMemcpy; "
            "transpose: 40 rounds, in each cudaMemcpy and every kernel once, by turns; medians",
            "caches": "not flushed: each array has 256 MiB, more than the L2 cache holds",
            "inputs": "random whole numbers below 2²⁴ (bandwidth), random bits (transpose)",
            "checked": "every copy and transpose was compared with its input, bit by bit",
            "vendor": "cudaMemcpyAsync from device to device, the same bytes, in the same process",
            "counters": f"{profiler.version()}, --clock-control none, one launch of each kernel, "
            f"PTX for sm_75 assembled by the driver; transposes of {SHAPE[0]} × {SHAPE[1]}",
            "latency": "latencies.cu, cycles a load by where the walk goes; random rings of lines "
            "of 128 bytes, caches flushed before, one round or 32 MiB walked before the clock",
            "one_way": "DRAM's bytes as counted, each array 256 MiB, by the most that the L2 cache "
            "fetches at a time (cudaLimitMaxL2FetchGranularity, a hint)",
            "divergence": "as counters, of machine instructions",
            "occupancy": "cudaOccupancyMaxActiveBlocksPerMultiprocessor; a configuration is "
            "kernel, static and dynamic shared bytes, threads a block, blocks",
        },
        "multiprocessors": bandwidth["multiprocessors"],
        "most_mhz": int(programs.sensor("clocks.max.sm")),
        "registers": registers,
        "occupancy": configurations,
        "counters": counted,
        "latency": latency,
        "one_way": {
            fetched: dict(zip(ONE_WAY, counts, strict=True)) for fetched, counts in ways.items()
        },
        "divergence": dict(zip(deals(), diverged, strict=True)),
        "strided": {str(1 << log): c for log, c in zip(LOGS, strided, strict=True)},
        "bandwidth": bandwidth["rows"],
        "bandwidth_bytes": 2 << 28,
        "transpose_us": transpose,
        "transpose_bytes": 2 << 28,
    }


def _occupancy() -> tuple[list[list[Any]], dict[str, int]]:
    """The runtime's answers, and the registers of each kernel as ptxas reports them."""
    registers: dict[str, int] = {}
    for program in ("occupancy", "transpose"):
        build = toolchain.build(files.kernels() / "threads_and_memory" / f"{program}.cu")
        registers |= {use.kernel: use.registers for use in build.resources}
    said = programs.output(programs.kernel("threads_and_memory/occupancy"))
    lines = [line.split() for line in said.splitlines()]
    for kernel, used, *_ in lines:
        if int(used) != registers[kernel]:
            raise toolchain.CudaError(
                f"{kernel}: ptxas reports {registers[kernel]} registers, the runtime {used}"
            )
    return [[kernel, *map(int, rest)] for kernel, _, *rest in lines], registers


if __name__ == "__main__":  # what Nsight Compute looks at
    match sys.argv[1:]:
        case ["strided"]:
            launch_strided()
        case ["deals"]:
            launch_deals("gpu")
        case _:
            launch_all("gpu")
