"""The emulator under random schedules, one for each seed: what any of them finds."""

from __future__ import annotations

import os

import phasebit
from phasebit import bugs
from phasebit.score import Seen

TITLE = "phasebit, random"

SEEDS = int(os.environ.get("PHASEBIT_SCORE_SEEDS", "3"))
"""How many schedules; the variable of the environment asks for more."""


def version() -> str:
    """The package's version, and how many seeds."""
    return f"phasebit {phasebit.__version__}, seeds 0 to {SEEDS - 1}"


def runs(bug: bugs.Bug) -> bool:
    """All of them."""
    return True


def look(bug: bugs.Bug, twin: str) -> Seen:
    """The reports of all seeds together."""
    program = bug.build(twin)
    every = [bugs.emulate(program, schedule="random", seed=seed) for seed in range(SEEDS)]
    lines = frozenset[int]().union(*(seen.lines for seen in every))
    return Seen(sum(len(seen.findings) for seen in every), lines)
