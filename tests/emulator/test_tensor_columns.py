"""Columns of tensor memory: who gets which, who waits, and what is said of a wrong use.

The blocks of a batch that nobody runs: block 10 has the first place in it, block 11 the second.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.errors import Fault, InvalidFree, OutOfBounds, UseAfterFree
from phasebit.emulator.findings import say
from phasebit.emulator.machine.device_memory import POISON
from phasebit.emulator.machine.events import Told
from phasebit.emulator.tensor_core import cta_pairs
from phasebit.emulator.tensor_core.tensor_memory import (
    SIZES,
    Request,
    TensorMemory,
    name,
    one,
    split,
)


class Machine(SimpleNamespace):
    def park(self, group: Any, waiting: Any) -> None:
        self.parked[group] = waiting

    def wake(self, group: Any, pc: int) -> None:
        assert self.parked.pop(group)
        self.woken.append((group.name, pc))


class Warp:
    """A group whose threads are named by a letter."""

    def __init__(self, letter: str, memory: TensorMemory, lanes: Any = None) -> None:
        self.name, self.pc, self.batch = letter, 3, memory.batch
        self.lanes = np.array([ord(letter)]) if lanes is None else np.asarray(lanes)

    def spread(self, value: Any) -> Any:
        return np.broadcast_to(value, len(self.lanes))


def made(blocks: int = 4, cluster: int = 1, resident: int = 1, schedule: str = "eager") -> Any:
    machine = Machine(
        told=Told(), parked={}, woken=[], progress=0, schedule=schedule, resident=resident,
        cluster_size=cluster, random=SimpleNamespace(choice=lambda free: free[-1]),
    )  # fmt: skip
    batch = SimpleNamespace(
        count=blocks, blocks=np.arange(blocks) + 10, live_in_block=np.full(blocks, 32),
        machine=machine, describe=lambda lanes: f"warp {chr(lanes[0])}", threads=32,
    )  # fmt: skip
    memory = TensorMemory(batch)  # type: ignore[arg-type]
    batch.of = lambda kind: memory
    return memory


def asks(
    memory: TensorMemory, letter: str, count: int, slot: int = 0, slots: tuple[int, ...] = (),
    resume: int = 7,
) -> tuple[Warp, list[int]]:  # fmt: skip
    """A warp's request: the addresses that it has got, or the warp is parked."""
    warp, got = Warp(letter, memory), list[int]()
    request = Request(slot, count, warp, say("alloc {}", letter), got.append)  # type: ignore[arg-type]
    assert memory.allocate(request, resume, slots or (slot,)) == bool(got)
    return warp, got


def gives(memory: TensorMemory, address: int, count: int, slot: int = 0) -> None:
    memory.free(np.array([ord("z")]), slot, address, count, say("dealloc"))


def test_columns_are_given_from_the_first_on_at_multiples_of_their_number() -> None:
    memory = made()
    memory.cells[:] = 7
    got = [asks(memory, "a", count)[1] for count in (32, 64, 32, 128, 256)]
    assert got == [[0], [64], [32], [128], [256]] and memory.batch.machine.progress == 5
    assert memory.owned[0].all() and not memory.owned[1:].any()
    assert (memory.cells[0] == POISON).all() and (memory.cells[1:] == 7).all()
    assert [(c.first, c.count) for c in memory.leaked(0)] == [
        (0, 32), (64, 64), (32, 32), (128, 128), (256, 256),
    ]  # fmt: skip
    assert memory.leaked(1) == [] and asks(memory, "b", 512, 1)[1] == [0]
    assert SIZES == (32, 64, 128, 256, 512)


def test_under_the_schedule_random_they_may_lie_anywhere() -> None:
    memory = made(schedule="random")
    assert [asks(memory, "a", count)[1] for count in (32, 128, 256)] == [[480], [256], [0]]


def test_who_finds_no_columns_waits_until_some_are_given_back() -> None:
    memory = made()
    machine = memory.batch.machine
    asks(memory, "a", 256)
    asks(memory, "b", 128)
    (c, got_c), (d, got_d), (e, got_e) = (
        asks(memory, letter, count, resume=20 + i)
        for i, (letter, count) in enumerate((("c", 256), ("d", 128), ("e", 128)))
    )
    assert got_d == [384], "what is behind may be served before"
    assert [*machine.parked] == [c, e] and (c.pc, d.pc, e.pc) == (20, 3, 22)
    waiting = machine.parked[c]
    assert waiting.what == "256 free columns of tensor memory" and str(waiting.where) == "alloc c"
    assert str(waiting.explain()) == (
        "allocated are columns 0-255 by alloc a; columns 256-383 by alloc b; columns 384-511 by "
        "alloc d"
    )
    gives(memory, 256, 128)
    assert got_e == [256] and machine.woken == [("e", 22)] and not got_c
    gives(memory, 0, 256)
    assert got_c == [0] and machine.woken == [("e", 22), ("c", 20)] and memory.requests == []
    assert memory.owned[0].all() and not machine.parked


def test_two_blocks_of_a_multiprocessor_share_its_columns() -> None:
    memory = made(resident=2)
    assert asks(memory, "a", 256, 0)[1] == [0] and asks(memory, "b", 256, 1)[1] == [256]
    assert asks(memory, "c", 512, 2)[1] == [0]
    d, _ = asks(memory, "d", 32, 0)
    held = ("allocated are columns 0-255 of block 10 by alloc a; columns 256-511 of block 11 by "
            "alloc b")  # fmt: skip
    explain = memory.batch.machine.parked[d].explain
    assert str(explain()) == held, "block 11 asks for nothing"
    asks(memory, "e", 32, 1)
    assert str(explain()) == held + (
        "; blocks 10 and 11 share a multiprocessor, and each holds columns that the other waits "
        "for: let a block allocate all that it needs at once"
    )


@pytest.mark.parametrize("count", [0, 31, 33, 96, 1024])
def test_a_number_that_nobody_can_ask_for(count: int) -> None:
    with pytest.raises(Fault) as refused:
        asks(made(), "a", count)
    assert str(refused.value) == (
        f"warp a asks for {count} columns of tensor memory: the number is a power of two from 32 "
        "to 512; alloc a"
    )


def test_a_block_that_gave_up_its_right_to_allocate() -> None:
    memory = made()
    memory.relinquished[1] = say("relinquish")
    assert asks(memory, "a", 32, 0)[1] == [0]
    with pytest.raises(Fault) as refused:
        asks(memory, "b", 32, 1)
    assert str(refused.value) == (
        "warp b allocates tensor memory after its block gave up the right to: alloc b; relinquish"
    )


def test_both_blocks_of_a_pair_allocate_at_once() -> None:
    memory = made(cluster=2)
    machine = memory.batch.machine
    asks(memory, "x", 32, 3)
    a, got_a = asks(memory, "a", 64, 3, (2, 3), resume=11)
    assert machine.parked[a].what == "the other block of the pair at tcgen05.alloc"
    assert machine.parked[a].explain() == "no warp of its peer, block 12, is there"
    memory.batch.live_in_block[2] = 0
    assert machine.parked[a].explain() == "its peer, block 12, has left the kernel"
    b, got_b = asks(memory, "b", 64, 2, (2, 3), resume=12)
    assert got_a == got_b == [64], "columns that are free in both"
    assert machine.woken == [("a", 11)] and b.pc == 3 and not memory.alone
    c, _ = asks(memory, "c", 32, 0, (0, 1))
    assert machine.parked[c].explain() == "no warp of its peer, block 11, is there"


def test_a_pair_waits_for_columns_together() -> None:
    memory = made(cluster=2)
    machine = memory.batch.machine
    asks(memory, "x", 512, 1)
    a, got_a = asks(memory, "a", 64, 0, (0, 1), resume=11)
    b, got_b = asks(memory, "b", 64, 1, (0, 1), resume=12)
    assert [machine.parked[w].what for w in (a, b)] == ["64 free columns of tensor memory"] * 2
    assert [str(machine.parked[w].where) for w in (a, b)] == ["alloc a", "alloc b"]
    assert (a.pc, b.pc) == (11, 12) and len(memory.requests) == 1
    gives(memory, 0, 512, 1)
    assert got_a == got_b == [0] and sorted(machine.woken) == [("a", 11), ("b", 12)]


def test_both_blocks_of_a_pair_ask_for_the_same_number() -> None:
    memory = made(cluster=2)
    asks(memory, "a", 64, 0, (0, 1))
    with pytest.raises(Fault) as refused:
        asks(memory, "b", 32, 1, (0, 1))
    assert str(refused.value) == (
        "warp b asks for 32 columns of tensor memory and warp a for 64: both blocks of a pair must "
        "ask for the same number; alloc b"
    )


@pytest.mark.parametrize("first", [0, 1])
def test_both_blocks_of_a_pair_give_back_at_once(first: int) -> None:
    memory = made(cluster=2)
    machine = memory.batch.machine
    asks(memory, "a", 64, 0, (0, 1))
    asks(memory, "b", 64, 1, (0, 1))
    c, d = Warp("c", memory), Warp("d", memory)
    where = say("dealloc")
    assert not memory.free_pair(c, (0, 1), first, 0, 64, where, 31)  # type: ignore[arg-type]
    assert memory.owned[:2, :64].all() and c.pc == 31
    assert machine.parked[c].what == "the other block of the pair at tcgen05.dealloc"
    assert machine.parked[c].explain() == f"no warp of its peer, block {11 - first}, is there"
    assert memory.free_pair(d, (0, 1), 1 - first, 0, 64, where, 32)  # type: ignore[arg-type]
    assert not memory.owned.any() and machine.woken[-1] == ("c", 31) and d.pc == 3
    assert not memory.leaving and memory.leaked(0) == memory.leaked(1) == []


@pytest.mark.parametrize(("address", "count", "error", "says"), [
    (0x20, 64, InvalidFree, "deallocates tensor memory at 0x20, which no tcgen05.alloc of this "
     "block returned: dealloc"),
    (0x10040, 64, InvalidFree, "deallocates tensor memory at 0x10040, which no tcgen05.alloc of "
     "this block returned: dealloc"),
    (0x40, 32, Fault, "deallocates 32 columns of tensor memory, but 64 were allocated there by "
     "alloc b: dealloc"),
    (0, 32, InvalidFree, "deallocates tensor memory at 0x0 for the second time: dealloc; the "
     "first: dealloc"),
])  # fmt: skip
def test_what_cannot_be_given_back(
    address: int, count: int, error: type[Exception], says: str
) -> None:
    memory = made()
    asks(memory, "a", 32)
    asks(memory, "b", 64)
    gives(memory, 0, 32)
    with pytest.raises(error) as refused:
        gives(memory, address, count)
    assert str(refused.value) == f"warp z {says}"
    assert memory.owned[0].sum() == 64


def test_lanes_and_columns_that_are_there() -> None:
    memory = made()
    asks(memory, "a", 32)
    asks(memory, "b", 64)
    asks(memory, "c", 256)
    assert memory.there(0, (0, 128), (0, 32)) and memory.there(0, (96, 128), (256, 512))
    for lanes, columns in (((0, 129), (0, 32)), ((0, 128), (0, 33)), ((0, 128), (256, 513)),
                           ((0, 128), (63, 65))):  # fmt: skip
        assert not memory.there(0, lanes, columns)
    assert not memory.there(1, (0, 128), (0, 32))


BEYOND = "threads reaches beyond tensor memory, lanes {} and columns {} of 128 × 512: ld"
TAKE = ": take the address that tcgen05.alloc wrote to shared memory"


@pytest.mark.parametrize(("slot", "lanes", "columns", "error", "says"), [
    (0, (96, 160), (0, 8), OutOfBounds, BEYOND.format("96-159", "0-7")),
    (0, (0, 32), (508, 516), OutOfBounds, BEYOND.format("0-31", "508-515")),
    (0, (0, 32), (30, 36), OutOfBounds, "threads uses column 32 of tensor memory, which is not "
     "allocated: ld; allocated are columns 0-31, 64-127" + TAKE),
    (1, (0, 32), (2, 4), OutOfBounds, "threads uses column 2 of tensor memory, which is not "
     "allocated: ld; allocated are none" + TAKE),
    (0, (0, 32), (120, 130), UseAfterFree, "threads uses column 128 of tensor memory after it was "
     "deallocated: ld; deallocated by second"),
    (0, (0, 32), (255, 258), UseAfterFree, "threads uses column 255 of tensor memory after it was "
     "deallocated: ld; deallocated by first"),
    (0, (0, 32), (256, 258), OutOfBounds, "threads uses column 256 of tensor memory, which is not "
     "allocated: ld; allocated are columns 0-31, 64-127" + TAKE),
])  # fmt: skip
def test_cells_that_are_not_there(
    slot: int, lanes: tuple[int, int], columns: tuple[int, int], error: type[Exception], says: str
) -> None:
    memory = made()
    for count in (32, 64, 128):
        asks(memory, "a", count)
    memory.free(np.array([65]), 0, 128, 128, say("first"))
    asks(memory, "a", 32)
    asks(memory, "a", 32)
    memory.free(np.array([65]), 0, 128, 32, say("second"))
    memory.owned[0, 32:64] = False
    del memory.allocations[0][32]
    with pytest.raises(error) as refused:
        memory.reach(slot, lanes, columns, "threads", say("ld"))
    assert str(refused.value) == says
    memory.reach(0, (0, 128), (64, 128), "threads", say("ld"))


def test_an_address_is_a_lane_and_a_column() -> None:
    assert split(0x0061_0102) == (0x61, 0x102) and split(np.uint32(0x7F01FF)) == (0x7F, 0x1FF)  # type: ignore[arg-type]
    assert name(3, 9) == "tensor memory lane 3, column 9"


def test_an_operand_that_is_the_same_in_all_threads_of_a_warp() -> None:
    memory = made()
    memory.batch.describe = lambda lanes: f"threads {lanes[0]}-{lanes[-1]}"
    two = Warp("a", memory, np.arange(200, 264))
    value = np.repeat(np.uint32([4, 9]), 32)
    assert one(two, value, "addresses", say("ld")).tolist() == [4, 9]  # type: ignore[arg-type]
    assert one(two, np.uint32(7), "addresses", say("ld")).tolist() == [7, 7]  # type: ignore[arg-type]
    value[63] = 8
    with pytest.raises(Fault) as refused:
        one(two, value, "addresses", say("ld"))  # type: ignore[arg-type]
    assert str(refused.value) == (
        "threads 232-263 has different addresses in its threads: ld; all of them must give the same"
    )


def test_a_kernel_uses_one_group() -> None:
    memory = made(cluster=2)
    a, b = Warp("a", memory, [96]), Warp("b", memory, [64])
    assert cta_pairs.blocks(a, 2, "mma", say("one")) == (2, 3)  # type: ignore[arg-type]
    assert cta_pairs.blocks(b, 2, "mma", say("two")) == (2, 3)  # type: ignore[arg-type]
    with pytest.raises(Fault) as refused:
        cta_pairs.blocks(b, 1, "mma", say("three"))  # type: ignore[arg-type]
    assert str(refused.value) == (
        "mma of warp @ is for cta_group::1, and an earlier instruction of the kernel for "
        "cta_group::2; all must be for the same: three; one"
    )
    alone = made()
    a, b = Warp("a", alone, [96]), Warp("b", alone, [64])
    assert cta_pairs.blocks(a, 1, "mma", say("one")) == (3,)  # type: ignore[arg-type]
    assert cta_pairs.blocks(b, 1, "mma", say("one")) == (2,)  # type: ignore[arg-type]
    with pytest.raises(Fault) as refused:
        cta_pairs.blocks(Warp("a", made(cluster=3), [64]), 2, "mma", say("one"))  # type: ignore[arg-type]
    assert str(refused.value) == (
        "mma of warp @ is for a pair of blocks (cta_group::2), and its cluster of 3 has none: "
        "launch with clusters of an even number of blocks; one"
    )
