"""Two roles that hand a slot over by named barriers alone: who arrives, who waits, in a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phasebit.emulator import BlockBarrierObserver, observing
from phasebit.launching.launch import compile as compile_cuda
from phasebit.timeline import Span, Timeline


@dataclass
class Came:
    """Threads of some warps come to a barrier: to be counted, or to wait as well."""

    number: int
    """Of the barrier."""
    warps: tuple[int, ...]
    waits: bool
    arrived: int
    """Threads that have come by then."""
    opens: bool = False
    """The barrier opens: enough have come."""


@dataclass
class Book(BlockBarrierObserver):
    """Keeps what comes to the named barriers of a launch's only block, in the order of the run."""

    events: list[Came] = field(default_factory=list)

    def joins_barrier(self, g: Any, barrier: Any) -> None:
        instruction = g.batch.machine.executing()
        warps = tuple(sorted({int(warp) for warp in g.batch.warp_of[g.lanes]}))
        waits = "arrive" not in instruction.text
        self.events.append(Came(barrier.number, warps, waits, barrier.arrived + g.n))

    def opens_barrier(
        self, barrier: Any, lanes: Any, groups: Any, instructions: Any, everyone: bool
    ) -> None:
        last = next(each for each in reversed(self.events) if each.number == barrier.number)
        last.opens = True


@contextmanager
def listening() -> Iterator[list[Came]]:
    """The list of who came, which grows while kernels run in the block."""
    book = Book()
    with observing(book):
        yield book.events


def picture(text: str, kernel: str, threads: int, of: int, names: dict[int, str]) -> Timeline:
    """A run of one block of a kernel that stores ``of`` numbers: time runs downwards.

    ``names``: what each barrier says. Raises ``ValueError`` where the run is not right.
    """
    out = np.full(of, -1, np.int32)
    with listening() as events:
        run = compile_cuda(text)[kernel].launch(1, threads, [out], device="emulator")
    if run.findings or not np.array_equal(out, np.arange(of)):
        raise ValueError(f"the run is not right: {run.findings or out}")
    return drawn(events, threads, names)


def drawn(events: list[Came], threads: int, names: dict[int, str]) -> Timeline:
    """A column for the warps that come together, and one for each barrier; a line for who comes."""
    who = {each.warps: f"warps {' and '.join(map(str, each.warps))}" for each in events}
    what = {number: f"barrier {number}, {name}" for number, name in names.items()}
    spans, waiting = [], dict[tuple[int, ...], tuple[int, int]]()
    held: dict[int, tuple[int, int]] = {}  # barrier -> since when, how many
    for step, each in enumerate(events):
        if each.warps in waiting:
            raise ValueError(f"{who[each.warps]} come twice at once")
        word = f"{'sync' if each.waits else 'arrive'} {each.number}"
        spans.append(Span(who[each.warps], step, step + 1,
                          "consume" if each.waits else "produce", word))  # fmt: skip
        if each.number in held:
            since, count = held.pop(each.number)
            if since < step:
                spans.append(Span(what[each.number], since, step, "full", f"{count} have come"))
        if not each.opens:
            held[each.number] = step, each.arrived
            if each.waits:
                waiting[each.warps] = step + 1, each.number
            continue
        spans.append(Span(what[each.number], step, step + 1, "hand-off", f"{each.arrived}: opens"))
        for warps, (since, number) in [*waiting.items()]:
            if number == each.number:
                del waiting[warps]
                why = f"{what[number]} to open"
                if since <= step:
                    spans.append(Span(who[warps], since, step + 1, "wait", "", why))
    end = len(events)
    for number, (since, count) in held.items():
        spans.append(Span(what[number], since, end, "full", f"{count} have come"))
    columns = sorted(who, key=min)
    rows = [who[columns[0]], *what.values(), *(who[each] for each in columns[1:])]
    return Timeline(
        rows, spans, unit="step", down=True, quiet=tuple(what.values()),
        title=f"A slot handed over by named barriers; {threads} threads open each",
        legend={"produce": "is counted, and goes on",
                "consume": "is counted; goes on once it is open", "wait": "waits",
                "full": "not enough have come", "hand-off": "opens"},
    )  # fmt: skip
