"""What each warp did when.

The emulator's clock is a simple model: every instruction takes one cycle of the
group that executes it, groups run side by side, and a thread that waits goes on
at the moment of the event it waited for.  It shows order and overlap; it is not
a time that any GPU would take.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from phasebit.emulator.machine.accesses import Access
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.ptx.types import Array


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
class Trace(LaunchObserver):
    """Listens to what threads do when, and keeps it."""

    limit: int = 200_000
    events: list[Event] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    accesses: list[Access] | None = None
    """Loads and stores, or None when nobody asked for them."""

    def ran(self, g: Group) -> None:
        """The group has run until now."""
        if g.time > g.started:
            self._add(g, g.started, g.time, "run", "")
            g.started = g.time

    def leaves(self, g: Group) -> None:
        """The group has run to its end."""
        self.ran(g)

    def waited(self, g: Group, start: int, end: int, what: str) -> None:
        """The group waited."""
        self._add(g, start, end, "wait", what)
        g.started = end

    def arrives_at(self, g: Group, barrier: str) -> None:
        """The group arrives at an mbarrier."""
        if len(self.signals) < self.limit:
            batch = g.batch
            for slot, warps in warps_of(batch.warps, batch.warp_of[g.lanes]).items():
                self.signals.append(Signal(int(batch.blocks[slot]), warps, g.time, barrier))

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
