"""No tool: many runs on this machine's GPU, and in how many of them the result is wrong."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from phasebit import bugs, process, toolchain
from phasebit.score import Seen, since
from phasebit.score.on_a_gpu import gpu

__all__ = ["NAMES_LINES", "RUNS", "TITLE", "build", "look", "runs", "tally", "version"]

TITLE = "a test of results"
NAMES_LINES = False
RUNS = 1000
AT_ONCE = 500
"""Runs of one process, one after the other."""

SECONDS, SILENCE = 60.0, 5.0
"""A process is ended after so long, or when so long no run of it has ended."""

ENOUGH = 2
"""After so many runs that do not end, or that an error ends, the others are left out."""

WRONG, FAILED, ENDLESS = "wrong", "ended by an error", "did not end"

REPEATED = """#undef main
int main(int, char** words) {
    for (int left = atoi(words[1]); left > 0; --left) {
        once();
        fflush(stdout);
    }
}
"""
"""What stands behind a program, to run its ``main`` again and again in one process."""


def version() -> str:
    """The GPU. Raises :class:`phasebit.score.Absent` where there is none."""
    return f"{RUNS} runs in processes of {AT_ONCE}, {gpu().name}"


def runs(bug: bugs.Bug) -> bool:
    """Those whose architecture the GPU has."""
    return gpu().assembles(bug.arch)


def build(bug: bugs.Bug, twin: str, target: str, *, emulated: bool = False) -> Path:
    """The program that runs as often as its argument says, and prints a line each time."""
    text = f"#define main once\n{bug.text(twin)}\n{REPEATED}"
    return bugs.build(text, f"{twin}.cu", target, emulated=emulated)


def tally(times: Callable[[int], process.Finished], wanted: int = RUNS) -> Counter[str]:
    """How often each of right, wrong, an error and no end came; ``times`` runs so many at once."""
    seen: Counter[str] = Counter()
    while (left := wanted - seen.total()) > 0 and seen[FAILED] + seen[ENDLESS] < ENOUGH:
        done = times(min(left, AT_ONCE))
        lines = [line.split(":")[0] for line in done.stdout.splitlines()]
        seen.update(line for line in lines if line in ("right", WRONG))
        if done.stopped:
            seen[ENDLESS] += 1
        elif done.status:
            seen[FAILED] += 1
    return seen


def look(bug: bugs.Bug, twin: str) -> Seen:
    """A wrong result names no line, so that it is never more than something else."""
    program = build(bug, twin, toolchain.nvcc().target_for(gpu()))

    def times(count: int) -> process.Finished:
        return process.run([program, str(count)], timeout=SECONDS, silence=SILENCE)

    began = time.perf_counter()
    seen = tally(times)
    facts = {"seconds": since(began)}
    bad = {what: seen[what] for what in (WRONG, FAILED, ENDLESS) if seen[what]}
    of = seen.total()
    note = ", ".join(f"{what}: {count} of {of}" for what, count in bad.items())
    reports = seen[WRONG] + seen[FAILED]
    ended = bool(reports) or not seen[ENDLESS]
    note = note or f"right: {of} of {of}"
    return Seen(reports, frozenset(), note=note, ended=ended, facts=facts)
