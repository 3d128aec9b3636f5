"""A machine that is stepped: who may step, who waits for whom, and what is remembered of looks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phasebit.emulator.errors import Deadlock, Fault, Livelock, StepLimit
from phasebit.emulator.findings import say
from phasebit.emulator.interleavings.searching import Stepped
from phasebit.emulator.machine import stepped
from phasebit.emulator.machine.gathering import WARP_GROUP
from phasebit.emulator.machine.group import Frame, Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.machine.livelock import Stood
from phasebit.emulator.machine.stepped import ANSWERS, ROUNDS, Blocked, Move
from phasebit.emulator.machine.waiting import Waiting
from tests.emulator.machines import groups, machine

FLAG = """
    L: ld.relaxed.gpu.global.u32 %r3, [%rd1]; setp.eq.u32 %p1, %r3, 0; @%p1 bra L;
    red.relaxed.gpu.global.add.u32 [%rd1+4], 1; ret;
"""


def warps(count: int = 2, body: str = FLAG, **how: Any) -> tuple[Any, list[Group]]:
    """A stepped machine, and groups of one warp each, none of which is ready."""
    made, found = groups(count, body=body, kind=Stepped, stepwise=frozenset(), **how)
    made.halts.blocks = made.stops.blocks
    return made, found


def waits(may_fail: Any = None) -> Waiting:
    return Waiting("phase 0 of mbarrier full", say("at 3"), may_fail=may_fail)


class Work:
    """Asynchronous work; with a queue that of the tensor core."""

    def __init__(self, batch: Any, queue: Any = None, signals: bool = True) -> None:
        self.batch, self.signals, self.done = batch, signals, 0
        if queue is not None:
            self.queue = queue

    def finish(self) -> None:
        self.done += 1
        machine = self.batch.machine
        if self in machine.agents:
            machine.agents.remove(self)


# -- groups of one warp ---------------------------------------------------------------------------


def test_each_warp_is_ready_by_itself() -> None:
    made = machine(kind=Stepped, stepwise=frozenset(), block=96)
    made.start_batch()
    assert [g.lanes[[0, -1]].tolist() for g in made.ready] == [[0, 31], [32, 63], [64, 95]]
    assert not any(g.patient for g in made.ready)


def test_warps_that_part_stay_as_patient_as_they_were() -> None:
    made, (a, _b) = warps()
    made.start_batch = lambda: False
    whole = a.batch
    both = Group(whole, np.arange(64), 0, list(a.registers), 0)
    both.patient = True
    made.make_ready(both)
    assert len(made.ready) == 2 and all(g.patient for g in made.ready)
    made.ready.clear()
    made.together = True
    made.make_ready(both)
    assert made.ready == [both]


def test_threads_of_one_warp_at_one_place_are_one_group_again() -> None:
    made, (a, b) = warps()
    heard: list[int] = []

    class Log(LaunchObserver):
        def ran(self, g: Any) -> None:
            heard.append(int(g.lanes[0]))

    made.told.observers.clear()
    made.told.subscribe(Log())
    low, high = a.part(np.arange(8), 0), a.part(np.arange(8, 32), 0)
    for g in (low, b, high):
        made.make_ready(g)
    assert [(g.lanes[0], g.n) for g in made.ready] == [(32, 32), (0, 32)] and heard == [0, 8]
    for change in ("pc", "stack"):
        made.ready.clear()
        low, high = a.part(np.arange(8), 0), a.part(np.arange(8, 32), 0)
        setattr(high, change, 1)
        for g in (low, high):
            made.make_ready(g)
        assert made.ready == [low, high]


def test_a_place_where_ways_meet_is_noted() -> None:
    made, (a, _) = warps()
    a.joins, a.cuts = frozenset({a.pc, 9}), ((a.pc, a.lanes), (9, a.lanes))
    made.make_ready(a)
    assert a.joins == {9} and [cut[0] for cut in a.cuts] == [9]


def test_who_sleeps_goes_on_at_once() -> None:
    made, (a, _) = warps()
    a.resume = 1
    assert made.sleep(a, 1000) == -1 and made.ready == [a] and a.pc == 1 and a.time == 0


def test_warps_gather_by_themselves_and_four_as_a_warp_group() -> None:
    made, found = warps(8)
    parts = [g.part(np.arange(16), 0) for g in found]
    rest = [g.part(np.arange(16, 32), 0) for g in found]
    assert made.gather(found[3], None)
    assert not made.gather(parts[0], None) and not made.gather(parts[1], None)
    assert len(made.gathering.of) == 3 and set(made.parked) == set(parts[:2])
    assert not made.gather(rest[0], None), "they go on together, and ask again"
    assert set(made.parked) == {parts[1]} and [g.n for g in made.ready] == [32]
    assert made.gathering.let_go(found[0].batch) == [parts[1]]
    made.parked.clear()
    made.ready.clear()
    for g in (*found[:3], found[4]):
        assert not made.gather(g, WARP_GROUP)
        while made.ready:  # they are one group now, which asks again
            assert not made.gather(made.ready.pop(), WARP_GROUP)
    assert {w.what for w in made.parked.values()} == {"the other threads of the warp group"}
    assert [g.n for g in made.parked] == [96, 32]
    assert not made.gather(found[3], WARP_GROUP) and [g.n for g in made.ready] == [128]
    assert not made.together and made.gather(made.ready[0], WARP_GROUP)


def test_whom_an_error_stops_leaves_the_others_apart() -> None:
    made, (a, _) = warps()

    def bring(g: Any, membermask: Any) -> bool:
        assert made.together is (membermask is WARP_GROUP)
        raise Fault("x")

    made.gathering.bring = bring
    for mask in (WARP_GROUP, None):
        with pytest.raises(Fault):
            made.gather(a, mask)
        assert not made.together


# -- moves ----------------------------------------------------------------------------------------


def test_a_move_says_who_does_what_where() -> None:
    made, (a, b) = warps()
    move = made._move(b)
    assert (move.actor, move.who, move.row) == ((0, 32), "warp 1 of block 0", "warp 1")
    first = made.program.blocks[0].instructions[0]
    assert str(move.what) == f"`{first.text}` at PTX line {first.line}" and move.line == first.line
    assert move.threads == tuple((0, lane) for lane in range(32, 64)) and move.group is b
    assert move.work is None and move.begun == -1 and move.error is None
    again = made._move(b)
    assert again.what is move.what and again is not move and len(made.sayings) == 1
    assert made._move(a).actor == (0, 0) and len(made.sayings) == 2


def test_of_several_blocks_the_row_names_the_block() -> None:
    made, found = warps(2, grid=2)
    assert [made._row(g) for g in found] == [
        "block 0, warp 0", "block 0, warp 1", "block 1, warp 0", "block 1, warp 1",
    ]  # fmt: skip
    made = machine(kind=Stepped, stepwise=frozenset(), grid=3, block=32)
    made.batch_size = lambda: 1
    for _ in range(3):
        made.start_batch()
    assert [made._actor(g) for g in made.ready] == [(0, 0), (1, 0), (2, 0)]
    assert [made._row(g) for g in made.ready] == [f"block {n}, warp 0" for n in range(3)]


def test_work_that_tells_somebody_is_a_move_of_who_began_it() -> None:
    made, (a, b) = warps()
    made.taken = 7
    works = [Work(a.batch), Work(a.batch), Work(a.batch, queue="q"), Work(a.batch, signals=False)]
    made.agents.append(works[0])
    assert not made.begun, "nobody runs"
    made.agents.clear()
    made.running = b
    for work in works:
        made.agents.append(work)
    moves = [made.begun[id(work)][1] for work in works[:3]]
    assert id(works[3]) not in made.begun and len(made.begun) == 3
    assert [move.who for move in moves] == [
        f"{kind} {n} of warp 1 of block 0" for n, kind in ((1, "copy"), (2, "copy"), (3, "work"))
    ]
    assert [move.row for move in moves] == ["copy engine", "copy engine", "tensor core"]
    assert [move.actor for move in moves] == [(0, 32, 1), (0, 32, 2), (0, 32, 3)]
    assert all(move.begun == 6 and move.threads == () and move.line == 0 for move in moves)
    assert [move.work for move in moves] == works[:3]
    b.at = 0
    made.agents.append(Work(a.batch))
    assert made.begun[id(made.agents[-1])][1].line == made.program.instructions[0].line


def test_who_can_step_now_threads_first() -> None:
    made, (a, b, c, d) = warps(4)
    for g in (b, a):
        made.make_ready(g)
    made.stops.blocks = {0}
    passes = [False]
    for g, answer in ((d, passes), (c, [True])):
        made.held[g] = Blocked(made._move(g), lambda answer=answer: answer[0], [])
    assert [move.actor for move in made.moves()] == [(0, 0), (0, 32), (0, 64)]
    assert [each.move.group for each in made.blocked()] == [d]
    passes[0] = True
    assert [move.actor[1] for move in made.moves()] == [0, 32, 64, 96] and not made.blocked()
    made.faulty = [Move((0, 40), "x", "warp 1", say("y"), ())]
    assert [move.actor[1] for move in made.moves()] == [0, 32, 40, 64, 96]
    made.running = a
    one, two, three, four = (Work(a.batch, q) for q in ("p", "p", None, None))
    for work in (one, two, three, four):
        made.agents.append(work)
    made.begun.pop(id(four))
    assert [move.work for move in made.moves()][5:] == [one, three], "of a queue the first alone"
    made.stops.blocks = set()
    assert [move.actor[1] for move in made.moves()][:3] == [40, 64, 96]


def test_threads_of_a_warp_wait_where_its_ways_meet() -> None:
    made, (a, b) = warps()
    low, high = a.part(np.arange(8), 0), a.part(np.arange(8, 32), 1)
    low.patient = True
    made.ready[:] = [low, b]
    assert not made._waits_for_mates(low), "another warp is no mate"
    made.ready.append(high)
    assert made._waits_for_mates(low) and not made._waits_for_mates(high)
    made.ready.remove(high)
    made.parked[high] = waits()
    assert made._waits_for_mates(low)
    high.patient = True
    assert not made._waits_for_mates(low)
    high.patient = low.patient = False
    assert not made._waits_for_mates(low)
    other = machine(kind=Stepped, stepwise=frozenset(), block=32)
    other.start_batch()
    made.parked = {other.ready[0]: waits()}
    low.patient = True
    assert not made._waits_for_mates(low), "of another batch"


# -- looks ----------------------------------------------------------------------------------------


def looking(g: Any) -> Any:
    made = g.batch.machine
    made.acting = made._move(g)
    made._stood = (g.pc, Stood(g, made.program.live[g.pc], made.program.live))
    return made


def test_who_found_what_it_found_is_not_asked_until_somebody_writes_there() -> None:
    made, (a, b) = warps()
    made.taken = 4
    looking(a).noticed(["x"], [])
    assert made._spins(a) and not made._spins(b)
    made.taken = 5
    looking(b).noticed([], ["y"])
    assert made._spins(a) and not made._spins(b), "nobody looks there"
    made.taken = 6
    looking(b).noticed([], ["x", "z"])
    assert not made._spins(a) and made.written == {"y": 5, "x": 6, "z": 6}
    looking(a).noticed(["x"], [])
    assert made._spins(a), "it has seen that"
    a.pc = 1
    assert not made._spins(a)


def test_what_it_looked_at_before_counts_until_it_changes_something() -> None:
    made, (a, b) = warps()
    for taken, word in ((1, "x"), (2, "y")):
        made.taken = taken
        looking(a).noticed([word], [])
    assert made.words[0, 0] == {"x", "y"}
    made.taken = 3
    looking(b).noticed([], ["x"])
    assert not made._spins(a)
    made.taken = 4
    looking(a).noticed(["y"], ["q"])
    assert (0, 0) not in made.looked and (0, 0) not in made.words
    looking(a).noticed(["y"], [])
    made._stood = None
    made.noticed([], [])
    assert not made.looked and not made.words, "a wait is a step that let it go on"
    made.noticed([], ["w"])
    assert made.written["w"] == 4


def test_with_other_registers_it_looks_again() -> None:
    made, (a, _) = warps()
    made.program.live[0] = (0,)
    a.registers[0] = np.uint32(3)
    looking(a).noticed(["x"], [])
    assert made._spins(a)
    a.registers[0] = np.uint32(4)
    assert not made._spins(a)


# -- waits ----------------------------------------------------------------------------------------


def test_a_wait_is_held_until_it_is_chosen() -> None:
    made, (a, b) = warps()
    waiting = waits()
    assert not made.may_wait(a, lambda: True, ["site"], waiting)
    assert made.parked == {a: waiting} and made.held[a].sites == ["site"] and made.held[a].passes()
    assert made.held[a].move.actor == (0, 0)
    ran: list[Group] = []
    made._run_group = lambda g: ran.append((g, made.halts.everywhere))
    made._go(a)
    assert ran == [(a, True)] and not made.halts.everywhere
    assert not made.held and not made.parked and made.allowed is a and made._stood is None
    assert not made.may_wait(b, lambda: True, [], waiting) and made.allowed is a
    assert made.may_wait(a, lambda: True, [], waiting) and made.allowed is None
    assert not made.may_wait(a, lambda: True, [], waiting)


def test_a_test_that_is_answered_is_held_no_longer() -> None:
    made, (a, b) = warps()
    told: list[Group] = []
    patient = [(g, waits(told.append)) for g in (a, b)]
    made.parked = {b: patient[1][1]}
    made.held = {a: None, b: None}
    made._answer(patient)
    assert told == [b] and not made.held


def test_a_group_that_is_chosen_runs_to_the_next_step_and_is_remembered() -> None:
    made, (a, b) = warps()
    made.ready[:] = [a, b]
    seen: list[Any] = []
    made._run_group = lambda g: seen.append((g, made.halts.everywhere, made._stood[0]))
    made._go(b)
    assert made.ready == [a] and seen == [(b, True, b.pc)] and not made.halts.everywhere
    assert made._stood[1].same(Stood(b, made.program.live[b.pc], made.program.live))

    def fails(g: Any) -> None:
        made.rounds = 3
        raise Fault("x")

    made._run_group = fails
    with pytest.raises(Fault):
        made._go(a)
    assert not made.halts.everywhere and made.rounds == 0


# -- a step ---------------------------------------------------------------------------------------


def test_a_step_is_counted_and_told_unless_it_fails() -> None:
    made, (a, _) = warps()
    told: list[int] = []
    made.took = lambda: told.append(made.taken)
    made._go = lambda g: told.append(g)
    move = made._move(a)
    made._take(move)
    assert made.acting is move and told == [a, 1] and (made.taken, made.happened) == (1, 1)
    assert not made.failing
    work = Work(a.batch)
    made.begun[id(work)] = work, move
    made._take(Move((0, 0, 1), "x", "y", say("z"), (), work=work))
    assert told[-1] == 2 and work.done == 1 and not made.begun and not made.failing
    error = Fault("it ends")
    made._stood = "something"
    with pytest.raises(Fault, match="it ends"):
        made._take(Move((0, 0), "x", "y", say("z"), (), error=error))
    assert made.failing and (made.taken, made.happened) == (3, 3) and told[-1] == 2
    assert made._stood is None


def test_a_block_ends_when_its_work_has_told_what_it_tells() -> None:
    made, (a, _) = warps(1, grid=2, check=False)
    made.took = lambda: None
    made.batches = [a.batch]
    released: list[str] = []
    a.batch.release = lambda: released.append("all")
    work, other = Work(a.batch), Work(object())
    made.running = a
    for each in (work, other):
        made.agents.append(each) if each is work else list.append(made.agents, each)
    made.end_batch(a.batch)
    assert made.ended == [a.batch] and made.batches == [a.batch] and not released
    assert a.batch.live_in_block.tolist() == [0, 0] and not work.done
    made._go = lambda g: None
    made._take(made._move(a))
    assert made.ended == [a.batch]
    made._take(made.begun[id(work)][1])
    assert not made.ended and not made.batches and released == ["all"] and work.done == 1
    made.batches = [a.batch]
    made.end_batch(a.batch)
    assert not made.batches and not made.ended and len(released) == 2


# -- between two steps ----------------------------------------------------------------------------


def test_the_deepest_and_then_who_is_furthest_behind_runs_between_steps() -> None:
    made, found = warps(5)
    deepest, deep, behind, low, high = found
    frame = Frame([], 0, (), 0)
    deepest.frames, deep.frames = [frame, frame], [frame]
    for g, pc in zip(found, (8, 9, 3, 4, 4), strict=True):
        g.pc = pc
    made.stops.blocks = {7}
    stands = found[0].part(np.array([0]), 0)
    stands.pc = 7
    made.ready[:] = [high, stands, behind, deep, low, deepest]
    ran: list[Group] = []
    made._run_group = ran.append
    assert made._settle() is False
    assert ran == [deepest, deep, behind, low, high] and made.ready == [stands]
    assert made.happened == 5


def test_who_waits_for_mates_or_goes_in_circles_is_not_run() -> None:
    made, (a, b) = warps()
    made.stops.blocks = set()
    low, high = a.part(np.arange(8), 0), a.part(np.arange(8, 32), 1)
    low.patient = True
    made.ready[:] = [low, high, b]
    made.circles = {high: (made.happened, say("x")), b: (made.happened, say("x"))}
    ran: list[Group] = []
    made._run_group = ran.append
    assert not made._settle() and not ran
    made.circles[b] = made.happened - 1, say("x")
    assert not made._settle() and ran == [b, high, low], "when one has run, others may again"


def test_what_ends_a_kernel_between_steps_is_a_step() -> None:
    made, (_, b) = warps()

    def fails(g: Any) -> None:
        raise Fault("it ends")

    made._run_group = fails
    made._run_between(b)
    (move,) = made.faulty
    assert (move.actor, move.who, move.row) == ((0, 32), "warp 1 of block 0", "warp 1")
    assert str(move.error) == "it ends" and str(move.what) == str(made.where(b))
    assert move.threads == () and made.happened == 1 and not made.ready


def test_the_limit_of_turns_ends_the_run_itself() -> None:
    made, (a, _) = warps()
    for left, ends in ((0, False), (-1, True)):
        made.steps = left
        if ends:
            with pytest.raises(StepLimit, match="allowed number of loop turns: warp 0 of"):
                made._look(a)
        else:
            made._look(a)

    def limit(g: Any) -> None:
        raise StepLimit("x")

    made._run_group = limit
    with pytest.raises(StepLimit):
        made._run_between(a)
    assert not made.faulty and made.rounds == 0


def test_who_goes_in_circles_waits_until_something_happens() -> None:
    made, (a, b) = warps(body="L: bra L;")
    made.steps, made.look = 1000, 1001
    for g in (a, b):
        g.pc = 1
        made.make_ready(g)
    assert made._settle() is False
    assert made.ready == [a, b] and made.happened == 0 and 1000 - made.steps < 3 * ROUNDS
    assert [at for at, _ in made.circles.values()] == [0, 0] and made.round is None
    assert str(made.circles[a][1]) == "bra L at PTX line 10"
    left = made.steps
    assert made._settle() is False and made.steps == left, "nothing has happened"
    made.happened += 1
    assert made._settle() is False and 2 <= left - made.steps <= 8, "they are watched at once"
    assert [at for at, _ in made.circles.values()] == [1, 1]
    assert isinstance(made._stuck(), Livelock)
    assert "of block 0 at bra L" in str(made._stuck())


# -- nobody can step ------------------------------------------------------------------------------


def test_where_nobody_can_step_blocks_start_then_who_was_patient_goes_on() -> None:
    made, (a, b, c) = warps(3)
    told: list[Group] = []
    starts = [True]
    made.start_batch = lambda: starts.pop() if starts else False
    a.patient = b.patient = True
    made.ready[:] = [a, b, c]
    made.parked = {c: waits(told.append)}
    assert made._go_on() and a.patient
    assert made._go_on() and not a.patient and not b.patient and not told
    made.answers, made.progress = ANSWERS, 1
    assert made._go_on() and told == [c] and (made.answers, made.progress) == (1, 0)
    assert made._go_on() and not made._go_on() and made.answers == ANSWERS == 2
    made.parked, made.answers = {c: waits()}, 0
    assert not made._go_on() and made.answers == 0


def test_who_is_stuck_waits_or_looks() -> None:
    made, (a, b) = warps()
    made.blocks, made.next_block = 5, 2
    made.parked = {a: waits()}
    error = made._stuck()
    assert isinstance(error, Deadlock) and "3 more blocks wait for room" in str(error)
    made.ready[:] = [b]
    error = made._stuck()
    assert isinstance(error, Livelock) and "3 more blocks wait for room" in str(error)
    assert f"warp 1 of block 0 at {made._move(b).what}" in str(error)
    assert "warp 0 of block 0 wait for phase 0 of mbarrier full" in str(error)
    made.circles[b] = 0, say("somewhere")
    assert "warp 1 of block 0 at somewhere" in str(made._stuck())


def test_a_run_takes_steps_until_no_block_is_left() -> None:
    made = machine(FLAG, kind=Stepped, stepwise=frozenset(), grid=2, block=64)
    made.batch_size = lambda: 1
    address = made.memory.allocate(8, "out").address
    for name in ("u8", "i8"):
        made.parameters.views[name][0] = address
    made.memory.u4[(address - 0x7000_0000_0000) // 4] = 1
    taken: list[str] = []
    made.choose = lambda moves: moves[-1]
    made.took = lambda: taken.append(made.acting.row)
    made.run()
    assert sorted(taken) == [f"block {b}, warp {w}" for b in (0, 1) for w in (0, 1) for _ in "12"]
    assert made.memory.u4[(address - 0x7000_0000_0000) // 4 + 1] == 128
    assert made.taken == len(taken) and not made.failing


def test_by_itself_it_takes_the_first_move() -> None:
    made = machine(kind=Stepped, stepwise=frozenset())
    moves: list[Any] = ["first", "second"]
    assert made.choose(moves) == "first" and made.took() is None
    assert made.says_no_first and made.stepped and not made.stops.everywhere
    assert not made.failing and made.acting is None and not made.together
    assert (made.taken, made.happened, made.rounds) == (0, 0, 0)


def test_it_stops_before_a_block_that_begins_with_a_step() -> None:
    made, _ = warps()
    begins = {i for i, block in enumerate(made.program.blocks)
              if block.instructions[0].mnemonic in ("ld", "red")}  # fmt: skip
    texts = [made.program.blocks[i].instructions[0].text for i in sorted(made.stops.blocks)]
    assert made.stops.blocks <= begins | {0} and any("ld.relaxed" in text for text in texts)
    assert any("red.relaxed" in text for text in texts) and 0 not in made.stops.blocks
    assert 99 not in made.stops
    made.stops.everywhere = True
    assert 99 in made.stops
    assert stepped.ROUNDS == 16
