"""Which programs must be clean under compute-sanitizer: every rung of the ladder."""

from __future__ import annotations

from phasebit import files
from phasebit.chapters.attention.rungs import LADDER
from phasebit.instruments.sanitizer import Program


def programs() -> dict[str, Program]:
    """Name -> program."""
    return {name: Program(files.kernel(f"attention/{name}")) for name in LADDER.values()}
