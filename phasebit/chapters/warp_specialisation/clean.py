"""Which of the chapter's programs must be clean under compute-sanitizer.

The patients of the clinic and their repaired twins are in the chapter's own record.
"""

from __future__ import annotations

from phasebit.chapters.warp_specialisation import clinic, record
from phasebit.edits import replace_once
from phasebit.instruments.sanitizer import Program


def programs() -> dict[str, Program]:
    """Name -> program."""
    inputs = "those of warp_specialisation/registers: K 64"
    short = {name: Program(_short(record.variant(name)), inputs=inputs) for name in record.VARIANTS}
    return {"healthy": Program(clinic.source("00_healthy")), **short}


def _short(text: str) -> str:
    """A kernel with eight tiles: racecheck takes its time."""
    return replace_once(text, "K = 1024;", "K = 64;", "a kernel of warp_specialisation/registers")
