"""The emulator under every order of synchronisation that makes a difference."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence

import phasebit
from phasebit import bugs
from phasebit.emulator import search_limits
from phasebit.runtime.command import SEARCHING
from phasebit.score import Seen, since
from phasebit.score.on_the_emulator import commit, ended

__all__ = ["COMPLETE", "TITLE", "TOOL", "commit", "ends", "look", "runs", "version"]

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
    """What any order shows; the note says how many of each kernel were run.

    ``seconds`` are those of the program, ``orders`` those of all its kernels together.
    """
    program = bug.build(twin)
    began = time.perf_counter()
    seen = ended(bugs.emulate(program, schedule="every"))
    seconds = since(began)
    heads = [note.splitlines()[0].split(": ", 1)[1] for note in seen.notes]
    heads = [head.removesuffix("; nothing found") for head in heads]
    how = ends(seen.notes)
    facts = {"seconds": seconds, "orders": sum(how.values()), "ends": how}
    return Seen(len(seen.findings), seen.lines, note="; ".join(sorted(heads)), facts=facts)


def ends(notes: Sequence[str]) -> dict[str, int]:
    """How the orders of all kernels end -> how many: ``end``, or the rule that ended them."""
    count: Counter[str] = Counter()
    for note in notes:
        ways = _WAY.findall(note) or [(_ORDERS.findall(note)[0], "")]
        for number, rule in ways:
            count[rule or "end"] += int(number.replace(",", ""))
    return {how: count[how] for how in sorted(count) if count[how]}


_WAY = re.compile(r"(?:^|, )([\d,]+) (?:comes to its end|come to their end|ends? with ([\w-]+))",
                  re.MULTILINE)  # fmt: skip
_ORDERS = re.compile(r"([\d,]+) orders? run")
