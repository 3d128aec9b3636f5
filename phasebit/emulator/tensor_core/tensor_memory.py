"""Tensor memory: 128 lanes × 512 columns of 32 bits for each block (PTX ISA 9.7.16.1, 9.7.16.7).

An address is ``lane << 16 | column``.  A warp allocates columns, all lanes of them, a power of
two from 32 to 512; while not enough neighbouring columns are free it waits.  It learns the
address by a word in shared memory.  A warp reaches 32 of the lanes, its *quarter*: warp w those
from 32 (w % 4) on.

    >>> split(0x0020_0040)
    (32, 64)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasebit.emulator.capabilities import TENSOR_COLUMNS, TENSOR_LANES
from phasebit.emulator.errors import Fault, InvalidFree, OutOfBounds, UseAfterFree
from phasebit.emulator.findings import Said, Sentence, joined, say
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.device_memory import POISON
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.multiprocessors import sharers
from phasebit.emulator.machine.waiting import Waiting
from phasebit.emulator.ptx.types import Array
from phasebit.emulator.tensor_core.tensor_observer import TensorObserver

LANES, COLUMNS = TENSOR_LANES, TENSOR_COLUMNS
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
    where: Sentence
    """The instruction that allocated them."""


@dataclass(eq=False)
class Request:
    """An allocation that waits for columns."""

    slot: int
    count: int
    group: Group
    where: Sentence
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
        self.former: list[list[tuple[Columns, Sentence]]] = [[] for _ in range(batch.count)]
        """What a block has given back, and where."""
        self.relinquished: list[Sentence | None] = [None] * batch.count
        """For each block the instruction by which it gave up its right to allocate."""
        self.group: tuple[int, Sentence] | None = None
        """The ``cta_group`` of the first instruction that had one, and that instruction."""
        self.requests: list[Request] = []
        self.alone: list[Request] = []
        """Warps at an allocation for a pair whose peer has not come yet."""
        self.leaving: dict[tuple[int, int], tuple[Group, int, Sentence]] = {}
        """Block and address -> a warp that gives back a pair's columns and waits for its peer:
        the warp, how many columns, the instruction."""

    # -- allocating -----------------------------------------------------------

    def allocate(self, request: Request, resume: int, slots: tuple[int, ...]) -> bool:
        """Give a warp columns, or park it until there are; whether it has them.

        ``slots``: the block, or the pair of blocks that allocate together.  Raises
        :class:`Fault` for a number of columns that cannot be asked for.
        """
        batch, slot = self.batch, request.slot
        if request.count not in SIZES:
            raise Fault(
                "{} asks for {} columns of tensor memory: the number is a power of two from 32 to "
                "512; {}",
                batch.describe(request.group.lanes), request.count, request.where,
            )
        if self.relinquished[slot]:
            raise Fault(
                "{} allocates tensor memory after its block gave up the right to: {}; {}",
                batch.describe(request.group.lanes), request.where, self.relinquished[slot],
            )
        if len(slots) == 2 and not self._meet(request, slots):
            self._park(request.group, "the other block of the pair at tcgen05.alloc",
                       request.where, resume, lambda: self._peer(slot, slots))  # fmt: skip
            return False
        held = sum(columns.count for columns in self.allocations[slot].values())
        for told in batch.machine.told[TensorObserver.requests_columns]:
            told(request.group, slot, request.count, held, request.where)
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

    def _park(self, group: Group, what: str, where: Sentence, resume: int, explain: Any) -> None:
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
                "{} asks for {} columns of tensor memory and {} for {}: both blocks of a pair "
                "must ask for the same number; {}",
                who, request.count, other, peer.count, request.where,
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

    def _explain(self, request: Request) -> Sentence:
        parts, holders = list[Sentence](), set()
        for slot in [s for one in request.members for s in sharers(self.batch, one.slot)]:
            block = int(self.batch.blocks[slot])
            held = self.allocations[slot].values()
            holders.update([block] if held else [])
            of = f" of block {block}" if self.batch.machine.resident > 1 else ""
            parts += [
                say("columns {}-{}{} by {}", c.first, c.first + c.count - 1, of, c.where)
                for c in held
            ]
        text = say("allocated are {}", joined("; ", parts))
        stuck = {int(self.batch.blocks[r.slot]) for one in self.requests for r in one.members}
        if len(holders) > 1 and holders <= stuck:
            text = say(
                "{}; blocks {} share a multiprocessor, and each holds columns that the other waits "
                "for: let a block allocate all that it needs at once",
                text, " and ".join(map(str, sorted(holders))),
            )  # fmt: skip
        return text

    def _held(self, lanes: Array, slot: int, address: int, count: int, where: Sentence) -> Columns:
        """What is given back; raises :class:`Fault` for columns that were not allocated so."""
        lane, first = split(address)
        found = self.allocations[slot].get(first)
        who = self.batch.describe(lanes)
        if found is None or lane:
            for columns, there in self.former[slot]:
                if columns.first == first:
                    raise InvalidFree(
                        "{} deallocates tensor memory at {:#x} for the second time: {}; the "
                        "first: {}",
                        who, address, where, there,
                    )
            raise InvalidFree(
                "{} deallocates tensor memory at {:#x}, which no tcgen05.alloc of this block "
                "returned: {}",
                who, address, where,
            )
        if found.count != count:
            raise Fault(
                "{} deallocates {} columns of tensor memory, but {} were allocated there by {}: {}",
                who, count, found.count, found.where, where,
            )
        return found

    def free(self, lanes: Array, slot: int, address: int, count: int, where: Sentence) -> None:
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
        self, g: Group, slots: tuple[int, ...], slot: int, address: int, count: int,
        where: Sentence, resume: int,
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

    def there(self, slot: int, lanes: tuple[int, int], columns: tuple[int, int]) -> bool:
        """Whether these lanes and columns (first, and one past the last) are, and are allocated."""
        first, end = columns
        return lanes[1] <= LANES and end <= COLUMNS and bool(self.owned[slot, first:end].all())

    def reach(
        self, slot: int, lanes: tuple[int, int], columns: tuple[int, int], who: Said,
        where: Sentence,
    ) -> None:  # fmt: skip
        """Raises :class:`Fault` when these lanes and columns are not :meth:`there`."""
        if self.there(slot, lanes, columns):
            return
        first, end = columns
        if lanes[1] > LANES or end > COLUMNS:
            raise OutOfBounds(
                "{} reaches beyond tensor memory, lanes {}-{} and columns {}-{} of {} × {}: {}",
                who, lanes[0], lanes[1] - 1, first, end - 1, LANES, COLUMNS, where,
            )
        column = first + int(np.argmin(self.owned[slot, first:end]))
        for given_back, there in reversed(self.former[slot]):
            if given_back.first <= column < given_back.first + given_back.count:
                raise UseAfterFree(
                    "{} uses column {} of tensor memory after it was deallocated: {}; deallocated "
                    "by {}",
                    who, column, where, there,
                )
        held = ", ".join(
            f"{c.first}-{c.first + c.count - 1}" for c in self.allocations[slot].values()
        )
        raise OutOfBounds(
            "{} uses column {} of tensor memory, which is not allocated: {}; allocated are {}: "
            "take the address that tcgen05.alloc wrote to shared memory",
            who, column, where, f"columns {held}" if held else "none",
        )

    def leaked(self, slot: int) -> list[Columns]:
        """What a block has not given back."""
        return list(self.allocations[slot].values())


def tensor_memory(batch: Batch) -> TensorMemory:
    """The tensor memory of a batch; made on first use."""
    return batch.of(TensorMemory)


def one(g: Group, value: Any, what: str, where: Sentence) -> Array:
    """An operand that must be the same in all threads of a warp: one number a warp."""
    rows: Array = g.spread(value).reshape(-1, 32)
    if (rows != rows[:, :1]).any():
        warp = int(np.argmax((rows != rows[:, :1]).any(axis=1)))
        raise Fault(
            "{} has different {} in its threads: {}; all of them must give the same",
            g.batch.describe(g.lanes[32 * warp:32 * warp + 32]), what, where,
        )
    found: Array = rows[:, 0]
    return found


__all__ = ["COLUMNS", "LANES", "Columns", "Request", "TensorMemory", "name", "one", "split",
           "tensor_memory"]  # fmt: skip
