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

_NOBODY = "the kernel"
"""The only column where it fails before anybody's first step."""


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
    stuck = steps[-1].waiting if finding.waits and steps else ()
    for row, what in stuck:
        spans.append(Span(row, end, end + 1, "bad", what, what.removeprefix("wait ")))
    who = stuck[0][0] if stuck else steps[-1].row if steps else _NOBODY
    at = end if finding.waits or not steps else end - 1
    marks.append(Mark(who, at, _first(finding.message), "bad"))
    title = f"{finding.kind}, after {len(steps)} steps"
    rows = sorted(rows) or [_NOBODY]
    return Timeline(rows, spans, marks, unit="step", title=title, legend=LEGEND, down=True)


def _first(message: str) -> str:
    return message.splitlines()[0]


__all__ = ["LEGEND", "timeline"]
