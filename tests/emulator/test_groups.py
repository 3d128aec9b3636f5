"""Groups part and meet: each thread keeps its registers, its frames, and what is noted of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.errors import OutOfBounds
from phasebit.emulator.machine.accesses import Accesses
from phasebit.emulator.machine.group import AccessObserver, Frame, Group, merge, place
from phasebit.emulator.ptx.placement import GLOBAL_BASE, LOCAL_BASE, PARAM_BASE, SHARED_BASE
from tests.emulator.machines import kernel, machine

LIVE = [(0, 2), (1,)]
"""What is live at the places 0 and 1, of three registers."""


class Keeper:
    """Writes down which registers are copied."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def divide(self, old: list[Any], new: list[Any], live: Sequence[int], where: Any) -> None:
        self.heard.append(("divide", old, new, live, where.tolist()))

    def join(
        self, files: Sequence[list[Any]], new: list[Any], live: Sequence[int],
        sizes: Sequence[int], order: Any,
    ) -> None:  # fmt: skip
        told = None if order is None else order.tolist()
        self.heard.append(("join", files, new, live, sizes, told))


def whole(threads: int = 6, grid: int = 1) -> tuple[Group, Keeper]:
    """All threads of a launch, with three registers and one caller."""
    made = machine(grid=grid, block=threads, check=False)
    made.start_batch()
    (g,) = made.ready
    made.program.live[:] = LIVE
    keeper = Keeper()
    g.batch.keepers.append(keeper)
    g.registers = [np.arange(g.n) * 10, np.arange(g.n), np.int64(7)]
    g.frames = [Frame([np.int64(1), np.arange(g.n) + 100, None], 1, ((0, 8, 4),), 48)]
    g.stack, g.base, g.time, g.started, g.rejoin = 3, 16, 90, 80, (5, 1)
    g.cuts, g.bypasses = ((4, g.lanes),), ((6, g.lanes),)
    g.joins = frozenset((4, 6))
    return g, keeper


@pytest.mark.parametrize("where", [[1, 4], [3]])
def test_a_part_takes_along_what_is_live(where: list[int]) -> None:
    g, keeper = whole()
    part = g.part(np.array(where), 0)
    assert part.lanes.tolist() == where and part.n == len(where) and part.pc == 0
    first, dead, scalar = part.registers
    assert np.atleast_1d(first).tolist() == [10 * each for each in where]
    assert dead is None and scalar == 7 and not isinstance(scalar, np.ndarray)
    (frame,) = part.frames
    assert frame.registers[0] is None and frame.registers[2] is None
    assert np.atleast_1d(frame.registers[1]).tolist() == [100 + each for each in where]
    assert (frame.resume, frame.results, frame.base) == (1, ((0, 8, 4),), 48)
    assert (part.stack, part.base, part.time, part.started) == (3, 16, 90, 80)
    assert (part.rejoin, part.cuts, part.bypasses, part.joins) == (
        g.rejoin, g.cuts, g.bypasses, g.joins,
    )  # fmt: skip
    assert not part.patient and part.known is None and part.at == -1
    (what, old, new, live, at), (_, below, frames, theirs, again) = keeper.heard
    assert what == "divide" and old is g.registers and new is part.registers
    assert (live, at, theirs, again) == (LIVE[0], where, LIVE[1], where)
    assert below is g.frames[0].registers and frames is frame.registers


def test_groups_that_meet_have_their_threads_in_order() -> None:
    g, keeper = whole()
    even, odd = g.part(np.array([1, 3, 5]), 0), g.part(np.array([0, 2, 4]), 0)
    even.time, odd.time = 95, 93
    keeper.heard.clear()
    both = merge([even, odd])
    assert both.lanes.tolist() == [0, 1, 2, 3, 4, 5] and both.n == 6 and both.time == 95
    first, dead, scalar = both.registers
    assert first.tolist() == [0, 10, 20, 30, 40, 50] and dead is None
    assert scalar == 7 and not isinstance(scalar, np.ndarray)
    (frame,) = both.frames
    assert frame.registers[1].tolist() == [100, 101, 102, 103, 104, 105]
    assert (frame.resume, frame.results, frame.base) == (1, ((0, 8, 4),), 48)
    assert (both.pc, both.stack, both.base, both.rejoin) == (0, 3, 16, (5, 1))
    assert both.cuts == g.cuts and both.bypasses == g.bypasses and both.joins == g.joins
    (what, files, new, live, sizes, order), (_, below, theirs, deep, more, again) = keeper.heard
    assert what == "join" and files == [even.registers, odd.registers] and new is both.registers
    assert (live, sizes, order) == (LIVE[0], [3, 3], [3, 0, 4, 1, 5, 2])
    assert below == [even.frames[0].registers, odd.frames[0].registers]
    assert theirs is frame.registers and (deep, more, again) == (LIVE[1], [3, 3], order)


def test_groups_in_order_are_put_behind_one_another() -> None:
    g, keeper = whole()
    low, high = g.part(np.array([0, 1]), 0), g.part(np.array([2, 5]), 0)
    high.registers[2] = np.int64(8)
    keeper.heard.clear()
    both = merge([low, high])
    assert both.lanes.tolist() == [0, 1, 2, 5] and keeper.heard[0][5] is None
    assert both.registers[2].tolist() == [7, 7, 8, 8], "no longer one for all"
    assert merge([low]) is low


@pytest.mark.parametrize(("one", "other", "alike"), [
    (np.float32(np.nan), np.float32(np.nan), True), (np.float32(0.0), np.float32(-0.0), False),
    (np.uint32(3), np.uint32(3), True), (np.uint32(3), np.uint32(4), False),
])  # fmt: skip
def test_one_value_for_all_stays_one_where_the_bits_are_the_same(
    one: Any, other: Any, alike: bool
) -> None:
    g, _ = whole()
    a, b = g.part(np.array([0]), 0), g.part(np.array([1]), 0)
    a.registers[2], b.registers[2] = one, other
    joined = merge([a, b]).registers[2]
    assert isinstance(joined, np.ndarray) != alike
    assert np.broadcast_to(joined, 2).tobytes() == one.tobytes() + other.tobytes()


def test_of_groups_that_met_differently_all_is_noted() -> None:
    """Each says only what it knows of warps, or blocks, of which it has a thread."""
    g, _ = whole(64, grid=2)
    a, b = g.part(np.arange(40), 0), g.part(np.arange(70, 80), 0)
    a.rejoin = (1,)
    a.cuts, b.cuts = ((4, np.arange(128)),), ((4, np.arange(96)), (9, np.arange(64, 72)))
    a.bypasses, b.bypasses = (), ((6, np.arange(128)),)
    a.joins, b.joins = frozenset({4}), frozenset({6, 9})
    both = merge([a, b])
    assert both.rejoin == () and both.joins == {4, 6, 9}
    cuts = {join: lanes.tolist() for join, lanes in both.cuts}
    assert cuts == {4: [*range(96)], 9: [*range(64, 72)]}
    assert {join: lanes.tolist() for join, lanes in both.bypasses} == {6: [*range(64, 128)]}
    both.meets(4)
    assert [join for join, _ in both.cuts] == [9] and both.joins == {6, 9}
    both.meets(6)
    assert both.bypasses == () and both.joins == {9} and [join for join, _ in both.cuts] == [9]


def test_who_is_furthest_behind_comes_first() -> None:
    g, _ = whole()
    spins, deep, far = (g.part(np.array([n]), 0) for n in range(3))
    spins.patient, far.frames, far.pc = True, [], 7
    assert place(deep) == (False, -1, 0) and place(far) == (False, 0, 7)
    assert sorted([spins, far, deep], key=place) == [deep, far, spins]


# -- addresses ------------------------------------------------------------------------------------


def of(values: list[int], kind: str = "u8") -> Any:
    return np.array(values, kind)


def test_shared_addresses_lie_in_the_window_of_the_block() -> None:
    g, _ = whole(4, grid=2)
    at = g.batch.shared_base
    stride = g.batch.shared_stride
    assert g.shared_index(np.uint32(16), np.uint32(8), 4, 2, 4, 0).tolist() == [
        at + 24 >> 2, at + 24 >> 2, at + 24 >> 2, at + 24 >> 2,
        *[at + stride + 24 >> 2] * 4,
    ]  # fmt: skip
    each = of([*range(0, 32, 4)], "u4")
    blocks = [0] * 4 + [stride] * 4
    expected = [(at + 4 * n + b) >> 2 for n, b in enumerate(blocks)]
    assert g.shared_index(each, np.uint32(0), 4, 2, 4, 0).tolist() == expected
    wide = of([SHARED_BASE + 4 * n for n in range(8)])
    assert g.generic_index(wide, np.uint64(0), 4, 2, 4, 0).tolist() == expected


def test_generic_addresses_of_several_spaces() -> None:
    g, _ = whole(4)
    g.batch.local_base, g.batch.local_stride = 4096, 64
    mixed = of([GLOBAL_BASE + 80, SHARED_BASE + 8, LOCAL_BASE + 12, PARAM_BASE + 4])
    found = g.generic_index(mixed, np.uint64(0), 4, 2, 4, 0).tolist()
    start = g.batch.machine.parameter_start
    assert found == [20, g.batch.shared_base + 8 >> 2, 4096 + 2 * 64 + 12 >> 2, start + 4 >> 2]
    one = g.generic_index(np.uint64(LOCAL_BASE + 8), np.uint64(4), 4, 2, 4, 0).tolist()
    assert one == [4096 + 64 * n + 12 >> 2 for n in range(4)]
    assert g.generic_index(np.uint64(GLOBAL_BASE + 64), np.uint64(16), 8, 3, 8, 0) == 10


@pytest.mark.parametrize(("offset", "span", "said"), [
    (8, 4, "4 bytes at 8 of 8"), (5, 4, "4 bytes at 5 of 8"), (2, 4, "4 bytes at 2 of 8"),
    (0, 16, "16 bytes at 0 of 8"),
])  # fmt: skip
def test_parameters_have_an_end_and_an_alignment(offset: int, span: int, said: str) -> None:
    g, _ = whole()
    addresses = np.full(6, PARAM_BASE, np.uint64)
    assert (g.param_index(addresses, np.uint64(4), 4, 2, 4, -1) == (
        g.batch.machine.parameter_start + 4 >> 2
    )).all()  # fmt: skip
    addresses[2:] += np.uint64(offset)
    with pytest.raises(OutOfBounds) as caught:
        g.param_index(addresses, np.uint64(0), span, 2, 4, 0)
    text = str(caught.value)
    first, where = "thread 2" if span == 4 else "thread 0", g.batch.machine.place(0)
    assert f"invalid parameter access by {first} of block 0: {said}; {where}" in text
    with pytest.raises(OutOfBounds, match=f"{said}$"):
        g.param_index(addresses, np.uint64(0), span, 2, 4, -1)


@pytest.mark.parametrize("text", [
    "ld.global.u32 %r3, [%rd2];", "mov.u64 %rd2, 64; ld.global.u32 %r3, [%rd2];",
])  # fmt: skip
def test_a_null_pointer_is_beyond_all_memory_without_checks_too(text: str) -> None:
    """Near address 0 the emulator has nothing, though its buffer begins at 0."""
    made = kernel(f"cvt.u64.u32 %rd2, %r1; {text} st.global.u32 [%rd1], %r3; ret;")
    with pytest.raises(OutOfBounds, match="reached outside of all memory"):
        made.launch(1, 32, [np.zeros(1, np.uint32)], check=False)


class Stores(AccessObserver):
    def __init__(self, wants: bool) -> None:
        self.wants = wants
        self.heard: list[str] = []

    def loads(self, g: Any, index: Any, accesses: Any) -> None:
        self.heard.append("loads")

    def stores(self, g: Any, index: Any, accesses: Any) -> bool:
        self.heard.append("stores")
        return self.wants

    def stored(self, g: Any, view: Any, index: Any, value: Any, access: int) -> None:
        self.heard.append(f"stored {access}")


def test_whoever_wants_is_told_what_was_stored() -> None:
    g, _ = whole()
    accesses: Any = Accesses((0,), 4, (), 0, "weak", "cta", "global")
    told = g.batch.machine.told
    for wants in ((False,), (True,), (True, False), (False, True), (False, False)):
        told.observers.clear()
        told.subscribe(*map(Stores, wants))
        assert g.watch_store(np.int64(0), accesses) is any(wants)
        g.watch_load(np.int64(0), accesses)
        g.verify_store(np.zeros(1), np.int64(0), np.uint32(0), 9)
        assert all(each.heard == ["stores", "loads", "stored 9"] for each in told.observers)


def test_registers_are_written_as_they_are_kept() -> None:
    g, _ = whole()
    for form, value, kept in (
        ("?", np.uint32(2), np.bool_(True)), ("u4", np.int32(-1), np.uint32(0xFFFFFFFF)),
        ("u8", np.uint16(65535), np.uint64(65535)), ("f4", np.uint32(0x3F800000), np.float32(1)),
        ("u2", np.uint32(0x12345), np.uint16(0x2345)),
    ):  # fmt: skip
        g.write((1, np.dtype(form)), value)
        assert g.registers[1] == kept and g.registers[1].dtype == np.dtype(form)
    before = list(g.registers)
    g.write(None, np.uint32(1))
    assert all(a is b for a, b in zip(before, g.registers, strict=True))


# -- addresses in a cluster -----------------------------------------------------------------------


class Others(AccessObserver):
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def other_blocks(self, g: Any, target: Any, own: Any) -> None:
        self.heard.append((target.tolist(), own.tolist()))


def cluster() -> tuple[Group, Others]:
    """Two clusters of two blocks of two threads, as one group."""
    made = machine(grid=4, block=2, cluster=2, check=False)
    made.start_batch()
    (g,) = made.ready
    others = Others()
    made.told.subscribe(others)
    return g, others


def test_bits_from_24_on_are_the_rank_in_the_cluster() -> None:
    g, others = cluster()
    base, stride = g.batch.shared_base, g.batch.shared_stride
    own = np.array([0, 0, 1, 1, 0, 0, 1, 1], np.uint32) << np.uint32(24)
    found = g.shared_index(own, np.uint32(8), 4, 2, 4, 0).tolist()
    assert found == [base + stride * (n // 2) + 8 >> 2 for n in range(8)] and not others.heard
    other = own ^ np.uint32(1 << 24)
    other[0] = 0
    found = g.shared_index(other, np.uint32(16), 8, 3, 8, 0).tolist()
    blocks = [0, 1, 0, 0, 3, 3, 2, 2]
    assert found == [base + stride * n + 16 >> 3 for n in blocks]
    assert others.heard == [(blocks, [0, 0, 1, 1, 2, 2, 3, 3])]
    one = g.shared_index(np.uint32(1 << 24), np.uint32(4), 4, 2, 4, 0).tolist()
    assert one == [base + stride * n + 4 >> 2 for n in (1, 1, 1, 1, 3, 3, 3, 3)]
    assert (np.asarray(g.own_window()) == own).all()


def test_a_rank_that_the_cluster_has_not_is_refused() -> None:
    g, _ = cluster()
    first = np.zeros(8, np.uint32)
    first[[3, 5]] = 0x02000010, 0x05000020
    with pytest.raises(OutOfBounds) as caught:
        g.shared_index(first, np.uint32(0), 4, 2, 4, 0)
    assert str(caught.value) == (
        "thread 0 of block 0 uses the shared address 0x5000020: the cluster has no block of rank "
        f"5; {g.batch.machine.where(g)}"
    )
    with pytest.raises(OutOfBounds, match="no block of rank 2"):
        g.shared_index(np.uint32(2 << 24), np.uint32(0), 4, 2, 4, 0)
