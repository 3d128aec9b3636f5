"""Tensor memory: 128 lanes × 512 columns of 32 bits for each block (PTX ISA 9.7.16.1, 9.7.16.7).

An address is ``lane << 16 | column``.  A warp allocates columns, all lanes of them, a power of
two from 32 to 512; while not enough neighbouring columns are free it waits.  It learns the
address by a word in shared memory.  A warp reaches 32 of the lanes, its *quarter*: warp w those
from 32 (w % 4) on.

    >>> split(0x0020_0040)
    (32, 64)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from phasebit.emulator.errors import Fault
from phasebit.emulator.machine import Waiting
from phasebit.emulator.memory import POISON
from phasebit.emulator.multiprocessors import sharers, two_fit
from phasebit.emulator.types import Array

if TYPE_CHECKING:
    from collections.abc import Callable

    from phasebit.emulator.group import Group
    from phasebit.emulator.machine import Batch
    from phasebit.emulator.tensor_work import TensorWork

LANES, COLUMNS = 128, 512
SIZES = (32, 64, 128, 256, 512)


def split(address: int) -> tuple[int, int]:
    """Lane and column of an address."""
    return int(address) >> 16, int(address) & 0xFFFF


def name(lane: int, column: int) -> str:
    """An address in words."""
    return f"tensor memory lane {lane}, column {column}"


@dataclass(frozen=True)
class Columns:
    """Columns that a block has allocated."""

    first: int
    count: int
    where: str
    """The instruction that allocated them."""


@dataclass(eq=False)
class Request:
    """An allocation that waits for columns."""

    slot: int
    count: int
    group: Group
    where: str
    grant: Callable[[int], None]
    """What to do with the address, once there is one."""
    peer: Request | None = None
    """That of the other block of a pair (``cta_group::2``), with which it is granted."""

    @property
    def members(self) -> list[Request]:
        """It and its peer."""
        return [self] if self.peer is None else [self, self.peer]


class TensorMemory:
    """The tensor memory of the blocks of a batch."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.cells = np.full((batch.count, LANES, COLUMNS), POISON, np.uint32)
        """What it holds, by the block's place in the batch."""
        self.owned = np.zeros((batch.count, COLUMNS), bool)
        """Which columns are allocated."""
        self.allocations: list[dict[int, Columns]] = [{} for _ in range(batch.count)]
        """For each block: first column -> the allocation."""
        self.former: list[list[tuple[Columns, str]]] = [[] for _ in range(batch.count)]
        """What a block has given back, and where."""
        self.relinquished = [""] * batch.count
        """For each block the instruction by which it gave up its right to allocate."""
        self.asked = [0] * batch.count
        """How many columns each block asked for last."""
        self.group: tuple[int, str] | None = None
        """The ``cta_group`` of the first instruction that had one, and that instruction."""
        self.requests: list[Request] = []
        self.alone: list[Request] = []
        """Warps at an allocation for a pair whose peer has not come yet."""
        self.leaving: dict[tuple[int, int], tuple[Group, int, str]] = {}
        """Block and address -> a warp that gives back a pair's columns and waits for its peer:
        the warp, how many columns, the instruction."""
        self.queues: dict[int, list[TensorWork]] = {}
        """Thread -> its tensor operations under way, in the order of issue."""

    # -- allocating -----------------------------------------------------------

    def allocate(self, request: Request, resume: int, slots: tuple[int, ...]) -> bool:
        """Give a warp columns, or park it until there are; whether it has them.

        ``slots``: the block, or the pair of blocks that allocate together.  Raises
        :class:`Fault` for a number of columns that cannot be asked for.
        """
        batch, slot = self.batch, request.slot
        if request.count not in SIZES:
            raise Fault(
                f"{batch.describe(request.group.lanes)} asks for {request.count} columns of tensor "
                f"memory: the number is a power of two from 32 to 512; {request.where}"
            )
        if self.relinquished[slot]:
            raise Fault(
                f"{batch.describe(request.group.lanes)} allocates tensor memory after its block "
                f"gave up the right to: {request.where}; {self.relinquished[slot]}"
            )
        if len(slots) == 2 and not self._meet(request, slots):
            self._park(request.group, "the other block of the pair at tcgen05.alloc",
                       request.where, resume, lambda: self._peer(slot, slots))  # fmt: skip
            return False
        if batch.machine.checked:
            self._grows(request)
            if two_fit(batch.machine):
                self._hold_and_wait(request)
        if self._serve(request):
            return True
        self.requests.append(request)
        for one in request.members:
            if one is not request:
                del batch.machine.parked[one.group]
            self._park(one.group, f"{request.count} free columns of tensor memory", one.where,
                       resume if one is request else one.group.pc,
                       lambda: self._explain(request))  # fmt: skip
        return False

    def _grows(self, request: Request) -> None:
        """A block may ask for fewer columns than the time before, not for more (9.7.16.7.1)."""
        before = self.asked[request.slot]
        self.asked[request.slot] = request.count
        if 0 < before < request.count:
            self.batch.machine.checker.findings.report(
                "tensor",
                f"{self.batch.describe(request.group.lanes)} asks for {request.count} columns of "
                f"tensor memory after its block asked for {before}: {request.where}; one "
                "allocation may not be larger than the one before (PTX ISA 9.7.16.7.1): let the "
                "largest come first",
                -1, ("grows", request.where),
            )  # fmt: skip

    def _hold_and_wait(self, request: Request) -> None:
        """Could two blocks on one multiprocessor each hold what the other waits for?"""
        held = sum(c.count for c in self.allocations[request.slot].values())
        if held and 2 * held <= COLUMNS < 2 * held + request.count:
            self.batch.machine.checker.findings.report(
                "tensor",
                f"{self.batch.describe(request.group.lanes)} asks for {request.count} columns of "
                f"tensor memory while its block holds {held}: {request.where}; two such blocks on "
                f"one multiprocessor, which has {COLUMNS}, may each hold what the other waits "
                "for: let a block allocate all that it needs at once",
                -1, ("hold and wait", request.where),
            )  # fmt: skip

    def _park(self, group: Group, what: str, where: str, resume: int, explain: Any) -> None:
        self.batch.machine.park(group, Waiting(what, where, explain))
        group.pc = resume

    def _meet(self, request: Request, slots: tuple[int, ...]) -> bool:
        """Is the peer's warp here already?  Then the two requests are one."""
        peer = next((r for r in self.alone if r.slot in slots and r.slot != request.slot), None)
        if peer is None:
            self.alone.append(request)
            return False
        self.alone.remove(peer)
        if peer.count != request.count:
            who, other = (self.batch.describe(r.group.lanes) for r in (request, peer))
            raise Fault(
                f"{who} asks for {request.count} columns of tensor memory and {other} for "
                f"{peer.count}: both blocks of a pair must ask for the same number; "
                f"{request.where}"
            )
        request.peer = peer
        return True

    def _peer(self, slot: int, slots: tuple[int, ...]) -> str:
        other = slots[1] if slot == slots[0] else slots[0]
        block = f"block {int(self.batch.blocks[other])}"
        if self.batch.live_in_block[other]:
            return f"no warp of its peer, {block}, is there"
        return f"its peer, {block}, has left the kernel"

    def _serve(self, request: Request) -> bool:
        first = self._room(tuple(r.slot for r in request.members), request.count)
        if first is None:
            return False
        end = first + request.count
        for one in request.members:
            self.owned[one.slot, first:end] = True
            self.cells[one.slot, :, first:end] = POISON
            self.allocations[one.slot][first] = Columns(first, request.count, one.where)
            one.grant(first)
            if one.group in self.batch.machine.parked:
                self.batch.machine.wake(one.group, one.group.pc)
        self.batch.machine.progress += 1
        return True

    def _room(self, slots: tuple[int, ...], count: int) -> int | None:
        """Where ``count`` free columns lie, at a multiple of their number.

        Under the schedule ``random`` anywhere, for no program may count on the address 0.
        """
        starts = np.arange(0, COLUMNS, count)
        there = [other for slot in slots for other in sharers(self.batch, slot)]
        taken = self.owned[there].any(axis=0)
        free = starts[~taken.reshape(-1, count).any(axis=1)]
        if not len(free):
            return None
        machine = self.batch.machine
        return int(machine.random.choice(free) if machine.schedule == "random" else free[0])

    def _explain(self, request: Request) -> str:
        parts, holders = [], set()
        for slot in [s for one in request.members for s in sharers(self.batch, one.slot)]:
            block = int(self.batch.blocks[slot])
            held = self.allocations[slot].values()
            holders.update([block] if held else [])
            of = f" of block {block}" if self.batch.machine.resident > 1 else ""
            parts += [f"columns {c.first}-{c.first + c.count - 1}{of} by {c.where}" for c in held]
        text = "allocated are " + "; ".join(parts)
        stuck = {int(self.batch.blocks[r.slot]) for one in self.requests for r in one.members}
        if len(holders) > 1 and holders <= stuck:
            text += (
                f"; blocks {' and '.join(map(str, sorted(holders)))} share a multiprocessor, and "
                "each holds columns that the other waits for: let a block allocate all that it "
                "needs at once"
            )
        return text

    def _held(self, lanes: Array, slot: int, address: int, count: int, where: str) -> Columns:
        """What is given back; raises :class:`Fault` for columns that were not allocated so."""
        lane, first = split(address)
        found = self.allocations[slot].get(first)
        who = self.batch.describe(lanes)
        if found is None or lane:
            for columns, there in self.former[slot]:
                if columns.first == first:
                    raise Fault(
                        f"{who} deallocates tensor memory at {address:#x} for the second time: "
                        f"{where}; the first: {there}"
                    )
            raise Fault(
                f"{who} deallocates tensor memory at {address:#x}, which no tcgen05.alloc of this "
                f"block returned: {where}"
            )
        if found.count != count:
            raise Fault(
                f"{who} deallocates {count} columns of tensor memory, but {found.count} were "
                f"allocated there by {found.where}: {where}"
            )
        return found

    def free(self, lanes: Array, slot: int, address: int, count: int, where: str) -> None:
        """Give columns back; raises :class:`Fault` for any that were not allocated so."""
        found = self._held(lanes, slot, address, count, where)
        del self.allocations[slot][found.first]
        self.former[slot].append((found, where))
        self.owned[slot, found.first : found.first + count] = False
        self.batch.machine.progress += 1
        waiting, self.requests = self.requests, []
        for request in waiting:
            if not self._serve(request):
                self.requests.append(request)

    def free_pair(
        self, g: Group, slots: tuple[int, ...], slot: int, address: int, count: int, where: str,
        resume: int,
    ) -> bool:  # fmt: skip
        """Give a pair's columns back, or park the warp until that of the other block does too."""
        self._held(g.lanes, slot, address, count, where)
        other = slots[1] if slot == slots[0] else slots[0]
        waiting = self.leaving.pop((other, address), None)
        if waiting is None:
            self.leaving[slot, address] = g, count, where
            self._park(g, "the other block of the pair at tcgen05.dealloc", where, resume,
                       lambda: self._peer(slot, slots))  # fmt: skip
            return False
        peer, many, there = waiting
        self.free(peer.lanes, other, address, many, there)
        self.free(g.lanes, slot, address, count, where)
        self.batch.machine.wake(peer, peer.pc)
        return True

    # -- reaching -------------------------------------------------------------

    def reach(
        self, slot: int, lanes: tuple[int, int], columns: tuple[int, int], who: str, where: str
    ) -> None:
        """Are these lanes and columns (first, and one past the last) there and allocated?

        Raises :class:`Fault` when they are not.
        """
        first, end = columns
        if lanes[1] > LANES or end > COLUMNS:
            raise Fault(
                f"{who} reaches beyond tensor memory, lanes {lanes[0]}-{lanes[1] - 1} and columns "
                f"{first}-{end - 1} of {LANES} × {COLUMNS}: {where}"
            )
        owned = self.owned[slot, first:end]
        if owned.all():
            return
        column = first + int(np.argmin(owned))
        for given_back, there in reversed(self.former[slot]):
            if given_back.first <= column < given_back.first + given_back.count:
                raise Fault(
                    f"{who} uses column {column} of tensor memory after it was deallocated: "
                    f"{where}; deallocated by {there}"
                )
        held = ", ".join(
            f"{c.first}-{c.first + c.count - 1}" for c in self.allocations[slot].values()
        )
        raise Fault(
            f"{who} uses column {column} of tensor memory, which is not allocated: {where}; "
            f"allocated are {f'columns {held}' if held else 'none'}: take the address that "
            "tcgen05.alloc wrote to shared memory"
        )

    def leaked(self, slot: int) -> list[Columns]:
        """What a block has not given back."""
        return list(self.allocations[slot].values())


def tensor_memory(batch: Batch) -> TensorMemory:
    """The tensor memory of a batch; made on first use."""
    if batch.tensor is None:
        batch.tensor = TensorMemory(batch)
    return batch.tensor


def one(g: Group, value: Any, what: str, where: str) -> Array:
    """An operand that must be the same in all threads of a warp: one number a warp."""
    rows: Array = g.spread(value).reshape(-1, 32)
    if (rows != rows[:, :1]).any():
        warp = int(np.argmax((rows != rows[:, :1]).any(axis=1)))
        raise Fault(
            f"{g.batch.describe(g.lanes[32 * warp : 32 * warp + 32])} has different {what} in its "
            f"threads: {where}; all of them must give the same"
        )
    found: Array = rows[:, 0]
    return found


__all__ = ["COLUMNS", "LANES", "Columns", "Request", "TensorMemory", "name", "one", "split",
           "tensor_memory"]  # fmt: skip
