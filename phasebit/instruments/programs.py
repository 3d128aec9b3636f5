"""Programs of the book as a benchmark runs them: built, run on the GPU, their times read.

A program that measures writes what it kept as JSON into the file named by ``--json``.
"""

from __future__ import annotations

import json
import tempfile
from os import PathLike
from pathlib import Path
from typing import Any

from phasebit import files, process, toolchain

SECONDS = 120.0
"""How long one process may take."""
SENSOR_SECONDS = 30.0
"""How long the driver may take for an answer."""


def kernel(name: str) -> Path:
    """The program of ``kernels/NAME.cu``, built for this machine's GPU."""
    return toolchain.build(files.kernels() / f"{name}.cu").program


def output(program: Path, *arguments: str | PathLike[str]) -> str:
    """Run a program; returns what it prints.

    Raises :class:`toolchain.CudaError` when it fails or does not end in :data:`SECONDS`.
    """
    done = process.run([program, *arguments], timeout=SECONDS)
    if not done.ok:
        why = "did not end in time" if done.stopped else f"status {done.status}"
        raise toolchain.CudaError(f"the benchmark failed, {why}: {done.stdout}{done.stderr}")
    return done.stdout


def times(program: Path, *arguments: str | PathLike[str]) -> dict[str, Any]:
    """Run a program with ``--json``; returns everything that it kept. Raises as :func:`output`."""
    with tempfile.TemporaryDirectory() as scratch:
        kept = Path(scratch, "kept.json")
        output(program, *arguments, "--json", kept)
        result: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        return result


def multiprocessors() -> int:
    """How many multiprocessors this machine's GPU has."""
    source = (
        '#include <cstdio>\n#include "check.cuh"\nint main() { int count; '
        "CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0)); "
        'printf("%d", count); }\n'
    )
    return int(output(toolchain.build(source).program))


def sensor(field: str) -> float:
    """What the driver says of the GPU: one field of ``nvidia-smi --query-gpu``, in its unit.

    Raises :class:`toolchain.CudaError` when it does not say a number.
    """
    command = ["nvidia-smi", "-i", "0", f"--query-gpu={field}", "--format=csv,noheader,nounits"]
    try:
        said = process.run(command, timeout=SENSOR_SECONDS)
        return float(said.stdout)
    except OSError as error:
        raise toolchain.CudaError(
            f"no nvidia-smi on PATH to ask for {field}: it comes with the driver"
        ) from error
    except ValueError:
        raise toolchain.CudaError(
            f"nvidia-smi says no number for {field}: {said.stopped}{said.stdout}{said.stderr}"
        ) from None
