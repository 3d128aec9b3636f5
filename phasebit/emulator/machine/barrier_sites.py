"""The mbarrier objects of resident blocks, and who waits for them.

The state machine is :class:`phasebit.mbarrier.Mbarrier`, the one of *Barriers*.
It lives in a table beside memory, because PTX leaves the content of the 64 bits
open; memory holds a pattern that no program should read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phasebit.emulator.errors import MbarrierFault, TooManyArrivals, UninitialisedMbarrier
from phasebit.emulator.findings import Sentence, joined, say
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.waiting import Waiting
from phasebit.emulator.ptx.mangling import readable
from phasebit.emulator.ptx.syntax import Instruction
from phasebit.emulator.ptx.types import Array, Value
from phasebit.mbarrier import Mbarrier, MbarrierError, Rule

IMAGE = 0xBA221E2BA221E2BA
"""What the 64 bits of a live barrier hold."""

FAULTS = {Rule.PENDING_RANGE: TooManyArrivals, Rule.INITIALISED: UninitialisedMbarrier}
"""What of the state machine's rules has a rule of its own here."""


class MbarrierObserver:
    """Events of mbarriers."""

    def initialises(self, g: Group, lanes: Array, site: BarrierSite) -> None:
        """Threads have initialised a barrier: each of ``lanes`` once."""

    def initialises_again(self, g: Group, lanes: Array, site: BarrierSite) -> None:
        """Threads initialise a barrier that is live, and that nobody has used: nothing happens."""

    def invalidates(self, g: Group, lanes: Array, site: BarrierSite) -> None:
        """Threads have invalidated a barrier."""

    def arrives(self, g: Group, lanes: Array, site: BarrierSite, sem: str, scope: str) -> None:
        """Threads are about to arrive."""

    def unobserved(self, g: Group, site: BarrierSite) -> None:
        """Threads arrive, and nobody has seen that the phase before is complete."""

    def announces_bytes(self, g: Group, site: BarrierSite) -> None:
        """A thread is about to announce bytes of copies without arriving."""

    def tests(self, g: Group, lanes: Array, site: BarrierSite, sem: str, scope: str) -> None:
        """Threads come to wait for a phase."""

    def waits(self, g: Group, site: BarrierSite, blocked: bool) -> None:
        """Threads wait for a phase; ``blocked``: it is not complete."""

    def operated(self, g: Group, site: BarrierSite) -> None:
        """An arrival, an announcement or bytes that came have changed a barrier.

        ``g``: the threads that asked for it; bytes and commits come later. Where that completes a
        phase nobody has been woken yet.
        """

    def refuses(self, site: BarrierSite) -> None:
        """A barrier is asked for what its state does not allow: the kernel ends."""

    def completes(self, site: BarrierSite) -> None:
        """A phase is complete."""

    def passes(self, g: Group, site: BarrierSite) -> None:
        """Threads go on whose wait has succeeded."""


class BarrierSite:
    """One mbarrier: the state machine, and the groups parked on it."""

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
        self.refused: dict[int, int] = {}
        """A thread that was told no, without need -> of which phase, last."""
        """Group, token or parity, whether parity, destination, where to go on."""
        self.arrived: list[Array] = []
        """Lanes that arrived in the current phase, for reports."""
        self.time = 0
        """The latest moment of an arrival in the current phase."""
        self.opened = 0
        """The moment at which the last phase completed."""
        self.announced = 0
        """Bytes of copies that ``expect_tx`` has announced in the current phase."""
        self.announcers: dict[Instruction | None, int] = {}
        """How many of them each instruction has announced."""
        self.added: dict[Instruction | None, int] = {}
        """How many arrivals each instruction has added to those that the current phase awaits."""
        self.maker = ""
        """That ``mbarrier.init``, where it stands, and its count."""
        self.carrier = -1
        """The number of the instruction whose copy last told it of bytes."""

    def position(self) -> int:
        """Where the barrier lies in the buffer, in bytes."""
        return self.batch.shared_base + self.slot * self.batch.shared_stride + self.offset

    def is_new(self, count: int) -> bool:
        """Whether it is as ``init(count)`` leaves it, and nobody waits for it."""
        made = self.barrier
        fresh = made.live and made.phase == 0 and made.tx == 0 and not self.waiters
        return fresh and made.pending == made.expected == count

    def operate(self, g: Group, what: str, *arguments: int, access: int = -1) -> int:
        """One operation of the state machine; wakes waiters when it completes the phase.

        ``access``: the number of the instruction that asked for it, where it is not the one that
        is being executed: copies and commits come later.
        """
        before = self.barrier.phase
        if what.endswith("expect_tx"):
            self.announced += arguments[0]
        try:
            result = getattr(self.barrier, what)(*arguments)
        except MbarrierError as error:
            machine = self.batch.machine
            for refuses in machine.told[MbarrierObserver.refuses]:
                refuses(self)
            raise FAULTS.get(error.rule, MbarrierFault)(
                "{}: {}{}, at {}",
                g.batch.describe(g.lanes), error, self.maker,
                machine.where(g) if access < 0 else machine.place(access),
            ) from error
        self.batch.machine.progress += 1
        self.time = max(self.time, g.time)
        for told in self.batch.machine.told[MbarrierObserver.operated]:
            told(g, self)
        if self.barrier.phase != before:
            self.complete()
        return int(result or 0)

    def announces(self, nbytes: int) -> None:
        """The instruction that is being executed is about to announce bytes."""
        by = self.batch.machine.executing()
        self.announcers[by] = self.announcers.get(by, 0) + nbytes

    def adds(self, g: Group, arrivals: int) -> None:
        """The instruction that is being executed makes the phase wait for so many arrivals more."""
        by = self.batch.machine.executing()
        self.added[by] = self.added.get(by, 0) + arrivals
        for _ in range(arrivals):
            self.operate(g, "add_pending")

    def complete(self) -> None:
        """The phase is over: wake who waited for it."""
        self.arrived = []
        self.announced = 0
        self.announcers, self.added = {}, {}
        self.opened = self.time
        for told in self.batch.machine.told[MbarrierObserver.completes]:
            told(self)
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
            raise FAULTS.get(error.rule, MbarrierFault)(
                "{}: {}, at {}", g.batch.describe(g.lanes), error, machine.where(g)
            ) from error

    def grant(self, g: Group, dest: Any) -> None:
        """A wait succeeded."""
        g.write(dest, np.bool_(True))
        for told in self.batch.machine.told[MbarrierObserver.passes]:
            told(g, self)

    def wait(
        self, g: Group, key: int, parity: bool, dest: Any, resume: int, may_fail: bool,
        hasty: bool = False,
    ) -> int:  # fmt: skip
        """Go on at once, or park until the phase completes; ``hasty``: only if asked again."""
        machine = self.batch.machine
        passed = self.test(g, key, parity)
        if hasty and not passed and self.may_refuse(g):
            self.refused[int(g.lanes[0])] = self.barrier.phase
            g.write(dest, np.bool_(False))
            return resume
        for told in machine.told[MbarrierObserver.waits]:
            told(g, self, not passed)
        if passed:
            self.grant(g, dest)
            machine.catch_up(g, self.opened, f"mbarrier {self.name}")
            return resume
        waiter = (g, key, parity, dest, resume)
        self.waiters.append(waiter)

        def give_up(group: Group) -> None:
            self.waiters.remove(waiter)
            self.refuse(group, dest, resume)

        return machine.park(g, self.waiting(g, key, parity, give_up if may_fail else None))

    def may_refuse(self, g: Group) -> bool:
        """Whether threads have not yet been told no, without need, of the phase that there is."""
        return self.refused.get(int(g.lanes[0])) != self.barrier.phase

    def refuse(self, g: Group, dest: Any, resume: int) -> None:
        """A test answers "not yet"."""
        g.write(dest, np.bool_(False))
        self.batch.machine.wake(g, resume, g.time + 1)

    def waiting(self, g: Group, key: int, parity: bool, give_up: Any) -> Waiting:
        """Why a group waits here, in words and as functions."""
        awaited = self.barrier.phase if parity else key >> 24
        return Waiting(
            f"phase {awaited} of mbarrier {self.name}", self.batch.machine.where(g), self.explain,
            give_up, self.name, lambda: self.barrier.tx,
        )  # fmt: skip

    def would_pass(self, key: int, parity: bool) -> bool:
        """Whether a test would not say "not yet"; nothing remembers that somebody asked."""
        before = self.barrier.snapshot()
        try:
            test = self.barrier.test_wait_parity if parity else self.barrier.test_wait
            return test(key)
        except MbarrierError:
            return True
        finally:
            self.barrier.restore(before)

    def bytes_text(self) -> str:
        """How the bytes that were announced and those that came differ."""
        missing = self.barrier.tx
        came = f"{self.announced} bytes announced and {self.announced - missing} come"
        if not missing:
            return came
        what = f"{missing} too many announced" if missing > 0 else f"{-missing} not announced"
        return f"{came}: {what}"

    def announcers_text(self) -> Sentence:
        """Which instructions announced the bytes, and how many each; for the end of a sentence."""
        by = [say("{} by `{}` at {}", n, i.text, i.where) for i, n in self.announcers.items() if i]
        return say("; announced: {}", joined(", ", by)) if by else Sentence()

    def explain(self) -> Sentence:
        """For a deadlock report: how far the phase is, who has arrived and who has not."""
        b = self.barrier
        phase = (
            f"{self.name} is in phase {b.phase} (parity {b.phase & 1}) with {b.pending} of "
            f"{b.expected} arrivals pending"
        )
        if b.tx or self.announced:
            phase += f", {self.bytes_text()}"
        parts: list[Sentence | str] = [phase]
        batch = self.batch
        team = batch.threads * batch.machine.cluster_size
        first = self.slot * batch.threads // team * team
        mine = np.arange(first, first + team)
        if self.arrived:
            arrived = np.unique(np.concatenate(self.arrived))
            parts.append(say("arrived in this phase: {}", batch.describe(arrived)))
            missing = np.setdiff1d(mine, arrived)
        else:
            parts.append("nobody has arrived in this phase")
            missing = mine
        alive = missing[batch.alive[missing]]
        gone = len(missing) - len(alive)
        if len(alive):
            parts.append(say("could still arrive: {}", batch.describe(alive)))
        if gone:
            parts.append(f"{gone} thread{'s' if gone > 1 else ''} left the kernel without arriving")
        for by, count in self.added.items():
            if by is not None:
                no_inc = "{} of the arrivals were added by `{}` at {}, which has no .noinc"
                parts.append(say(no_inc, count, by.text, by.where))
        announced = self.announcers_text() if b.tx else ""
        return say("{}{}{}", joined("; ", parts), announced, self.maker)


class BarrierSites:
    """The mbarriers of a batch."""

    def __init__(self, batch: Batch) -> None:
        self.by_place: dict[tuple[int, int], BarrierSite] = {}
        """The block's place in the batch, the byte of its shared memory -> the barrier there."""


def sites(g: Group, address: Value, space: str) -> list[tuple[BarrierSite, Array | None]]:
    """The barriers that a group's addresses name, each with the positions of its threads.

    ``None`` instead of positions means: all threads.
    """
    batch = g.batch
    index = g.index(address, space, 8, 3)
    if isinstance(index, np.ndarray):
        values = np.unique(index)
        if len(values) == 1:
            return [(site_at(batch, int(values[0]) << 3), None)]
        return [(site_at(batch, int(one) << 3), np.flatnonzero(index == one)) for one in values]
    return [(site_at(batch, int(index) << 3), None)]


def site_at(batch: Batch, position: int) -> BarrierSite:
    """The barrier at a byte of the buffer; made on first use."""
    slot, offset = key = divmod(position - batch.shared_base, batch.shared_stride)
    known = batch.of(BarrierSites).by_place
    if key not in known:
        known[key] = BarrierSite(batch, slot, offset)
    return known[key]


__all__ = ["BarrierSite", "BarrierSites", "MbarrierObserver", "site_at", "sites"]
