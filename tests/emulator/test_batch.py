"""Blocks that are resident together: their threads, warps and memory, and how threads are named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phasebit.emulator import Module
from phasebit.emulator.api.execution import Mode
from phasebit.emulator.errors import StackOverflow
from phasebit.emulator.findings import say
from phasebit.emulator.machine.batch import RESERVED, Batch
from phasebit.emulator.machine.call_stacks import CallStacks
from phasebit.emulator.machine.cluster_launch import asks, steals
from phasebit.emulator.machine.counters import Counters
from phasebit.emulator.machine.device_memory import GRANULE, POISON, Memory
from phasebit.emulator.machine.events import Told, observing
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.ptx.placement import GLOBAL_BASE
from tests.emulator.machines import HEAD, kernel, machine


def batch(block: int = 40, grid: int = 3, body: str = "ret;", **how: Any) -> Any:
    made = machine(body, grid, block, check=False, **how)
    made.start_batch()
    return made.batches[0]


def test_threads_are_counted_through_and_warps_block_by_block() -> None:
    made = batch()
    assert (made.count, made.threads, made.lanes, made.live, made.warps) == (3, 40, 120, 120, 2)
    assert made.warp_of.tolist() == [0] * 32 + [1] * 8 + [2] * 32 + [3] * 8 + [4] * 32 + [5] * 8
    assert made.lane_bit[[0, 5, 31, 32, 39, 40]].tolist() == [1, 32, 1 << 31, 1, 128, 1]
    assert made.live_in_warp.tolist() == [32, 8] * 3 and made.live_in_block.tolist() == [40] * 3
    assert made.alive_mask.tolist() == [0xFFFFFFFF, 0xFF] * 3 and made.alive.all()
    assert made.slots(np.array([0, 39, 40, 119])).tolist() == [0, 0, 1, 2]
    assert made.blocks.tolist() == [0, 1, 2]


def test_warps_are_whole_where_all_their_live_threads_are_here() -> None:
    made = batch()
    for lanes, whole, warps in (
        (range(120), True, 6), (range(32), True, 1), (range(31), False, 1), (range(40), True, 2),
        (range(32, 40), True, 1), ([*range(32), 32], False, 2), ([*range(32), *range(40, 72)], True,
         2), (range(33, 72), False, 2), ([3, 50], False, 2),
    ):  # fmt: skip
        some = np.array(lanes)
        assert made.whole_warps(some) is whole, lanes
        assert made.warps_in(some) == warps, lanes
    made.live_in_warp[0], made.live = 31, 119
    assert made.whole_warps(np.arange(1, 32)) and made.whole_warps(np.arange(1, 120))
    assert made.warps_in(np.arange(1, 120)) == 6


def test_threads_in_words() -> None:
    made = batch(96)
    made.blocks = np.array([5, 7, 9])
    for lanes, said in (
        ([0], "thread 0 of block 5"), ([96 + 3, 96 + 4], "threads 3-4 of block 7"),
        (range(32, 96), "warps 1-2 of block 5"), (range(192, 288), "all threads of block 9"),
        ([1, 3], "threads 1, 3 of block 5"), ([97, 98, 101, 103, 104],
         "threads 1-2, 5, 7-8 of block 7"),
        (range(288), "all threads of blocks 5, 7, 9"),
        ([0, 96, 193], "thread 0 of blocks 5, 7, thread 1 of block 9"),
        ([5, 4], "threads 4-5 of block 5"), ([95, 96], "thread 95 of block 5, thread 0 of block 7"),
    ):  # fmt: skip
        assert str(made.describe(np.array(lanes))) == said


def test_shared_memory_begins_unwritten_and_apart() -> None:
    made = batch(32, 2)
    memory = made.machine.memory
    need = made.machine.reserved + RESERVED + 128
    assert RESERVED == 1024 and made.shared_base % 1024 == made.shared_stride % 1024 == 0
    assert need <= made.shared_stride < need + 1024
    end = made.shared_base + 2 * made.shared_stride
    assert (memory.u4[made.shared_base // 4 : end // 4] == POISON).all()
    assert memory.u4[end // 4] != POISON and made.shared.kind == "shared"
    assert made.shared_base >= made.shared.start and end <= made.shared.start + made.shared.size
    assert made.local_stride == 16 and made.local.kind == "local"
    before = len(memory.allocations)
    made.release()
    assert len(memory.allocations) == before - 2
    deep = batch(32, 2, ".local .align 4 .b8 own[20]; st.local.u32 [own], %r1; ret;")
    assert deep.local_stride == 32 and deep.local.size == 2 * 32 * 32
    assert deep.local_base == deep.local.start


def test_what_is_kept_is_made_once() -> None:
    made, asked = batch(), []

    def kind(one: Batch) -> list[int]:
        asked.append(one)
        return [1]

    assert made.known(kind) is None
    assert made.of(kind) is made.of(kind) is made.known(kind) and asked == [made]


# -- the stack of a thread ------------------------------------------------------------------------


def test_a_stack_that_is_too_small_becomes_twice_as_large_as_needed() -> None:
    made = batch(4, 1, ".local .align 4 .b8 own[20]; st.local.u32 [own], %r1; ret;")
    memory = made.machine.memory
    memory.bytes(made.local)[:] = np.arange(4 * 32)
    old = made.local
    made.need_stack(32, np.array([0]), 1)
    assert made.local is old
    made.need_stack(33, np.array([0]), 1)
    assert made.local_stride == 80 and made.local_base == made.local.start and made.local is not old
    assert old not in memory.allocations and made.local.kind == "local"
    table = memory.bytes(made.local).reshape(4, 80)
    assert np.array_equal(table[:, :32], np.arange(128).reshape(4, 32)) and not table[:, 32:].any()
    made.machine.stack = 100
    made.need_stack(90, np.array([0]), 1)
    assert made.local_stride == 100
    made.need_stack(100, np.array([0]), 1)
    with pytest.raises(StackOverflow) as caught:
        made.need_stack(101, np.array([2, 3]), 7)
    assert str(caught.value) == (
        "stack overflow: thread 2 of block 0 is 7 calls deep and needs 101 bytes of stack, more "
        "than 100; if the recursion ends, allow more with cudaDeviceSetLimit(cudaLimitStackSize, "
        "bytes)"
    )


def test_where_the_stack_of_each_thread_ends() -> None:
    made = batch(4, 1, ".local .align 4 .b8 own[20]; st.local.u32 [own], %r1; ret;")
    size = made.machine.program.layout.local_size
    every = np.arange(4)
    assert made.stack_top(every, 0).tolist() == [size] * 4
    made.set_stack_top(np.array([1, 3]), 1, np.array([size + 16, size + 48]))
    made.set_stack_top(np.array([3]), 2, size + 80)
    assert made.stack_top(every, 0).tolist() == [size] * 4
    assert made.stack_top(every, 1).tolist() == [size, size + 16, size, size + 48]
    assert made.stack_top(np.array([3, 1]), 2).tolist() == [size + 80, size + 16]
    made.set_stack_top(np.array([1]), 1, 0)
    assert made.stack_top(every, 5).tolist() == [size, size, size, size + 80]


def test_call_stacks_begin_empty() -> None:
    assert CallStacks().parents == [0]


# -- the launch -----------------------------------------------------------------------------------


def test_a_launch_counts_its_threads_and_blocks() -> None:
    made = kernel("mov.u32 %r3, bar; ret;")
    extents = made.extents((6, 4, 2), (4, 3, 2), (3, 2, 1))
    for seed, schedule, last in ((1, "random", True), (2, "random", False), (1, "late", False)):
        one = made.prepare(extents, bytes(8), Mode(schedule=schedule, seed=seed), dependent=False)  # type: ignore[arg-type]
        launch = one.machine
        assert (launch.threads, launch.blocks, launch.cluster_size) == (24, 48, 6)
        assert launch.last_leads is launch.says_no_first is last
        assert not launch.stepped and launch.reserved % 128 == 0
        assert 16 <= launch.reserved < 16 + 128 and launch.next_block == 0
        assert (launch.now, launch.clock, launch.polls, launch.progress, launch.changes) == (
            1, 0, 0, 0, 0,
        )  # fmt: skip
        assert launch.most_resident == 192 * 32 and not launch.dependent and launch.seat is None
    big = made.prepare(made.extents(2, 1024), bytes(8), Mode()).machine
    assert big.most_resident == 192 * 2
    many = made.prepare(made.extents(2, 1024), bytes(8), Mode(resident=5)).machine
    assert many.most_resident == 192 * 5 and many.resident == 5


def test_which_programs_ask_for_launches_and_look_at_the_answer() -> None:
    ask = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128"
    query = "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128"

    def program(body: str) -> Any:
        text = HEAD.replace("sm_90a", "sm_100a").replace(
            ".reg .pred", ".shared .align 16 .b8 to[16]; .reg .b128 %q<3>; .reg .pred"
        )
        return Module(f"{text}{body}\nret;\n}}")["k"].program()

    nothing, asking = program("add.u32 %r1, %r1, 1;"), program(f"{ask} [to], [bar];")
    looking = program(f"ld.shared.b128 %q1, [to]; {query} %p1, %q1;")
    assert [steals(each) for each in (nothing, asking)] == [False, True]
    assert [asks(each) for each in (nothing, asking, looking)] == [False, False, True]


def test_instructions_are_counted_by_warps_threads_and_families() -> None:
    made = kernel("add.u32 %r3, %r1, 1; st.global.u32 [%rd1], %r3; ret;")
    program = made.program()
    counters = Counters()
    threads, warps = [0] * len(program.blocks), [0] * len(program.blocks)
    threads[0], warps[0] = 70, 3
    counters.finish(program, threads, warps)
    count = len(program.blocks[0].instructions)
    assert counters["smsp__inst_executed.sum"] == 3 * count
    assert counters["smsp__thread_inst_executed.sum"] == 70 * count
    assert counters["inst.control"] == 3 and counters["branch.divergent"] == 0
    assert counters["inst.memory"] == 6 and counters["inst.move"] == 6
    assert sum(n for name, n in counters.items() if name.startswith("inst.")) == 3 * count
    counters.add("branch.divergent", 2)
    counters.finish(program, [0] * len(threads), warps)
    assert counters["branch.divergent"] == 2 and counters["inst.control"] == 3


# -- memory and events ----------------------------------------------------------------------------


def test_what_was_there_is_put_back_as_often_as_one_likes() -> None:
    memory = Memory(4096)
    made = memory.allocate(16)
    memory.watch(made)
    memory.wrote(made.start, 4)
    memory.bytes(made)[:] = 3
    kept = memory.malloc(20)
    memory.predecessor = "one"
    back = memory.snapshot()
    for _ in range(2):
        memory.bytes(made)[:] = 5
        memory.wrote(made.start, 16)
        assert memory.release(kept, say("by thread 3")) and memory.find(kept - GLOBAL_BASE) is None
        memory.predecessor = "another"
        memory.allocate(9000)
        memory.u1[5000] = 9
        back()
        assert memory.bytes(made).tolist() == [3] * 16 and memory.u1[5000] == 9
        assert memory.unwritten[made.start].tolist() == [True] * 4 + [False] * 12
        assert memory.predecessor == "one" and memory.heap_used == 32 and kept in memory.heap
        assert memory.find(kept - GLOBAL_BASE + 19) is memory.heap[kept] and not memory.freed
        assert memory.owners[(kept - GLOBAL_BASE) // GRANULE] == 1


def test_what_a_kernel_had_freed_is_gone_again() -> None:
    memory = Memory()
    one, other = memory.malloc(300), memory.malloc(8)
    before = memory.snapshot()
    memory.release(one, say("by thread 3"))
    after = memory.snapshot()
    before()
    third = memory.malloc(40)
    after()
    place = one - GLOBAL_BASE
    assert memory.find(place) is None and memory.was_freed(place) and [*memory.heap] == [other]
    assert "which was freed by thread 3" in str(memory.near(place))
    assert not memory.owners[place // GRANULE : place // GRANULE + 2].any()
    assert memory.find(third - GLOBAL_BASE) is not None, "it stays allocated"
    assert memory.heap_used == 16


@pytest.mark.parametrize(("kind", "known"), [
    ("global", True), ("const", False), ("shared", False), ("param", False),
])  # fmt: skip
def test_of_global_memory_it_is_known_who_freed_it(kind: str, known: bool) -> None:
    memory = Memory()
    made = memory.allocate(300, "x", "".join(kind))
    memory.free(made)
    assert (made.start in memory.freed) is known and not memory.owners.any()


def test_alone_nobody_else_writes() -> None:
    memory = Memory()
    memory.u4[10:13] = 7
    places = np.array([10, 12])
    lost = memory.exchange(memory.u4, places, np.array([7, 7]), np.array([1, 2]))
    assert lost.tolist() == [False, False] and memory.u4[10:13].tolist() == [1, 7, 2]
    assert memory.others_write(np.uint64(0), 4) is False


def test_who_listens_no_longer_is_not_told() -> None:
    class Log(LaunchObserver):
        def finds(self) -> None: ...

    one, other, everywhere = Log(), Log(), Log()
    with observing(everywhere):
        told = Told([one])
        told.subscribe(other)
        assert told[LaunchObserver.finds] == (one.finds, other.finds, everywhere.finds)
        told.unsubscribe(one)
        assert told[LaunchObserver.finds] == (other.finds, everywhere.finds)
    assert Told()[LaunchObserver.finds] == ()
    with pytest.raises(KeyError), observing(everywhere):
        raise KeyError
    assert Told().others == []
