"""Findings: what the checker reports, and the checker itself as the machine sees it.

The work is done by three parts that look at the same accesses:

:mod:`~phasebit.emulator.bounds`   is the address valid and aligned?  (ends the kernel)
:mod:`~phasebit.emulator.races`    is the access ordered after those it conflicts with?
:mod:`~phasebit.emulator.traffic`  how many sectors and wavefronts does it take?
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from phasebit.emulator.bounds import Bounds
from phasebit.emulator.convergence import Convergence
from phasebit.emulator.footprint import Common, Footprint, Footprints
from phasebit.emulator.proxies import Engine
from phasebit.emulator.races import LIVE, Races
from phasebit.emulator.register_counts import RegisterCounts
from phasebit.emulator.syntax import Instruction
from phasebit.emulator.tensor_checks import TensorChecks
from phasebit.emulator.traffic import Traffic
from phasebit.emulator.types import Array, Value
from phasebit.emulator.wgmma_checks import WarpGroupChecks

if TYPE_CHECKING:
    from phasebit.emulator.agents import ThreadCopy
    from phasebit.emulator.group import Group
    from phasebit.emulator.machine import Batch, Machine
    from phasebit.emulator.mbarriers import BarrierSite
    from phasebit.emulator.ops.barrier import NamedBarrier

LIMIT = 1000
"""Findings that one run keeps."""


@dataclass(frozen=True)
class Hazard:
    """One finding.

    ``kind``: ``race``, ``uninitialised``, ``barrier``, ``async``, ``proxy`` (a fence between
    proxies is missing), ``cluster`` (a block's shared memory goes too early), ``descriptor`` (of a
    matrix, that cannot be right) or ``tensor`` (tensor memory that is not given back, a product
    issued too often, a swizzled tile that is misaligned, a ``tcgen05.fence`` that is missing).
    ``line`` is the PTX line of the access that noticed it, ``source`` the place in the CUDA source:
    ``kernel.cu:41``, or ``kernel.cu:41, in wait at line 12`` within an inlined function.
    """

    kind: str
    message: str
    line: int
    source: str

    @property
    def lines(self) -> tuple[int, ...]:
        """Innermost source lines: of the access that noticed, and of the one it conflicts with."""
        found = re.findall(r"at PTX line \d+ \([^():]*:[^()]*?(\d+)\)", self.message)
        return tuple(map(int, found))

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class Findings:
    """Collects hazards; the same pair of instructions is reported once."""

    def __init__(self, machine: Machine, hazards: list[Hazard]) -> None:
        self.machine = machine
        self.hazards = hazards
        self.seen: set[Any] = set()

    def instruction(self, access: int) -> Instruction | None:
        accesses = self.machine.program.accesses
        return accesses[access] if 0 <= access < len(accesses) else None

    def place(self, access: int) -> str:
        """``ld.shared.f32 … at PTX line 12 (kernel.cu:7)``."""
        instruction = self.instruction(access) or self.machine.program.executing()
        return f"`{instruction.text}` at {instruction.where}" if instruction else "?"

    def report(
        self, kind: str, message: str, access: int, key: Any, by: Instruction | None = None
    ) -> None:
        """Keep a finding, unless one with this key is known already.

        ``access``: the checker's number for the instruction; -1 for ``by``, or without it for
        the one being executed.
        """
        if key in self.seen or len(self.hazards) >= LIMIT:
            return
        self.seen.add(key)
        instruction = self.instruction(access) or by or self.machine.program.executing()
        line = instruction.line if instruction else 0
        source = str(instruction.location) if instruction and instruction.location else ""
        self.hazards.append(Hazard(kind, message, line, source))


class Checker:
    """What the machine calls when a launch has ``check=True``."""

    def __init__(self, machine: Machine, hazards: list[Hazard]) -> None:
        self.machine = machine
        self.findings = Findings(machine, hazards)
        self.bounds = Bounds(machine, self.findings)
        self.races = Races(machine, self.findings)
        self.engine = Engine(self)
        self.tensor = TensorChecks(self)
        self.wgmma = WarpGroupChecks(self)
        self.registers = RegisterCounts(self.findings)
        self.traffic = Traffic(machine)
        self.convergence = Convergence(machine, self.findings)
        self.members = self.convergence.members
        self.bounds_shared = self.bounds.shared
        self.bounds_global = self.bounds.global_
        self.bounds_local = self.bounds.local
        self.footprints = Footprints(self.races.shift, self.traffic)

    # -- accesses -------------------------------------------------------------

    def load(self, g: Group, index: Value, accesses: Any) -> None:
        """Loads through one base register: races, uninitialised words, traffic."""
        self._access(g, index, accesses, "load")

    def store(self, g: Group, index: Value, accesses: Any) -> bool:
        """Stores through one base register; whether two threads may write one place."""
        return self._access(g, index, accesses, "store")

    def _access(self, g: Group, index: Value, accesses: Any, op: str) -> bool:
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
        self, g: Group, position: Array, accesses: Any, space: str, op: str
    ) -> bool:
        words, start = self.footprints.find(g, position, accesses, space, op)
        self.machine.counters.add_all(words.cost)
        kept = self.machine.trace.accesses
        if kept is not None:
            kept += self.traffic.accesses(g, position, accesses, space, op)
        strong = accesses.sem != "weak"
        races = self.races
        if strong:
            place = position + accesses.words[0] * accesses.width
        if strong and op == "load":
            races.messages.receive(g, place, accesses.sem)
        look = getattr(races, f"{space}_{op}")
        look(g, words, start, accesses.identity, strong)
        if strong and op == "store":
            races.messages.send(g, place, accesses.sem, accesses.scope)
        return not words.apart

    def verify_store(self, g: Group, view: Array, index: Value, value: Value, access: int) -> None:
        """After a store: did two threads of the group write different things to one place?"""
        wrong = view[index] != value
        if isinstance(wrong, np.ndarray) and wrong.ndim:
            value = g.spread(value)
            numbers = (value == value) if value.dtype.kind in "fc" else True
            wrong = wrong & numbers
            if wrong.any():
                lanes = g.lanes[np.flatnonzero(g.spread(wrong))]
                self.findings.report(
                    "race",
                    f"{g.batch.describe(lanes[:1])} and another thread write different values to "
                    f"one place in one instruction: {self.findings.place(access)}",
                    access, ("same", access),
                )  # fmt: skip

    def atomic(
        self, g: Group, index: Value, width: int, sem: str, scope: str, access: int, count: int
    ) -> None:
        """An atomic on ``count`` neighbours a thread: strong, reads and writes."""
        for some, position, space in self._by_space(g, index * width):
            places = some.spread(position)
            unit = 1 << self.races.shift
            spread = np.arange(max(1, count * width // unit))[:, None]
            words = Footprint.plain((places >> self.races.shift)[None, :] + spread)
            if space == "shared":
                self.races.shared_load(some, words, 0, access, True)
                self.races.shared_store(some, words, 0, access, True)
            else:
                self.races.global_store(some, words, 0, access, True, reads=True)
            # atomics of one group at one address follow each other: each sees those before it
            self.races.messages.send(some, places, sem, scope)
            self.races.messages.receive(some, places, sem)
            by = self.findings.instruction(access)
            self.traffic.atomic(some, places, space, by, width, count)
            self.machine.counters.add(f"atomics.{space}", count * some.n)

    # -- synchronisation ------------------------------------------------------

    def start(self, batch: Batch) -> None:
        self.races.start(batch)

    def finish(self, batch: Batch) -> None:
        self.races.finish(batch)
        self.registers.finish(batch)
        if not self.races.shadows and self.machine.next_block >= self.machine.blocks:
            self.engine.ends()
        self.engine.patterns.pop(batch, None)

    def leave(self, g: Group) -> None:
        """Threads leave the kernel; with the last of a block its shared memory goes."""
        batch = g.batch
        if self.races.outsiders:
            slots, counts = np.unique(batch.slots(g.lanes), return_counts=True)
            for slot in slots[batch.live_in_block[slots] == counts].tolist():
                self.races.block_ends(batch, slot)

    def pass_whole(self, g: Group) -> None:
        """bar.sync by all threads of all blocks of the batch."""
        self.races.block_barrier(g.batch, np.unique(g.batch.slots(g.lanes)))

    def join(self, g: Group, barrier: NamedBarrier) -> None:
        """Threads arrive at a barrier of the block."""
        known = self.races.frontier(g.batch, g.lanes)
        self.races.may_be_overwritten(self.races.shadows[g.batch], g.lanes, known)
        if barrier.before and not self.races.know(g, *barrier.before):
            barrier.mixed = True
            self.misuse(
                g, f"{g.batch.describe(g.lanes)} arrive at {barrier.name}, and nothing says that "
                f"its generation before, of {g.batch.describe(np.sort(barrier.before[0]))}, is "
                "complete: they may be counted in that one",
            )  # fmt: skip
        before = barrier.frontier
        barrier.frontier = known if before is None else np.maximum(before, known)
        self.machine.now += 1

    def pass_barrier(
        self, barrier: NamedBarrier, frontier: Array | None, groups: list[Group], everyone: bool
    ) -> None:
        """A barrier of the block opens for the groups that waited.

        Without a frontier nobody can say whose arrivals opened it: each warp has waited for
        itself, and has learnt nothing of others.
        """
        batch = barrier.batch
        waited = sum(g.n for g in groups)
        if everyone and waited == int(batch.live_in_block[barrier.slot]):
            self.races.block_barrier(batch, np.array([barrier.slot]))
            return
        for g in groups:
            if frontier is None:
                self.races.warp_barrier(g)
            else:
                self.races.acquire(g, frontier)

    def pass_warp(self, g: Group) -> None:
        self.races.warp_barrier(g)

    def shuffle(self, g: Group) -> None:
        self.races.shuffle(g)

    def fence(self, g: Group, scope: str) -> None:
        """What the threads did so far, they may publish from now on."""
        self.races.messages.fence(g, scope)

    def touch(
        self, g: Group, lanes: Array, site: BarrierSite, itself: bool = True
    ) -> None:
        """Threads use an mbarrier: its initialisation must be ordered before.

        Not ``itself``: they ask for an arrival, which comes later.
        """
        some = g if lanes is g.lanes else g.part(np.flatnonzero(np.isin(g.lanes, lanes)), g.pc)
        access = self.machine.program.executing_access()
        words = Common(self._words(site), some.n)
        s = self.races.shadows[g.batch]
        if site.used is None or not site.barrier.live:  # the operation itself will say so
            self.races.shared_load(some, words, 0, access, True)
        else:
            x = self._words(site) - s.base
            s.write_time[x], s.writer[x] = site.made
            self.races.shared_load(some, words, 0, access, True)
            s.write_time[x] = LIVE
            self.uses(g.batch, lanes, site)
        away = self.machine.cluster_size > 1 and site.slot != int(lanes[0]) // g.batch.threads
        if itself and away:
            s.note_remote(some, words, access, self.machine.now)

    def uses(self, batch: Batch, lanes: Array, site: BarrierSite) -> None:
        """Threads have used an mbarrier: it may not go before."""
        if site.used is not None:
            site.used[self.races.shadows[batch].threads(lanes)] = self.machine.now

    def release(self, g: Group, lanes: Array, site: BarrierSite) -> None:
        """An arrival at an mbarrier publishes; the barrier's own memory must have been written."""
        self.touch(g, lanes, site)
        known = self.races.frontier(g.batch, lanes)
        self.races.may_be_overwritten(self.races.shadows[g.batch], lanes, known)
        site.frontier = known if site.frontier is None else np.maximum(site.frontier, known)

    def release_relaxed(self, g: Group, lanes: Array, site: BarrierSite) -> None:
        """A relaxed arrival publishes what a ``tcgen05.fence`` has ordered before it, no more."""
        if self.races.tensor_fences:
            known = self.races.tensor_fenced(g.batch, lanes)
            site.frontier = known if site.frontier is None else np.maximum(site.frontier, known)

    def acquire(self, g: Group, published: Array) -> None:
        """A wait at an mbarrier learns."""
        self.races.acquire(g, published)

    def initialise(self, g: Group, lanes: Array, site: BarrierSite) -> None:
        """The memory belongs to the barrier until it is invalidated: others may not touch it."""
        s = self.races.shadows[g.batch]
        x = self._words(site) - s.base
        site.made = self.machine.now, s.initialiser(int(lanes[0]))
        site.used = np.zeros(s.team, np.int32)
        s.write_time[x], s.writer[x] = LIVE, site.made[1]
        s.write_access[x] = self.machine.program.executing_access()
        s.write_strong[x] = False

    def invalidate(self, g: Group, lanes: Array, site: BarrierSite) -> None:
        """``mbarrier.inval``: all who have used the barrier must be done with it."""
        s, lane = self.races.shadows[g.batch], lanes[:1]
        access = self.machine.program.executing_access()
        x = self._words(site) - s.base
        s.write_time[x], s.writer[x] = self.machine.now, s.threads(lane)[0]
        s.write_access[x] = access
        if site.used is None:
            return
        known = np.maximum(s.clock[lane[0], : s.team], s.floor[lane[0] // g.batch.threads])
        known[s.threads(lane)] = self.machine.now
        warps = np.arange(0, s.team, 32)  # libcu++ has heard of one lane for all of its warp
        heard = np.repeat(np.maximum.reduceat(known, warps), 32)[: s.team]
        late = site.used > heard
        if late.any():
            other = lane // s.team * s.team + np.argmax(late)
            self.findings.report(
                "race",
                f"{g.batch.describe(lane)} invalidates mbarrier {site.name}: "
                f"{self.findings.place(access)}; {g.batch.describe(other)} uses it, and nothing "
                "orders the two",
                access, ("invalidated", access),
            )  # fmt: skip
        self.machine.now += 1

    def _words(self, site: BarrierSite) -> Array:
        """The granules that a barrier lies in."""
        unit = self.races.shift
        return np.arange(site.position() >> unit, (site.position() + 8) >> unit)

    def initialised_by_many(self, g: Group, lanes: Array, site: BarrierSite) -> None:
        """Several threads initialise a barrier: all but the first one that is live already."""
        self.findings.report(
            "barrier",
            f"{g.batch.describe(lanes)} initialise mbarrier {site.name}, each of them once more: "
            f"{self.machine.where(g)}; a barrier that is live may not be initialised (PTX ISA "
            "9.7.13.15.9): let one thread do it",
            -1, ("inits", self.machine.where(g)),
        )  # fmt: skip

    def not_observed(self, g: Group, site: BarrierSite) -> None:
        where = self.machine.where(g)
        self.findings.report(
            "barrier",
            f"{g.batch.describe(g.lanes)} arrive in phase {site.barrier.phase} of {site.name}, but "
            f"nobody has seen phase {site.barrier.phase - 1} complete: {where}{site.maker}",
            -1, ("observed", where),
        )  # fmt: skip

    def misuse(self, g: Group, text: str) -> None:
        """A barrier is used in a way that PTX leaves undefined."""
        where = self.machine.where(g)
        self.findings.report("barrier", f"{text}: {where}", -1, ("misuse", where))

    def copy_started(self, g: Group, copy: ThreadCopy) -> None:
        """cp.async: from now on the target belongs to the copy, until its thread waits."""
        unit = self.races.shift
        words = np.arange(max(1, copy.width >> unit))[:, None]
        if copy.source is not copy.target:
            read = Footprint.plain((copy.source >> unit)[None, :] + words)
            self.races.global_load(g, read, 0, copy.access, False)
            self.traffic.copy(g, copy.source, copy.width)
        written = Footprint.plain((copy.target >> unit)[None, :] + words)
        self.races.shared_store(g, written, 0, copy.access, False, copies=True)
        self.machine.now += 1  # the next copy is another one, though nothing lies between them

    def copy_observed(self, g: Group, copy: ThreadCopy, lanes: Array) -> None:
        self.races.copy_observed(g.batch, lanes, copy.started)

    def release_copies(self, g: Group, lanes: Array, site: BarrierSite) -> None:
        known = self.races.copies_frontier(g.batch, lanes)
        site.frontier = known if site.frontier is None else np.maximum(site.frontier, known)

    # -- clusters -------------------------------------------------------------

    def cluster_arrival(self, g: Group, lanes: Array, sem: str) -> Array:
        """What these threads of one cluster publish by arriving at its barrier."""
        if sem == "relaxed":
            return self.races.initialised(g.batch, lanes)
        known = self.races.frontier(g.batch, lanes)
        self.races.may_be_overwritten(self.races.shadows[g.batch], lanes, known)
        return known

    def reaches(self, g: Group, target: Array, own: Array) -> None:
        """Threads reach into the shared memory of other blocks: are those still there?"""
        gone = (g.batch.live_in_block[target] == 0) & (target != own)
        if gone.any():
            i = int(np.argmax(gone))
            self.findings.report(
                "cluster",
                f"{g.batch.describe(g.lanes[i : i + 1])} reaches into the shared memory of block "
                f"{int(g.batch.blocks[target[i]])}, which has left the kernel: "
                f"{self.machine.where(g)}; let the cluster wait for all before a block ends",
                -1, ("reaches", self.machine.where(g)),
            )  # fmt: skip
