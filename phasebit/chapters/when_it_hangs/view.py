"""What the page prints and draws, each from a run of its program on the emulator.

A report in short lines, and who waits for what in it; parities that are too early; the two orders
of a race; the round in which NaN comes up.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from phasebit import bugs, files
from phasebit.chapters.when_it_hangs import symptoms
from phasebit.draw import Arrow, Cell, Node, Picture, chart, diagram
from phasebit.emulator import Finding, MbarrierObserver, observing
from phasebit.launching.launch import Kernel
from phasebit.launching.launch import compile as compile_cuda
from phasebit.timeline import Span, Timeline

TILES, STEPS, THREADS = 2, 3, 32  # of the program


def report(program: str) -> None:
    """Print what is found in a program of ``bugs/``, in lines that fit the page."""
    for finding in symptoms.outcome(program).findings:
        for line in str(finding).splitlines():
            begin = line[: len(line) - len(line.lstrip())]
            print(textwrap.fill(line, 80, subsequent_indent=f"{begin}    "))


class _Passed(MbarrierObserver):
    """Notes how many phases were complete each time a wait was over."""

    def __init__(self) -> None:
        self.complete: list[int] = []

    def passes(self, g: Any, site: Any) -> None:
        self.complete.append(site.barrier.phase)


def parities() -> Picture:
    """Which parity each wait of ``phase_begins_anew`` asks for, as it is and repaired.

    Both programs' kernels run on the emulator, with copies that end late. A wait passes when the
    last phase that is complete has the parity that it asks for; the wait of step k is too early
    when that is not phase k.
    """
    steps = range(TILES * STEPS)
    lines: list[list[Cell | None]] = [[Cell(str(step)) for step in steps]]
    x = np.arange(TILES * STEPS * THREADS, dtype=np.int32)
    for twin in bugs.TWINS:
        kernel = _kernel(bugs.bug("phase_begins_anew").path(twin))
        seen = _Passed()
        with observing(seen):
            kernel.launch(1, THREADS, [x, np.zeros(TILES * THREADS, np.int32)], schedule="late",
                          device="emulator", raises=False, on_fault="report")  # fmt: skip
        asked = [_asked(step, complete) for step, complete in enumerate(seen.complete)]
        lines.append([*asked, *[None] * (len(steps) - len(asked))])
    return chart(
        lines, rows=("phase of the copy", "asked, broken", "asked, repaired"),
        columns=[f"{step // STEPS}: {step % STEPS}" for step in steps], row_label="wait",
        column_label="tile: k", title="Six steps of two tiles: the parity that each wait asks for",
        legend={"green": "the copy has come", "red": "passes before the copy has come"},
    )  # fmt: skip


def _asked(step: int, complete: int) -> Cell:
    """The wait of a step that passed when so many phases were complete."""
    return Cell(str((complete - 1) % 2), "green" if complete == step + 1 else "red")


def _kernel(source: str | Path) -> Kernel:
    """The one kernel of a program of ``bugs/``, or of such a text."""
    folders = [files.bugs() / "include", files.kernels() / "include"]
    options = [word for folder in folders for word in ("-I", str(folder))]
    module = compile_cuda(source, "sm_90a", options)
    return module[module.kernels[0]]


def waits(program: str) -> Picture:
    """Who waits for what where a program of ``bugs/`` hangs."""
    return waits_of(symptoms.outcome(program).findings)


def waits_of(findings: Sequence[Finding]) -> Picture:
    """Of the deadlock among these: threads, the barrier that they wait at, and what it lacks.

    Raises ``ValueError`` where there is none, or where the threads do not wait at an mbarrier.
    """
    nodes: dict[str, Node] = {}
    arrows: list[Arrow] = []
    for n, wait in enumerate(wait for each in findings for wait in each.waits):
        said = re.search(
            r"with (\d+) of (\d+) arrivals pending(?:, (\d+) bytes\s+announced and (\d+) come)?",
            wait.why,
        )
        if not said:
            raise ValueError(f"this wait is not at an mbarrier: {wait.what}; {wait.why}")
        pending, count, announced, come = (int(each or 0) for each in said.groups())
        y = 190.0 * n
        who, at, arrivals, copies = (f"{what} {n}" for what in ("who", "at", "arrivals", "bytes"))
        line = wait.place.line if wait.place else 0
        nodes[who] = Node(
            f"{wait.threads}\nline {line}".replace(" of block", "\nof block"), 0, y, "blue"
        )
        nodes[at] = Node(wait.what.replace(" of mbarrier", "\nof"), 210, y)
        came = f"{count - pending} of {count}\narrivals came"
        nodes[arrivals] = Node(came, 390, y + 45, "red" if pending else "green")
        arrows += [Arrow(who, at, "wait for the end of"), Arrow(at, arrivals, "needs")]
        if announced or come:
            bytes_came = f"{come} of {announced}\nbytes came"
            hue = "green" if come == announced else "red"
            nodes[copies] = Node(bytes_came, 390, y - 45, hue)
            arrows.append(Arrow(at, copies, "needs"))
        if pending and f"could still arrive: {wait.threads}" in " ".join(wait.why.split()):
            arrows.append(Arrow(arrivals, who, "could come only from", 70.0, "red"))
    if not nodes:
        raise ValueError("nobody waits in vain: give the findings of a run that hangs")
    small = {name: _across(name, node) for name, node in nodes.items()}
    bent = [arrow._replace(bend=60.0, label="only from") if arrow.hue else arrow
            for arrow in arrows]  # fmt: skip
    return diagram(nodes, arrows, title="Who waits for what", narrow=(small, bent))


def _across(name: str, node: Node) -> Node:
    """A box of :func:`waits_of` for a narrow screen: waits run downwards."""
    what, n = name.split()
    x, y = {"who": (170, 0), "at": (170, 90), "arrivals": (110, 180), "bytes": (270, 180)}[what]
    return node._replace(x=x, y=y + 250.0 * int(n))


RUNS = 2
"""How many orders the search of :func:`orders` runs."""


def orders(twin: str = "broken") -> Timeline:
    """Two orders of a store and a load of ``output_copied_too_soon`` that nothing rules out.

    The first is that of one run, in which the load comes after a store and races with it. In the
    second, which a search of other orders came upon, the load finds the same place unwritten.
    Raises ``ValueError`` where the emulator does not report both.
    """
    program = bugs.bug("output_copied_too_soon").build(twin)
    run = bugs.emulate(program).findings
    search = bugs.emulate(program, schedule="every", most_runs=RUNS).findings
    unwritten = {
        (str(each.addresses[0]), _thread(each, 0)): each
        for each in search if each.rule == "uninitialised-read"
    }  # fmt: skip
    for race in run:
        key = str(race.addresses[0]), _thread(race, 0) if race.rule == "race" else -1
        if key in unwritten:
            break
    else:
        raise ValueError("no place that is read after a store in one order, and before in another")
    reader, writer = _thread(race, 0), _thread(race, 1)
    rows, spans = [], []
    for name, early in (("order 1", False), ("order 2", True)):
        for thread, at in ((writer, int(early)), (reader, int(not early))):
            reads = thread == reader
            rows.append(f"{name}, warp {thread // 32}")
            kind = "bad" if reads and early else "consume" if reads else "produce"
            label = f"thread {thread} {'reads' if reads else 'writes'}"
            spans.append(Span(rows[-1], at, at + 1, kind, label))
    return Timeline(rows, spans, unit="step", title=f"Two orders of two accesses of {key[0]}",
                    legend={"produce": "writes", "consume": "reads what is written",
                            "bad": "reads what nobody has written"})  # fmt: skip


def _thread(finding: Finding, of: int) -> int:
    """The first thread of those that a finding names."""
    return finding.threads[of].blocks[0].ranges[0][0]


HELD = (0.0, 7.0, np.inf, np.nan)
"""What ``out`` holds before the launch, a thread each."""


def first_nan() -> Picture:
    """What ``unwritten_accumulator`` leaves after each tile, by what ``out`` held before.

    The kernel runs three times, stopped after one, two and three tiles. The input is the same for
    all threads, and the mean should be, too.
    """
    text = {twin: bugs.bug("unwritten_accumulator").text(twin) for twin in bugs.TWINS}
    lines = [[_value(each) for each in HELD]]
    names = ["out held"]
    x = np.repeat(np.arange(3, dtype=np.float32), 32)
    for twin, stops in (("broken", (1, 2, 3)), ("fixed", (1, 2, 3))):
        for stop in stops:
            out = np.resize(np.array(HELD, np.float32), 32)
            stopped = text[twin].replace(
                "tile < TILES; ++tile) {\n        const float",
                f"tile < {stop}; ++tile) {{\n        const float",
                1,
            )
            _kernel(stopped).launch(
                1, 32, [x, out], device="emulator", raises=False, on_fault="report"
            )
            lines.append([_value(each) for each in out[: len(HELD)].tolist()])
            word = "repaired, " if twin == "fixed" else ""
            names.append(f"{word}after tile {stop - 1}")
    return chart(
        lines, rows=names, columns=[f"thread {n}" for n in range(len(HELD))], row_label="when",
        column_label="thread", title="What out holds, tile after tile",
        legend={"red": "NaN", "orange": "infinite", "grey": "a number"},
    )  # fmt: skip


def _value(number: float) -> Cell:
    if np.isnan(number):
        return Cell("NaN", "red")
    return Cell("∞", "orange") if np.isinf(number) else Cell(f"{number:.3g}")
