"""Which programs must be clean under compute-sanitizer: all that do not only measure."""

from __future__ import annotations

from phasebit import files
from phasebit.instruments.sanitizer import Program

KERNELS = ("wgmma",)


def programs() -> dict[str, Program]:
    """Name -> program."""
    return {name: Program(files.kernel(f"warpgroup_products/{name}"), ("1",)) for name in KERNELS}
