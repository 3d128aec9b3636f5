"""The emulator under random schedules, one for each seed: what any of them finds."""

from __future__ import annotations

import os

import phasebit
from phasebit import bugs
from phasebit.score import Seen

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
    """The reports of all seeds together, up to the first that decides the verdict.

    That is one that names the bug's line in the broken program, or anything in the fixed one.
    """
    program = bug.build(twin)
    reports, lines = 0, frozenset[int]()
    for seed in range(SEEDS):
        seen = bugs.emulate(program, schedule="random", seed=seed)
        reports += len(seen.findings)
        lines |= seen.lines
        if reports if twin == "fixed" else bug.number and bug.number in lines:
            break
    return Seen(reports, lines)
