"""What tables of *To pack or not to pack* compare, and what GCC says of its vectors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from phasebit import nests, toolchain

Times = Mapping[str, Mapping[str, Sequence[float]]]

STEPS = {
    "gcc: packed": ("gcc, packed", "gcc"),
    "clang, not gcc": ("clang", "gcc"),
    "clang: packed": ("clang, packed", "clang"),
    "Polly, not clang": ("Polly", "clang"),
    "MLIR: jammed": ("MLIR, jammed", "MLIR"),
    "tiled 16": ("MLIR, tiled 16", "MLIR"),
    "copied": ("MLIR, tiled 16, copied", "MLIR, tiled 16"),
    "tiled 32": ("MLIR, tiled 32", "MLIR"),
    "copied too": ("MLIR, tiled 32, copied", "MLIR, tiled 32"),
}
"""Column -> the program and the one before it, which differ in one thing."""


def gain(times: Mapping[str, Sequence[float]], name: str, over: str) -> float | None:
    """How many times as fast one program is as another; ``None`` where one was not timed."""
    if not {name, over} <= times.keys():
        return None
    return min(times[over]) / min(times[name])


def compilers(times: Times) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heading and rows: for each nest what each step of :data:`STEPS` gained, those timed."""
    there = [
        column for column, step in STEPS.items()
        if any(gain(each, *step) is not None for each in times.values())
    ]  # fmt: skip
    rows = []
    for nest, each in times.items():
        gains = [gain(each, *STEPS[column]) for column in there]
        rows.append((nest, *("–" if x is None else f"{x:.2f}" for x in gains)))
    return ("times as fast as the step before", *there), rows


def vectors(name: str, nest: nests.Nest, options: Sequence[str]) -> str:
    """A line of which loops of a nest GCC makes vectors of, those of the copies left out."""
    if not toolchain.host_compiler().version.startswith("g++"):
        return f"⏱ {name}: this compiler is not GCC, and reports in other words"
    program = nests.build(nest, [*options, "-fopt-info-vec-optimized"])
    lines = program.source.splitlines()
    found = []
    for number in re.findall(
        r"nest\.cpp:(\d+):\d+: optimized: loop vectorized", program.library.build.warnings
    ):
        loop = re.match(r"\s*for \(int64_t ([a-z]) =", lines[int(number) - 1])
        if loop and loop[1] not in found:
            found.append(loop[1])
    return f"⏱ {name}: {'vectors along ' + ', '.join(found) if found else 'no vectors'}"
