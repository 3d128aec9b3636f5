"""A batch: blocks that became resident together, stacked so that one NumPy call serves them all.

What a batch keeps for one kind of instruction, such as the copies under way or tensor memory,
belongs to whoever has these instructions: :meth:`Batch.of` makes it on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from phasebit.emulator.capabilities import limits
from phasebit.emulator.errors import StackOverflow
from phasebit.emulator.findings import BlockThreads, Threads
from phasebit.emulator.machine.device_memory import POISON
from phasebit.emulator.machine.running_launch import RunningLaunch
from phasebit.emulator.ptx.placement import align_up
from phasebit.emulator.ptx.types import Array

Kept = TypeVar("Kept")

RESERVED = limits(90).reserved_shared
"""Bytes of shared memory that the system keeps for itself (%reserved_smem_offset)."""


class RegisterKeeper(Protocol):
    """Who must know when registers are copied, for groups of threads part and meet.

    ``live``: the numbers of the registers that are copied.
    """

    def divide(self, old: list[Any], new: list[Any], live: Sequence[int], where: Array) -> None:
        """Threads at these positions have become a group of their own."""

    def join(
        self, files: Sequence[list[Any]], new: list[Any], live: Sequence[int],
        sizes: Sequence[int], order: Array | None,
    ) -> None:  # fmt: skip
        """Groups of these sizes have become one; ``order`` sorts their threads."""


class Batch:
    """Blocks that became resident together: their threads, shared and local memory, barriers."""

    def __init__(self, machine: RunningLaunch, blocks: Array) -> None:
        self.machine = machine
        self.blocks = blocks
        self.count = len(blocks)
        self.threads = machine.threads
        self.lanes = self.count * self.threads
        self.alive = np.ones(self.lanes, bool)
        self.live = self.lanes
        self.live_in_block = np.full(self.count, self.threads)
        self.specials: dict[str, Any] = {}
        self.keepers: list[RegisterKeeper] = []
        self.when_threads_leave: list[Callable[[Array], None]] = []
        """Called with the lanes that have left the kernel, while others are still there."""
        self._kept: dict[Any, Any] = {}
        warps = -(-self.threads // 32)
        thread = np.arange(self.lanes) % self.threads
        self.warps = warps
        self.warp_of = (np.arange(self.lanes) // self.threads) * warps + thread // 32
        self.lane_bit = np.uint32(1) << (thread % 32).astype(np.uint32)
        self.live_in_warp = np.bincount(self.warp_of)
        self.alive_mask = np.zeros(self.count * warps, np.uint32)
        np.bitwise_or.at(self.alive_mask, self.warp_of, self.lane_bit)
        self.asked_for: dict[int, Array] = {}
        """Calls deep -> where ``alloca`` has moved each thread's stack to; 0: nowhere."""
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

    def of(self, kind: Callable[[Batch], Kept]) -> Kept:
        """The batch's object of a class, made on first use: ``batch.of(TensorMemory)``."""
        found: Kept | None = self._kept.get(kind)
        if found is None:
            found = self._kept[kind] = kind(self)
        return found

    def known(self, kind: Callable[[Batch], Kept]) -> Kept | None:
        """Like :meth:`of`, but None where nobody has used it yet."""
        return self._kept.get(kind)

    def need_stack(self, size: int, lanes: Array, depth: int) -> None:
        """Make room for ``size`` bytes of frames a thread: recursion went ``depth`` calls deep."""
        old, stride = self.local, self.local_stride
        if size <= stride:
            return
        most = self.machine.stack
        if size > most:
            raise StackOverflow(
                "stack overflow: {} is {} calls deep and needs {} bytes of stack, more than {}; "
                "if the recursion ends, allow more with cudaDeviceSetLimit(cudaLimitStackSize, "
                "bytes)",
                self.describe(lanes[:1]), depth, size, most,
            )
        memory = self.machine.memory
        wide = min(most, align_up(2 * size, 16))
        new = memory.allocate(self.lanes * wide, "local memory", "local")
        before = memory.bytes(old).reshape(self.lanes, stride)
        memory.bytes(new).reshape(self.lanes, wide)[:, :stride] = before
        memory.free(old)
        self.local, self.local_stride, self.local_base = new, wide, new.start

    def stack_top(self, lanes: Array, depth: int) -> Array:
        """Where the stack of each thread ends, in a function that is ``depth`` calls deep."""
        top = np.full(len(lanes), self.machine.program.layout.local_size, np.int64)
        for deep, ends in self.asked_for.items():
            if deep <= depth:
                np.maximum(top, ends[lanes], out=top)
        return top

    def set_stack_top(self, lanes: Array, depth: int, ends: Array | int) -> None:
        """Where it ends from now on, until that function returns."""
        if depth not in self.asked_for:
            self.asked_for[depth] = np.zeros(self.lanes, np.int64)
        self.asked_for[depth][lanes] = ends

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

    def describe(self, lanes: Array) -> Threads:
        """``thread 5 of block 0``, ``warps 0-7 of block 2``."""
        first, last = int(lanes[0]), int(lanes[-1])
        slot = first // self.threads
        if slot == last // self.threads and (lanes[1:] == lanes[:-1] + 1).all():  # mostly
            at = slot * self.threads
            whole = BlockThreads(int(self.blocks[slot]), ((first - at, last - at),), self.threads)
            return Threads((whole,))
        slots = lanes // self.threads
        parts = []
        for slot in np.unique(slots):
            mine = np.sort(lanes[slots == slot] % self.threads)
            gaps = np.flatnonzero(mine[1:] - mine[:-1] != 1)
            begins, ends = mine[np.r_[0, gaps + 1]], mine[np.r_[gaps, len(mine) - 1]]
            ranges = tuple(zip(begins.tolist(), ends.tolist(), strict=True))
            parts.append(BlockThreads(int(self.blocks[slot]), ranges, self.threads))
        return Threads(tuple(parts))


__all__ = ["RESERVED", "Batch"]
