"""A recorded run as the page's script reads it, and as a picture.

:func:`packed` makes plain lists of what :class:`phasebit.launching.playback.Recorder` heard:

``end``       the last moment
``rows``      warps that do the same: ``name``, ``role``, ``steps`` (moments and blocks of the
              program in turn, each moment as the distance from the one before), ``ran`` (from, to:
              when they executed), ``waits`` (from, to, number of the barrier; to -1: for ever,
              barrier -1: ``__syncthreads()``, below: the barrier of that name), ``left``,
              ``touches`` (moments, likewise, and patterns of banks in turn, of the first of the
              warps)
``barriers``  of each its changes: moment, phase, arrivals missing and expected, bytes missing
``slots``     of each: ``name``, and from when on it is what, of which job
``engines``   ``name``, ``spans``: from, to, what
``findings``  ``at``, ``lines``, ``text``
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby, pairwise
from typing import Any

from phasebit.edits import statement
from phasebit.emulator import Finding, rulebook
from phasebit.launching.playback import Recorder, Touch, Work, lines_of, rows
from phasebit.launching.slot_history import Places, Ring, slots, slots_in
from phasebit.timeline import Span, Timeline

from .replay_scenes import Scene, ring

LEGEND = {
    "run": "executes", "wait": "waits", "copy": "a copy under way",
    "hand-off": "products under way", "produce": "being filled", "full": "full",
    "consume": "being read", "bad": "read before it is full",
}  # fmt: skip


def warps_text(warps: Sequence[int]) -> str:
    """``warp 0``, ``warps 1–7``, and in parts what does not stand together.

    >>> warps_text([0]), warps_text([0, 4]), warps_text([1, 2, 3, 5, 6, 7])
    ('warp 0', 'warps 0, 4', 'warps 1–3, 5–7')
    """
    parts = []
    for _, group in groupby(enumerate(warps), key=lambda each: each[1] - each[0]):
        run = [warp for _, warp in group]
        parts.append(f"{run[0]}–{run[-1]}" if len(run) > 1 else f"{run[0]}")
    return f"warp{'s' if len(warps) > 1 else ''} {', '.join(parts)}"


@dataclass(frozen=True)
class Parts:
    """What the parts of a program are called."""

    barriers: Sequence[str]
    """In the order in which they lie."""
    rings: Sequence[Ring | Places]
    roles: dict[int, str]
    """Warp -> what it does."""

    @classmethod
    def of(
        cls, scene: Scene, states: Mapping[int, Any], block: str = "",
        called: Mapping[int, str] | None = None,
    ) -> Parts:  # fmt: skip
        """Of a program with these mbarriers, by their places, in a block.

        ``called``: what the emulator calls them, for a scene that has no names. Raises
        ``ValueError`` where the scene names more or fewer barriers than there are.
        """
        count = len(states)
        if scene.own_names:
            return cls(own_names(called or {}), (), {})
        rings = scene.rings or [ring(count // 2)] * (count > 0)
        names = list(scene.barriers) or [
            name for each in rings if isinstance(each, Ring) for name in (*each.full, *each.empty)
        ]
        if len(names) != count:
            raise ValueError(f"{scene.title}: {count} barriers, and names for {len(names)}")
        does = scene.blocks.get(block, scene.roles)
        roles = {warp: role for role, warps in does.items() for warp in warps}
        return cls(names, rings, roles)


def own_names(called: Mapping[int, str]) -> list[str]:
    """What a program calls its mbarriers, in the order in which they lie.

    >>> own_names({0: "full", 8: "full+8", 64: "done"})
    ['full[0]', 'full[1]', 'done']
    """
    plain = {place: name.partition(" of block ")[0] for place, name in sorted(called.items())}
    parts = {place: name.partition("+") for place, name in plain.items()}
    several = {base for base, plus, _ in parts.values() if plus}
    return [
        f"{base}[{int(offset or 0) // 8}]" if base in several else base
        for base, _, offset in parts.values()
    ]


@dataclass
class Patterns:
    """What requests ask of the banks, each pattern once.

    ``kept``: load or not, bytes a lane, wavefronts, how many of them conflicts cost, and a letter
    for each bank, the number of its words in base 36.
    """

    kept: list[tuple[int, int, int, int, str]] = field(default_factory=list)
    numbers: dict[tuple[Any, ...], int] = field(default_factory=dict)

    def number(self, touch: Touch) -> int:
        banks = "".join("0123456789abcdefghijklmnopqrstuvwxyz"[n] for n in touch.banks)
        one = (int(touch.load), touch.size, touch.wavefronts, touch.lost, banks)
        if one not in self.numbers:
            self.numbers[one] = len(self.kept)
            self.kept.append(one)
        return self.numbers[one]


def packed(
    recorder: Recorder, findings: Sequence[Finding], parts: Parts, numbers: dict[int, int],
    patterns: Patterns, text: Sequence[str],
) -> dict[str, Any]:  # fmt: skip
    """See the module's text. ``numbers``: block of the program -> its number in the trace.

    ``text``: the source by lines. What is found in an assembler statement is told of its first.
    """
    if recorder.batch is None:
        return _refused(findings)

    def lines(finding: Finding) -> list[int]:
        known = [n for n in finding.lines if n <= len(text)]
        return sorted({statement(text, n) for n in known})

    end = recorder.end
    places = sorted(recorder.states)
    names = dict(zip(parts.barriers, places, strict=True))
    alone = len(recorder.cluster) == 1
    calls = {
        told: called[place] + f" of block {block}" * (not alone)
        for called in [{place: name for name, place in names.items()}]
        for (block, place), told in recorder.called.items()
    }
    order = {place: number for number, place in enumerate(places)}
    packed_rows = []
    for warps, steps, left, waited, ran in rows(recorder):
        waits = [
            (wait.start, -1 if wait.end is None else wait.end,
             order.get(wait.barrier, wait.barrier)) for wait in waited
        ]  # fmt: skip
        flat: list[int] = []
        last = 0
        for at, pc in steps:
            flat += [at - last, numbers[pc]]
            last = at
        does = {parts.roles.get(warp, "") for warp in warps}
        packed_rows.append({
            "name": warps_text(warps), "role": does.pop() if len(does) == 1 else "", "steps": flat,
            "ran": ran, "waits": waits, "left": left,
            "touches": _touches(recorder, warps[0], patterns),
        })  # fmt: skip
    moments = [*recorder.found, *[end] * (len(findings) - len(recorder.found))]
    found: dict[str, dict[str, Any]] = {}
    for at, finding in zip(moments, findings, strict=True):
        words = said(finding, calls, lines(finding), alone)
        found.setdefault(words, {"at": at, "lines": lines(finding), "text": words})
    return {
        "end": end,
        "rows": packed_rows,
        "barriers": [_thinned(recorder.states[place]) for place in places],
        "slots": [
            {"name": f"{ring.name} {number}", "history": history}
            for ring in parts.rings
            for number, history in enumerate(
                slots(recorder, ring, names) if isinstance(ring, Ring) else slots_in(recorder, ring)
            )
        ],
        "engines": _engines(recorder, {place: name for name, place in names.items()}, end),
        "findings": sorted(found.values(), key=lambda one: int(one["at"])),
    }


def _refused(findings: Sequence[Finding]) -> dict[str, Any]:
    """Of a program that the compiler does not take."""
    found = [{"at": 0, "lines": sorted(set(each.lines)),
              "text": f"The compiler refuses it: {each.message}."}
             for each in findings]  # fmt: skip
    return {"end": 0, "rows": [], "barriers": [], "slots": [], "engines": [], "findings": found}


def _touches(recorder: Recorder, warp: int, patterns: Patterns) -> list[int]:
    flat: list[int] = []
    last = 0
    for touch in sorted((t for t in recorder.touches if t.warp == warp), key=lambda t: t.at):
        flat += [touch.at - last, patterns.number(touch)]
        last = touch.at
    return flat


def _thinned(states: Sequence[Any]) -> list[tuple[int, ...]]:
    """The last state of each moment, and the one before a phase ends."""
    kept = [a for a, b in pairwise(states) if a.at != b.at or b.phase != a.phase]
    return [(s.at, s.phase, s.pending, s.expected, s.tx) for s in [*kept, states[-1]]]


def said(
    finding: Finding, calls: Mapping[str, str], lines: Sequence[int], alone: bool = True
) -> str:
    """The finding in a sentence, with lines of the source and the kernel's names of barriers.

    ``calls``: what the emulator calls each barrier -> what the kernel calls it. ``alone``: the
    block is no part of a cluster, so that nobody need be told which it is.
    """
    where = " and ".join(f"line {line}" for line in lines)
    if finding.kind == "race":
        return f"A race: nothing orders {where}."
    if finding.kind == "uninitialised":
        return f"{where[0].upper()}{where[1:]} reads what nobody has written."
    if not finding.waits:
        rule = rulebook.RULES.get(finding.rule)
        return f"{rule.sentence if rule else finding.message} Here: {where}."
    parts = []
    for wait in finding.waits:
        barrier = calls.get(wait.barrier)
        what = f"{wait.what.split(' of ')[0]} of {barrier}" if barrier else wait.what
        what = what.replace("barrier 0", "__syncthreads()")
        who = str(wait.threads).replace(" of block 0", "" if alone else " of block 0")
        who = who.replace("-", "–")
        parts.append(f"{who} {'waits' if who.startswith('thread ') else 'wait'} for {what}")
    return f"A {finding.kind}: {', '.join(parts)}, and nobody is left who could end it."


def _engines(recorder: Recorder, names: dict[int, str], end: int) -> list[dict[str, Any]]:
    """What is under way: copies that tell one barrier, products that end together are one span."""

    def key(work: Work) -> tuple[Any, ...]:
        stop = end if work.end is None else work.end
        row = "copies out" if work.engine == "copy engine" and work.barrier is None else work.engine
        barrier = -1 if work.barrier is None else work.barrier
        return (row, barrier, stop, work.group, work.block)

    def called(barrier: int, block: int) -> str:
        return names[barrier] + f" of block {block}" * (block != recorder.block)

    found: dict[str, list[tuple[int, int, str]]] = {}
    works = sorted(recorder.works, key=lambda work: (key(work), work.start))
    for (row, barrier, stop, group, block), together in groupby(works, key):
        parts = list(together)
        if row == "tensor core":
            what = f"{len(parts)} product{'s' if len(parts) > 1 else ''}"
            warps = sorted({warp for work in parts for warp in work.warps})
            told = f", told to {called(barrier, block)}" if barrier >= 0 else ""
            what += told or f" of {warps_text(warps)}"
        else:
            what = f"{sum(work.bytes for work in parts):,} bytes "
            if barrier >= 0:
                what += f"for {called(barrier, block)}"
            elif row != "cp.async":
                what += "to global memory"
            else:  # one that is done before its thread says of which group it is has none
                what += f"of group {group}" if group else "of one thread's copies"
        found.setdefault(row, []).append((parts[0].start, stop, what))
    order = ("cp.async", "copy engine", "tensor core", "copies out")
    return [{"name": name, "spans": sorted(found[name])} for name in order if name in found]


# -- the picture ------------------------------------------------------------------


def barrier_name(number: int, names: Sequence[str]) -> str:
    """What the number of a wait's barrier stands for, in words."""
    if number >= 0:
        return names[number]
    if number == -100:
        return "the cluster's barrier"
    return f"barrier {-1 - number}" if number < -1 else "__syncthreads()"


MEMORY = "shared memory"


def memory(run: dict[str, Any], banks: Sequence[Sequence[Any]]) -> list[Span]:
    """When threads store to shared memory and when they load from it, all rows together.

    ``banks``: the patterns that the run names by number; the first of each says whether it loads.
    """
    touched = sorted(
        (at, bool(banks[pattern][0])) for row in run["rows"]
        for at, pattern in zip(accumulate(row["touches"][::2]), row["touches"][1::2], strict=True)
    )  # fmt: skip
    spans = []
    for load, together in groupby(touched, key=lambda touch: touch[1]):
        moments = [at for at, _ in together]
        kind = "consume" if load else "produce"
        spans.append(Span(MEMORY, moments[0], moments[-1] + 1, kind))
    return spans


def picture(
    run: dict[str, Any], title: str, barriers: Sequence[str], banks: Sequence[Sequence[Any]] = ()
) -> Timeline:
    """The run as a timeline: its warps, its engines, its slots; ``barriers`` by name.

    Nothing is drawn where a warp neither executes nor waits: the emulator runs others.

    Where there are no slots shared memory has a row, as ``banks`` tell: :func:`memory`.
    """
    end = run["end"]
    spans: list[Span] = []
    for row in run["rows"]:
        own = [Span(row["name"], start, until, "run") for start, until in row["ran"]]
        for start, until, barrier in row["waits"]:
            until = end if until < 0 else until
            why = barrier_name(barrier, barriers)
            own.append(Span(row["name"], start, until, "wait", "", why))
        spans += sorted(own, key=lambda span: span.start)
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
    if not run["slots"] and (touched := memory(run, banks)):
        names.append(MEMORY)
        spans += touched
    return Timeline(names, spans, unit="instruction", title=title, legend=LEGEND)


def program(
    recorders: Sequence[Recorder], file: str, text: Sequence[str]
) -> tuple[list[list[int]], dict[int, int]]:
    """The blocks that runs of one program execute: of each its lines, and how often each in a row.

    And the number of each block in that list. ``text``: the source by lines; who is in an
    assembler statement is at its first.
    """
    lines: dict[int, list[int]] = {}
    for recorder in recorders:
        if recorder.batch is not None:
            lines.update(lines_of(recorder, file))
    numbers = {pc: number for number, pc in enumerate(sorted(lines))}

    def first(line: int) -> int:
        return statement(text, line) if 0 < line <= len(text) else line

    return [
        [
            n
            for line, same in groupby(first(line) for line in lines[pc])
            for n in (line, len(list(same)))
        ]
        for pc in sorted(lines)
    ], numbers
