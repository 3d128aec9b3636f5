"""Judging what a reader says of a bug of ``bugs/``: its kind and a line, or a repaired text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from phasebit import bugs, toolchain
from phasebit.exercises.judge import Wrong, shown

SCHEDULES = ("eager", "late", "random")

SEEDS = 50
"""Of how many random orders :func:`scored` wants no finding, as the score does."""

MOST_RUNS = 200
"""How many orders of each kernel :func:`scored` has searched, at most."""


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
    _judge(_program(name, answer))
    return f"{len(SCHEDULES)} runs, no finding"


def scored(name: str, answer: str) -> str:
    """As :func:`healthy`, and as the score runs a repaired program: random orders, every order.

    Raises :class:`Wrong`.
    """
    program = _program(name, answer)
    _judge(program)
    seeds = bugs.emulate(program, schedule="random", seeds=SEEDS)
    _clean(seeds, f"a random order, of {SEEDS}")
    every = bugs.emulate(program, schedule="every", most_runs=MOST_RUNS)
    _clean(every, "one of all orders")
    whole = all(": complete: " in note for note in every.notes)
    orders = "every order" if whole else "as many of all orders as time allowed"
    return f"eager, late, {SEEDS} random orders, {orders}: no finding"


def _program(name: str, answer: str) -> Path:
    """The answer, compiled; raises :class:`Wrong` where it is none."""
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
    return program


def _judge(program: Path) -> None:
    """Raises :class:`Wrong` where one of three runs is wrong, or finds something."""
    for schedule in SCHEDULES:
        seen = bugs.emulate(program, schedule=schedule)
        _clean(seen, f"schedule {schedule}")
        if seen.result != "right":
            raise Wrong(f"schedule {schedule}: the result is {seen.result}")


def _clean(seen: bugs.Outcome, under: str) -> None:
    """Raises :class:`Wrong` where something is found."""
    if seen.findings:
        lines = ", ".join(str(line) for line in sorted(seen.lines)) or "?"
        raise Wrong(f"{under}: {seen.findings[0].rule}, lines {lines}")
