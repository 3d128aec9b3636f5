"""Nsight Compute, asked for counters: one row a launch."""

from __future__ import annotations

import csv
import io
import re
import shutil
from collections.abc import Sequence
from os import PathLike

from phasebit import process, toolchain
from phasebit.instruments.programs import SECONDS


def count(
    command: Sequence[str | PathLike[str]], metrics: Sequence[str]
) -> list[tuple[str, dict[str, float]]]:
    """Run a command under Nsight Compute; launch by launch: kernel, and metric -> value.

    The profiler flushes the caches before each launch; clocks are left alone. Raises
    :class:`toolchain.ToolMissing` without it, :class:`toolchain.CudaError` when it fails.
    """
    options = ["--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base"]
    asked = [_path(), *options, "--metrics", ",".join(metrics), *command]
    done = process.run(asked, timeout=SECONDS)
    if not done.ok:
        raise toolchain.CudaError(f"Nsight Compute failed: {done.stdout[-800:]}{done.stderr}")
    return parse(done.stdout, metrics)


def count_known(
    command: Sequence[str | PathLike[str]], metrics: Sequence[str]
) -> list[tuple[str, dict[str, float]]]:
    """As :func:`count`, without the metrics of which the profiler says that it lacks them."""
    wanted = list(metrics)
    while True:
        try:
            return count(command, wanted)
        except toolchain.CudaError as error:
            said = str(error)
            known = [name for name in wanted if not _named(name, said)]
            if len(known) in (0, len(wanted)):
                raise
            wanted = known


def _named(metric: str, said: str) -> bool:
    """Whether a message names a metric: with its last part or without it."""
    return re.search(rf"\b{re.escape(metric.partition('.')[0])}\b", said) is not None


def second_launches(
    command: Sequence[str | PathLike[str]], metrics: Sequence[str], kernel: str
) -> list[dict[str, float]]:
    """Of a program that launches each kernel twice: the counts of the second launches, in order.

    ``kernel`` is a part of their names; others are left out. The first launch may load the program.
    Raises as :func:`count` does, and :class:`toolchain.CudaError` for an odd number of launches.
    """
    seen = [counted for name, counted in count(command, metrics) if kernel in name]
    if len(seen) % 2:
        raise toolchain.CudaError(
            f"Nsight Compute counted {len(seen)} launches of {kernel}: launch each kernel twice"
        )
    return seen[1::2]


def parse(text: str, metrics: Sequence[str]) -> list[tuple[str, dict[str, float]]]:
    """Read ncu's raw page as CSV: one row a launch, one column a metric.

    Raises :class:`toolchain.CudaError` when there is no launch or a metric is missing.
    """
    begin = text.find('"ID"')
    rows = list(csv.DictReader(io.StringIO(text[begin:]))) if begin >= 0 else []
    found = []
    for row in rows:
        if not re.fullmatch(r"\d+", row["ID"] or ""):
            continue  # the line of units
        values = {metric: row.get(metric) or "" for metric in metrics}
        missing = [metric for metric, value in values.items() if not value]
        if missing:
            raise toolchain.CudaError(f"Nsight Compute did not count {', '.join(missing)}")
        counted = {metric: _number(value) for metric, value in values.items()}
        found.append((row["Kernel Name"].partition("(")[0], counted))
    if not found:
        raise toolchain.CudaError(f"Nsight Compute counted nothing: {text[-400:]}")
    return found


def _number(text: str) -> float:
    """A count as a whole number; a ratio (some metrics are) as it is."""
    number = float(text.replace(",", ""))
    return int(number) if number.is_integer() else number


def version() -> str:
    """The profiler and its version: ``"Nsight Compute 2025.3.1.0"``."""
    said = process.run([_path(), "--version"], timeout=SECONDS).stdout
    match = re.search(r"Version ([\d.]+)", said)
    return f"Nsight Compute {match[1]}" if match else "Nsight Compute"


def _path() -> str:
    found = shutil.which("ncu")
    if found is None:
        raise toolchain.ToolMissing(
            "no ncu on PATH to count with: install Nsight Compute, or put its folder on PATH"
        )
    return found
