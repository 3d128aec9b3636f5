"""Which programs must be clean under compute-sanitizer: the ladder, and what came behind it."""

from __future__ import annotations

from phasebit import files
from phasebit.chapters.attention import attend, last_done
from phasebit.chapters.attention.rungs import LADDER
from phasebit.instruments.sanitizer import Program


def programs() -> dict[str, Program]:
    """Name -> program."""
    ladder = {name: Program(files.kernel(f"attention/{name}")) for name in LADDER.values()}
    return ladder | {
        attend.NEXT: Program(files.kernel(f"attention/{attend.NEXT}")),
        last_done.NAME: Program(last_done.fitting(last_done.later())),
    }
