"""Checks of *What it found in other people's kernels*: a mistake is found, and two are repaired."""

from __future__ import annotations

import re
from collections.abc import Sequence

from phasebit import bugs, toolchain
from phasebit.exercises.judge import Wrong, judged, shown

UNSEEN, FREED, LEFT = (
    "bulk_wait_by_one_thread",
    "tensor_memory_freed_while_read",
    "remote_arrive_after_exit",
)
"""The bugs of the three exercises, in their order."""

SCHEDULES = ("eager", "late", "random")


@judged
def diagnosis(answer: tuple[str, int]) -> str:
    """``(kind, line)``: the kind of the first bug, and the number of one of the lines that collide.

    ``line`` counts in the text as the page prints it, without the words at its head.
    """
    if not isinstance(answer, Sequence) or isinstance(answer, str) or len(answer) != 2:
        raise Wrong('give a kind and a line, as ("proxy", 12)')
    kind, line = answer
    bug = bugs.bug(UNSEEN)
    if kind not in bugs.KINDS:
        raise Wrong(f"the kinds are {', '.join(bugs.KINDS)}; {shown(kind)} is none")
    if kind != bug.kind:
        raise Wrong(f"that is not its kind: {bugs.KINDS[kind]} This program keeps that rule")
    left_out = len(bug.text("broken").splitlines()) - len(bug.code.splitlines())
    if not isinstance(line, int) or line + left_out not in bug.run().lines:
        raise Wrong(f"its kind is {kind}, but nothing collides in line {shown(line)}")
    return f"{kind}, line {line}"


@judged
def last_reader(answer: str) -> str:
    """The second bug, repaired: the whole text, run under every schedule."""
    return _healthy(FREED, answer)


@judged
def no_barrier(answer: str) -> str:
    """The third bug, repaired with no more barriers of the cluster than it has."""
    verdict = _healthy(LEFT, answer)
    before, after = (_cluster_barriers(text) for text in (bugs.bug(LEFT).code, answer))
    if after > before:
        raise Wrong(f"it has {after} barriers of the cluster; do with the {before} there are")
    return verdict


def _cluster_barriers(text: str) -> int:
    return len(re.findall(r"cluster_arrive|barrier\.cluster\.arrive|cluster.*sync\(", text))


def _healthy(name: str, answer: str) -> str:
    """Judge a repaired text: it computes the same, is right, and nothing is found."""
    if not isinstance(answer, str):
        raise Wrong("give the whole text of the program, as a string")
    bug = bugs.bug(name)
    _, main, tail = bug.code.partition("int main")
    if not answer.rstrip().endswith((main + tail).rstrip()):
        raise Wrong("leave main as it is: it says whether the result is right")
    if answer.strip() == bug.code.strip():
        raise Wrong("that is the broken program")
    try:
        program = bugs.build(answer, "answer.cu", bug.arch)
    except toolchain.CudaError as error:
        raise Wrong(str(error)) from error
    for schedule in SCHEDULES:
        seen = bugs.emulate(program, schedule=schedule)
        if seen.findings:
            said = seen.findings[0]
            lines = ", ".join(str(line) for line in sorted(seen.lines)) or "?"
            raise Wrong(f"schedule {schedule}: {said.rule}, lines {lines}")
        if seen.result != "right":
            raise Wrong(f"schedule {schedule}: the result is {seen.result}")
    return f"{len(SCHEDULES)} runs, no finding"
