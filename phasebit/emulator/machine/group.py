"""A group: threads of one batch of blocks that stand at the same place of the program.

A group executes a basic block as one NumPy computation over its threads.  When
a branch divides it, it becomes two; when two groups reach the same place, they
become one again.  It owns the registers of its threads: a list with one value
for each register, an array or a scalar.  Values are never changed in place, so
groups may share them.

Threads are numbered through the batch: thread ``t`` of the ``b``-th block of
the batch is *lane* ``b * threads + t``.  ``lanes`` is sorted.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from phasebit.emulator.errors import OutOfBounds
from phasebit.emulator.findings import say
from phasebit.emulator.machine import special_registers
from phasebit.emulator.machine.accesses import Accesses
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.device_memory import Memory, Parameters
from phasebit.emulator.ptx.placement import (
    GLOBAL_BASE,
    LOCAL_BASE,
    PARAM_BASE,
    RANK_SHIFT,
    SHARED_BASE,
    WINDOW_SHIFT,
)
from phasebit.emulator.ptx.types import Array, Value

Registers = list[Any]
I8 = np.dtype("i8")

Cut = tuple[int, Array]
"""The block where the ways of a branch meet again, and the lanes that stood at the branch."""


class AccessObserver:
    """Events of addresses and of what lies there; see ``machine.events``.

    ``access`` is the number of the instruction in ``program.instructions``.
    """

    def shared_addresses(
        self, g: Group, first: Value, span: int, align: int, access: int
    ) -> None:
        """Threads are about to use ``span`` bytes from these shared addresses on."""

    def global_addresses(
        self, g: Group, first: Value, span: int, align: int, access: int
    ) -> None:
        """Threads are about to use ``span`` bytes from these global addresses on."""

    def local_addresses(
        self, g: Group, first: Value, span: int, align: int, access: int
    ) -> None:
        """Threads are about to use ``span`` bytes from these local addresses on."""

    def other_blocks(self, g: Group, target: Array, own: Array) -> None:
        """Threads use the shared memory of these blocks of their cluster, by place in the batch.

        ``own``: the block of each thread.
        """

    def loads(self, g: Group, index: Value, accesses: Accesses) -> None:
        """Threads load through one index array."""

    def stores(self, g: Group, index: Value, accesses: Accesses) -> bool:
        """Threads store through one index array; the answer: tell me ``stored``, too."""
        return False

    def stored(self, g: Group, view: Array, index: Value, value: Value, access: int) -> None:
        """They have stored."""


class Frame:
    """A caller that waits for a callee to return."""

    __slots__ = ("base", "registers", "results", "resume")

    def __init__(
        self, registers: Registers, resume: int, results: tuple[tuple[int, int, int], ...],
        base: int,
    ) -> None:  # fmt: skip
        self.registers = registers
        self.resume = resume
        self.results = results
        """(from, to, bytes) for each result, copied between frames on return."""
        self.base = base


class Group:
    """See the module's text."""

    __slots__ = (
        "at", "base", "batch", "bypasses", "cuts", "frames", "joins", "known", "lanes", "memory",
        "n", "parameters", "patient", "pc", "registers", "rejoin", "resume", "since", "stack",
        "started", "time", "warps", "whole", "window",
    )  # fmt: skip

    def __init__(
        self, batch: Batch, lanes: Array, pc: int, registers: Registers, time: int
    ) -> None:
        self.batch = batch
        self.lanes = lanes
        self.n = len(lanes)
        self.pc = pc
        self.registers = registers
        self.frames: list[Frame] = []
        self.stack = 0
        """Number of the call stack: groups merge only when it is the same."""
        self.base = 0
        """Bytes by which recursion has moved the frames of the function that runs."""
        self.time = time
        self.at = -1
        """The number of the instruction that it executes, of those that may ask for it."""
        self.resume = 0
        self.since = 0
        self.started = time
        """From when on the trace has not yet noted what this group did."""
        self.rejoin: tuple[int, ...] = ()
        """Blocks at which to wait for those from whom a branch divided this group."""
        self.cuts: tuple[Cut, ...] = ()
        """Branches that divided its warps, and whose ways have not met again."""
        self.bypasses: tuple[Cut, ...] = ()
        """Likewise those that divided its blocks."""
        self.joins: frozenset[int] = frozenset()
        """Where the ways of all these meet."""
        self.patient = False
        """Whether it spins on memory, so that others should go first."""
        self.known: Any = None
        """What an observer keeps with the group: it is gone when the threads part or meet."""
        self.memory: Memory = batch.machine.memory
        self.parameters: Parameters = batch.machine.parameters
        self.whole = batch.whole_warps(lanes)
        """Whether every warp with a thread in this group has all its live threads here."""
        self.warps = batch.warps_in(lanes)
        """Warps with a thread in this group: each executes the instruction once."""
        base = batch.shared_base
        if batch.count == 1:
            self.window: Any = np.int64(base)
        else:
            self.window = (lanes // batch.threads) * batch.shared_stride + base
        """Where the shared memory of each thread's block begins in the buffer."""

    # -- registers ------------------------------------------------------------

    def special(self, name: str) -> Value:
        return special_registers.read(self.batch, self.lanes, self.time, name)

    def spread(self, value: Value) -> Array:
        """A value as an array with one element a thread."""
        if isinstance(value, np.ndarray):
            return value
        return np.full(self.n, value)

    def write(self, dest: tuple[int, np.dtype[Any]] | None, value: Value) -> None:
        """Write a register, in the form in which it is kept."""
        if dest is None:
            return
        index, form = dest
        if value.dtype != form:
            if form.kind == "b":
                value = value != 0
            elif value.dtype.itemsize == form.itemsize:
                value = value.view(form)
            else:
                value = value.astype(f"u{form.itemsize}").view(form)
        self.registers[index] = value

    def part(self, where: Array, pc: int) -> Group:
        """A new group of the threads at these positions, with the registers live at ``pc``."""
        machine = self.batch.machine
        new = Group(
            self.batch, self.lanes.take(where), pc,
            _pick(self.registers, machine.program.live[pc], where), self.time,
        )  # fmt: skip
        new.frames = [
            Frame(_pick(f.registers, machine.program.live[f.resume], where), f.resume, f.results,
                  f.base)
            for f in self.frames
        ]
        new.stack = self.stack
        new.base = self.base
        new.started = self.started
        new.rejoin = self.rejoin
        new.cuts, new.bypasses, new.joins = self.cuts, self.bypasses, self.joins
        for keeper in self.batch.keepers:
            keeper.divide(self.registers, new.registers, machine.program.live[pc], where)
            for mine, frame in zip(self.frames, new.frames, strict=True):
                live = machine.program.live[mine.resume]
                keeper.divide(mine.registers, frame.registers, live, where)
        return new

    # -- addresses ------------------------------------------------------------
    # Each turns a base address into positions in the view of the right width.
    # ``low`` is the least constant offset used with this base, ``span`` the
    # bytes from there to the end of the last access.

    def shared_index(
        self, base: Value, low: Value, span: int, shift: int, align: int, access: int
    ) -> Value:
        """Positions of 32-bit (or generic, 64-bit) shared addresses."""
        batch = self.batch
        first = base + low
        for told in batch.machine.told[AccessObserver.shared_addresses]:
            told(self, first, span, align, access)
        if batch.machine.cluster_size > 1:
            return self._cluster_index(first, shift)
        if not isinstance(first, np.ndarray):
            return (np.int64(int(first) & 0xFFFFFFFF) + self.window) >> shift
        index = first.astype(I8)
        if first.dtype.itemsize == 8:
            index &= 0xFFFFFFFF
        index += self.window
        index >>= shift
        return index

    def _cluster_index(self, first: Value, shift: int) -> Value:
        """In a cluster bits 24 and up of a shared address are a block's rank (PTX ISA 5.1.7).

        Every shared address has them, also those of one's own block [the SASS of sm_90 adds
        ``%cluster_ctarank << 24``].
        """
        batch = self.batch
        size = batch.machine.cluster_size
        index = self.spread(first).astype(I8) & 0xFFFFFFFF
        own = self.lanes // batch.threads
        target = own - own % size + (index >> RANK_SHIFT)
        if (index >> RANK_SHIFT).max() >= size:
            raise OutOfBounds(
                "{} uses the shared address {:#x}: the cluster has no block of rank {}; {}",
                batch.describe(self.lanes[:1]), int(index[np.argmax(index)]),
                int(index.max()) >> RANK_SHIFT, batch.machine.where(self),
            )
        if np.count_nonzero(target != own):
            for told in batch.machine.told[AccessObserver.other_blocks]:
                told(self, target, own)
        offset = index & ((1 << RANK_SHIFT) - 1)
        return (offset + target * batch.shared_stride + batch.shared_base) >> shift

    def own_window(self) -> Value:
        """In a cluster: what the addresses of one's own shared variables begin with."""
        return self.special("cluster_ctarank") << np.uint32(RANK_SHIFT)

    def global_index(
        self, base: Value, low: Value, span: int, shift: int, align: int, access: int
    ) -> Value:
        """Positions of 64-bit global addresses."""
        first = base + low
        for told in self.batch.machine.told[AccessObserver.global_addresses]:
            told(self, first, span, align, access)
        if not isinstance(first, np.ndarray):
            return np.int64(((int(first) - GLOBAL_BASE) & 0xFFFFFFFFFFFFFFF) >> shift)
        index = first - np.uint64(GLOBAL_BASE)
        index >>= np.uint64(shift)
        return index.view(I8)

    const_index = global_index  # constants lie there too; the generated code names the space

    def local_index(
        self, base: Value, low: Value, span: int, shift: int, align: int, access: int
    ) -> Value:
        """Positions of local addresses; each thread has a stretch of its own."""
        batch = self.batch
        first = base + low
        for told in batch.machine.told[AccessObserver.local_addresses]:
            told(self, first, span, align, access)
        if isinstance(first, np.ndarray):
            offset = first.astype(I8) & 0xFFFFFFFF
        else:
            offset = np.full(1, int(first) & 0xFFFFFFFF)
        return (self.lanes * batch.local_stride + (batch.local_base + offset)) >> shift

    def generic_index(
        self, base: Value, low: Value, span: int, shift: int, align: int, access: int
    ) -> Value:
        """Positions of generic addresses: the window says which space (PTX ISA 6.4.1.1)."""
        first = base + low
        windows = first >> np.uint64(WINDOW_SHIFT)
        if isinstance(windows, np.ndarray):
            low_window, high_window = int(windows.min()), int(windows.max())
        else:
            low_window = high_window = int(windows)
        if low_window == high_window:
            zero = np.uint64(0)
            return self._space_of(low_window)(first, zero, span, shift, align, access)
        result = np.empty(self.n, I8)
        first = self.spread(first)
        for window in np.unique(windows):
            where = np.flatnonzero(windows == window)
            some = self.part(where, self.pc)
            index = some._space_of(int(window))(
                first[where], np.uint64(0), span, shift, align, access
            )
            result[where] = index
        return result

    def _space_of(self, window: int) -> Any:
        if window == SHARED_BASE >> WINDOW_SHIFT:
            return self.shared_index
        if window == LOCAL_BASE >> WINDOW_SHIFT:
            return self.local_index
        if window == PARAM_BASE >> WINDOW_SHIFT:
            return self.param_index
        return self.global_index

    def param_index(
        self, base: Value, low: Value, span: int, shift: int, align: int, access: int
    ) -> Value:
        """Positions of addresses in the kernel's parameters."""
        machine = self.batch.machine
        size = machine.program.layout.parameter_size
        offset = self.spread((base + low).astype(np.uint64) & np.uint64(0xFFFFFFFF)).astype(I8)
        wrong = (offset + span > size) | (offset % align != 0)
        if wrong.any():
            where = say("; {}", machine.place(access)) if access >= 0 else ""
            raise OutOfBounds(
                "invalid parameter access by {}: {} bytes at {} of {}{}",
                self.batch.describe(self.lanes[wrong][:1]), span, offset[wrong][0], size, where,
            )
        return (offset + machine.parameter_start) >> shift

    def index(self, address: Value, space: str, size: int, shift: int, access: int = -1) -> Value:
        """Positions for an instruction that is not ``ld`` or ``st``: an atomic, a barrier."""
        find = getattr(self, f"{space}_index")
        return find(address, address.dtype.type(0), size, shift, size, access)

    # -- events ---------------------------------------------------------------

    def watch_load(self, index: Value, accesses: Accesses) -> None:
        for told in self.batch.machine.told[AccessObserver.loads]:
            told(self, index, accesses)

    def watch_store(self, index: Value, accesses: Accesses) -> bool:
        """Whether somebody wants to know what was stored: then ``verify_store`` tells."""
        wanted = False
        for told in self.batch.machine.told[AccessObserver.stores]:
            wanted |= told(self, index, accesses)
        return wanted

    def verify_store(self, view: Array, index: Value, value: Value, access: int) -> None:
        for told in self.batch.machine.told[AccessObserver.stored]:
            told(self, view, index, value, access)

    def meets(self, join: int) -> None:
        """This is where the ways of a branch meet: who went another way is no longer missed."""
        self.cuts = tuple(cut for cut in self.cuts if cut[0] != join)
        self.bypasses = tuple(cut for cut in self.bypasses if cut[0] != join)
        self.joins -= {join}

    def poll(self) -> None:
        """This thread looks at memory that others change; if it loops, let others go first."""
        self.batch.machine.polls += 1


def _pick(registers: Registers, live: tuple[int, ...], where: Array) -> Registers:
    new: Registers = [None] * len(registers)
    if len(where) == 1:
        one = where[0]
        for index in live:
            value = registers[index]
            new[index] = value[one] if isinstance(value, np.ndarray) else value
        return new
    for index in live:
        value = registers[index]
        new[index] = value.take(where) if isinstance(value, np.ndarray) else value
    return new


def place(g: Group) -> tuple[bool, int, int]:
    """Who is furthest behind in the program comes first; who spins on memory lets others go."""
    return (g.patient, -len(g.frames), g.pc)


def merge(groups: list[Group]) -> Group:
    """One group of the threads of several that stand at the same place."""
    first = groups[0]
    if len(groups) == 1:
        return first
    machine = first.batch.machine
    lanes = np.concatenate([g.lanes for g in groups])
    order: Array | None = None
    if any(int(a.lanes[-1]) > int(b.lanes[0]) for a, b in itertools.pairwise(groups)):
        order = np.argsort(lanes)
        lanes = lanes[order]
    sizes = [g.n for g in groups]
    live = machine.program.live
    registers = _join([g.registers for g in groups], live[first.pc], sizes, order)
    new = Group(first.batch, lanes, first.pc, registers, max(g.time for g in groups))
    new.stack = first.stack
    new.base = first.base
    new.rejoin = first.rejoin if all(g.rejoin == first.rejoin for g in groups) else ()
    new.cuts = _noted(groups, [g.cuts for g in groups], first.batch.warp_of.take)
    new.bypasses = _noted(groups, [g.bypasses for g in groups], first.batch.slots)
    new.joins = first.joins.union(*(g.joins for g in groups[1:]))
    for depth, frame in enumerate(first.frames):
        saved = [g.frames[depth].registers for g in groups]
        new.frames.append(
            Frame(_join(saved, live[frame.resume], sizes, order), frame.resume, frame.results,
                  frame.base)
        )
    for keeper in first.batch.keepers:
        keeper.join([g.registers for g in groups], registers, live[first.pc], sizes, order)
        for depth, frame in enumerate(first.frames):
            saved = [g.frames[depth].registers for g in groups]
            keeper.join(saved, new.frames[depth].registers, live[frame.resume], sizes, order)
    return new


def _noted(
    groups: list[Group], notes: list[tuple[Cut, ...]], of: Callable[[Array], Array]
) -> tuple[Cut, ...]:
    """The cuts of a group that is made of several: all of theirs, one for each branch.

    ``of``: the warp, or the block, of each lane.  A group's cuts say nothing here of warps, or
    blocks, of which it has no thread: those may have come to the branch again since.
    """
    first = notes[0]
    if all(len(cuts) == len(first) and all(map(operator.is_, cuts, first)) for cuts in notes):
        return first
    found: dict[int, list[Array]] = {}
    for g, cuts in zip(groups, notes, strict=True):
        own = np.unique(of(g.lanes))
        for join, lanes in cuts:
            found.setdefault(join, []).append(lanes[np.isin(of(lanes), own)])
    return tuple((join, np.unique(np.concatenate(lanes))) for join, lanes in found.items())


def _join(
    files: list[Registers], live: tuple[int, ...], sizes: list[int], order: Array | None
) -> Registers:
    new: Registers = [None] * len(files[0])
    for index in live:
        values = [registers[index] for registers in files]
        head = values[0]
        if not isinstance(head, np.ndarray) and all(
            not isinstance(v, np.ndarray) and _same(v, head) for v in values[1:]
        ):
            new[index] = head
            continue
        joined = np.concatenate(
            [
                v if isinstance(v, np.ndarray) else np.full(n, v)
                for v, n in zip(values, sizes, strict=True)
            ]
        )
        new[index] = joined if order is None else joined.take(order)
    return new


def _same(a: Any, b: Any) -> bool:
    """Whether two scalars have the same bits (NaN equals NaN, 0.0 is not -0.0)."""
    return a is b or (a is not None and b is not None and bool(a.tobytes() == b.tobytes()))
