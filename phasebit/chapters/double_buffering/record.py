"""*Double buffering with barriers*: kernels for C (32, 32) = A (32, 4096) · B (4096, 32), f32.

Two records. ``double_buffering``: the kernels and their controls take turns, process by process,
each beside cuBLAS. ``clock_stamps``: clock stamps of some kernels, one launch each, times of the
kernels with other numbers of slots and workers, and what Nsight Compute and a look at the errors
say of the last of them.
"""

from __future__ import annotations

import re
import statistics
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from phasebit import measure, toolchain
from phasebit.chapters.double_buffering import clock_stamps, controls, one_block, ring_waits
from phasebit.chapters.double_buffering.one_block import kernel_text
from phasebit.instruments import programs

NAME = "double_buffering"

INSIDE = "clock_stamps"
"""The name of the second record."""
FURTHER = (INSIDE, ring_waits.NAME)

KERNELS = (
    "tiled",
    "barrier_double_buffer",
    "a_wide_loads",
    "b_register_tiles",
    "c_async_copies",
    "d_few_arrivals",
    "e_warp_workers",
    "g_own_ring",
    "h_tensor_cores",
    "f_whole_gpu",
)
"""The kernels that are timed side by side, by their file names without ``.cu``."""

SWEEP: tuple[tuple[str, dict[str, int]], ...] = (
    *(("a_wide_loads", {"SLOTS": slots}) for slots in (1, 2, 3, 4)),
    *(("c_async_copies", {"SLOTS": slots}) for slots in (1, 2, 3, 4, 6, 8)),
    *(("d_few_arrivals", {"PRODUCERS": producers}) for producers in (64, 128, 256)),
    *(
        ("e_warp_workers", {"PRODUCERS": producers, "CONSUMERS": consumers, "SLOTS": slots})
        for producers, consumers, slots in (
            (1, 8, 16), (2, 8, 16), (4, 8, 8), (4, 8, 16), (4, 8, 24), (8, 8, 16),
            (1, 4, 16), (2, 4, 16), (4, 4, 16), (1, 12, 24), (2, 12, 24), (3, 12, 24), (4, 12, 24),
        )
    ),
    *(
        ("g_own_ring", {"WARPS": warps, "SLOTS": slots})
        for warps, slots in ((8, 2), (8, 3), (12, 2))
    ),
    *(
        ("h_tensor_cores", {"WARPS": warps, "SLOTS": slots})
        for warps, slots in ((8, 2), (8, 4), (16, 2), (16, 3))
    ),
)  # fmt: skip
"""Kernels and the constants of their files that are set to other values."""

_LAPS = 5  # processes of each kernel: five cold launches, in five separate processes
_LAUNCHES = 500  # warm launches in each process
_BUILDERS = 8  # compilers at a time


def record() -> dict[str, Any]:
    """Measure on this machine's GPU; the record holds a ``shape`` and ``rows`` as of
    :class:`measure.Record`.

    Raises :class:`toolchain.CudaError` when there is no GPU, no cuBLAS, or a kernel fails.
    """
    facts, cublas = measure.facts(), measure.find_cublas()
    timed = timed_kernels()
    builds = _built(timed)
    laps: dict[str, list[dict[str, list[float]]]] = {kernel: [] for kernel in timed}
    for lap in range(_LAPS):
        for kernel in timed:
            laps[kernel].append(_lap(builds[kernel].program, cublas))
            print(f"⏱ {kernel}, process {lap + 1} of {_LAPS}: cold "
                  f"{laps[kernel][-1]['cold_us'][0]:.1f} µs, "
                  f"warm {statistics.median(laps[kernel][-1]['warm_us']):.1f} µs")  # fmt: skip
    kinds = ("cold_us", "flushed_us", "warm_us")
    rows: list[dict[str, Any]] = [
        {"kernel": kernel, **{kind: _joined(laps[kernel], kind) for kind in kinds}}
        for kernel in timed
    ]
    every = [lap for kernel in timed for lap in laps[kernel]]
    rows.append(
        {
            "kernel": measure.VENDOR,
            "cold_us": [],  # its first call loads a library of many kernels: no comparison
            "flushed_us": _joined(every, "cublas_flushed_us"),
            "warm_us": _joined(every, "cublas_us"),
        }
    )
    queued = {kernel: statistics.median(_joined(laps[kernel], "queued_us")) for kernel in timed}
    queued[measure.VENDOR] = statistics.median(_joined(every, "cublas_queued_us"))
    nothing = {
        "queued_us": statistics.median(_joined(every, "empty_queued_us")),
        "warm_us": statistics.median(_joined(every, "empty_us")),
    }
    measure.save(ring_waits.record())
    measure.save(_inside(facts, cublas) | {"queued_us": queued, "nothing": nothing})
    return {
        "benchmark": NAME,
        **facts,
        "shape": every[0]["shape"],
        "protocol": {
            "clock": "CUDA events before and after each launch, launches queued",
            "cold": f"the first launch of a process, after the same flush, {_LAPS} processes",
            "flushed": "20 launches a process, each after 256 MiB of other memory is read",
            "warm": f"{_LAUNCHES} launches a process, after 50 that do not count",
            "order": "kernels alternate by process; within it, 50 launches of the kernel "
            "and 50 of cuBLAS by turns",
            "inputs": "normal random numbers, one set a process; they stay in the L2 cache",
            "vendor": f"cublasSgemm from {cublas.name}, pedantic f32, no TF32",
        },
        "rows": rows,
    }


def timed_kernels() -> dict[str, str]:
    """Name -> source of all that the first record times: the kernels, then their controls."""
    return {name: controls.source(name) for name in (*KERNELS, *controls.CONTROLS)}


def with_constants(source: str, constants: dict[str, int]) -> str:
    """The source with ``constexpr int NAME = …;`` set to other values.

    Raises ``ValueError`` for a name that it does not define once.
    """
    for name, value in constants.items():
        line = f"constexpr int {name} = {value};"
        source, count = re.subn(rf"\bconstexpr int {name} = \d+;", line, source)
        if count != 1:
            raise ValueError(f"the kernel defines constexpr int {name} {count} times, not once")
    return source


def _built(sources: dict[str, str]) -> dict[str, toolchain.Build]:
    with ThreadPoolExecutor(_BUILDERS) as pool:
        return dict(zip(sources, pool.map(toolchain.build, sources.values()), strict=True))


def _inside(facts: dict[str, Any], cublas: Path) -> dict[str, Any]:
    """The second record."""
    sources = {kernel: clock_stamps.stamped(kernel) for kernel in clock_stamps.STAMPED}
    for name, (kernel, constants) in clock_stamps.VARIANTS.items():
        text = with_constants(kernel_text(kernel), constants)
        sources[name] = clock_stamps.stamped(kernel, text)
    stamped = _built(sources)
    changed = [with_constants(kernel_text(kernel), change) for kernel, change in SWEEP]
    with ThreadPoolExecutor(_BUILDERS) as pool:
        swept = list(pool.map(toolchain.build, changed))
    stamps: dict[str, Any] = {}
    sweep: list[dict[str, Any]] = []
    for kernel, build in stamped.items():
        lap = _lap(build.program, cublas)
        stamps[kernel] = {
            **{kind: _trimmed(lap[f"stamps_{kind}"]) for kind in ("warm", "flushed")},
            "warm_us": statistics.median(lap["warm_us"]),
            "flushed_us": statistics.median(lap["flushed_us"]),
        }
    for (kernel, constants), build in zip(SWEEP, swept, strict=True):
        lap = _lap(build.program, cublas)
        sweep.append(
            {
                "kernel": kernel,
                "constants": constants,
                **{kind: statistics.median(lap[kind]) for kind in ("warm_us", "flushed_us")},
            }
        )
    return {
        "benchmark": INSIDE,
        **facts,
        "protocol": {
            "stamps": "the multiprocessor's clock, read by one thread of each role or worker; "
            "cycles since the first stamp of the launch; one launch of each kind",
            "warm": "the last of 50 launches back to back",
            "flushed": "the last of 20 launches, each after 256 MiB of other memory is read",
            "clock": "cycles over the nanoseconds of the GPU's timer, for the same launch",
            "sweep": f"medians of {_LAUNCHES} warm and 20 flushed launches, one process each",
            "queued": "medians of rounds of 50 launches with nothing between them, by their joint "
            'time; "nothing" is an empty kernel, timed in both ways',
            "inputs": "normal random numbers",
            **one_block.PROTOCOL,
        },
        "stamps": stamps,
        "sweep": sweep,
        "counted": one_block.counted(lambda program: _lap(program, cublas)["warm_us"]),
        "errors": one_block.errors(),
        "errors_positive": one_block.errors(positive=True),
    }


def _trimmed(stamps: dict[str, Any]) -> dict[str, Any]:
    """Without the passes that the loop did not make."""
    passes = sum(at >= 0 for at in stamps["places"][5])
    return stamps | {"places": [place[:passes] for place in stamps["places"]]}


def _joined(laps: list[dict[str, list[float]]], kind: str) -> list[float]:
    return [time for lap in laps for time in lap[kind]]


def _lap(program: Path, cublas: Path) -> dict[str, Any]:
    """One process: every time that its harness writes, in microseconds."""
    return programs.times(program, "warm", "--repeats", str(_LAUNCHES), "--cublas", cublas)
