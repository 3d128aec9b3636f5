"""Pictures and counts of *Attention again*, from runs on the emulator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from phasebit.chapters.attention_again.tensor_attention import ROWS, Layout

if TYPE_CHECKING:
    from phasebit.draw import Node, Picture
    from phasebit.emulator import Run
    from phasebit.timeline import Span

PIECE = 32
"""Columns that a thread fetches at a time."""


class Seen(NamedTuple):
    """A phase that completed, a wait that went on, an arrival, columns used, or a product."""

    what: str
    """``completes``, ``passes``, ``arrives``, ``commits``, ``loads``, ``stores``, or a product:
    ``multiplies``."""
    where: str
    """A barrier as the emulator calls it; of a load, a store and a product the first column."""
    at: int
    """The emulator's clock."""
    warp: int
    """Who did it; -1 for a completion."""


@contextmanager
def watching() -> Iterator[list[Seen]]:
    """Collects what the first block of kernels does that run on the emulator meanwhile."""
    from phasebit.emulator import observing

    log: list[Seen] = []
    with observing(_observer(log)):
        yield log


def _observer(log: list[Seen]) -> object:
    from phasebit.emulator import LaunchObserver, MbarrierObserver, TensorObserver

    class Watcher(LaunchObserver, MbarrierObserver, TensorObserver):
        def _saw(self, g: Any, lanes: Any, what: str, where: str, at: int) -> None:
            batch = g.batch
            for warp in sorted({int(w) for w in batch.warp_of[lanes]}):
                slot, mine = divmod(warp, batch.warps)
                if int(batch.blocks[slot]) == 0:
                    log.append(Seen(what, where, at, mine))

        def completes(self, site: Any) -> None:
            if int(site.batch.blocks[site.slot]) == 0:
                log.append(Seen("completes", site.name, site.time, -1))

        def passes(self, g: Any, site: Any) -> None:
            self._saw(g, g.lanes, "passes", site.name, max(g.time, site.opened))

        def arrives_at(self, g: Any, barrier: str) -> None:
            self._saw(g, g.lanes, "arrives", barrier, g.time)

        def commits(self, commit: Any) -> None:
            g = commit.thread
            self._saw(g, g.lanes, "commits", commit.site.name, g.time)

        def loads_columns(self, g: Any, regions: Any, registers: int) -> None:
            for lanes, region in regions:
                self._saw(g, lanes, "loads", str(region.columns.start), g.time)

        def stores_columns(self, g: Any, regions: Any, registers: int) -> None:
            for lanes, region in regions:
                self._saw(g, lanes, "stores", str(region.columns.start), g.time)

        def multiplies(self, g: Any, target: Any, *rest: Any) -> None:
            self._saw(g, g.lanes, "multiplies", str(target.columns.start), g.time)

    return Watcher()


def _visible(spans: Iterable[Span]) -> list[Span]:
    """The same spans, none too short to be seen.

    A short one is drawn longer: into the gap behind it, and where there is none over the end of
    the span before it.
    """
    every = sorted(spans)
    last = max(span.end for span in every)
    least = _LEAST * (last - min(span.start for span in every))
    drawn: list[Span] = []
    for _, together in groupby(every, key=lambda span: span.row):
        row = list(together)
        for k, span in enumerate(row):
            if span.end - span.start >= least:
                continue
            room = row[k + 1].start if k + 1 < len(row) else last
            end = max(span.end, min(room, span.start + least))
            start = min(span.start, end - least)
            if k and row[k - 1].end > start:
                if row[k - 1].end - row[k - 1].start >= 3 * least:
                    row[k - 1] = row[k - 1]._replace(end=start)
                else:
                    start = max(start, min(span.start, row[k - 1].end))
            row[k] = span._replace(start=max(start, 0), end=end)
        drawn += row
    return drawn


_LEAST = 0.008
"""Of a picture, the shortest span that is seen."""


class Roles(NamedTuple):
    """Who a warp is, in kernels with roles."""

    names: dict[str, range]
    """Role -> its warps."""

    @classmethod
    def of(cls, text: str) -> Roles:
        groups = {"softmax 0": range(4), "softmax 1": range(4, 8)}
        if "CORRECTION = " in text:
            return cls({"loader": range(12, 13), "multiplier": range(13, 14), **groups,
                        "correction": range(8, 12), "storer": range(14, 15)})  # fmt: skip
        return cls({"loader": range(8, 9), "multiplier": range(9, 10), **groups})


def timeline(text: str, depth: int, log: Sequence[Seen]) -> Picture:
    """Who works on which tile when, on the emulator's clock: instructions, no time.

    A softmax group works from scores to weights; the correction from a factor to its own arrival;
    the tensor core from the last thing that it waited for to the end of its products. Its text
    says what each row shows and which overlap, which hardly depends on the compiler.
    """
    from phasebit.draw import Picture
    from phasebit.timeline import Mark, Span, Timeline

    names = Layout.of(text, depth).barriers
    roles = Roles.of(text).names
    events: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    for seen in log:
        if seen.where in names:
            events[seen.what, names[seen.where], seen.warp].append(seen.at)
    spans: list[Span] = []
    marks = []

    def add(row: str, begins: list[int], ends: list[int], tile: int, words: str = "{}") -> None:
        for step, (begin, end) in enumerate(zip(begins, ends, strict=False)):
            if end > begin:
                spans.append(Span(row, begin, end, f"tile {tile}", words.format(step)))

    multiplier = roles["multiplier"].start
    for tile in range(2):
        group = roles[f"softmax {tile}"].start
        ready = events["passes", f"ready {tile}", multiplier]
        scores = events["completes", f"s_full {tile}", -1]
        last = events["completes", f"o_full {tile}", -1]
        add("tensor core", ready, [*scores[1:], *last], tile)
        add(f"softmax {tile}", events["passes", f"s_full {tile}", group],
            events["arrives", f"ready {tile}", group], tile)  # fmt: skip
        finisher = group
        if "correction" in roles:
            finisher = roles["correction"].start
            add("correction", events["passes", f"factor_full {tile}", finisher],
                events["arrives", f"ready {tile}", finisher], tile)  # fmt: skip
        row = "correction" if "correction" in roles else f"softmax {tile}"
        add(row, events["passes", f"o_full {tile}", finisher],
            events["arrives", f"out_full {tile}", finisher], tile, "O")  # fmt: skip
        leaver = roles.get("storer", roles["loader"]).start
        leaving = "storer" if "storer" in roles else "loader"
        marks += [Mark(leaving, at, f"tile {tile} of O leaves")
                  for at in events["passes", f"out_full {tile}", leaver]]  # fmt: skip
    copies: list[tuple[int, int]] = []
    for slot in range(3):
        copies += zip(events["passes", f"kv_empty {slot}", roles["loader"].start],
                      events["completes", f"kv_full {slot}", -1], strict=False)  # fmt: skip
    for number, (begin, end) in enumerate(sorted(copies)):
        spans.append(Span("loader", begin, max(end, begin + 1), "copy", "KV"[number % 2]))
    rows = ["loader", "tensor core", "softmax 0", "softmax 1"]
    rows += ["correction"] * ("correction" in roles) + ["storer"] * ("storer" in roles)
    title = "The roles of a block on the emulator, whose clock counts instructions: no time"
    drawn = Timeline(
        rows, _visible(spans), marks, unit="instruction", title=title,
        legend={"copy": "a tile of K or V comes"},
    )  # fmt: skip
    told = [*_orders(rows, spans, marks), *_overlaps(spans)]
    return Picture.of(drawn, f"{title}.\n" + "\n".join(told))


def _orders(rows: Sequence[str], spans: Sequence[Any], marks: Sequence[Any]) -> list[str]:
    """What each row of the picture shows, from left to right: the order, not the clocks."""
    lines = []
    for row in rows:
        shown = sorted((s for s in spans if s.row == row), key=lambda s: s.start)
        words = [s.label if s.kind == "copy" else f"{s.kind} {_step(s.label)}" for s in shown]
        words += [mark.label for mark in sorted(marks, key=lambda m: m.at) if mark.row == row]
        lines.append(f"row {row}, from left to right: {', '.join(words)}")
    return lines


def _step(label: str) -> str:
    return f"step {label}" if label.isdigit() else label


def _overlaps(spans: Sequence[Any]) -> list[str]:
    lines = []
    for tile in range(2):
        mine = [s for s in spans if s.row == f"softmax {tile}" and s.label.isdigit()]
        for span in mine:
            beside = [f"{s.row} has step {s.label} of tile {s.kind[-1]}" for s in spans
                      if s.row in ("tensor core", f"softmax {1 - tile}") and s.label.isdigit()
                      and s.kind != f"tile {tile}" and s.start < span.end and span.start < s.end]
            what = f", while {' and '.join(dict.fromkeys(beside))}" if beside else ", alone"
            lines.append(f"{span.row} makes the weights of step {span.label}{what}")
    return lines


SLOTS = {"S": "S, by the tensor core, until fetched for the last time",
         "P": "P, by the softmax, until the tensor core takes it",
         "core": "the tensor core reads P, then writes the next S"}  # fmt: skip
"""What columns of a slot hold, or who is at work on them."""
_LOOKS = {"S": "consume", "P": "produce", "core": "hand-off"}


class Held(NamedTuple):
    """What 32 columns hold for a while, in the lanes of their tile's first warp."""

    first: int
    """Column."""
    begin: int
    end: int
    """On the emulator's clock."""
    what: str
    """One of :data:`SLOTS`."""
    step: int


def held(text: str, depth: int, log: Sequence[Seen]) -> list[Held]:
    """What the columns of S and P hold in a run of one block, 32 columns at a time.

    Where nothing is named, they hold nothing that anybody will read.
    """
    names = Layout.of(text, depth).barriers
    roles = Roles.of(text).names
    multiplier = roles["multiplier"].start

    def times(what: str, warp: int, first: int, wide: int = 1) -> list[int]:
        return [s.at for s in log if s.what == what and s.warp == warp
                and s.where.isdigit() and first <= int(s.where) < first + wide]  # fmt: skip

    def completed(name: str) -> list[int]:
        return [s.at for s in log if s.what == "completes" and names.get(s.where) == name]

    found = []
    for tile in range(2):
        group, base = roles[f"softmax {tile}"].start, tile * ROWS
        scores, last = completed(f"s_full {tile}"), completed(f"o_full {tile}")
        products = times("multiplies", multiplier, 2 * ROWS + tile * depth)  # eight read one P
        for step, (begin, end) in enumerate(zip(scores, [*scores[1:], *last], strict=True)):
            reads = products[step * 8 :][:8]
            stores = [at for at in times("stores", group, base, ROWS) if begin <= at <= end]
            for number, first in enumerate(range(base, base + ROWS, PIECE)):
                fetched = max(at for at in times("loads", group, first) if begin <= at <= end)
                found.append(Held(first, begin, fetched, "S", step))
                if number < 2:  # P has half as many columns: two pieces of it, four products
                    stored, read = stores[-4:][2 * number], reads[4 * number]
                    found.append(Held(first, stored, read, "P", step))
                    found.append(Held(first, read, end, "core", step))
    return found


def slots(text: str, depth: int, log: Sequence[Seen]) -> Picture:
    """:func:`held`, drawn. Its text gives the order of what lies there, not the clocks."""
    from phasebit.draw import Picture
    from phasebit.timeline import Span, Timeline

    every = sorted(held(text, depth, log))
    rows = {first: f"tile {first // ROWS}, columns from {first}"
            for first in range(0, 2 * ROWS, PIECE)}  # fmt: skip
    spans = [Span(rows[each.first], each.begin, each.end, _LOOKS[each.what],
                  "" if each.what == "core" else f"{each.what} {each.step}")
             for each in every]  # fmt: skip
    title = "Columns of S and P, 32 to a row, on the emulator's clock, which counts instructions"
    legend = {_LOOKS[what]: words for what, words in SLOTS.items()}
    drawn = Timeline(
        [*rows.values()], _visible(spans), unit="instruction", title=title, legend=legend
    )
    told = []
    for first, row in rows.items():
        mine = [each for each in every if each.first == first]
        words = []
        for each, after in zip(mine, [*mine[1:], None], strict=True):
            words.append("tensor core" if each.what == "core" else f"{each.what} {each.step}")
            if after and after.begin > each.end:
                words.append("nothing")
        told.append(f"row {row}, from left to right: {', '.join(words)}")
    return Picture.of(drawn, f"{title}.\n" + "\n".join(told))


def who_tells_whom(text: str, depth: int, log: Sequence[Seen]) -> Picture:
    """The roles; an arrow from whoever arrives at a barrier, or commits to it, to whoever waits.

    Both softmax groups are one box.
    """
    from phasebit.draw import Arrow, diagram

    names = Layout.of(text, depth).barriers
    roles = Roles.of(text).names
    role_of = {warp: role.split()[0] for role, warps in roles.items() for warp in warps}
    tell: dict[str, set[str]] = defaultdict(set)
    wait: dict[str, set[str]] = defaultdict(set)
    for seen in log:
        if seen.where in names and seen.what in ("arrives", "commits", "passes"):
            side = wait if seen.what == "passes" else tell
            side[names[seen.where].split()[0]].add(role_of[seen.warp])
    words: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in dict.fromkeys(each.split()[0] for each in names.values()):
        for start in sorted(tell[name], key=[*_PLACES].index):
            for end in wait[name] - {start}:
                words[start, end].append(name)
    arrows = [Arrow(*pair, ", ".join(each), _BENDS.get(pair, 0.0)) for pair, each in words.items()]
    boxes = {role: _box(role, roles, x) for role, x in _PLACES.items()}
    title = "Who tells whom: barriers, from who arrives or commits to who waits"
    listed = {  # on a phone: a row for each arrow
        f"{k}{side}": boxes[role]._replace(text=role, x=x, y=44.0 * k)
        for k, arrow in enumerate(arrows)
        for side, role, x in (("from", arrow.start, 46.0), ("to", arrow.end, 290.0))
    }
    rows = [Arrow(f"{k}from", f"{k}to", arrow.label) for k, arrow in enumerate(arrows)]
    return diagram(boxes, arrows, title=title, narrow=(listed, rows))


def _box(role: str, roles: dict[str, range], x: float) -> Node:
    from phasebit.draw import Node

    warps = [warp for name, each in roles.items() if name.split()[0] == role for warp in each]
    of = f"warps {warps[0]}–{warps[-1]}" if len(warps) > 1 else f"warp {warps[0]}"
    hue = {"softmax": "pink", "correction": "orange", "multiplier": "green"}.get(role, "cyan")
    return Node(f"{role}\n{of}", x, 0.0, hue)


_PLACES = {"loader": 0.0, "multiplier": 155.0, "softmax": 330.0, "correction": 550.0,
           "storer": 700.0}  # fmt: skip
"""Of the roles in :func:`who_tells_whom`, from left to right."""
_BENDS = {("loader", "multiplier"): 14.0, ("multiplier", "loader"): 14.0,
          ("multiplier", "softmax"): 14.0, ("softmax", "multiplier"): 14.0,
          ("multiplier", "correction"): 56.0, ("correction", "multiplier"): 56.0}  # fmt: skip


def rescales(text: str, depth: int, log: Sequence[Seen], steps: int) -> tuple[int, int]:
    """How often a warp rescaled its 32 rows of O in the first block, and how often it might have.

    ``steps``: of the block; the first needs none.
    """
    roles = Roles.of(text).names
    able = roles.get("correction")
    warps = list(able) if able else [*roles["softmax 0"], *roles["softmax 1"]]
    pieces = depth // PIECE
    made = sum(
        s.what == "stores" and s.warp in warps and int(s.where) >= 2 * ROWS for s in log
    )  # fmt: skip
    return made // pieces, 2 * 4 * (steps - 1)


def instructions(text: str, run: Run) -> dict[str, int]:
    """Warp instructions of PTX that each role executes: the clocks in which its warps run."""
    spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for event in run.trace.events:
        if event.kind == "run" and event.block == 0:
            for warp in event.warps:
                spans[warp].append((event.start, event.end))

    def busy(warp: int) -> int:
        total = done = 0
        for start, end in sorted(spans[warp]):  # the parts of a warp run side by side
            total += max(0, end - max(start, done))
            done = max(done, end)
        return total

    return {role: sum(map(busy, warps)) for role, warps in Roles.of(text).names.items()}


def tensor_memory(depth: int) -> Picture:
    """Which columns hold what, before and after a softmax group has worked on them."""
    from phasebit.draw import Cell, chart

    part = 64
    outputs = [f"O {tile}" for tile in range(2) for _ in range(depth // part)]
    scores: list[str | None] = ["S 0", "S 0", "S 1", "S 1", *outputs]
    weights: list[str | None] = ["P 0", None, "P 1", None, *outputs]
    hues = {"S": "orange", "P": "blue", "O": "green"}
    title = f"Tensor memory, heads of {depth}"
    drawn = chart(
        [[Cell(name, hues[name[0]]) if name else None for name in line]
         for line in (scores, weights)],
        rows=["scores have come", "weights are there"],
        columns=[f"{i * part}-{i * part + part - 1}" for i in range(len(scores))],
        row_label="when", column_label="columns, of all 128 lanes", title=title,
        legend={"orange": "S: f32, a score to a column", "blue": "P: bf16, two weights to a column",
                "green": "O: f32"},
    )  # fmt: skip
    o = 2 * ROWS
    return replace(
        drawn, alt=f"{title}: S 0 in columns 0 to 127, S 1 in 128 to 255; P 0 in 0 to 63, P 1 in "
        f"128 to 191, over the scores; O 0 in {o} to {o + depth - 1}, O 1 in {o + depth} to "
        f"{o + 2 * depth - 1}.",
    )  # fmt: skip
