"""The mbarrier objects of resident blocks, and who waits for them.

The state machine is :class:`phasebit.mbarrier.Mbarrier`, the one of chapter 3.
It lives in a table beside memory, because PTX leaves the content of the 64 bits
open; memory holds a pattern that no program should read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from phasebit.emulator.errors import Fault
from phasebit.emulator.layout import readable
from phasebit.emulator.machine import Waiting, ranges
from phasebit.emulator.types import Array, Value
from phasebit.mbarrier import Mbarrier, MbarrierError

if TYPE_CHECKING:
    from phasebit.emulator.group import Group
    from phasebit.emulator.machine import Batch
    from phasebit.emulator.syntax import Instruction

IMAGE = 0xBA221E2BA221E2BA
"""What the 64 bits of a live barrier hold."""


class BarrierSite:
    """One mbarrier: the state machine, the groups parked on it, what the checker knows."""

    def __init__(self, batch: Batch, slot: int, offset: int) -> None:
        self.batch = batch
        self.slot = slot
        self.offset = offset
        name = batch.machine.program.layout.shared_name(offset)
        name = readable(name.split("+")[0]) + ("+" + name.split("+")[1] if "+" in name else "")
        self.name = name.removesuffix("+0")
        if batch.machine.cluster_size > 1:
            self.name += f" of block {int(batch.blocks[slot])}"
        self.barrier = Mbarrier(name=self.name, check_observed=False)
        self.waiters: list[tuple[Group, int, bool, Any, int]] = []
        """Group, token or parity, whether parity, destination, where to go on."""
        self.arrived: list[Array] = []
        """Lanes that arrived in the current phase, for reports."""
        self.frontier: Any = None
        """What the arrivals of the current phase have published (the checker's clocks)."""
        self.published: Any = None
        """What completed phases have published."""
        self.time = 0
        """The latest moment of an arrival in the current phase."""
        self.opened = 0
        """The moment at which the last phase completed."""
        self.announced = 0
        """Bytes of copies that ``expect_tx`` has announced in the current phase."""
        self.announcers: dict[Instruction | None, int] = {}
        """How many of them each instruction has announced."""
        self.used: Array | None = None
        """When each thread of the cluster last used the barrier (the checker's)."""
        self.made: tuple[int, int] = (0, 0)
        """When ``mbarrier.init`` was, and by which column of the clocks (the checker's)."""
        self.maker = ""
        """That ``mbarrier.init``, where it stands, and its count."""
        self.carrier = -1
        """The checker's number for the copy that last told it of bytes."""

    def position(self) -> int:
        """Where the barrier lies in the buffer, in bytes."""
        return self.batch.shared_base + self.slot * self.batch.shared_stride + self.offset

    def operate(self, g: Group, what: str, *arguments: int) -> int:
        """One operation of the state machine; wakes waiters when it completes the phase."""
        before = self.barrier.phase
        if what.endswith("expect_tx"):
            self.announced += arguments[0]
        try:
            result = getattr(self.barrier, what)(*arguments)
        except MbarrierError as error:
            machine = self.batch.machine
            raise Fault(
                f"{g.batch.describe(g.lanes)}: {error}{self.maker}, at {machine.where(g)}"
            ) from error
        self.batch.machine.progress += 1
        self.time = max(self.time, g.time)
        if self.barrier.phase != before:
            self.complete()
        return int(result or 0)

    def announces(self, nbytes: int) -> None:
        """The instruction that is being executed is about to announce bytes."""
        by = self.batch.machine.program.executing()
        self.announcers[by] = self.announcers.get(by, 0) + nbytes

    def complete(self) -> None:
        """The phase is over: publish what its arrivals published, wake who waited for it."""
        self.arrived = []
        self.announced = 0
        self.announcers = {}
        self.opened = self.time
        if self.frontier is not None:
            if self.published is None:
                self.published = self.frontier
            else:
                self.published = np.maximum(self.published, self.frontier)
            self.frontier = None
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            g, key, parity, dest, resume = waiter
            if self.test(g, key, parity):
                self.grant(g, dest)
                self.batch.machine.wake(g, resume, self.opened)
            else:
                self.waiters.append(waiter)

    def test(self, g: Group, key: int, parity: bool) -> bool:
        """Has the phase completed that this token or parity names?"""
        try:
            if parity:
                return self.barrier.test_wait_parity(key)
            return self.barrier.test_wait(key)
        except MbarrierError as error:
            machine = self.batch.machine
            raise Fault(f"{g.batch.describe(g.lanes)}: {error}, at {machine.where(g)}") from error

    def grant(self, g: Group, dest: Any) -> None:
        """A wait succeeded: its threads now know what the phase published."""
        g.write(dest, np.bool_(True))
        machine = self.batch.machine
        if machine.checked:
            machine.checker.uses(g.batch, g.lanes, self)
            if self.published is not None:
                machine.checker.acquire(g, self.published)

    def wait(self, g: Group, key: int, parity: bool, dest: Any, resume: int, may_fail: bool) -> int:
        """Go on at once, or park until the phase completes."""
        machine = self.batch.machine
        machine.counters.add("mbarrier.waits", 1)
        if self.test(g, key, parity):
            self.grant(g, dest)
            machine.trace.catch_up(g, self.opened, f"mbarrier {self.name}")
            return resume
        machine.counters.add("mbarrier.waits_that_blocked", 1)
        waiter = (g, key, parity, dest, resume)
        self.waiters.append(waiter)

        def give_up(group: Group) -> None:
            self.waiters.remove(waiter)
            group.write(dest, np.bool_(False))
            machine.wake(group, resume, group.time + 1)

        phase = self.barrier.phase if parity else key >> 24
        return machine.park(
            g, Waiting(f"phase {phase} of mbarrier {self.name}", machine.where(g), self.explain,
                       give_up if may_fail else None),
        )  # fmt: skip

    def bytes_text(self) -> str:
        """How the bytes that were announced and those that came differ."""
        missing = self.barrier.tx
        came = f"{self.announced} bytes announced and {self.announced - missing} come"
        if not missing:
            return came
        what = f"{missing} too many announced" if missing > 0 else f"{-missing} not announced"
        return f"{came}: {what}"

    def announcers_text(self) -> str:
        """Which instructions announced the bytes, and how many each; for the end of a sentence."""
        by = [f"{n} by `{i.text}` at {i.where}" for i, n in self.announcers.items() if i]
        return f"; announced: {', '.join(by)}" if by else ""

    def explain(self) -> str:
        """For a deadlock report: how far the phase is, who has arrived and who has not."""
        b = self.barrier
        text = (
            f"{self.name} is in phase {b.phase} (parity {b.phase & 1}) with {b.pending} of "
            f"{b.expected} arrivals pending"
        )
        if b.tx or self.announced:
            text += f", {self.bytes_text()}"
        batch = self.batch
        team = batch.threads * batch.machine.cluster_size
        first = self.slot * batch.threads // team * team
        mine = np.arange(first, first + team)
        if self.arrived:
            arrived = np.unique(np.concatenate(self.arrived))
            text += f"; arrived in this phase: {batch.describe(arrived)}"
            missing = np.setdiff1d(mine, arrived)
        else:
            text += "; nobody has arrived in this phase"
            missing = mine
        alive = missing[batch.alive[missing]]
        gone = len(missing) - len(alive)
        if len(alive):
            text += f"; could still arrive: {batch.describe(alive)}"
        if gone:
            text += f"; {gone} thread{'s' if gone > 1 else ''} left the kernel without arriving"
        return text + (self.announcers_text() if b.tx else "") + self.maker


def sites(g: Group, address: Value, space: str) -> list[tuple[BarrierSite, Array | None]]:
    """The barriers that a group's addresses name, each with the positions of its threads.

    ``None`` instead of positions means: all threads.
    """
    batch = g.batch
    index = g.index(address, "shared" if space == "shared" else space, 8, 3)
    if isinstance(index, np.ndarray):
        values = np.unique(index)
        if len(values) == 1:
            return [(site_at(batch, int(values[0]) << 3), None)]
        return [(site_at(batch, int(one) << 3), np.flatnonzero(index == one)) for one in values]
    return [(site_at(batch, int(index) << 3), None)]


def site_at(batch: Batch, position: int) -> BarrierSite:
    """The barrier at a byte of the buffer; made on first use."""
    slot, offset = divmod(position - batch.shared_base, batch.shared_stride)
    key = (slot, offset)
    if key not in batch.mbarriers:
        batch.mbarriers[key] = BarrierSite(batch, slot, offset)
    return batch.mbarriers[key]


__all__ = ["BarrierSite", "ranges", "site_at", "sites"]
