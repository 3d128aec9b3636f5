"""The machine: blocks of threads made resident, groups of threads run one after another.

The scheduler keeps a list of *ready* groups.  It runs the one that is furthest
behind in the program (deepest call, lowest block); a group that reaches the
block where the ways of a branch meet again lets the others go first, so that
they arrive and become one group again.  After ``PATIENCE`` blocks it takes the
one that has waited longest, so that no spinning loop can starve the rest.  A
group that must wait is *parked* with the reason, and whoever makes the reason go
away wakes it.  When nothing is ready the machine looks, in this order, for
asynchronous work to finish, a sleeper to wake, a block to start, a test that may
answer "not yet"; if there is none, that is a deadlock, and it says who waits for
what.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from phasebit.emulator.cluster_launch import RESIDENT, steals
from phasebit.emulator.counters import Counters
from phasebit.emulator.errors import Deadlock, EmulatorError, Fault, StepLimit
from phasebit.emulator.group import Group, merge
from phasebit.emulator.layout import align_up
from phasebit.emulator.memory import POISON, Memory, Parameters
from phasebit.emulator.syntax import Instruction
from phasebit.emulator.trace import Trace
from phasebit.emulator.types import Array

if TYPE_CHECKING:
    from phasebit.emulator.agents import Agent
    from phasebit.emulator.bulk import BulkGroups
    from phasebit.emulator.cluster import ClusterBarrier
    from phasebit.emulator.hazards import Checker
    from phasebit.emulator.mbarriers import BarrierSite
    from phasebit.emulator.ops.barrier import NamedBarrier
    from phasebit.emulator.ops.cp_async import CopyGroups
    from phasebit.emulator.tensor_memory import TensorMemory
    from phasebit.emulator.translate import Program
    from phasebit.emulator.warpgroups import Queue

PATIENCE = 64
"""Blocks a group may run while others are ready, and picks between two oldest-first picks."""

POLLS = 256
"""Fruitless looks at memory or at a clock after which more blocks are started."""

FALSE_ANSWERS = 512
"""How often a waiting test may answer "not yet" while nothing else moves, before a deadlock."""

STACKED = 4096
"""Threads that one NumPy call should work on: so many blocks are stacked in a batch."""

STACKED_CHECKED = 1024

WARP_GROUP = "warp group"
"""In place of a member mask: all four warps of the warp group."""

MAX_STACK = 64 << 10
"""Bytes of stack that recursion may use, for each thread, unless the launch says otherwise."""

RESERVED = 1024
"""Bytes of shared memory that the system keeps for itself (%reserved_smem_offset)."""


class Batch:
    """Blocks that became resident together: their threads, shared and local memory, barriers."""

    def __init__(self, machine: Machine, blocks: Array) -> None:
        self.machine = machine
        self.blocks = blocks
        self.count = len(blocks)
        self.threads = machine.threads
        self.lanes = self.count * self.threads
        self.alive = np.ones(self.lanes, bool)
        self.live = self.lanes
        self.live_in_block = np.full(self.count, self.threads)
        self.specials: dict[str, Any] = {}
        self.named: dict[tuple[int, int], NamedBarrier] = {}
        self.mbarriers: dict[tuple[int, int], BarrierSite] = {}
        self.cluster: ClusterBarrier | None = None
        self.copies: CopyGroups | None = None
        self.multiplications: Queue | None = None
        self.bulk: BulkGroups | None = None
        self.tensor: TensorMemory | None = None
        self.refused: set[int] = set()
        """Blocks that have seen that there is no other cluster to take over."""
        warps = -(-self.threads // 32)
        thread = np.arange(self.lanes) % self.threads
        self.warps = warps
        self.warp_of = (np.arange(self.lanes) // self.threads) * warps + thread // 32
        self.lane_bit = np.uint32(1) << (thread % 32).astype(np.uint32)
        self.live_in_warp = np.bincount(self.warp_of)
        self.alive_mask = np.zeros(self.count * warps, np.uint32)
        np.bitwise_or.at(self.alive_mask, self.warp_of, self.lane_bit)
        self._make_memory()

    def _make_memory(self) -> None:
        machine = self.machine
        align = max(1024, machine.program.layout.shared_align)
        self.shared_stride = align_up(machine.reserved + RESERVED + 128, align)
        self.shared = machine.memory.allocate(
            self.count * self.shared_stride + align, "shared memory", "shared"
        )
        self.shared_base = align_up(self.shared.start, align)
        end = self.shared_base + self.count * self.shared_stride
        machine.memory.u4[self.shared_base // 4 : end // 4] = POISON
        self.local_stride = align_up(machine.program.layout.local_size, 16)
        self.local = machine.memory.allocate(
            self.lanes * self.local_stride, "local memory", "local"
        )
        self.local_base = self.local.start

    def need_stack(self, size: int, g: Group) -> None:
        """Make room for ``size`` bytes of frames a thread: recursion went deeper."""
        old, stride = self.local, self.local_stride
        if size <= stride:
            return
        most = self.machine.stack
        if size > most:
            raise Fault(
                f"stack overflow: {self.describe(g.lanes[:1])} is {len(g.frames) + 1} calls deep "
                f"and needs {size} bytes of stack, more than {most}; if the recursion ends, allow "
                "more with cudaDeviceSetLimit(cudaLimitStackSize, bytes)"
            )
        memory = self.machine.memory
        wide = min(most, align_up(2 * size, 16))
        new = memory.allocate(self.lanes * wide, "local memory", "local")
        before = memory.bytes(old).reshape(self.lanes, stride)
        memory.bytes(new).reshape(self.lanes, wide)[:, :stride] = before
        memory.free(old)
        self.local, self.local_stride, self.local_base = new, wide, new.start

    def release(self) -> None:
        """Give the memory back."""
        self.machine.memory.free(self.shared)
        self.machine.memory.free(self.local)

    def whole_warps(self, lanes: Array) -> bool:
        """Whether each warp is here with all its live threads, or not at all."""
        if len(lanes) == self.live:
            return True
        if len(lanes) < self.live_in_warp[self.warp_of[lanes[0]]]:
            return False
        here = np.bincount(self.warp_of[lanes], minlength=len(self.live_in_warp))
        return bool(((here == 0) | (here == self.live_in_warp)).all())

    def warps_in(self, lanes: Array) -> int:
        """How many warps have a thread among these lanes."""
        if len(lanes) == self.live == self.lanes:
            return self.count * self.warps
        warp = self.warp_of[lanes]
        return 1 + int(np.count_nonzero(warp[1:] != warp[:-1]))

    def slots(self, lanes: Array) -> Array:
        """The place in this batch of each lane's block."""
        return lanes // self.threads

    def describe(self, lanes: Array) -> str:
        """``thread 5 of block 0``, ``warps 0-7 of block 2``."""
        parts = []
        for slot in np.unique(lanes // self.threads):
            mine = lanes[lanes // self.threads == slot] % self.threads
            parts.append(f"{_threads(mine, self.threads)} of block {int(self.blocks[slot])}")
        return ", ".join(parts)


def _threads(threads: Array, total: int) -> str:
    if len(threads) == total:
        return "all threads"
    warps = np.unique(threads // 32)
    if len(threads) == 32 * len(warps):
        return f"warp{'s' if len(warps) > 1 else ''} {ranges(warps)}"
    return f"thread{'s' if len(threads) > 1 else ''} {ranges(threads)}"


def ranges(numbers: Iterable[int]) -> str:
    """Numbers in words.

    >>> ranges([0, 1, 2, 5])
    '0-2, 5'
    """
    parts: list[list[int]] = []
    for number in sorted(int(n) for n in numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


@dataclass(eq=False)
class Waiting:
    """Why a group is parked."""

    what: str
    """``bar.sync 0``, ``mbarrier full+8`` …"""
    where: str
    """The instruction."""
    explain: Any = None
    """A function that says more, when a report is needed."""
    may_fail: Any = None
    """For a test: called to answer "not yet" instead of waiting."""


@dataclass(eq=False)
class Machine:
    """One launch."""

    program: Program
    memory: Memory
    parameters: Parameters
    parameter_start: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    explicit_cluster: bool
    cooperative: bool
    dynamic_shared: int
    shared_size: int
    schedule: str
    seed: int
    steps: int
    exact: bool
    checked: bool
    counters: Counters
    trace: Trace
    resident: int = 1
    """Blocks that share a multiprocessor."""
    printed: list[str] = field(default_factory=list)
    checker: Checker = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.reserved = align_up(self.shared_size, 128)
        """Where the system's own part of a block's shared memory begins."""
        if not self.checked:  # then nobody notes what the kernel writes
            self.memory.unwritten.clear()
        self.threads = self.block[0] * self.block[1] * self.block[2]
        self.cluster_size = self.cluster[0] * self.cluster[1] * self.cluster[2]
        self.random = random.Random(self.seed)
        self.clock = 0
        self.now = 1
        """The checker's time: it advances wherever a thread publishes its writes."""
        self.polls = 0
        self.last_block = 0
        self.answers = 0
        self.progress = 0
        """Counts what other threads could notice: stores by atomics, arrivals, exits."""
        self.workspace = 0
        self.stack = MAX_STACK
        self.ready: list[Group] = []
        self.index: dict[tuple[int, int, int], Group] = {}
        self.parked: dict[Group, Waiting] = {}
        self.gathering: dict[tuple[int, int, int], Group] = {}
        self.sleeping: list[tuple[int, Group]] = []
        self.running: Group | None = None
        self.doubts: list[Callable[[], None]] = []
        """Findings of the checker that what a block writes may dispel; asked after the block."""
        """The group that runs, or ran last."""
        self.agents: list[Agent] = []
        self.batches: list[Batch] = []
        self.next_block = 0
        self.blocks = self.grid[0] * self.grid[1] * self.grid[2]
        self.picks = 0
        self.stacks: dict[tuple[int, int], int] = {}
        self.stack_parents: list[int] = [0]
        self.order = self._block_order()
        self.stealing = steals(self.program)

    # -- blocks ---------------------------------------------------------------

    def _block_order(self) -> Array:
        """Linear block numbers in the order of starting; clusters stay together."""
        if self.cluster_size == 1:
            return np.arange(self.blocks)
        x, y, z = np.meshgrid(*(np.arange(n) for n in self.grid), indexing="ij")
        linear = (x + self.grid[0] * (y + self.grid[1] * z)).ravel()
        cx, cy, cz = (a.ravel() // c for a, c in zip((x, y, z), self.cluster, strict=True))
        rank = x.ravel() % self.cluster[0] + self.cluster[0] * (
            y.ravel() % self.cluster[1] + self.cluster[1] * (z.ravel() % self.cluster[2])
        )
        return linear[np.lexsort((rank, cx, cy, cz))]

    def batch_size(self) -> int:
        """How many blocks to stack."""
        if self.cooperative:
            return self.blocks
        size = max(1, (STACKED_CHECKED if self.checked else STACKED) // self.threads)
        size = min(size, max(1, (32 << 20) // max(self.shared_size, 1)))
        if self.stealing:
            size = min(size, RESIDENT * self.cluster_size)
        together = self.cluster_size * self.resident
        return max(together, size - size % together)

    def start_batch(self) -> bool:
        """Make the next blocks resident; False when there are none left."""
        if self.next_block >= self.blocks:
            return False
        count = self.batch_size()
        blocks = self.order[self.next_block : self.next_block + count]
        self.next_block += len(blocks)
        batch = Batch(self, blocks)
        self.batches.append(batch)
        if self.checked:
            self.checker.start(batch)
        function = self.program.kernel
        group = Group(
            batch, np.arange(batch.lanes), self.program.entry(function.name),
            self.program.fresh_registers(function), self.trace.start_time(self.clock),
        )  # fmt: skip
        self.make_ready(group)
        return True

    def exit_threads(self, g: Group) -> None:
        """These threads are done; barriers and warps no longer count them."""
        batch = g.batch
        batch.alive[g.lanes] = False
        batch.live -= g.n
        self.progress += 1
        self.clock = max(self.clock, g.time)
        self.trace.run(g, g.time)
        if self.checked:
            self.checker.leave(g)
        if batch.live == 0:
            self.batches.remove(batch)
            self._finish_agents(batch)
            if self.checked:
                self.checker.finish(batch)
            batch.release()
            return
        batch.live_in_block -= np.bincount(batch.slots(g.lanes), minlength=batch.count)
        batch.live_in_warp -= np.bincount(batch.warp_of[g.lanes], minlength=len(batch.live_in_warp))
        np.bitwise_and.at(batch.alive_mask, batch.warp_of[g.lanes], ~batch.lane_bit[g.lanes])
        for barrier in list(batch.named.values()):
            barrier.check()
        if batch.cluster is not None:
            for one in np.unique(g.lanes // batch.cluster.size).tolist():
                batch.cluster.check(one)
        for key in [k for k, w in self.gathering.items() if w.batch is batch]:
            waiting = self.gathering.pop(key)
            self.wake(waiting, waiting.pc)

    def _finish_agents(self, batch: Batch) -> None:
        for agent in [a for a in self.agents if a.batch is batch]:
            agent.finish()

    # -- the ready list -------------------------------------------------------

    def make_ready(self, g: Group) -> None:
        """Put a group on the ready list, merged with one that stands at the same place."""
        key = (id(g.batch), g.stack, g.pc)
        other = self.index.get(key)
        if other is not None and not self._may_join(other, g):
            g.since = self.picks
            self.ready.append(g)
            return
        if other is not None:
            self.trace.run(other, other.time)
            self.trace.run(g, g.time)
            self.ready.remove(other)
            since = other.since
            g = merge([other, g])
            g.since = since
        else:
            g.since = self.picks
        self.index[key] = g
        self.ready.append(g)

    def _may_join(self, a: Group, b: Group) -> bool:
        """Whether two groups at one place may become one.

        Where a trace is kept, whole warps that stand there at different times stay
        apart until a barrier makes their times equal, so that it shows who waited.
        """
        return not self.trace.enabled or a.time == b.time or not (a.whole and b.whole)

    def _pick(self) -> Group:
        ready = self.ready
        if len(ready) == 1:
            g = ready.pop()
        else:
            self.picks += 1
            if self.picks % PATIENCE == 0:
                g = min(ready, key=_since)
            elif self.schedule == "random" and self.picks % 7 == 0:
                g = self.random.choice(ready)
            else:
                g = min(ready, key=_place)
            ready.remove(g)
        key = (id(g.batch), g.stack, g.pc)
        if self.index.get(key) is g:
            del self.index[key]
        return g

    def stack_number(self, below: int, resume: int) -> int:
        """The number of the call stack that has ``resume`` on top of stack ``below``."""
        key = (below, resume)
        if key not in self.stacks:
            self.stacks[key] = len(self.stack_parents)
            self.stack_parents.append(below)
        return self.stacks[key]

    def stack_parent(self, stack: int) -> int:
        return self.stack_parents[stack]

    # -- waiting --------------------------------------------------------------

    def park(self, g: Group, waiting: Waiting) -> int:
        """Take a group off the machine until someone wakes it; the -1 a block returns."""
        self.trace.run(g, g.time)
        self.parked[g] = waiting
        return -1

    def wake(self, g: Group, pc: int, time: int | None = None) -> None:
        """A parked group goes on at ``pc``, not before ``time``."""
        waiting = self.parked.pop(g, None)
        if time is not None and time > g.time:
            if waiting is not None:
                self.trace.wait(g, g.time, time, waiting.what)
            g.time = time
        g.started = g.time
        g.pc = pc
        self.make_ready(g)

    def sleep(self, g: Group, duration: int) -> int:
        """``nanosleep``: others first; time passes when nobody else can run."""
        self.trace.run(g, g.time)
        self.sleeping.append((max(self.clock, g.time) + max(1, duration), g))
        g.pc = g.resume
        self.polls += 1
        return -1

    def gather(self, g: Group, membermask: Any) -> bool:
        """Bring the threads of the member masks together; True when all are here already."""
        batch = g.batch
        key = (id(batch), g.stack, g.pc)
        waiting = self.gathering.pop(key, None)
        if waiting is not None:
            self.parked.pop(waiting, None)
            self.make_ready(merge([waiting, g]))
            return False
        warp = batch.warp_of[g.lanes]
        here = np.zeros(len(batch.alive_mask), np.uint32)
        np.bitwise_or.at(here, warp, batch.lane_bit[g.lanes])
        need = batch.alive_mask[warp]
        unit = "warp"
        if membermask is WARP_GROUP:
            unit = "warp group"
            four = np.arange(len(here)) // batch.warps, np.arange(len(here)) % batch.warps // 4
            number = four[0] * -(-batch.warps // 4) + four[1]
            missing = np.bincount(number, (batch.alive_mask & ~here) != 0)
            complete = missing[number[warp]] == 0
        else:
            if membermask is not None:
                need = need & membermask
            complete = (need & ~here[warp]) == 0
        if complete.all():
            return True
        where = self.where(g)
        if complete.any():
            self.make_ready(g.part(np.flatnonzero(complete), g.pc))
            g = g.part(np.flatnonzero(~complete), g.pc)
        self.gathering[key] = g
        self.park(g, Waiting(f"the other threads of the {unit}", where))
        return False

    def settle_doubts(self) -> None:
        for settle in self.doubts:
            settle()
        self.doubts.clear()

    def where(self, g: Group) -> str:
        """The instruction that :meth:`_now_at` finds, and its place."""
        instruction = self._now_at(g)
        return f"{instruction.text} at {instruction.where}" if instruction else "?"

    def source_line(self, g: Group) -> str:
        """``kernel.cu:7``, the same whatever compiles it; the PTX line where no source is known."""
        instruction = self._now_at(g)
        return str(instruction.location or instruction.where) if instruction else "?"

    def _now_at(self, g: Group) -> Instruction | None:
        """The instruction being executed, else one that the block of a group ends with."""
        instruction = self.program.executing()
        if instruction is None:
            block = self.program.blocks[g.pc]
            instruction = block.collective or block.end or (block.body[-1] if block.body else None)
        return instruction

    def position(self) -> str:
        """The block that ran last: its first and its last instruction."""
        body = self.program.blocks[self.last_block]
        items = [*body.body, *filter(None, [body.collective, body.skip, body.end])]
        if not items:
            return "an empty block"
        return f"PTX lines {items[0].line} to {items[-1].line} (the last: {items[-1].text})"

    # -- running --------------------------------------------------------------

    def run(self) -> None:
        """Run the whole grid.  Raises :class:`EmulatorError` when the kernel fails."""
        try:
            with np.errstate(all="ignore"):
                self.start_batch()
                while True:
                    while self.ready:
                        self._run_group(self._pick())
                    if not self.batches and not self._something_left():
                        break
                    if not self.ready and not self._unstick():
                        raise self._deadlock()
        finally:
            for batch in self.batches:
                batch.release()

    def _something_left(self) -> bool:
        return self.start_batch()

    def _run_group(self, g: Group) -> None:
        """Run a group until it parks, divides, ends, or should let others go first."""
        code, sizes = self.program.code, self.program.sizes
        counts, threads, warps = (
            self.counters.block_runs, self.counters.block_threads, self.counters.block_warps
        )  # fmt: skip
        budget = PATIENCE
        polls = self.polls
        self.running = g
        g.patient = False
        while True:
            pc = self.last_block = g.pc
            g.time += sizes[pc]
            counts[pc] += 1
            threads[pc] += g.n
            warps[pc] += g.warps
            try:
                following = code[pc](g)
            except IndexError as error:
                raise Fault(
                    f"{g.batch.describe(g.lanes)} reached outside of all memory near "
                    f"{self.where(g)}; launch with check=True to learn which access"
                ) from error
            except EmulatorError as error:
                if not hasattr(error, "placed"):
                    error.placed = True  # type: ignore[attr-defined]
                raise
            if self.doubts:
                self.settle_doubts()
            if following < 0:
                return
            g.pc = following
            if g.rejoin and g.rejoin[-1] == following:
                g.rejoin = g.rejoin[:-1]
                if self.ready:
                    g.patient = True
                    self.make_ready(g)
                    return
            if following <= pc:
                budget -= 1
                self.steps -= 1
                if self.steps < 0:
                    self._out_of_steps(g)
                if self.polls != polls and self.ready:
                    g.patient = True
                    self.make_ready(g)
                    return
                if self.polls > POLLS and budget < PATIENCE - 8:
                    self.polls = 0
                    if not self.ready and not self.start_batch() and not self.sleeping:
                        self._poke()
            if self.ready and (
                budget <= 0
                or (id(g.batch), g.stack, following) in self.index
                or any(_place(other) < (False, -len(g.frames), following) for other in self.ready)
            ):
                self.make_ready(g)
                return
            if budget <= 0:
                budget = PATIENCE
                if self.sleeping or self.agents:
                    self.clock = max(self.clock, g.time)
                    self._wake_sleepers(self.clock)
                    if self.schedule == "random":
                        self._poke()

    def _poke(self) -> None:
        """Let asynchronous work go on while a group spins on its result."""
        if self.agents:
            self.agents[0].finish()

    def _wake_sleepers(self, clock: int) -> bool:
        awake = [item for item in self.sleeping if item[0] <= clock]
        for item in awake:
            self.sleeping.remove(item)
            self.wake(item[1], item[1].pc, item[0])
        return bool(awake)

    def _unstick(self) -> bool:
        """Nothing is ready: find something that may go on."""
        for agent in self.agents:
            if agent.signals:
                agent.finish()
                return True
        if self.sleeping:
            self.clock = max(self.clock, min(at for at, _ in self.sleeping))
            return self._wake_sleepers(self.clock)
        if self.start_batch():
            return True
        if self.progress > 0:
            self.progress = 0
            self.answers = 0
        patient = [(g, w) for g, w in self.parked.items() if w.may_fail is not None]
        if patient and self.answers < FALSE_ANSWERS:
            self.answers += 1
            for g, waiting in patient:
                if g in self.parked:
                    waiting.may_fail(g)
            return True
        return False

    # -- reports --------------------------------------------------------------

    def _deadlock(self) -> Deadlock:
        lines = ["deadlock: every thread waits and nothing is left that could wake one"]
        waits = []
        for g, waiting in self.parked.items():
            who, why = g.batch.describe(g.lanes), waiting.explain() if waiting.explain else ""
            lines.append(f"  {who} wait for {waiting.what}: {waiting.where}")
            if why:
                lines.append(f"    {why}")
            place = re.search(r"[: ](\d+)\)$", waiting.where)
            waits.append((who, waiting.what, int(place[1]) if place else 0, why))
        return Deadlock("\n".join(lines), waits)

    def _out_of_steps(self, g: Group) -> None:
        raise StepLimit(
            f"the kernel has not ended after the allowed number of loop turns: {self.standing(g)}; "
            "if it is right and merely long, launch with a larger max_steps"
        )

    def standing(self, running: Group | None = None) -> str:
        """Where the threads are: those that run now, and what the others wait for."""
        running = running or self.running
        parts = []
        if running is not None:
            parts.append(f"{running.batch.describe(running.lanes)} stand at {self.where(running)}")
        for g, waiting in self.parked.items():
            parts.append(f"{g.batch.describe(g.lanes)} wait for {waiting.what}")
        return "; ".join(parts) or "no thread has begun"


def _since(g: Group) -> int:
    return g.since


def _place(g: Group) -> tuple[bool, int, int]:
    return (g.patient, -len(g.frames), g.pc)


__all__ = ["Batch", "Machine", "Waiting"]
