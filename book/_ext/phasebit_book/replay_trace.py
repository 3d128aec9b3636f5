"""A recorded run as the page's script reads it, and as a picture.

:func:`packed` makes plain lists of what :class:`phasebit.launching.playback.Recorder` heard:

``end``       the last moment
``rows``      warps that do the same: ``name``, ``steps`` (moments and blocks of the program in
              turn, each moment as the distance from the one before), ``waits`` (from, to, number of
              the barrier; to -1: for ever, barrier -1: ``__syncthreads()``), ``left``
``barriers``  of each its changes: moment, phase, arrivals missing and expected, bytes missing
``slots``     of each: ``name``, and from when on it is what, of which job
``engines``   ``name``, ``spans``: from, to, what
``findings``  ``at``, ``lines``, ``text``
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from typing import Any

from phasebit.emulator import Finding
from phasebit.launching.playback import Recorder, Ring, Work, lines_of, rows, slots
from phasebit.timeline import Span, Timeline

LEGEND = {
    "run": "executes", "wait": "waits", "copy": "a copy under way",
    "hand-off": "products under way", "produce": "being filled", "full": "full",
    "consume": "being read", "bad": "read before it is full",
}  # fmt: skip


def warps_text(warps: Sequence[int]) -> str:
    """``warp 0``, ``warps 1–7``."""
    if len(warps) == 1:
        return f"warp {warps[0]}"
    together = warps[-1] - warps[0] == len(warps) - 1
    return f"warps {warps[0]}–{warps[-1]}" if together else f"warps {', '.join(map(str, warps))}"


def _within(warps: Sequence[int], others: Sequence[int]) -> bool:
    return set(warps) <= set(others)


def packed(
    recorder: Recorder, findings: Sequence[Finding], rings: Sequence[Ring], numbers: dict[int, int]
) -> dict[str, Any]:
    """See the module's text. ``numbers``: block of the program -> its number in the trace."""
    end = recorder.end
    places = sorted(recorder.states)
    names = dict(zip(_names(rings), places, strict=True))
    order = {place: number for number, place in enumerate(places)}
    every = [*recorder.waits_, *recorder.open_waits()]
    packed_rows = []
    for warps, steps, left in rows(recorder):
        waits = sorted({
            (wait.start, -1 if wait.end is None else wait.end, order.get(wait.barrier, -1))
            for wait in every if _within(warps, wait.warps)
        })  # fmt: skip
        flat: list[int] = []
        last = 0
        for at, pc in steps:
            flat += [at - last, numbers[pc]]
            last = at
        packed_rows.append({"name": warps_text(warps), "steps": flat, "waits": waits, "left": left})
    moments = [*recorder.found, *[end] * (len(findings) - len(recorder.found))]
    found: dict[str, dict[str, Any]] = {}
    for at, finding in zip(moments, findings, strict=True):
        text = said(finding, names)
        found.setdefault(text, {"at": at, "lines": sorted(set(finding.lines)), "text": text})
    return {
        "end": end,
        "rows": packed_rows,
        "barriers": [_thinned(recorder.states[place]) for place in places],
        "slots": [
            {"name": f"{ring.name} {number}", "history": history}
            for ring in rings
            for number, history in enumerate(slots(recorder, ring, names))
        ],
        "engines": _engines(recorder, {place: name for name, place in names.items()}, end),
        "findings": list(found.values()),
    }


def _names(rings: Iterable[Ring]) -> list[str]:
    """The barriers in the order in which they lie: of each ring *full*, then *empty*."""
    return [name for ring in rings for name in (*ring.full, *ring.empty)]


def _thinned(states: Sequence[Any]) -> list[tuple[int, ...]]:
    """The last state of each moment, and the one before a phase ends."""
    kept = [a for a, b in pairwise(states) if a.at != b.at or b.phase != a.phase]
    return [(s.at, s.phase, s.pending, s.expected, s.tx) for s in [*kept, states[-1]]]


def said(finding: Finding, names: Iterable[str]) -> str:
    """The finding in a sentence, with lines of the source and the kernel's names of barriers."""
    where = " and ".join(f"line {line}" for line in sorted(set(finding.lines)))
    if finding.kind == "race":
        return f"A race: nothing orders {where}."
    if finding.kind == "uninitialised":
        return f"{where[0].upper()}{where[1:]} reads what nobody has written."
    if not finding.waits:
        return f"Found by the rule {finding.rule}: {where}."
    parts = []
    for wait in finding.waits:
        offset = int(wait.barrier.rpartition("+")[2]) if "+" in wait.barrier else 0
        barrier = next((name for name in names if _is(wait.barrier, name, offset)), None)
        what = f"{wait.what.split(' of ')[0]} of {barrier}" if barrier else wait.what
        what = what.replace("barrier 0", "__syncthreads()")
        who = str(wait.threads).replace(" of block 0", "").replace("-", "–")
        parts.append(f"{who} wait for {what}")
    return f"A {finding.kind}: {', '.join(parts)}, and nobody is left who could end it."


def _is(said: str, name: str, offset: int) -> bool:
    """Whether the emulator's ``full+8`` is ``full[1]``."""
    base, _, number = name.partition("[")
    return said.partition("+")[0] == base and offset == 8 * int(number.rstrip("]") or 0)


def _engines(recorder: Recorder, names: dict[int, str], end: int) -> list[dict[str, Any]]:
    """What is under way: copies that tell one barrier, products that end together are one span."""

    def key(work: Work) -> tuple[Any, ...]:
        stop = end if work.end is None else work.end
        row = "copies out" if work.engine == "copy engine" and work.barrier is None else work.engine
        return (row, -1 if work.barrier is None else work.barrier, stop)

    found: dict[str, list[tuple[int, int, str]]] = {}
    works = sorted(recorder.works, key=lambda work: (key(work), work.start))
    for (row, barrier, stop), together in groupby(works, key):
        parts = list(together)
        if row == "tensor core":
            what = f"{len(parts)} product{'s' if len(parts) > 1 else ''}"
            warps = sorted({warp for work in parts for warp in work.warps})
            what += f", told to {names[barrier]}" if barrier >= 0 else f" of {warps_text(warps)}"
        else:
            what = f"{sum(work.bytes for work in parts):,} bytes "
            what += f"for {names[barrier]}" if barrier >= 0 else "to global memory"
        found.setdefault(row, []).append((parts[0].start, stop, what))
    order = ("copy engine", "tensor core", "copies out")
    return [{"name": name, "spans": sorted(found[name])} for name in order if name in found]


# -- the picture ------------------------------------------------------------------


def picture(run: dict[str, Any], title: str) -> Timeline:
    """The run as a timeline: its warps, its engines, its slots."""
    end = run["end"]
    spans: list[Span] = []
    for row in run["rows"]:
        at = 0
        stop = row["left"] if row["left"] >= 0 else end
        for start, until, _ in row["waits"]:
            until = end if until < 0 else until
            spans += [Span(row["name"], at, start, "run")] * (start > at)
            spans.append(Span(row["name"], start, until, "wait"))
            at = until
        spans += [Span(row["name"], at, stop, "run")] * (stop > at)
    for engine in run["engines"]:
        kind = "hand-off" if engine["name"] == "tensor core" else "copy"
        spans += [Span(engine["name"], a, b, kind) for a, b, _ in engine["spans"]]
    kinds = {"filling": "produce", "full": "full", "draining": "consume", "early": "bad"}
    for slot in run["slots"]:
        history = [*slot["history"], (end, "empty", 0)]
        for (at, what, job), (until, *_) in pairwise(history):
            if what in kinds and until > at:
                label = "" if what == "full" else str(job)
                spans.append(Span(slot["name"], at, until, kinds[what], label))
    names = [each["name"] for group in ("rows", "engines", "slots") for each in run[group]]
    return Timeline(names, spans, unit="cycle", title=title, legend=LEGEND)


def program(recorders: Sequence[Recorder], file: str) -> tuple[list[list[int]], dict[int, int]]:
    """The blocks that runs of one program execute: of each its lines, and how often each in a row.

    And the number of each block in that list.
    """
    lines: dict[int, list[int]] = {}
    for recorder in recorders:
        lines.update(lines_of(recorder, file))
    numbers = {pc: number for number, pc in enumerate(sorted(lines))}
    return [
        [n for line, same in groupby(lines[pc]) for n in (line, len(list(same)))]
        for pc in sorted(lines)
    ], numbers
