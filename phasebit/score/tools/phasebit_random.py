"""The emulator under random schedules, one for each seed: what any of them finds."""

from __future__ import annotations

import os

import phasebit
from phasebit import bugs
from phasebit.score import Seen
from phasebit.score.on_the_emulator import ended

TITLE = "phasebit, random"

SEEDS = int(os.environ.get("PHASEBIT_SCORE_SEEDS", "50"))
"""How many schedules; the variable of the environment asks for fewer, or more."""


def version() -> str:
    """The package's version, and how many seeds."""
    return f"phasebit {phasebit.__version__}, seeds 0 to {SEEDS - 1}"


def runs(bug: bugs.Bug) -> bool:
    """All of them."""
    return True


def look(bug: bugs.Bug, twin: str) -> Seen:
    """The reports of all seeds together.

    The first seed decides the verdict of a broken program whose line it names; a fixed one runs
    under all of them.
    """
    program = bug.build(twin)
    if twin == "broken":
        seen = ended(bugs.emulate(program, schedule="random"))
        if bug.number and bug.number in seen.lines:
            return Seen(len(seen.findings), seen.lines, note="named under seed 0")
    seen = ended(bugs.emulate(program, schedule="random", seeds=SEEDS))
    return Seen(len(seen.findings), seen.lines, note="; ".join(seen.notes))
