"""Which programs must be clean under compute-sanitizer: every kernel of the chapter."""

from __future__ import annotations

from phasebit.chapters.every_shape import plans
from phasebit.instruments.sanitizer import Program


def programs() -> dict[str, Program]:
    """Name -> program."""
    return {name: Program(plans.source(name)) for name in plans.KERNELS}
