"""Every load, store and atomic: in which space, in what order, at what cost."""

from __future__ import annotations

import numpy as np

from phasebit.emulator.checker.footprint import Footprint, Footprints
from phasebit.emulator.checker.races import Look, Races
from phasebit.emulator.checker.reports import Findings
from phasebit.emulator.checker.traffic import Traffic
from phasebit.emulator.copy_engine.copy_observer import ThreadCopyObserver
from phasebit.emulator.findings import say
from phasebit.emulator.machine.accesses import Access, Accesses
from phasebit.emulator.machine.agents import ThreadCopy
from phasebit.emulator.machine.group import AccessObserver, Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.ptx.types import Array, Value


class AccessChecks(AccessObserver, LaunchObserver, ThreadCopyObserver):
    """Hands each access to those that look at it: races, messages, traffic.

    ``kept``: the list in which accesses are kept, or None where nobody asked for them.
    """

    def __init__(
        self, races: Races, findings: Findings, traffic: Traffic, kept: list[Access] | None
    ) -> None:
        self.machine = races.machine
        self.races = races
        self.findings = findings
        self.traffic = traffic
        self.counters = traffic.counters
        self.kept = kept
        self.footprints = Footprints(races.facts.shift, traffic)

    def loads(self, g: Group, index: Value, accesses: Accesses) -> None:
        """Loads through one base register: races, uninitialised words, traffic."""
        self._access(g, index, accesses, "load")

    def stores(self, g: Group, index: Value, accesses: Accesses) -> bool:
        """Stores through one base register; whether two threads may write one place."""
        return self._access(g, index, accesses, "store")

    def _access(self, g: Group, index: Value, accesses: Accesses, op: str) -> bool:
        position = g.spread(index * accesses.width)
        if accesses.space == "generic":
            parts = self._by_space(g, position)
            meet = [self._one_space(*part[:2], accesses, part[2], op) for part in parts]
            return len(parts) > 1 or any(meet)
        return self._one_space(g, position, accesses, accesses.space, op)

    def _by_space(self, g: Group, position: Value) -> list[tuple[Group, Array, str]]:
        """Divide generic accesses by the space in which they landed."""
        batch = g.batch
        places = g.spread(position)
        shared = (places >= batch.shared.start) & (places < batch.shared.start + batch.shared.size)
        local = (places >= batch.local.start) & (places < batch.local.start + batch.local.size)
        parts: list[tuple[Group, Array, str]] = []
        for mask, space in ((shared, "shared"), (~(shared | local), "global")):
            if mask.all():
                return [(g, places, space)]
            if mask.any():
                where = np.flatnonzero(mask)
                parts.append((g.part(where, g.pc), places[where], space))
        return parts

    def _one_space(
        self, g: Group, position: Array, accesses: Accesses, space: str, op: str
    ) -> bool:
        words, start = self.footprints.find(g, position, accesses, space, op)
        self.counters.add_all(words.cost)
        if self.kept is not None:
            self.kept += self.traffic.accesses(g, position, accesses, space, op)
        strong = accesses.sem != "weak"
        races = self.races
        if strong:
            place = position + accesses.words[0] * accesses.width
        if strong and op == "load":
            races.order.messages.receive(
                g, place, accesses.sem, accesses.scope, accesses.identity
            )
        look: Look
        if space == "shared":
            look = races.shared_load if op == "load" else races.shared_store
        else:
            look = races.global_memory.load if op == "load" else races.global_memory.store
        look(g, words, start, accesses.identity, strong)
        if strong and op == "store":
            races.order.messages.send(
                g, place, accesses.sem, accesses.scope, accesses.identity
            )
        return not words.apart

    def stored(self, g: Group, view: Array, index: Value, value: Value, access: int) -> None:
        """After a store: did two threads of the group write different things to one place?"""
        wrong = _differ(view[index], value)
        if wrong.ndim and wrong.any():
            lanes = g.lanes[np.flatnonzero(g.spread(wrong))]
            self.findings.report(
                "race-in-one-store",
                say(
                    "{} and another thread write different values to one place in one "
                    "instruction: {}",
                    g.batch.describe(lanes[:1]), self.findings.place(access),
                ),
                access, ("same", access),
            )  # fmt: skip

    def updates(
        self, g: Group, index: Value, width: int, sem: str, scope: str, count: int
    ) -> None:
        """An atomic on ``count`` neighbours a thread: strong, reads and writes."""
        access = self.machine.executing_access()
        for some, position, space in self._by_space(g, index * width):
            places = some.spread(position)
            unit = 1 << self.races.facts.shift
            spread = np.arange(max(1, count * width // unit))[:, None]
            words = Footprint.plain((places >> self.races.facts.shift)[None, :] + spread)
            if space == "shared":
                self.races.shared_load(some, words, 0, access, True)
                self.races.shared_store(some, words, 0, access, True)
            else:
                self.races.global_memory.store(some, words, 0, access, True, reads=True)
            # atomics of one group at one address follow each other: each sees those before it
            self.races.order.messages.send(some, places, sem, scope, access)
            by = self.findings.instruction(access)
            if not self.findings.is_reduction(access):
                self.races.order.messages.receive(some, places, sem, scope, access)
            self.traffic.atomic(some, places, space, by, width, count)
            self.counters.add(f"atomics.{space}", count * some.n)

    def other_blocks(self, g: Group, target: Array, own: Array) -> None:
        """Threads reach into the shared memory of other blocks: are those still there?"""
        gone = (g.batch.live_in_block[target] == 0) & (target != own)
        if gone.any():
            i = int(np.argmax(gone))
            self.findings.report(
                "access-to-departed-block",
                say(
                    "{} reaches into the shared memory of block {}, which has left the kernel: "
                    "{}; let the cluster wait for all before a block ends",
                    g.batch.describe(g.lanes[i:i + 1]), int(g.batch.blocks[target[i]]),
                    self.machine.where(g),
                ),
                -1, ("reaches", self.machine.where(g)),
            )  # fmt: skip

    def starts_thread_copy(self, g: Group, copy: ThreadCopy) -> None:
        """cp.async: from now on the target belongs to the copy, until its thread waits."""
        unit = self.races.facts.shift
        words = np.arange(max(1, copy.width >> unit))[:, None]
        if copy.source is not copy.target:
            read = Footprint.plain((copy.source >> unit)[None, :] + words)
            s = self.races.shadows[g.batch]
            columns = s.team + s.threads(g.lanes)
            self.races.global_memory.copy(g, read, 0, copy.access, columns)
            self.traffic.copy(g, copy.source, copy.width)
        written = Footprint.plain((copy.target >> unit)[None, :] + words)
        self.races.shared_store(g, written, 0, copy.access, False, copies=True)
        self.machine.now += 1  # the next copy is another one, though nothing lies between them

    def waited_for_thread_copy(self, g: Group, copy: ThreadCopy, lanes: Array) -> None:
        """These threads know that their copies are done."""
        self.races.order.copy_observed(g.batch, lanes, copy.started)


def _differ(there: Value, value: Value) -> Array:
    """Where the bits differ: 0.0 and -0.0 are two values, and one NaN is one."""
    here, stored = np.broadcast_arrays(there, value)
    if stored.dtype.kind not in "fc":
        return np.asarray(here != stored)
    bits = np.dtype(f"u{min(stored.dtype.itemsize, 8)}")
    words = [np.ascontiguousarray(each).view(bits) for each in (here, stored)]
    return np.asarray((words[0] != words[1]).reshape(*stored.shape, -1).any(axis=-1))


__all__ = ["AccessChecks"]
