"""Which programs must be clean under compute-sanitizer: all that do not only measure."""

from __future__ import annotations

from phasebit import files
from phasebit.instruments.sanitizer import Program

KERNELS = ("bulk_copy", "tma_copy", "column_sums")


def programs() -> dict[str, Program]:
    """Name -> program."""
    return {name: Program(files.kernel(f"copy_engine/{name}"), ("1",)) for name in KERNELS}
