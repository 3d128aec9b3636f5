"""No tool: a few runs on this machine's GPU, and whether the result is wrong."""

from __future__ import annotations

from phasebit import bugs, process, toolchain
from phasebit.score import Seen
from phasebit.score.on_a_gpu import AT_A_TIME, SECONDS, gpu

__all__ = ["AT_A_TIME", "RUNS", "TITLE", "look", "runs", "version"]

TITLE = "a test of results"
RUNS = 3


def version() -> str:
    """The GPU. Raises :class:`phasebit.score.Absent` where there is none."""
    return f"{RUNS} runs, {gpu().name}"


def runs(bug: bugs.Bug) -> bool:
    """Those whose architecture the GPU has."""
    return gpu().assembles(bug.arch)


def look(bug: bugs.Bug, twin: str) -> Seen:
    """A wrong result names no line, so that it is never more than something else."""
    program = bug.build(twin, target=toolchain.nvcc().target_for(gpu()), emulated=False)
    wrong = 0
    for _ in range(RUNS):
        done = process.run([program], timeout=SECONDS)
        wrong += bool(done.stopped) or bugs.result(done.stdout, done.status) != "right"
        if done.stopped:
            break  # the others would take as long
    return Seen(wrong, frozenset())
