"""The emulator under random schedules, one for each seed: what any of them finds."""

from __future__ import annotations

import os
import re
import time

import phasebit
from phasebit import bugs
from phasebit.score import Seen, since
from phasebit.score.on_the_emulator import commit, ended

__all__ = ["SEEDS", "TITLE", "TOOL", "commit", "look", "runs", "version"]

TOOL = "phasebit_random"
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
    """The reports of all seeds together, and under how many of them there were any."""
    program = bug.build(twin)
    began = time.perf_counter()
    seen = ended(bugs.emulate(program, schedule="random", seeds=SEEDS))
    seconds = since(began)
    (under,) = re.findall(r"found something under (\d+)", " ".join(seen.notes))
    return Seen(len(seen.findings), seen.lines, facts={"seeds": int(under), "seconds": seconds})
