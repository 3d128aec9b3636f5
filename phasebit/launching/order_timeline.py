"""The shortest failing order of a kernel's steps, drawn as Part I draws one.

A column for each warp and each engine, a line for each step; who waits is grey, and what fails is
red.
"""

from __future__ import annotations

from phasebit.emulator import Failing
from phasebit.timeline import Mark, Span, Timeline

LEGEND = {
    "hand-off": "takes a step",
    "copy": "asynchronous work is done",
    "wait": "cannot go on",
    "bad": "fails",
}


def timeline(failing: Failing) -> Timeline:
    """The picture of a failing run."""
    steps, finding = failing.steps, failing.finding
    rows = list(dict.fromkeys(step.row for step in steps))
    spans, before = [], frozenset[str]()
    for at, step in enumerate(steps):
        engine = step.row in ("copy engine", "tensor core")
        last = at == len(steps) - 1 and not finding.waits
        kind = "bad" if last else "copy" if engine else "hand-off"
        spans.append(Span(step.row, at, at + 1, kind, step.did))
        if at + 1 < len(steps):
            stay = {row: what for row, what in step.waiting if row != steps[at + 1].row}
            for row, what in stay.items():
                label = "" if row in before else what
                spans.append(Span(row, at + 1, at + 2, "wait", label, what.removeprefix("wait ")))
            before = frozenset(stay)
    end, marks = len(steps), []
    for row, what in steps[-1].waiting if finding.waits and steps else ():
        spans.append(Span(row, end, end + 1, "bad", what, what.removeprefix("wait ")))
    who = steps[-1].waiting[0][0] if finding.waits and steps[-1].waiting else steps[-1].row
    marks.append(Mark(who, end if finding.waits else end - 1, _first(finding.message), "bad"))
    title = f"{finding.kind}, after {len(steps)} steps"
    return Timeline(sorted(rows), spans, marks, unit="step", title=title, legend=LEGEND, down=True)


def _first(message: str) -> str:
    return message.splitlines()[0]


__all__ = ["LEGEND", "timeline"]
