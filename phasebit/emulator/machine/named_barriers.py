"""The 16 barriers of a block, and who waits at them (PTX ISA 9.7.13.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phasebit.emulator.errors import Fault
from phasebit.emulator.findings import Sentence, say
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.machine.waiting import Waiting
from phasebit.emulator.ptx.syntax import Instruction
from phasebit.emulator.ptx.types import Array

BARRIERS = 16
"""Of a block."""


class BlockBarrierObserver:
    """Events of the barriers of blocks."""

    def joins_barrier(self, g: Group, barrier: NamedBarrier) -> None:
        """Threads are about to be counted at a barrier."""

    def opens_barrier(
        self, barrier: NamedBarrier, lanes: Array, groups: Sequence[Group],
        instructions: Sequence[Instruction | None], everyone: bool,
    ) -> None:  # fmt: skip
        """Enough threads have arrived, ``lanes``; some of them waited, ``groups``.

        ``instructions``: at which each group waited.  ``everyone``: they are all that live.
        """

    def syncs_block(self, g: Group) -> None:
        """``bar.sync``: threads come to a barrier."""

    def passes_barrier(self, g: Group) -> None:
        """All threads of all blocks of a batch come to a barrier together, and go on."""


class NamedBarrier:
    """One of the 16 barriers of a block, or the barrier of a cluster."""

    def __init__(self, batch: Batch, slot: int, number: int) -> None:
        self.batch = batch
        self.slot = slot
        self.number = number
        self.reset()

    def reset(self) -> None:
        self.expected: int | None = None
        self.arrived = 0
        self.lanes: list[Array] = []
        self.waiting: list[tuple[Group, int, Any]] = []
        """Group, where to go on, what to do with it then."""
        self.instructions: list[Instruction | None] = []
        """At which each of them waits."""
        self.votes: list[Array] = []
        self.kind = ""

    def arrive(
        self, g: Group, expected: int | None, kind: str, resume: int | None, finish: Any = None
    ) -> None:
        """Threads arrive; with ``resume`` they also wait."""
        machine = self.batch.machine
        if self.kind and kind != self.kind and "red" in (kind[:3], self.kind[:3]):
            raise Fault(
                "{} is used by {} and by {} at once, by {} at {}",
                self.name, self.kind, kind, self.batch.describe(g.lanes), machine.where(g),
            )
        self.kind = kind
        if expected is not None and (expected <= 0 or expected % 32):
            raise Fault(
                "{} is told to wait for {} threads by {}: the number must be a multiple of 32; at "
                "{}",
                self.name, expected, self.batch.describe(g.lanes), machine.where(g),
            )
        if expected is not None:
            other = self.expected is not None and expected != self.expected
            for misused in machine.told[LaunchObserver.misused] if other else ():
                misused(
                    g,
                    say(
                        "{} is told to wait for {} threads here and for {} elsewhere in the "
                        "same generation",
                        self.name, expected, self.expected,
                    ),
                )  # fmt: skip
            self.expected = expected
        for told in machine.told[BlockBarrierObserver.joins_barrier]:
            told(g, self)
        self.arrived += g.n
        self.lanes.append(g.lanes)
        if resume is not None:
            self.waiting.append((g, resume, finish))
            self.instructions.append(machine.executing())
            machine.park(g, Waiting(self.name, machine.where(g), self.explain))
        self.check()

    @property
    def name(self) -> str:
        return f"barrier {self.number}" if self.number >= 0 else "the cluster barrier"

    def needed(self) -> int:
        """How many threads complete the barrier: those asked for, or all that live."""
        if self.expected is not None:
            return self.expected
        return int(self.batch.live_in_block[self.slot])

    def check(self) -> None:
        """Open the barrier when enough threads have arrived."""
        if not self.arrived or self.arrived < self.needed():
            return
        waiting, machine = self.waiting, self.batch.machine
        votes = np.concatenate(self.votes) if self.votes else None
        time = max((g.time for g, _, _ in waiting), default=0)
        lanes = np.concatenate(self.lanes)
        everyone = len(lanes) == int(self.batch.live_in_block[self.slot])
        if machine.told[LaunchObserver.misused]:
            self._together()
        instructions = self.instructions
        self.reset()
        machine.progress += 1
        for told in machine.told[BlockBarrierObserver.opens_barrier]:
            told(self, lanes, [g for g, _, _ in waiting], instructions, everyone)
        for g, resume, finish in waiting:
            if finish is not None:
                finish(g, votes)
            machine.wake(g, resume, time)

    def _together(self) -> None:
        """The threads of a warp must wait at one instruction (bar is barrier.aligned)."""
        place: dict[int, tuple[Group, int]] = {}
        for g, resume, _ in self.waiting:
            for warp in np.unique(self.batch.warp_of[g.lanes]).tolist():
                other, there = place.setdefault(warp, (g, resume))
                misused = self.batch.machine.told[LaunchObserver.misused]
                for told in misused if there != resume else ():
                    told(
                        g,
                        say(
                            "{} and {} of one warp wait at different barrier instructions; "
                            "all threads of a warp must come to the same one",
                            self.batch.describe(g.lanes), self.batch.describe(other.lanes),
                        ),
                    )  # fmt: skip

    def explain(self) -> Sentence:
        """For a deadlock report: who is here and who is not."""
        here = np.sort(np.concatenate(self.lanes)) if self.lanes else np.array([], int)
        batch = self.batch
        text = say(
            "{} of {} threads have arrived: {}",
            self.arrived, self.needed(), batch.describe(here),
        )
        mine = np.arange(self.slot * batch.threads, (self.slot + 1) * batch.threads)
        missing = np.setdiff1d(mine[batch.alive[mine]], here)
        if len(missing):
            text = say("{}; not here: {}", text, batch.describe(missing))
        return text


class NamedBarriers:
    """The barriers of the blocks of a batch."""

    def __init__(self, batch: Batch) -> None:
        self.by_number: dict[tuple[int, int], NamedBarrier] = {}
        """The block's place in the batch, the barrier's number -> the barrier."""
        batch.when_threads_leave.append(self.left)

    def left(self, lanes: Array) -> None:
        """Threads have left the kernel: nobody waits for them."""
        for barrier in list(self.by_number.values()):
            barrier.check()


def barrier_of(batch: Batch, slot: int, number: int) -> NamedBarrier:
    """The barrier of a block; made on first use."""
    named = batch.of(NamedBarriers).by_number
    if (slot, number) not in named:
        named[slot, number] = NamedBarrier(batch, slot, number)
    return named[slot, number]


__all__ = ["BlockBarrierObserver", "NamedBarrier", "NamedBarriers", "barrier_of"]
