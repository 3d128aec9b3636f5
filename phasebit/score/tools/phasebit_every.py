"""The emulator under every order of synchronisation that makes a difference."""

from __future__ import annotations

import phasebit
from phasebit import bugs
from phasebit.emulator import search_limits
from phasebit.runtime.command import SEARCHING
from phasebit.score import Seen
from phasebit.score.on_the_emulator import ended

TOOL = "phasebit_every"
TITLE = "phasebit, every"

SECONDS = bugs.SECONDS * SEARCHING
"""What a program has for its searches."""

COMPLETE = "complete"
"""How the note of a search begins that left no order out."""


def version() -> str:
    """The package's version, and the bound."""
    bound = f"at most {search_limits.MOST_RUNS} orders a launch and {SECONDS:g} s a program"
    return f"phasebit {phasebit.__version__}, {bound}"


def runs(bug: bugs.Bug) -> bool:
    """All of them."""
    return True


def look(bug: bugs.Bug, twin: str) -> Seen:
    """What any order shows; the note says how many of each kernel were run."""
    seen = ended(bug.run(twin, schedule="every"))
    heads = [note.splitlines()[0].split(": ", 1)[1] for note in seen.notes]
    heads = [head.removesuffix("; nothing found") for head in heads]
    return Seen(len(seen.findings), seen.lines, note="; ".join(sorted(heads)))
