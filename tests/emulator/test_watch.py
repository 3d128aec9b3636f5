"""What a watch sees of a launch that may go round in circles: words, places, registers, turns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.findings import BlockThreads, say
from phasebit.emulator.machine import livelock
from phasebit.emulator.machine.deciding import Deciding
from phasebit.emulator.machine.group import Frame, Group
from phasebit.emulator.machine.livelock import MOST_PLACES, Stood, Touched, Watch
from phasebit.emulator.machine.waiting import Waiting
from phasebit.emulator.ptx.placement import GLOBAL_BASE
from tests.emulator.machines import groups


def touched(*places: int, width: int = 4) -> Touched:
    made = Touched()
    if places:
        made.add(np.array(places), width)
    return made


@pytest.mark.parametrize(("places", "width", "words"), [
    ([8], 1, [2]), ([8], 4, [2]), ([8], 8, [2, 3]), ([8], 16, [2, 3, 4, 5]), ([10], 2, [2]),
    ([0, 4, 4], 4, [0, 1]), ([0, 8], 8, [0, 1, 2, 3]),
])  # fmt: skip
def test_an_access_touches_the_words_of_its_bytes(
    places: list[int], width: int, words: list[int]
) -> None:
    assert touched(*places, width=width).words().tolist() == words


def test_many_sets_of_places_are_anywhere() -> None:
    made = Touched()
    for place in range(MOST_PLACES):
        made.add(np.array([4 * place]), 4)
    made.add(np.array([0]), 4)
    assert not made.anywhere and made.words().tolist() == [*range(64)]
    made.add(np.array([4 * MOST_PLACES]), 4)
    assert made.anywhere and len(made.words()) == 64


def test_words_meet_where_one_is_in_both() -> None:
    mine, nothing, anywhere = touched(8, 16), touched(), touched()
    anywhere.anywhere = True
    assert mine and anywhere and not nothing and nothing.words().tolist() == []
    assert mine.meets([touched(4), touched(16)]) and not mine.meets([touched(4), touched(12)])
    assert not mine.meets([]) and not mine.meets([nothing]) and mine.meets([nothing, anywhere])
    assert anywhere.meets([touched(4)]) and not anywhere.meets([nothing])
    assert not anywhere.meets([]) and not nothing.meets([mine]) and not nothing.meets([anywhere])


# -- where a group stood --------------------------------------------------------------------------


def stood(lanes: list[int], *values: Any, below: Any = None) -> Stood:
    g: Any = SimpleNamespace(lanes=np.array(lanes), registers=[None, *values], frames=[])
    if below is not None:
        g.frames = [Frame([below, np.uint32(5)], 1, (), 0)]
    return Stood(g, tuple(range(1, 1 + len(values))), [(), (0,)])


ONE, TWO = np.uint32(1), np.uint32(2)


@pytest.mark.parametrize(("a", "b", "same"), [
    (ONE, np.uint32(1), True), (ONE, TWO, False), (None, None, True), (None, ONE, False),
    (ONE, None, False), (np.array([1, 1], "u4"), ONE, True), (ONE, np.array([1, 1], "u4"), True),
    (ONE, np.array([1, 2], "u4"), False), (np.array([1, 2]), np.array([1, 2]), True),
    (np.array([1, 2]), np.array([2, 1]), False), (np.float32(np.nan), np.float32(np.nan), True),
    (np.float32(0), np.float32(-0.0), False),
])  # fmt: skip
def test_a_group_stands_where_it_stood_with_the_same_bits(a: Any, b: Any, same: bool) -> None:
    assert stood([0, 1], TWO, a).same(stood([0, 1], TWO, b)) is same
    assert stood([0, 1], a, TWO).same(stood([0, 1], b, TWO)) is same
    assert not stood([0, 1], ONE, a).same(stood([0, 1], TWO, b))


def test_other_threads_and_other_callers_stand_elsewhere() -> None:
    assert not stood([0, 1], ONE).same(stood([0, 2], ONE))
    assert stood([3], ONE, below=TWO).same(stood([3], ONE, below=TWO))
    assert not stood([3], ONE, below=TWO).same(stood([3], ONE, below=ONE))


# -- memory ---------------------------------------------------------------------------------------

BODY = """
    st.volatile.global.u32 [%rd1], %r1; ld.volatile.global.u32 %r2, [%rd1+4];
    red.global.add.u32 [%rd1+8], 1; ld.shared.u32 %r3, [bar]; st.shared.u32 [bar], 1; ret;
"""


def watch(count: int = 1, **how: Any) -> tuple[Watch, Any, list[Group]]:
    made, found = groups(count, body=BODY, check=False, **how)
    program = made.program
    program.instructions[:] = [each for block in program.blocks for each in block.instructions]
    program.covered.clear()
    return Watch(made), made, found


def access(made: Any, text: str) -> int:
    """The number of the instruction that begins so: here each has one, and is checked by itself."""
    return next(i for i, one in enumerate(made.program.instructions) if one.text.startswith(text))


def words(watch: Watch, made: Any, text: str) -> list[int]:
    return watch.touched[made.program.instructions[access(made, text)]].words().tolist()


def test_what_a_load_looks_at_and_where_it_is_named() -> None:
    seen, made, (g,) = watch()
    number = access(made, "ld.volatile")
    seen.global_addresses(g, np.uint64(GLOBAL_BASE + 64), 4, 4, number)
    assert words(seen, made, "ld.volatile") == [16] and seen.looks == {0: number}
    assert not seen.storing and not seen.changed and not seen.outside
    seen.global_addresses(g, np.uint64(GLOBAL_BASE + 64), 4, 4, -1)
    assert seen.looks == {0: number} and len(seen.touched) == 1
    made.memory.others_write = lambda first, span: (int(first), span) == (GLOBAL_BASE + 68, 4)
    seen.global_addresses(g, np.uint64(GLOBAL_BASE + 68), 4, 4, number)
    assert seen.outside == {made.program.instructions[number]}


def test_the_looks_of_each_group_are_its_own() -> None:
    seen, made, (a, b) = watch(2)
    for g, text in ((a, "ld.volatile"), (b, "red")):
        seen.global_addresses(g, np.uint64(GLOBAL_BASE + 64), 4, 4, access(made, text))
    assert seen.looks == {0: access(made, "ld.volatile"), 32: access(made, "red")}
    assert len(made.after_block) == 1 and len(seen.storing) == 1


def test_shared_and_local_memory_of_each_block_lie_apart() -> None:
    seen, made, (_, g) = watch(2)
    seen.shared_addresses(g, np.uint32(8), 4, 4, access(made, "ld.shared"))
    assert words(seen, made, "ld.shared") == [g.batch.shared_base + 8 >> 2]
    g.batch.local_base, g.batch.local_stride = 1024, 16
    seen.local_addresses(g, np.uint64(4), 4, 4, access(made, "ld.volatile"))
    assert words(seen, made, "ld.volatile") == [1024 + 16 * n + 4 >> 2 for n in range(32, 64)]
    made.cluster_size = 2
    seen.shared_addresses(g, np.uint32(8), 4, 4, access(made, "st.shared"))
    store = made.program.instructions[access(made, "st.shared")]
    assert seen.touched[store].anywhere and seen.changed.anywhere and not seen.storing


@pytest.mark.parametrize("text", ["st.volatile", "red"])
def test_a_word_that_a_store_leaves_as_it_was_has_not_changed(text: str) -> None:
    seen, made, (g,) = watch()
    memory, looked = made.memory, []
    made.after_block = looked
    for place, before, after in ((64, 3, 3), (72, 3, 4), (84, 3, 3 + (5 << 24))):
        memory.u4[place // 4] = before
        seen.global_addresses(g, np.uint64(GLOBAL_BASE + place), 4, 4, access(made, text))
        memory.u4[place // 4] = after
    assert looked == [seen._compare] and len(seen.storing) == 3
    seen._compare()
    assert seen.changed.words().tolist() == [18, 21] and not seen.storing


def test_what_two_stores_of_one_block_write_to_one_place_may_have_changed() -> None:
    """The second may hide what the first has changed: it stores what was there before."""
    seen, made, (g,) = watch()
    for place in (64, 96, 64):
        seen.global_addresses(g, np.uint64(GLOBAL_BASE + place), 4, 4, access(made, "st.volatile"))
    seen._compare()
    assert seen.changed.words().tolist() == [16]


def test_a_check_of_addresses_that_covers_several_accesses_touches_each() -> None:
    seen, made, (g,) = watch()
    load, store = (made.program.instructions[access(made, t)] for t in ("ld.volatile", "st.vol"))
    made.program.covered[2] = [(load, 0, 4), (store, 8, 8)]
    seen.global_addresses(g, np.uint64(GLOBAL_BASE + 64), 16, 4, 2)
    assert seen.touched[load].words().tolist() == [16]
    assert seen.touched[store].words().tolist() == [18, 19]
    ((at, width, before),) = seen.storing
    assert at[0].tolist() == [72, 73, 74, 75, 76, 77, 78, 79] and width == 8
    assert before.shape == (32, 8)


# -- turns ----------------------------------------------------------------------------------------


def test_whoever_stands_where_it_stood_has_come_back() -> None:
    seen, made, (a, b) = watch(2)
    made.program.live[:] = [(1,)]
    seen.looks = {32: access(made, "ld.volatile")}
    for g in (a, b):
        g.registers = [None, np.uint32(g.lanes[0])]
    assert not seen.turn(a) and seen.came_back(a) == 0 and not seen.turn(b)
    assert not seen.turn(a) and seen.came_back(a) == 32 and seen.came_back(b) == 0
    assert seen.order(a) == (True, (False, 0, 0)) and seen.order(b) == (False, (False, 0, 0))
    assert seen.turn(b) and seen.turns == 4 and seen.came_back(b) == 32
    where = {str(where): [str(each) for each in who] for where, who in seen.who.items()}
    assert where == {
        str(made.where(a)): ["warp 0 of block 0"],
        str(made.place(access(made, "ld.volatile"))): ["warp 1 of block 0"],
    }
    assert seen.turn(a) and len(seen.who) == 2, "each is noted once"
    assert [len(who) for who in seen.who.values()] == [1, 1]


@pytest.mark.parametrize("period", [1, 2, 3, 5, 7])
def test_a_circle_of_any_length_is_found(period: int) -> None:
    seen, made, (g,) = watch()
    made.program.live[:] = [(1,)]
    turns = 0
    while not seen.came_back(g):
        g.registers = [None, np.uint32(turns % period)]
        seen.turn(g)
        turns += 1
    assert period < turns <= 4 * period


def test_other_places_other_threads_and_other_calls_are_other_circles() -> None:
    seen, made, (a, b) = watch(2)
    made.program.live[:] = [(), ()]
    part = a.part(np.arange(5), 0)
    seen.turn(a)
    seen.turn(part)
    a.pc = 1
    seen.turn(a)
    a.pc, a.stack = 0, 3
    seen.turn(a)
    seen.turn(b)
    assert len(seen.stood) == 5 and not seen.again
    a.stack = 0
    seen.turn(a)
    assert seen.came_back(part) == 5 and seen.came_back(b) == 0


def test_everyone_is_who_came_back_and_who_waits_and_who_sleeps() -> None:
    seen, made, (a, b, c) = watch(3)
    assert not seen._everyone()
    made.parked, made.sleeping = {a: None}, [(9, b)]
    assert not seen._everyone()
    seen.again[a.batch] = np.zeros(96, bool)
    seen.again[a.batch][c.lanes] = True
    assert seen._everyone()
    seen.again[a.batch][b.lanes[:4]] = True
    assert seen._everyone(), "a sleeper that came back is counted once"
    seen.again[a.batch][c.lanes[0]] = False
    assert not seen._everyone()
    a.batch.alive[c.lanes[1]] = False
    assert not seen._everyone()
    a.batch.live -= 2
    assert seen._everyone()
    seen.again[object()] = np.ones(3, bool)  # type: ignore[index]
    assert seen._everyone(), "a batch that has ended counts no longer"


def test_who_was_told_not_yet_waits() -> None:
    seen, _made, (a, b) = watch(2)
    batch = a.batch
    assert seen.only_waits()
    seen.again[batch] = np.zeros(64, bool)
    seen.again[batch][3] = True
    assert not seen.only_waits()
    seen.answered(a.part(np.array([3, 4]), 0))
    assert seen.only_waits() and np.flatnonzero(seen.told_no[batch]).tolist() == [3, 4]
    seen.again[batch][b.lanes[2]] = True
    assert not seen.only_waits()
    batch.alive[b.lanes[2]] = False
    assert seen.only_waits()
    seen.answered(b)
    assert np.flatnonzero(seen.told_no[batch]).tolist() == [3, 4, *range(32, 64)]


LOAD, OTHER = object(), object()


def quiet(**found: Any) -> tuple[Watch, Any]:
    seen, made, _ = watch()
    known: dict[str, Any] = {"loads": frozenset({LOAD}), "clocked": False, "noticed": False}
    seen.deciding = Deciding({}, **(known | found))
    seen.touched = {LOAD: touched(64)}  # type: ignore[dict-item]
    return seen, made


def test_it_is_quiet_where_nothing_changed_that_a_loop_looks_at() -> None:
    assert quiet()[0].quiet() and quiet()[0].quiet(all_here=False)
    for found in ({"noticed": True}, {"clocked": True}):
        assert not quiet(**found)[0].quiet()
    seen, made = quiet()
    seen.outside = {OTHER}  # type: ignore[arg-type]
    assert seen.quiet()
    seen.outside = {LOAD}  # type: ignore[arg-type]
    assert not seen.quiet()
    for change in (1, -1):
        seen, made = quiet()
        made.changes += change
        assert not seen.quiet()


def test_what_others_may_look_at_counts_where_they_are_elsewhere() -> None:
    for place, seat, here, alone, together in (
        (64, None, False, False, False), (96, None, True, False, True),
        (96, object(), False, False, False),
    ):  # fmt: skip
        seen, made = quiet()
        made.seat = seat
        seen.changed.add(np.array([place]), 4)
        assert seen.quiet() is (together and here) and seen.quiet(all_here=False) is alone


def test_other_registers_decide_where_other_blocks_have_run() -> None:
    seen, made, (g,) = watch()
    assert seen.renew() is False and seen.deciding.loads == frozenset()
    seen.stood, seen.who = {(1,): (stood([0]), 1)}, {say("x"): []}
    seen.again = {g.batch: np.ones(32, bool)}
    made.block_runs[0] += 1
    assert seen.renew() and set(made.deciding) == {(frozenset(), frozenset()),
                                                   (frozenset({0}), frozenset())}  # fmt: skip
    assert not seen.stood and not seen.who and not seen.again
    seen.again = {g.batch: np.ones(32, bool)}
    assert not seen.renew() and seen.again, "nothing new: it goes on"


def test_what_is_stored_decides_where_a_loop_looks_or_another_launch_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seat, places, values in (
        (None, (64, 68), ()), (None, (64, 64), ("st.volatile",)),
        (object(), (64, 68), ("st.volatile", "red")),
    ):  # fmt: skip
        seen, made, _ = watch()
        made.seat = seat
        load, store, add = (
            made.program.instructions[access(made, text)]
            for text in ("ld.volatile", "st.volatile", "red")
        )
        asked: list[frozenset[Any]] = []

        def found(
            program: Any, blocks: Any, values: Any, load: Any = load, asked: Any = asked
        ) -> Deciding:
            asked.append(values)
            return Deciding({}, frozenset({load}), False, bool(values))

        monkeypatch.setattr(livelock, "deciding", found)
        seen.touched = {load: touched(places[0]), store: touched(places[1]), add: touched(200)}
        assert seen.renew()
        wanted = {"st.volatile": store, "red": add}
        assert asked == [frozenset(), *([{wanted[each] for each in values}] if values else [])]
        assert seen.deciding.noticed is bool(values)


# -- what is said ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("blocks", "said"), [
    ([0, 1, 2, 3], "warp 0 of blocks 0-3"), ([0, 1, 2, 3, 3], "warp 0 of blocks 0-3"),
    ([0, 1, 2, 3, 4], "warp 0 of block 0 and threads of 4 more blocks"),
    ([7, 1, 2, 3, 4, 4, 5], "warp 0 of block 7 and threads of 5 more blocks"),
])  # fmt: skip
def test_few_blocks_are_named_one_by_one(blocks: list[int], said: str) -> None:
    who = [BlockThreads(block, ((0, 31),), 64) for block in blocks]
    assert str(livelock._some(who)) == said


def test_who_spins_and_who_waits_is_said() -> None:
    seen, made, (_a, b) = watch(2)
    seen.who = {say("there"): [BlockThreads(0, ((0, 31),), 64)]}
    made.parked = {b: Waiting("barrier 1", say("here"))}
    lines = str(livelock.livelock(made, seen, 3)).splitlines()
    assert lines[0].startswith("livelock: every thread that is left spins or waits")
    assert lines[1:] == [
        "  warp 0 of block 0 at there", "  warp 1 of block 0 wait for barrier 1: here",
        "  3 more blocks wait for room: no GPU holds more of them at once",
    ]  # fmt: skip
