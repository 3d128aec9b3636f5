"""What the page shows of the bugs: excerpts, what the emulator finds, tables."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import Any

import numpy as np

from phasebit import bugs, draw, files, measure
from phasebit.emulator import rulebook
from phasebit.instruments.sanitizer import TOOLS
from phasebit.launching.launch import compile as compile_cuda
from phasebit.timeline import Span, Timeline

HUES_OF = {"right": "grey", "–": "grey", "found": "green", "hangs": "orange"}
"""What a cell says -> its colour; all else is red."""


def no_promise(seen: dict[str, bugs.Outcome]) -> None:
    """Print the bugs, and their rules, of which nothing is known to go wrong."""
    for bug in bugs.found_here():
        findings = seen[bug.name].findings
        for rule in dict.fromkeys(it.rule for it in findings if it.grade == "no promise"):
            print(f"{bug.title}: {rule}")


def scratch_in_order(warps: tuple[int, int] = (0, 1)) -> Timeline:
    """When two warps of the softmax use ``scratch[0]``, and which barriers stand between.

    The kernel runs on the emulator; time goes down, a line for each access or barrier. The text of
    the program says which barriers lie between the lines that the warps come to.
    """
    bug = bugs.bug("reduction_scratch_reused")
    folders = [files.bugs() / "include", files.kernels() / "include"]
    options = [word for folder in folders for word in ("-I", str(folder))]
    rows, columns, threads = 2, 200, 128  # ROWS, COLUMNS, THREADS of the program
    x = np.zeros((rows, columns), np.float32)
    kernel = compile_cuda(bug.path("broken"), options=options)["softmax"]
    run = kernel.launch(rows, threads, [x, np.empty_like(x)], device="emulator", accesses=True)
    uses = [
        (use.line, use.op, use.warp)
        for use in run.accesses
        if use.space == "shared" and use.block == 0 and use.addresses[0] == 0
        if use.warp in warps
    ]
    text = bug.text("broken").splitlines()
    names = {warp: f"warp {warp}" for warp in warps}
    spans: list[Span] = []
    step, before = 0, 0
    for line, together in groupby(uses, key=lambda use: use[0]):
        for number in range(before + 1, line):
            if before and "__syncthreads()" in text[number - 1]:
                spans += [
                    Span(row, step, step + 1, "signal", str(number)) for row in names.values()
                ]
                step += 1
        for op, of_both in groupby(together, key=lambda use: use[1]):
            kind, what = ("consume", "reads") if op == "load" else ("produce", "writes")
            for _, _, warp in of_both:
                spans.append(Span(names[warp], step, step + 1, kind, f"{line} {what}"))
            step += 1
        before = line
    return Timeline(
        tuple(names.values()), spans, unit="step", down=True,
        title="Two warps and scratch[0]: the line that uses it, in the order of a run",
        legend={"consume": "reads scratch[0]", "produce": "writes scratch[0]",
                "signal": "__syncthreads()"},
    )  # fmt: skip


def kinds() -> measure.Table:
    """The kinds of bugs, the rule that would have prevented each, and how many there are."""
    count = Counter(bug.kind for bug in bugs.found_here())
    rows = tuple((kind, bugs.KINDS[kind], str(count[kind])) for kind in bugs.KINDS if count[kind])
    return measure.Table(("kind", "the rule", "bugs"), rows, "bugs/*/bug.toml")


def table(seen: dict[str, bugs.Outcome]) -> measure.Table:
    """All bugs: what their results say, and what the emulator finds.

    ``seen``: bug -> how its broken program ran.
    """
    rows = []
    for bug in bugs.found_here():
        outcome = seen[bug.name]
        rules = dict.fromkeys(finding.rule for finding in outcome.findings)
        grades = dict.fromkeys(rulebook.rule(rule).grade for rule in rules)
        rows.append((bug.title, bug.kind, outcome.result, ", ".join(rules) or "–",
                     ", ".join(grades) or "–"))  # fmt: skip
    heading = ("bug", "kind", "result, on the emulator", "found", "grade")
    return measure.Table(heading, tuple(rows), "each broken program once, with the late schedule")


def on_gpu(record: dict[str, Any], seen: dict[str, bugs.Outcome]) -> draw.Picture:
    """What a GPU made of them, which tool of compute-sanitizer found what, and the emulator.

    ``record``: of the GPU and the tools; ``seen``: bug -> how its broken program ran here.
    """
    names, cells = [], []
    for program, said in record["programs"].items():
        name, twin = program.split()
        if twin != "broken":
            continue
        runs = said["runs"]
        total = sum(runs.values())
        ends = ", ".join(how if n == total else f"{how} in {n}" for how, n in runs.items())
        found = [said["tools"][tool]["verdict"] for tool in TOOLS]
        found.append("found" if seen[name].findings else "nothing")
        told = [ends, *("–" if verdict == "nothing" else verdict for verdict in found)]
        names.append(bugs.bug(name).title)
        cells.append([draw.Cell(text, HUES_OF.get(text, "red")) for text in told])
    return draw.chart(
        cells, rows=names, columns=("on the GPU", *TOOLS, "emulator"), row_label="bug",
        column_label="seen", legend={"green": "found", "red": "a wrong result, or an error"},
        title=f"Who finds what; the GPU and the tools: {measure.source(record)}",
    )  # fmt: skip
