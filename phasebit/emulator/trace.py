"""What each warp did when, for :mod:`phasebit.timeline`.

The emulator's clock is a simple model: every instruction takes one cycle of the
group that executes it, groups run side by side, and a thread that waits goes on
at the moment of the event it waited for.  It shows order and overlap; it is not
a time that any GPU would take.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from phasebit.emulator.accesses import Access
from phasebit.emulator.types import Array

if TYPE_CHECKING:
    from phasebit.emulator.group import Group
    from phasebit.timeline import Timeline


@dataclass(frozen=True)
class Event:
    """The warps of a block, from ``start`` to ``end``: ``kind`` is run or wait."""

    block: int
    warps: tuple[int, ...]
    start: int
    end: int
    kind: str
    label: str


@dataclass(frozen=True)
class Signal:
    """The warps of a block arrive at an mbarrier, at this time."""

    block: int
    warps: tuple[int, ...]
    at: int
    barrier: str


@dataclass(eq=False)
class Trace:
    """Collects events; ``enabled=False`` makes every method return at once."""

    enabled: bool
    limit: int = 200_000
    events: list[Event] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    accesses: list[Access] | None = None
    """Loads and stores, or None when nobody asked for them."""

    def start_time(self, clock: int) -> int:
        return 0 if not self.events else clock

    def run(self, g: Group, end: int) -> None:
        """The group has run until ``end``."""
        if self.enabled and end > g.started:
            self._add(g, g.started, end, "run", "")
            g.started = end

    def catch_up(self, g: Group, moment: int, what: str) -> None:
        """What the group waited for happened later than the group's own time: it waited.

        The machine runs groups one after another, so the event may be over before
        the group comes to look.
        """
        if moment > g.time:
            self.run(g, g.time)
            self.wait(g, g.time, moment, what)
            g.time = moment

    def wait(self, g: Group, start: int, end: int, what: str) -> None:
        """The group waited."""
        if self.enabled:
            self._add(g, start, end, "wait", what)
            g.started = end

    def signal(self, g: Group, barrier: str) -> None:
        """The group arrives at an mbarrier."""
        if self.enabled and len(self.signals) < self.limit:
            batch = g.batch
            for slot, warps in warps_of(batch.warps, batch.warp_of[g.lanes]).items():
                self.signals.append(Signal(int(batch.blocks[slot]), warps, g.time, barrier))

    def timeline(self, block: int = 0) -> Timeline:
        """The warps of a block: what they did, and what they waited for."""
        return draw(self.events, block)

    def _add(self, g: Group, start: int, end: int, kind: str, label: str) -> None:
        if len(self.events) >= self.limit:
            return
        batch = g.batch
        for slot, warps in warps_of(batch.warps, batch.warp_of[g.lanes]).items():
            self.events.append(Event(int(batch.blocks[slot]), warps, start, end, kind, label))


def warps_of(warps_in_block: int, warp_numbers: Array) -> dict[int, tuple[int, ...]]:
    """Warp numbers of a batch by block; ``warp_numbers``: of each thread, in order."""
    result: dict[int, tuple[int, ...]] = {}
    first = np.flatnonzero(warp_numbers[1:] != warp_numbers[:-1]) + 1
    for number in [int(warp_numbers[0]), *warp_numbers[first].tolist()]:
        slot, warp = divmod(number, warps_in_block)
        result[slot] = (*result.get(slot, ()), warp)
    return result


def draw(events: list[Event], block: int) -> Timeline:
    """The warps of one block as a timeline."""
    from phasebit.timeline import Span, Timeline

    mine = [e for e in events if e.block == block]
    warps = sorted({w for e in mine for w in e.warps})
    spans = []
    for event in sorted(mine, key=lambda e: (e.start, e.end)):
        for warp in event.warps:
            kind = "wait" if event.kind == "wait" else "run"
            spans.append(Span(f"warp {warp}", event.start, event.end, kind, event.label))
    return Timeline(
        [f"warp {w}" for w in warps], spans, unit="cycle", title=f"block {block}",
        legend={"run": "executes", "wait": "waits at a barrier"},
    )  # fmt: skip
