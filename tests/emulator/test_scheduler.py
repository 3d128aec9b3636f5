"""Who runs next, who waits until when, and what is tried where nobody can go on."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.errors import Deadlock, Livelock
from phasebit.emulator.findings import say
from phasebit.emulator.machine import scheduler
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.machine.scheduler import FALSE_ANSWERS, LONGEST, PATIENCE, Machine
from phasebit.emulator.machine.waiting import Waiting
from tests.emulator.machines import groups, machine


class Log(LaunchObserver):
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def starts(self, batch: Any) -> None:
        self.heard.append(("starts", batch.blocks.tolist()))

    def leaves(self, g: Any) -> None:
        self.heard.append(("leaves", g.lanes.tolist()))

    def ends(self, batch: Any) -> None:
        self.heard.append(("ends", batch.blocks.tolist()))

    def ran(self, g: Any) -> None:
        self.heard.append(("ran", int(g.lanes[0]), g.time))

    def waited(self, g: Any, start: int, end: int, what: str) -> None:
        self.heard.append(("waited", int(g.lanes[0]), start, end, what))


def log(made: Any) -> list[Any]:
    """What a launch tells from now on, and no checker beside."""
    observer = Log()
    made.told.observers.clear()
    made.told.subscribe(observer)
    return observer.heard


def waits(may_fail: Any = None) -> Waiting:
    return Waiting("barrier 7", say("at 3"), may_fail=may_fail)


# -- blocks ---------------------------------------------------------------------------------------


def test_blocks_start_in_order_as_long_as_there_is_room() -> None:
    made = machine(grid=5, block=32)
    heard = log(made)
    made.batch_size = lambda: 2
    made.most_resident = 1
    assert made.start_batch() and not made.start_batch(), "the first has room in any case"
    made.most_resident = 4
    assert made.start_batch() and not made.start_batch() and made.next_block == 4
    made.most_resident = 5
    assert made.start_batch() and not made.start_batch() and made.next_block == 5
    assert heard == [("starts", [0, 1]), ("starts", [2, 3]), ("starts", [4])]
    assert made.resident_blocks() == 5 and [g.n for g in made.ready] == [64, 64, 32]
    made.batches[1].live_in_block[1] = 0
    made.batches[2].live_in_block[0] = 7
    assert made.resident_blocks() == 4


@pytest.mark.parametrize("check", [True, False])
def test_threads_begin_at_the_clock_where_times_are_looked_at(check: bool) -> None:
    made = machine(check=check)
    made.clock = 77
    made.start_batch()
    (g,) = made.ready
    assert g.time == (77 if check else 0) and g.pc == made.program.entry("k")
    assert g.lanes.tolist() == [*range(64)]


def test_who_leaves_is_counted_no_longer() -> None:
    made, (first, second) = groups(2)
    heard = log(made)
    batch, left, freed = first.batch, [], []
    batch.when_threads_leave.append(lambda lanes: left.append(lanes.tolist()))
    waiting = second.part(np.arange(30, 32), second.pc)
    made.park(waiting, waits())
    made.gathering.let_go = lambda some: [waiting] if some is batch else []
    some = first.part(np.array([1, 4]), first.pc)
    some.time, progress = 50, made.progress
    made.exit_threads(some)
    assert heard[1:] == [("leaves", [1, 4])] and left == [[1, 4]]
    assert np.flatnonzero(~batch.alive).tolist() == [1, 4] and batch.live == 62
    assert batch.live_in_block.tolist() == [62] and batch.live_in_warp.tolist() == [30, 32]
    assert batch.alive_mask.tolist() == [0xFFFFFFED, 0xFFFFFFFF]
    assert (made.progress, made.clock) == (progress + 1, 50)
    assert not made.parked and made.ready == [waiting] and waiting.pc == second.pc
    batch.release = lambda: freed.append(batch)
    for each in (first.part(np.setdiff1d(np.arange(32), [1, 4]), 0), second):
        made.exit_threads(each)
    assert made.clock == 50 and batch.live == 0 and made.batches == [] and freed == [batch]
    assert left == [[1, 4], [each for each in range(32) if each not in (1, 4)]]
    assert heard[-2:] == [("leaves", [*range(32, 64)]), ("ends", [0])]


def test_what_the_threads_of_a_block_began_is_done_at_its_end() -> None:
    made = machine(grid=2, block=32)
    made.batch_size = lambda: 1
    made.start_batch()
    made.start_batch()
    done: list[str] = []
    one, other = made.batches
    made.agents += [
        SimpleNamespace(batch=batch, finish=lambda name=name: done.append(name))
        for batch, name in ((one, "a"), (other, "b"), (one, "c"))
    ]
    made.end_batch(one)
    assert done == ["a", "c"] and made.batches == [other]


# -- the ready list -------------------------------------------------------------------------------


@pytest.mark.parametrize(("apart", "times", "whole", "one"), [
    (False, (3, 4), (True, True), True), (True, (3, 3), (True, True), True),
    (True, (3, 4), (True, True), False), (True, (3, 4), (True, False), True),
    (True, (3, 4), (False, True), True),
])  # fmt: skip
def test_groups_at_one_place_become_one_unless_their_times_tell_more(
    apart: bool, times: tuple[int, int], whole: tuple[bool, bool], one: bool
) -> None:
    made, (a, b) = groups(2)
    heard = log(made)
    made.keep_apart = apart
    a.time, b.time = times
    a.whole, b.whole = whole
    made.picks = 5
    made.make_ready(a)
    made.picks = 9
    made.make_ready(b)
    assert len(made.ready) == 2 - one
    assert [g.since for g in made.ready] == ([5] if one else [5, 9])
    if one:
        assert heard == [("ran", 0, times[0]), ("ran", 32, times[1])]
        assert made.ready[0].n == 64 and [*made.index.values()] == made.ready
    else:
        assert not heard and [*made.index.values()] == [a]


def test_groups_of_other_places_calls_and_batches_stay_apart() -> None:
    made, (a, b, c, d) = groups(4, check=False)
    b.pc, c.stack = 1, 2
    d.joins = frozenset({d.pc})
    d.cuts = ((d.pc, d.lanes),)
    for g in (a, b, c):
        made.make_ready(g)
    assert made.ready == [a, b, c]
    made.make_ready(d)
    assert len(made.ready) == 3 and made.ready[-1].n == 64 and made.ready[-1].joins == frozenset()


def picked(made: Machine, *chosen: Group) -> list[int]:
    """Who is picked of these, again and again, by their numbers."""
    found = []
    for g in chosen:
        made.ready.append(g)
    while made.ready:
        found.append(chosen.index(made._pick()))
    return found


def apart(count: int = 3, **mode: Any) -> tuple[Any, list[Group]]:
    """Groups at places of their own."""
    made, found = groups(count, **mode)
    for number, g in enumerate(found):
        g.pc = number
    return made, found


def test_who_is_furthest_behind_is_picked() -> None:
    made, (a, b, c) = apart()
    a.patient = True
    assert picked(made, a, c, b) == [2, 1, 0] and made.picks == 2, "the last had no rival"


def test_now_and_then_it_is_who_has_waited_longest() -> None:
    made, (a, b, c) = apart()
    a.since, b.since, c.since = 3, 2, 1
    made.picks = PATIENCE - 1
    assert picked(made, a, b, c) == [2, 0, 1]
    made.picks = PATIENCE - 2
    assert picked(made, a, b, c) == [0, 2, 1]


def test_now_and_then_it_is_anybody_where_the_schedule_says_random() -> None:
    for schedule, first in (("random", 2), ("late", 0)):
        made, found = apart(schedule=schedule)
        made.random = SimpleNamespace(choice=lambda ready: ready[2])
        made.picks = 6
        assert picked(made, *found)[0] == first
        made.picks = 7
        assert picked(made, *found)[0] == 0


def test_under_a_watch_it_is_who_has_not_come_back() -> None:
    for again in ({}, {"batch": "some"}):
        made, found = apart()
        made.watch = SimpleNamespace(again=again, order=lambda g: -g.pc)  # type: ignore[assignment]
        assert picked(made, *found) == ([2, 1, 0] if again else [0, 1, 2])


def test_who_is_picked_is_looked_for_no_longer() -> None:
    made, (a, b) = groups(2)
    made.keep_apart, b.time = True, 9
    for g in (a, b):
        made.make_ready(g)
    b.patient = True
    assert made._pick() is a and not made.index
    made.make_ready(a)
    b.patient, a.patient = False, True
    assert made._pick() is b and [*made.index.values()] == [a], "another than it stands there"


# -- waiting --------------------------------------------------------------------------------------


def test_a_group_that_is_woken_has_waited_until_then() -> None:
    made, (a, b, c, d) = groups(4, check=False)
    heard = log(made)
    for g, time in zip((a, b, c, d), (10, 10, 10, 10), strict=True):
        g.time = time
    for g in (a, b, c):
        assert made.park(g, waits()) == -1 and g in made.parked
    assert heard == [("ran", 0, 10), ("ran", 32, 10), ("ran", 64, 10)]
    heard.clear()
    made.wake(a, 3, 25)
    made.wake(b, 4, 10)
    made.wake(c, 5)
    made.wake(d, 6, 30)
    assert heard == [("waited", 0, 10, 25, "barrier 7")], "only who was parked, and had to"
    assert [(g.pc, g.time, g.started) for g in made.ready] == [
        (3, 25, 25), (4, 10, 10), (5, 10, 10), (6, 30, 30),
    ]  # fmt: skip
    assert not made.parked


def test_what_was_over_before_one_came_to_look_counts_as_waiting() -> None:
    made, (g,) = groups()
    heard = log(made)
    g.time = 10
    made.catch_up(g, 10, "x")
    assert not heard and g.time == 10
    made.catch_up(g, 11, "x")
    assert heard == [("ran", 0, 10), ("waited", 0, 10, 11, "x")] and g.time == 11


def test_a_sleeper_wakes_when_it_is_time() -> None:
    made, (a, b, c) = groups(3)
    heard = log(made)
    made.clock = 20
    for g, time, duration in ((a, 5, 7), (b, 30, 0), (c, 30, 12)):
        g.time, g.resume = time, int(g.lanes[0]) + 1
        assert made.sleep(g, duration) == -1
    assert made.sleeping == [(27, a), (31, b), (42, c)] and made.polls == 3
    assert [g.pc for g in (a, b, c)] == [1, 33, 65]
    assert heard == [("ran", 0, 5), ("ran", 32, 30), ("ran", 64, 30)]
    assert not made._wake_sleepers(26)
    assert made._wake_sleepers(31) and made.sleeping == [(42, c)]
    assert [(g, g.time) for g in made.ready] == [(a, 27), (b, 31)]


def test_the_first_sleeper_wakes_where_nobody_else_can_go_on() -> None:
    made, (a, b) = groups(2)
    made.sleeping = [(50, a), (40, b)]
    made.clock = 10
    assert made._unstick() and made.ready == [b] and made.clock == 40
    made.clock = 60
    assert made._unstick() and made.clock == 60 and a in made.ready


# -- where they stand -----------------------------------------------------------------------------

PLACES = "add.u32 %r1, %r1, 1; L: bar.sync 0; bra L;"


def test_the_place_of_a_group_is_what_its_block_ends_with() -> None:
    made, (g,) = groups(body=PLACES)
    assert str(made.where(g)) == "add.u32 %r1, %r1, 1 at PTX line 10"
    block = made.program.blocks[g.pc]
    add, bar, bra = SimpleNamespace(text="add"), SimpleNamespace(text="bar"), None
    for body, collective, end, said in (
        ([add, bar], None, bra, "bar"), ([add], None, bar, "bar"), ([add], bar, add, "bar"),
        ([], None, None, None),
    ):  # fmt: skip
        block.body, block.collective, block.end = body, collective, end  # type: ignore[assignment]
        found = made._now_at(g)
        assert (found.text if found else None) == said
    assert str(made.where(g)) == "?" and made.source_line(g) == "?"
    assert made.executing() is None and made.executing_access() == -1
    made.running, g.at = g, 0
    assert made.executing() is made.program.instructions[0] and made.executing_access() == 0
    assert str(made.place(0)) == f"`{made.executing().text}` at {made.executing().where}"


def test_a_line_of_the_source_is_named_where_it_is_known() -> None:
    made, (g,) = groups(body=PLACES)
    assert made.source_line(g) == "PTX line 10"
    made._now_at = lambda g: SimpleNamespace(location="k.cu:7", where="PTX line 3")
    assert made.source_line(g) == "k.cu:7"


def test_who_runs_stands_somewhere_and_the_others_wait() -> None:
    made, (a, b) = groups(2)
    assert str(made.standing()) == "no thread has begun"
    made.park(b, waits())
    assert str(made.standing()) == "warp 1 of block 0 wait for barrier 7"
    assert str(made.standing(a)).startswith("warp 0 of block 0 stand at ")
    made.running = a
    assert str(made.standing()) == str(made.standing(a))


# -- nobody can go on -----------------------------------------------------------------------------


class Work:
    def __init__(self, signals: bool, batch: Any = None) -> None:
        self.signals = signals
        self.batch = batch
        self.done = 0

    def finish(self) -> None:
        self.done += 1


def test_work_that_tells_somebody_comes_first() -> None:
    made, (g,) = groups()
    made.agents = [Work(False), Work(True), Work(True)]
    made.sleeping = [(9, g)]
    assert made._unstick() and [work.done for work in made.agents] == [0, 1, 0]
    assert made.sleeping
    made.agents = [Work(False)]
    assert made._unstick() and not made.sleeping and made.agents[0].done == 0


def test_then_blocks_start_and_then_a_test_answers_not_yet() -> None:
    made, (a, b) = groups(2)
    refused: list[Group] = []
    made.parked = {a: waits(refused.append), b: waits()}
    starts = [True]
    made.start_batch = lambda: starts.pop() if starts else False
    made.answers, made.progress = 5, 0
    assert made._unstick() and not refused and made.answers == 5
    assert made._unstick() and refused == [a] and made.answers == 6
    made.progress = 1
    assert made._unstick() and (made.answers, made.progress) == (1, 0)
    made.answers = FALSE_ANSWERS - 1
    assert made._unstick() and not made._unstick() and made.answers == FALSE_ANSWERS
    made.parked = {b: waits()}
    made.answers = 0
    assert not made._unstick() and made.answers == 0


def test_whom_an_earlier_answer_let_go_on_is_asked_no_more() -> None:
    made, (a, b) = groups(2)
    told: list[Group] = []
    heard: list[Group] = []
    patient = [(a, waits(lambda g: (told.append(g), made.parked.pop(b)))), (b, waits(told.append))]
    made.parked = dict(patient)
    made.watch = SimpleNamespace(answered=heard.append)
    made._answer(patient)
    assert told == heard == [a]
    made.watch = None
    made.parked[b] = patient[1][1]
    made._answer(patient[1:])
    assert told == [a, b] and heard == [a]


def test_where_nothing_helps_it_is_a_deadlock_that_names_what_has_not_started() -> None:
    made, (g,) = groups(check=False)
    made.park(g, waits())
    made.start_batch = lambda: False
    made.blocks, made.next_block = 3, 1
    with pytest.raises(Deadlock, match="2 more blocks wait for room"):
        made.advance()


def test_a_launch_goes_on_until_no_block_is_left() -> None:
    made = machine(grid=3, block=32, check=False)
    made.batch_size = lambda: 1
    assert made.advance() and made.advance() and made.advance() and not made.advance()
    assert made.next_block == 3 and not made.batches
    released: list[int] = []
    made.batches = [SimpleNamespace(release=lambda n=n: released.append(n)) for n in range(2)]
    made.close()
    assert released == [0, 1]


def test_in_company_a_turn_is_one_group() -> None:
    made = machine("bar.sync 0; ret;", grid=2, block=32, check=False)
    made.batch_size = lambda: 1
    made.seat = SimpleNamespace()
    turns = 1
    while made.advance():
        turns += 1
    assert turns >= 4 and made.next_block == 2


# -- a watch --------------------------------------------------------------------------------------


class Judged:
    """A watch that says what one wants."""

    def __init__(self, **says: Any) -> None:
        self.says = {"renew": False, "quiet": True, "only_waits": False, "turn": True} | says
        self.turns = says.pop("turns", 0)
        self.back: dict[Group, int] = says.pop("back", {})
        self.answers: list[Group] = []
        self.who: dict[Any, Any] = {}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *given: self.says[name]

    def came_back(self, g: Group) -> int:
        return self.back.get(g, g.n)

    def answered(self, g: Group) -> None:
        self.answers.append(g)


def watched(**says: Any) -> tuple[Any, list[Group], Judged]:
    made, found = groups(2)
    made.start_batch = lambda: False
    watch = made.watch = Judged(**says)
    made.told.subscribe(watch)
    return made, found, watch


def test_a_watch_by_other_registers_goes_on() -> None:
    made, _, watch = watched(renew=True)
    made._judge(watch)
    assert made.watch is watch and watch in made.told.observers


@pytest.mark.parametrize("says", [{"quiet": False}, {"only_waits": True}])
def test_a_watch_ends_where_something_happened_or_all_will_wait(says: dict[str, bool]) -> None:
    made, _, watch = watched(**says)
    pause, made.steps = made.pause, 5000
    made._judge(watch)
    assert made.watch is None and watch not in made.told.observers
    assert made.pause == 2 * pause and made.look == 5000 - 2 * pause


@pytest.mark.parametrize(("pause", "seat", "then"), [
    (LONGEST, None, 2 * LONGEST), (LONGEST, 1, LONGEST), (LONGEST // 2, 1, LONGEST),
    (LONGEST // 4, 1, LONGEST // 2),
])  # fmt: skip
def test_the_pause_doubles_in_company_not_for_ever(pause: int, seat: Any, then: int) -> None:
    made, _, watch = watched()
    made.pause, made.seat, made.steps = pause, seat, 9999
    made._end_watch(watch)
    assert made.pause == then and made.look == 9999 - then


def test_for_a_sleeper_that_did_something_it_becomes_time() -> None:
    made, (a, b), watch = watched()
    watch.back = {a: 31, b: 32}
    made.sleeping = [(70, a), (50, b)]
    made.clock = 60
    made._judge(watch)
    assert made.clock == 70 and made.sleeping == [] and a in made.ready
    assert made.watch is watch, "it goes on"


def test_a_circle_of_all_is_broken_by_copies_then_by_answers_then_by_blocks() -> None:
    made, (a, _), watch = watched()
    made.agents = [Work(False), Work(True)]
    made.parked = {a: waits(lambda g: made.parked.pop(g))}
    made.steps = 4000
    made._judge(watch)
    assert [work.done for work in made.agents] == [1, 0] and made.parked
    assert made.watch is not watch and watch not in made.told.observers and made.look == 4000
    made.agents = []
    again = made.watch = Judged()
    made.told.subscribe(again)
    made._judge(again)
    assert again.answers == [a] and made.answers == 1 and not made.parked
    starts: list[int] = []
    made.start_batch = lambda: starts.append(1) or True
    made.batches = [a.batch] * 3
    last = made.watch = Judged()
    made.told.subscribe(last)
    made._judge(last)
    assert len(starts) == 3, "as many more as are there"
    assert made.watch is not last and last not in made.told.observers


def test_where_no_answer_is_left_it_is_a_livelock_or_others_have_their_turn() -> None:
    made, (a, _), watch = watched()
    made.answers, made.next_block, made.blocks = FALSE_ANSWERS, 1, 4
    made.parked = {a: waits(lambda g: None)}
    made.seat = SimpleNamespace()
    made._judge(watch)
    assert made.spins is watch and made.watch is watch
    made.look_again()
    assert made.spins is None and made.watch is not watch and watch not in made.told.observers
    before = made.watch
    made.look_again()
    assert made.watch is before
    made, _, watch = watched()
    made.next_block, made.blocks = 1, 4
    with pytest.raises(Livelock, match="3 more blocks wait for room"):
        made._judge(watch)


@pytest.mark.parametrize(("pause", "ready", "turns"), [
    (8000, 2, 1000), (80, 2, 10), (79, 2, 9), (64, 2, 9), (64, 3, 12), (8, 0, 3),
])  # fmt: skip
def test_how_long_a_watch_lasts(pause: int, ready: int, turns: int) -> None:
    made, (a, *_) = groups(2)
    made.pause, made.ready = pause, [a] * ready
    assert made._watched() == turns


def test_a_turn_is_looked_at_by_the_watch_there_is() -> None:
    made, (a, _), watch = watched()
    judged: list[Any] = []
    ended: list[Any] = []
    made._judge, made._end_watch = judged.append, ended.append
    made._look(a)
    assert judged == [watch] and not ended
    for turns, quiet, over in (
        (scheduler.GLANCE, False, True), (scheduler.GLANCE, True, False),
        (scheduler.GLANCE - 1, False, False), (scheduler.GLANCE + 1, False, False),
        (made._watched(), True, False), (made._watched() + 1, True, True),
    ):  # fmt: skip
        watch.says |= {"turn": False, "quiet": quiet}
        watch.turns = turns
        ended.clear()
        made._look(a)
        assert bool(ended) == over, (turns, quiet)
    made.watch = None
    made._look(a)
    assert made.watch is not None and judged == [watch]
