"""Chapter 11: kernels of one block for C (32, 32) = A (32, 4096) · B (4096, 32), f32.

The kernels take turns, process by process, each beside cuBLAS.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from phasebit import files, measure, process, toolchain

NAME = "11_double_buffering"

KERNELS = ("04_tiled", "05_barrier_double_buffer")
"""The kernels that are timed side by side, by their file names without ``.cu``."""

_LAPS = 5  # processes of each kernel: five cold launches, in five separate processes
_LAUNCHES = 500  # warm launches in each process
_SECONDS = 120.0


def record() -> dict[str, Any]:
    """Measure on this machine's GPU; the record holds a ``shape`` and ``rows`` as of
    :class:`measure.Record`.

    Raises :class:`toolchain.CudaError` when there is no GPU, no cuBLAS, or a kernel fails.
    """
    facts, cublas = measure.facts(), measure.find_cublas()
    builds = {kernel: toolchain.build(files.kernels() / f"{kernel}.cu") for kernel in KERNELS}
    laps: dict[str, list[dict[str, list[float]]]] = {kernel: [] for kernel in KERNELS}
    for lap in range(_LAPS):
        for kernel in KERNELS:
            laps[kernel].append(_lap(builds[kernel].program, cublas))
            print(f"⏱ {kernel}, process {lap + 1} of {_LAPS}: cold "
                  f"{laps[kernel][-1]['cold_us'][0]:.1f} µs, "
                  f"warm {statistics.median(laps[kernel][-1]['warm_us']):.1f} µs")  # fmt: skip
    kinds = ("cold_us", "flushed_us", "warm_us")
    rows: list[dict[str, Any]] = [
        {"kernel": kernel, **{kind: _joined(laps[kernel], kind) for kind in kinds}}
        for kernel in KERNELS
    ]
    every = [lap for kernel in KERNELS for lap in laps[kernel]]
    rows.append(
        {
            "kernel": measure.VENDOR,
            "cold_us": [],  # its first call loads a library of many kernels: no comparison
            "flushed_us": _joined(every, "cublas_flushed_us"),
            "warm_us": _joined(every, "cublas_us"),
        }
    )
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


def _joined(laps: list[dict[str, list[float]]], kind: str) -> list[float]:
    return [time for lap in laps for time in lap[kind]]


def _lap(program: Path, cublas: Path) -> dict[str, list[float]]:
    """One process: every time that its harness writes, in microseconds."""
    with tempfile.TemporaryDirectory() as scratch:
        times = Path(scratch, "times.json")
        command: list[str | Path] = [program, "warm", "--repeats", str(_LAUNCHES)]
        command += ["--json", times, "--cublas", cublas]
        done = process.run(command, timeout=_SECONDS)
        if not done.ok:
            why = "did not end in time" if done.stopped else f"status {done.status}"
            raise toolchain.CudaError(f"the benchmark failed, {why}: {done.stdout}{done.stderr}")
        result: dict[str, list[float]] = json.loads(times.read_text(encoding="utf-8"))
        return result
