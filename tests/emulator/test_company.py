"""Launches beside each other: whose turn it is, who rests, and when all of them spin for good."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from phasebit.emulator.api.together import Together
from phasebit.emulator.errors import Fault
from phasebit.emulator.findings import BlockThreads, say
from phasebit.emulator.machine.company import REST, Company, Seat
from tests.emulator.machines import groups


class Launch:
    """What a company knows of a machine."""

    def __init__(self, clock: int = 0, schedule: str = "late") -> None:
        self.clock, self.schedule = clock, "".join(schedule)
        self.running: Any = None
        self.spins: Any = None
        self.watch: Any = object()
        self.heard: list[str] = []
        self.looks = 0

    def start_batch(self) -> None:
        self.heard.append(f"starts at {self.clock}")

    def close(self) -> None:
        self.heard.append("closes")

    def look_again(self) -> None:
        self.looks += 1
        self.spins, self.watch = None, object()


def company(*clocks: int) -> tuple[Company, list[Any]]:
    made = Company()
    launches = [Launch() for _ in clocks]
    for launch, clock in zip(launches, clocks, strict=True):
        made.joins(launch, clock)  # type: ignore[arg-type]
    return made, launches


def spin(made: Company, launch: Any) -> None:
    """It was watched, and every thread of it spins."""
    launch.spins = launch.watch


def test_a_launch_begins_at_its_time_and_ends_with_what_it_has() -> None:
    made, (a, b) = company(5, 9)
    assert made.machines == [a, b] and made.watches == {a: None, b: None}
    assert a.heard == ["starts at 5"] and b.heard == ["starts at 9"]
    made.watches[b], made.rested[a] = object(), 3  # type: ignore[assignment]
    made.leaves(a)
    assert a.heard[-1] == "closes" and made.machines == [b] and not made.rested
    assert made.watches == {b: None}, "its end may be what the other waits for"
    made.leaves(b)
    assert made.machines == [] and made.watches == {}


def test_the_turn_is_of_who_is_furthest_behind() -> None:
    made, (a, b, c) = company(5, 4, 6)
    assert made.next() is b
    b.running = SimpleNamespace(time=7)
    assert made.next() is a
    c.running = SimpleNamespace(time=1)
    assert made.next() is c


def test_or_of_anybody_at_work_where_the_schedule_of_the_last_says_random() -> None:
    made, (a, b, c) = company(3, 1, 2)
    asked: list[list[Any]] = []
    b.random = SimpleNamespace(choice=lambda some: asked.append(some) or some[-1])
    assert made.next() is b and not asked
    b.schedule = "".join("random")
    assert made.next() is c and asked == [[a, b, c]]
    spin(made, c)
    assert made.next() is b and asked[-1] == [a, b]


def test_who_spins_rests_and_looks_again() -> None:
    made, (a, b) = company(0, 0)
    spin(made, a)
    for turn in range(1, REST):
        assert made.next() is b and made.rested == {a: turn} and a.spins is not None
    assert made.next() is b and a.looks == 1 and made.rested[a] == 0
    assert made.watches[a] is None, "it had done something before it spun"
    assert b.looks == 0 and b not in made.rested


def test_who_was_still_since_it_looked_stays_so() -> None:
    made, (a, _b) = company(0, 0)
    spin(made, a)
    made.watches[a] = a.spins
    made.rested[a] = REST - 1
    made.next()
    assert a.looks == 1 and made.watches[a] is a.watch


def test_all_that_spin_look_once_more_before_it_is_for_good() -> None:
    made, (a, b) = company(0, 1)
    spin(made, a)
    spin(made, b)
    made.rested = {a: 7, b: 7}
    assert made.next() is a and a.looks == b.looks == 1
    assert made.watches == {a: a.watch, b: b.watch} and made.rested == {a: 0, b: 0}
    spin(made, a)
    assert made.next() is b
    spin(made, b)
    assert made.next() is None
    b.watch = b.spins = object()
    assert made.next() is a and a.looks == b.looks == 2, "it has done something in between"


def test_the_livelock_of_all_names_each() -> None:
    made = Company()
    for device in (1, 0):
        one, _ = groups(check=False)
        one.seat = SimpleNamespace(device=device)
        one.blocks, one.next_block = 3, 1 + device
        one.spins = SimpleNamespace(who={say(f"line {device}"): [BlockThreads(0, ((0, 31),), 32)]})
        made.machines.append(one)
    lines = str(made.livelock()).splitlines()
    assert [line for line in lines if "device" in line] == [lines[0], lines[3]]
    assert lines[0].startswith("device 1, kernel k: livelock: every thread")
    assert lines[3].startswith("device 0, kernel k: livelock")
    assert lines[1] == "  all threads of block 0 at line 1" and "line 0" in lines[4]
    assert "  1 more blocks" in lines[2] and "  2 more blocks" in lines[5]


def test_what_a_launch_knows_of_earlier_ones() -> None:
    seat = Seat(Company(), 5, 0, 3, frozenset({4}))
    assert [seat.knows(n) for n in range(6)] == [True, True, True, False, True, False]
    assert not Seat(Company(), 5, 0).knows(0)
    assert Seat(Company(), 5, 0).reaches(3) is True


# -- prepared launches ----------------------------------------------------------------------------


class Attempt:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


class Execution:
    """A launch that is ready, of so many turns."""

    def __init__(self, together: Together, number: int, turns: int, cycles: int, **seat: Any):
        self.cycles, self.left, self.error = cycles, turns, None
        self.gone = 0
        self.machine: Any = Launch()
        self.machine.seat = together.seat(number, 0, **seat)
        self.machine.advance = self.advance

    def advance(self) -> bool:
        self.left -= 1
        self.machine.clock += 10
        if self.error and not self.left:
            raise self.error
        return self.left > 0

    def attempt(self) -> Attempt:
        return Attempt()

    def over(self) -> None:
        self.gone += 1


def test_launches_run_side_by_side_to_their_ends() -> None:
    together = Together()
    a, b = Execution(together, 0, 2, 20), Execution(together, 1, 3, 35)
    b.error = Fault("it ends")  # type: ignore[assignment]
    for each in (a, b):
        together.begin(each)  # type: ignore[arg-type]
    assert together.running == [a, b] and a.machine.heard == ["starts at 0"]
    ended: list[Any] = [together.advance() for _ in range(5)]
    assert ended == [None, None, (a, None), None, (b, b.error)]
    assert together.ends == {0: 20, 1: 35} and together.running == [] and a.gone == b.gone == 1
    assert together.company.machines == []


def test_a_launch_begins_when_those_before_it_have_ended() -> None:
    together = Together()
    together.ends = {0: 20, 1: 50, 2: 40, 3: 99}
    for number, seat, clock in (
        (4, {"after": 3}, 50), (5, {"also": frozenset({2})}, 40), (6, {}, 0),
        (7, {"after": 1, "also": frozenset({3, 8})}, 99),
    ):  # fmt: skip
        one = Execution(together, number, 1, 0, **seat)
        together.begin(one)  # type: ignore[arg-type]
        assert one.machine.heard == [f"starts at {clock}"]
    assert one.machine.seat.reaches(1) and not one.machine.seat.knows(2)


def test_where_all_spin_each_ends_with_that_livelock() -> None:
    together = Together()
    a, b = Execution(together, 0, 9, 5), Execution(together, 1, 9, 6)
    for each in (a, b):
        together.begin(each)  # type: ignore[arg-type]
    error = Fault("livelock")
    together.company.next = lambda: None  # type: ignore[method-assign]
    together.company.livelock = lambda: error  # type: ignore[method-assign]
    assert together.advance() == (a, error) and together.running == [b]
    assert together.advance() == (b, error) and together.ends == {0: 5, 1: 6}


def test_what_is_given_up_ends_now() -> None:
    together = Together()
    some = [Execution(together, n, 9, n) for n in range(3)]
    for each in some:
        together.begin(each)  # type: ignore[arg-type]
    together.give_up()
    assert together.running == [] and [each.gone for each in some] == [1, 1, 1]
    assert together.ends == {0: 0, 1: 1, 2: 2}


class Board:
    def __init__(self) -> None:
        self.forgot: list[int] = []
        self.over: list[int] = []
        self.launches = {1: SimpleNamespace(ended=lambda: self.over.append(1))}

    def forget(self, below: int) -> None:
        self.forgot.append(below)


@pytest.mark.parametrize(("below", "left"), [
    (0, {0: 20, 2: 50, 4: 30}), (1, {0: 50, 2: 50, 4: 30}), (3, {2: 50, 4: 30}),
    (4, {3: 50, 4: 30}), (9, {8: 50}),
])  # fmt: skip
def test_of_what_is_known_to_all_the_last_end_is_kept(below: int, left: dict[int, int]) -> None:
    together = Together()
    together.forget(below)
    assert together.ends == {}
    together.ends = {0: 20, 2: 50, 4: 30}
    together.company.board = board = Board()
    together.forget(below)
    assert together.ends == left and board.forgot == [below]


def test_the_board_hears_of_the_end_of_a_launch_that_it_knows() -> None:
    together = Together()
    together.company.board = board = Board()
    for number in (0, 1):
        together.begin(Execution(together, number, 1, 0))  # type: ignore[arg-type]
    together.give_up()
    assert board.over == [1]
