"""What ``python -m phasebit record`` measures: one module a chapter.

A benchmark is a module with two names. ``NAME`` is what its record is called
(``"11_double_buffering"``, so the file is ``records/11_double_buffering.nvidia-h200.json``).
``record()`` measures on this machine's GPU and returns the record, the whole JSON:
:func:`phasebit.measure.facts`, ``"benchmark"``, ``"protocol"`` and whatever was measured. It
may print lines that begin with ``⏱``. A new benchmark is one module and one line of
:data:`MODULES`.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Protocol, cast

from phasebit import measure, toolchain

MODULES: dict[int, str] = {
    4: "threads_and_memory",
    5: "measuring",
    6: "caches_and_tiles",
    7: "packing",
    8: "gemm_anatomy",
    9: "gpu_tiling",
    10: "layouts",
    11: "double_buffering",
    12: "async_copies",
    13: "warp_specialisation",
    14: "tensor_cores",
    15: "copy_engine",
}
"""Chapter -> the module that measures its kernels; imported when it is asked for."""

ON_THE_PROCESSOR = frozenset({6, 7, 8})
"""Chapters whose kernels run on the machine's processor: they need no GPU."""


class Benchmark(Protocol):
    """What a benchmark's module holds."""

    NAME: str

    def record(self) -> dict[str, Any]:
        """Measure, and return the record."""


def benchmark(chapter: int) -> Benchmark:
    """The benchmark of a chapter; raises :class:`toolchain.CudaError` when it has none."""
    if chapter not in MODULES:
        known = ", ".join(map(str, sorted(MODULES)))
        raise toolchain.CudaError(f"chapter {chapter} has nothing to measure: choose from {known}")
    return cast(Benchmark, importlib.import_module(f"phasebit.benchmarks.{MODULES[chapter]}"))


def record(chapter: int) -> Path:
    """Measure a chapter's kernels on this machine and write the record; returns its file.

    Raises :class:`toolchain.CudaError` when the chapter has none, when it needs a GPU and there is
    none, or when a kernel fails.
    """
    module = benchmark(chapter)
    if chapter not in ON_THE_PROCESSOR:
        measure.gpu()
    return measure.save(module.record())
