"""Judging what a reader says of a bug of ``bugs/``: its kind and a line, or a repaired text."""

from __future__ import annotations

from collections.abc import Sequence

from phasebit import bugs, toolchain
from phasebit.exercises.judge import Wrong, shown

SCHEDULES = ("eager", "late", "random")


def diagnosed(name: str, answer: tuple[str, int], what: str = "collides") -> str:
    """``(kind, line)``: the kind of a bug, and the number of one of the lines that are reported.

    ``line`` counts in the text as a page prints it, without the words at its head; ``what`` is the
    verb for what happens in such a line. Raises :class:`Wrong`.
    """
    if not isinstance(answer, Sequence) or isinstance(answer, str) or len(answer) != 2:
        raise Wrong('give a kind and a line, as ("proxy", 12)')
    kind, line = answer
    bug = bugs.bug(name)
    if kind not in bugs.KINDS:
        raise Wrong(f"the kinds are {', '.join(bugs.KINDS)}; {shown(kind)} is none")
    if kind != bug.kind:
        raise Wrong(f"that is not its kind: {bugs.KINDS[kind]} This program keeps that rule")
    left_out = len(bug.text("broken").splitlines()) - len(bug.code.splitlines())
    if not isinstance(line, int) or line + left_out not in bug.run().lines:
        raise Wrong(f"its kind is {kind}, but nothing {what} in line {shown(line)}")
    return f"{kind}, line {line}"


def healthy(name: str, answer: str) -> str:
    """Judge a repaired text: it computes the same, is right, and nothing is found in three runs.

    Raises :class:`Wrong`.
    """
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
