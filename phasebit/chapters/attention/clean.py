"""Which programs must be clean under compute-sanitizer: every rung of the ladder, and kernel g."""

from __future__ import annotations

from phasebit import files
from phasebit.chapters.attention import attend
from phasebit.chapters.attention.rungs import LADDER
from phasebit.instruments.sanitizer import Program


def programs() -> dict[str, Program]:
    """Name -> program."""
    kernels = (*LADDER.values(), attend.NEXT)
    return {name: Program(files.kernel(f"attention/{name}")) for name in kernels}
