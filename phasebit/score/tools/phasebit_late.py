"""The emulator, once: every asynchronous operation as late as the program allows."""

from __future__ import annotations

import time

import phasebit
from phasebit import bugs
from phasebit.score import Seen, since
from phasebit.score.on_the_emulator import commit, ended

__all__ = ["TITLE", "commit", "look", "runs", "version"]

TITLE = "phasebit, late"


def version() -> str:
    """The package's version."""
    return f"phasebit {phasebit.__version__}"


def runs(bug: bugs.Bug) -> bool:
    """All of them."""
    return True


def look(bug: bugs.Bug, twin: str) -> Seen:
    """One run, and what it says of the line that ``bug.toml`` names."""
    program = bug.build(twin)
    began = time.perf_counter()
    seen = ended(bugs.emulate(program, schedule="late"))
    facts = {"seconds": since(began)}
    return Seen(len(seen.findings), seen.lines, seen.said(bug), facts=facts)
