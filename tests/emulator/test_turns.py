"""How long a group runs before others have a turn: blocks of a program that do what one says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.errors import Fault, OutOfBounds, StepLimit
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.machine.scheduler import PATIENCE, POLLS
from tests.emulator.machines import groups

Block = Callable[[Group], int]


def program(*code: Block | Sequence[int], count: int = 1, **how: Any) -> tuple[Any, list[Group]]:
    """A launch whose blocks are these: functions, or the blocks that follow, in turn."""
    made, found = groups(count, check=False, **how)
    size = len(code)

    def following(those: Sequence[int]) -> Block:
        left = list(those)
        return lambda g: left.pop(0) if len(left) > 1 else left[0]

    made.program.code = [each if callable(each) else following(each) for each in code]
    made.program.sizes = [10 * (n + 1) for n in range(size)]
    made.program.live = [()] * size
    made.program.blocks = made.program.blocks[:1] * size
    made.block_runs, made.block_threads, made.block_warps = [0] * size, [0] * size, [0] * size
    made.start_batch = lambda: False
    return made, found


def test_a_block_takes_a_cycle_an_instruction_and_is_counted() -> None:
    made, (g,) = program([1], [2], [-1])
    entered: list[int] = []

    class Log(LaunchObserver):
        def enters(self, g: Any) -> None:
            entered.append(g.pc)

    made.told.subscribe(Log())
    g.time, g.patient = 5, True
    made._run_group(g)
    assert g.time == 65 and entered == [0, 1, 2] and made.last_block == 2 and made.running is g
    assert made.block_runs == [1, 1, 1] and made.block_threads == [32] * 3
    assert made.block_warps == [1, 1, 1] and not g.patient and not made.ready and g.pc == 2


def test_what_wants_to_look_after_a_block_looks_once() -> None:
    looks: list[str] = []
    made, (g,) = program(lambda g: made.after_block.append(lambda: looks.append("x")) or 1, [-1])
    made._run_group(g)
    assert looks == ["x"] and made.after_block == []


def test_an_error_leaves_no_number_of_an_instruction() -> None:
    def beyond(g: Group) -> int:
        g.at = 0
        return int(np.zeros(3)[5])

    made, (g,) = program(beyond)
    with pytest.raises(OutOfBounds) as caught:
        made._run_group(g)
    assert str(caught.value).startswith(
        f"all threads of block 0 reached outside of all memory near {made.where(g)}; "
    )
    assert g.at == -1 and isinstance(caught.value.__cause__, IndexError)

    error = Fault("it ends")

    def fails(g: Group) -> int:
        g.at = 0
        raise error

    made, (g,) = program(fails)
    with pytest.raises(Fault, match=r"^it ends$"):
        made._run_group(g)
    assert g.at == -1


def test_where_ways_meet_is_noted() -> None:
    made, (g,) = program([1], [2], [-1])
    g.joins, g.cuts = frozenset({2, 7}), ((2, g.lanes), (7, g.lanes))
    made._run_group(g)
    assert g.joins == {7} and [cut[0] for cut in g.cuts] == [7]


def test_turns_of_loops_are_counted_and_looked_at_from_some_on() -> None:
    made, (g,) = program([1], [1, 1, 0, 2], [-1])
    looked: list[int] = []
    made._look = lambda g: looked.append(made.steps)
    made.steps, made.look = 100, 98
    made._run_group(g)
    assert made.steps == 97 and looked == [97], "three ways led back, one of them two blocks"


@pytest.mark.parametrize(("steps", "ends"), [(3, False), (2, True)])
def test_the_turns_have_a_limit(steps: int, ends: bool) -> None:
    made, (g,) = program([0, 0, 0, 1], [-1])
    made.steps, made.look = steps, -99
    if ends:
        with pytest.raises(StepLimit, match=r"all threads of block 0 stand at .*larger max_steps"):
            made._run_group(g)
    else:
        made._run_group(g)
        assert made.steps == 0


def test_in_company_who_spins_gives_its_turn_away() -> None:
    made, (g,) = program([1], [2], [-1])
    made.spins = object()
    made._run_group(g)
    assert made.ready == [g] and g.pc == 1


@pytest.mark.parametrize(("ready", "stops", "waits"), [
    (True, (), True), (False, (), False), (False, {9}, True),
])  # fmt: skip
def test_who_comes_to_where_ways_meet_lets_others_go_first(
    ready: bool, stops: Any, waits: bool
) -> None:
    made, (g, other) = program([1], [2], [-1], count=2)
    other.pc = 9
    made.program.live = [()] * 10
    made.stops = stops
    if ready:
        made.ready.append(other)
    g.rejoin = (5, 1)
    made._run_group(g)
    assert g.rejoin == (5,) and g.patient is waits and (g in made.ready) is waits
    assert g.pc == (1 if waits else 2)
    made, (g,) = program([1], [2], [-1])
    g.rejoin = (1, 5)
    made._run_group(g)
    assert g.rejoin == (1, 5)


def test_before_some_blocks_a_group_always_lets_others_go_first() -> None:
    made, (g,) = program([1], [2], [-1])
    made.stops = {2}
    made._run_group(g)
    assert made.ready == [g] and g.pc == 2 and not g.patient


def test_who_looks_at_memory_and_goes_round_lets_others_go_first() -> None:
    for polls, seat, stops, ready, patient in (
        (1, None, (), True, True), (0, None, (), True, False), (1, None, (), False, False),
        (1, object(), (), False, True), (1, None, {7}, True, False),
    ):  # fmt: skip
        def look(g: Group, polls: int = polls) -> int:
            g.batch.machine.polls += polls
            return 0 if g.time < 30 else 1

        made, (g, other) = program(look, [-1], count=2)
        made.seat, made.stops = seat, stops
        other.pc = 1
        if ready:
            made.ready.append(other)
        made._run_group(g)
        assert (g.patient, g in made.ready) == (patient, patient), (polls, seat, stops, ready)
        assert made.block_runs[0] == (1 if patient else 3)


def test_after_many_looks_more_blocks_start_or_sleepers_wake_or_work_goes_on() -> None:
    for starts, sleeps, poked in (
        (True, False, False), (False, True, False), (False, False, True),
    ):  # fmt: skip
        def look(g: Group) -> int:
            g.batch.machine.polls += 1
            return 0 if g.batch.machine.block_runs[0] < 20 else 1

        made, (g, other) = program(look, [-1], count=2)
        pokes: list[int] = []
        started: list[int] = []
        made._poke = lambda pokes=pokes, made=made: pokes.append(made.block_runs[0])
        made.start_batch = lambda s=starts, st=started, made=made: st.append(
            made.block_runs[0]
        ) or s  # fmt: skip
        made.sleeping = [(10**9, other)] if sleeps else []
        made.polls = POLLS
        made._run_group(g)
        assert started == [9] and pokes == ([9] if poked else []) and made.polls == 11
        made, (g, _) = program(look, [-1], count=2)
        made._poke = lambda pokes=pokes: pokes.append(0)
        made.polls = POLLS - 20
        pokes.clear()
        made._run_group(g)
        assert not pokes and made.polls == POLLS


@pytest.mark.parametrize(("pc", "frames", "first"), [
    (1, 0, True), (2, 0, False), (3, 0, False), (3, 1, True),
])  # fmt: skip
def test_who_is_further_behind_goes_first(pc: int, frames: int, first: bool) -> None:
    made, (g, other) = program([2], [-1], [-1], [-1], count=2)
    other.pc, other.frames = pc, [None] * frames  # type: ignore[list-item]
    made.ready.append(other)
    made._run_group(g)
    assert (g in made.ready) is first and made.block_runs[2] == (not first)


def test_two_at_one_place_become_one() -> None:
    made, (g, other) = program([2], [-1], [-1], count=2)
    other.pc = 2
    made.make_ready(other)
    made._run_group(g)
    (both,) = made.ready
    assert both.n == 64 and made.block_runs[2] == 0


@pytest.mark.parametrize(("seat", "ready", "runs"), [
    (None, False, 200), (object(), False, PATIENCE), (None, True, PATIENCE),
])  # fmt: skip
def test_a_loop_ends_its_turn_after_so_many_rounds(seat: Any, ready: bool, runs: int) -> None:
    made, (g, other) = program(lambda g: 0 if made.block_runs[0] < 200 else 1, [-1], count=2)
    made.seat = seat
    other.pc = 1
    if ready:
        made.ready.append(other)
    made._run_group(g)
    assert made.block_runs[0] == runs and (g in made.ready) == (runs == PATIENCE)


@pytest.mark.parametrize(("schedule", "pokes"), [("late", 0), ("random", 3)])
def test_meanwhile_sleepers_wake_and_work_goes_on(schedule: str, pokes: int) -> None:
    made, (g, other) = program(
        lambda g: 0 if made.block_runs[0] < 200 else 1, [-1], count=2, schedule=schedule
    )
    poked: list[int] = []
    clocks: list[int] = []
    made._poke = lambda: poked.append(made.block_runs[0])
    made._wake_sleepers = lambda clock: clocks.append(clock) or False
    made.sleeping = [(10**9, other)]
    made.clock = 1000
    made._run_group(g)
    assert clocks == [1000, 1280, 1920] and made.clock == 1920
    assert poked == [64, 128, 192][:pokes]
    made.sleeping, made.agents = [], []
    clocks.clear()
    g.pc = 0
    made.block_runs[0] = 0
    made._run_group(g)
    assert not clocks
