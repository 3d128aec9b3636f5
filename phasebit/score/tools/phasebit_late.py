"""The emulator, once: every asynchronous operation as late as the program allows."""

from __future__ import annotations

import phasebit
from phasebit import bugs
from phasebit.score import Seen
from phasebit.score.on_the_emulator import ended

TITLE = "phasebit, late"


def version() -> str:
    """The package's version."""
    return f"phasebit {phasebit.__version__}"


def runs(bug: bugs.Bug) -> bool:
    """All of them."""
    return True


def look(bug: bugs.Bug, twin: str) -> Seen:
    """One run, and what it says of the line that ``bug.toml`` names."""
    seen = ended(bug.run(twin, schedule="late"))
    return Seen(len(seen.findings), seen.lines, seen.said(bug))
