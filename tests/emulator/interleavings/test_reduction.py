"""The reduction by itself: small random systems end in the same states as under every order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from phasebit.emulator.interleavings.reduction import (
    Chooser,
    Step,
    Stop,
    Tree,
    conflict,
    dependent,
    orders,
)

Program = Sequence[tuple[str, str, int]]
"""Steps: what to do, with which cell, and a number."""


End = tuple[Any, ...]
"""The cells, what each thread has read, how far it came."""

Event = tuple[Any, ...]
"""A step, by thread and number, and those that came before it in every equal order."""


class System:
    """Threads that set, read, add to and wait for cells."""

    def __init__(self, programs: Sequence[Program]) -> None:
        self.programs = programs
        self.ends: list[End] = []
        self.events: set[Event] = set()
        """Each step of any run, with its past."""

    def run(self, choose: Chooser) -> tuple[Step | None, Sequence[Step]]:
        cells: dict[str, int] = {}
        at = [0] * len(self.programs)
        seen: list[list[int]] = [[] for _ in self.programs]
        past: list[tuple[Step, Event]] = []
        step = None

        def goes(t: int) -> bool:
            do, cell, number = self.programs[t][at[t]]
            return do != "wait" or cells.get(cell, 0) == number

        left = [t for t, program in enumerate(self.programs) if program]
        whole = True
        try:
            while (step is None or not step.fatal) and (possible := [t for t in left if goes(t)]):
                t = choose(possible, step)
                assert isinstance(t, int)
                do, cell, number = self.programs[t][at[t]]
                step = Step(t, {cell: {"set": "w", "add": "adds"}.get(do, "r")})
                step.fatal = do == "fail"
                before = (e for other, e in past if e[0] == t or _orders(other, step))
                event = t, at[t], frozenset(before)
                past.append((step, event))
                self.events.add(event)
                if do == "set":
                    cells[cell] = number
                elif do == "add":
                    cells[cell] = cells.get(cell, 0) + number
                else:
                    seen[t].append(cells.get(cell, 0))
                at[t] += 1
                left = [t for t, program in enumerate(self.programs) if at[t] < len(program)]
        except Stop:
            whole = False
        if whole:
            self.ends.append((tuple(sorted(cells.items())), tuple(map(tuple, seen)), tuple(at)))
        waiting = [t for t in left if not goes(t)]
        return step, [Step(t, {self.programs[t][at[t]][1]: "r"}) for t in waiting]


def _orders(a: Step, b: Step) -> bool:
    return any(cell in b.touches and conflict(how, b.touches[cell])
               for cell, how in a.touches.items())  # fmt: skip


def ends(programs: Sequence[Program], reduced: bool) -> list[End]:
    system = System(programs)
    for tree in orders(system.run, reduced):
        assert reduced or not tree.redundant
    return system.ends


def events(programs: Sequence[Program], reduced: bool) -> tuple[set[Event], int]:
    system = System(programs)
    return system.events, len(list(orders(system.run, reduced)))


def some(seed: int, ways: Sequence[str] = ("set", "read", "add", "wait")) -> list[Program]:
    draw = random.Random(seed)
    threads = draw.choice([2, 2, 3])
    longest = 4 if threads == 2 else 3
    return [
        [(draw.choice(ways), draw.choice("ab"), draw.randrange(3))
         for _ in range(draw.randint(1, longest))]
        for _ in range(threads)
    ]  # fmt: skip


@pytest.mark.parametrize("first", range(0, 800, 200))
def test_the_same_ends_in_fewer_runs(first: int) -> None:
    fewer = 0
    for seed in range(first, first + 200):
        programs = some(seed)
        every, reduced = ends(programs, False), ends(programs, True)
        assert set(reduced) == set(every), programs
        assert len(reduced) <= len(every)
        fewer += len(reduced) < len(every)
    assert fewer > 100


@pytest.mark.parametrize("first", range(0, 800, 200))
def test_a_step_that_ends_a_run_hides_no_other(first: int) -> None:
    """Whatever is done in any order, and after whatever, is done in one of the orders that run."""
    fewer = 0
    for seed in range(first, first + 200):
        programs = some(seed, ("set", "read", "add", "wait", "fail"))
        (every, all_runs), (reduced, runs) = events(programs, False), events(programs, True)
        assert reduced == every, programs
        fewer += runs < all_runs
    assert fewer > 80


def test_what_touches_nothing_in_common_is_run_once() -> None:
    apart: list[Program] = [[("set", cell, 1), ("read", cell, 0)] for cell in "abc"]
    assert len(ends(apart, False)) == 90
    assert len(ends(apart, True)) == 1


def test_by_itself_a_search_is_reduced() -> None:
    assert len(list(orders(System([[("read", "a", 0)], [("read", "a", 0)]]).run))) == 1


def test_changes_of_one_class_are_run_once() -> None:
    assert len(ends([[("add", "a", 1)]] * 4, True)) == 1
    assert len(ends([[("set", "a", t)] for t in range(4)], True)) == 24


def test_who_waits_in_vain_is_asked_for_the_other_order() -> None:
    """The wait is lost where the cell has gone on to 2 before the waiter looks."""
    lapped: list[Program] = [[("set", "a", 1), ("set", "a", 2)], [("wait", "a", 1)]]
    assert {end[2] for end in ends(lapped, True)} == {(2, 0), (2, 1)}


# -- what one run asks for ------------------------------------------------------------------------


def step(actor: int, how: str = "", **more: Any) -> Step:
    """``how``: ``x=w`` and the like."""
    return Step(actor, dict(each.split("=") for each in how.split()), **more)


def one_run(*steps: Step, possible: Sequence[Sequence[int]] = (), blocked: Any = ()) -> Tree:
    """A tree after a run of these steps; everybody can step everywhere unless it is said."""
    tree = Tree()
    tree.begin()
    before = None
    everybody = sorted({each.actor for each in (*steps, *blocked)})  # type: ignore[type-var]
    for number, each in enumerate(steps):
        tree.choose(possible[number] if possible else everybody, before)
        tree.nodes[-1].chosen, tree.nodes[-1].wanted = each.actor, {each.actor}
        before = each
    tree.end(before, blocked)
    return tree


def wanted(tree: Tree) -> list[list[Any]]:
    return [sorted(node.wanted) for node in tree.nodes]


@pytest.mark.parametrize(("one", "other", "asked"), [
    ("x=w", "x=w", True), ("x=r", "x=r", False), ("x=r", "x=w", True), ("x=w", "x=r", True),
    ("x=adds", "x=adds", False), ("x=adds", "x=r", True), ("x=w", "y=w", False),
    ("x=r y=w", "y=r x=r", True),
])  # fmt: skip
def test_two_steps_in_conflict_ask_for_the_other_order(one: str, other: str, asked: bool) -> None:
    tree = one_run(step(0, one), step(1, other))
    assert wanted(tree) == [[0, 1] if asked else [0], [1]]
    assert tree.more() is asked
    assert [node.step is not None for node in tree.nodes] == [True, True]


def test_what_comes_after_in_any_order_asks_for_no_other() -> None:
    assert wanted(one_run(step(0, "x=w"), step(1, "x=w", after=0b1)))[0] == [0]
    later = one_run(step(2, "y=w"), step(0, "x=w"), step(1, "x=w", after=0b1))
    assert wanted(later)[1] == [0, 1], "after another"
    both = one_run(step(2, "y=w"), step(0, "x=w"), step(1, "x=w y=w", after=0b11))
    assert wanted(both) == [[2], [0], [1]]
    through = one_run(step(0, "x=w"), step(2, "y=w", after=0b1), step(1, "x=w", after=0b10))
    assert wanted(through)[0] == [0], "after one that comes after it"


def test_whom_a_step_has_met_its_later_steps_come_after() -> None:
    for sees, asked in ((0, True), (0b1, False)):
        tree = one_run(step(0, "x=w"), step(1, "p=r", sees=sees), step(1, "x=w"))
        assert wanted(tree)[0] == ([0, 1] if asked else [0])
    own = one_run(step(0, "x=w"), step(1, "x=w", sees=0b1))
    assert wanted(own)[0] == [0, 1], "what it meets it may have come before"


def test_a_step_of_the_same_threads_comes_after() -> None:
    first = step(0, "x=w", threads=("a", "b"))
    assert wanted(one_run(first, step(1, "x=w", threads=("b",))))[0] == [0]
    assert wanted(one_run(first, step(1, "x=w", threads=("c",))))[0] == [0, 1]
    assert wanted(one_run(step(0, "x=w"), step(1), step(0, "x=w")))[1] == [1]


def test_who_waits_in_vain_might_have_come_earlier() -> None:
    tree = one_run(step(0, "x=w"), blocked=[step(1, "x=r"), step(2, "y=r")])
    assert wanted(tree) == [[0, 1]]
    assert wanted(one_run(step(0, "x=w"), blocked=[step(1, "x=r", after=0b1)])) == [[0]]
    two = one_run(step(0, "x=w"), step(0, "x=w"), blocked=[step(1, "x=r")])
    assert wanted(two) == [[0], [0, 1]]


def test_who_could_not_come_earlier_is_let_go_by_others_first() -> None:
    """Actor 1 waited at the first place; actor 2's step, which does not come after it, lets it."""
    steps = step(0, "x=w"), step(2, "y=w"), step(1, "x=w y=r")
    assert wanted(one_run(*steps, possible=[[0, 2], [2, 1], [1]]))[0] == [0, 2]
    assert wanted(one_run(*steps, possible=[[0, 2, 1], [2, 1], [1]]))[0] == [0, 2]
    alone = step(0, "x=w"), step(2, "y=w"), step(1, "x=w")
    assert wanted(one_run(*alone, possible=[[0, 2, 1], [2, 1], [1]]))[0] == [0, 1]
    assert wanted(one_run(*alone, possible=[[0, 2], [2, 1], [1]]))[0] == [0, 2]
    further = step(3, "x=r"), step(0, "x=r"), step(1, "x=w")
    possible = [[3, 0, 1], [0], [1]]
    assert wanted(one_run(*further, possible=possible)) == [[0, 3], [0], [1]], "further back"
    assert wanted(one_run(*further)) == [[0, 3], [0, 1], [1]]


def test_whoever_stood_beside_a_step_that_ends_the_run_is_tried() -> None:
    tree = one_run(step(0, "x=w"), step(1, "y=w", fatal=True), blocked=[step(2, "z=r")])
    assert wanted(tree) == [[0], [0, 1, 2]]
    assert wanted(one_run(step(0, "x=w", fatal=True), step(1, "y=w")))[0] == [0]


# -- from one run to the next ---------------------------------------------------------------------


def test_who_stepped_before_steps_on_where_it_can() -> None:
    tree = Tree()
    tree.begin()
    assert tree.choose([0, 1], None) == 0 and tree.choose([1, 0], step(0)) == 0
    assert tree.choose([2, 1], step(0)) == 2 and wanted(tree) == [[0], [0], [2]]
    every = Tree(reduced=False)
    every.begin()
    assert every.choose([0, 1], None) == 0 and wanted(every) == [[0, 1]]
    assert every.choose([1], step(0)) == 1 and every.more()


def test_a_step_that_was_tried_sleeps_until_something_touches_it() -> None:
    for more, runs in (("y=w", False), ("x=w", True), ("x=r", True)):
        tree = Tree()
        tree.begin()
        tree.choose([0, 1], None)
        tree.nodes[0].wanted = {0, 1}
        tree.end(step(0, "x=w"))
        assert tree.more() and tree.advance() and tree.nodes[0].chosen == 1
        assert tree.nodes[0].step is None and not tree.more()
        tree.begin()
        assert tree.choose([0, 1], None) == 1
        if runs:
            assert tree.choose([0], step(1, more)) == 0
        else:
            with pytest.raises(Stop):
                tree.choose([0], step(1, more))
        assert tree.redundant == 1 - runs


def test_what_a_sleeper_may_touch_elsewhere_wakes_it_too() -> None:
    sleeper = step(0, "x=w", may={"y": "w"})
    assert dependent(sleeper, {"y": "r"}) and dependent(sleeper, {"x": "r"})
    assert not dependent(sleeper, {"z": "w"}) and not dependent(step(0), {"x": "w"})
    assert not dependent(step(0, "x=adds"), {"x": "adds"})
    for slept, other in ((sleeper, step(1, "y=r")), (step(0, "x=w"), step(1, may={"x": "r"}))):
        tree = one_run(slept, possible=[[0, 1]])
        tree.nodes[0].wanted = {0, 1}
        assert tree.advance()
        tree.begin()
        assert tree.choose([0, 1], None) == 1
        assert tree.choose([0], other) == 0, "either of the two might"


def test_a_tree_is_left_when_all_that_are_wanted_were_tried() -> None:
    tree = one_run(step(0, "x=w"), step(1, "x=w"))
    assert tree.advance() and [node.chosen for node in tree.nodes] == [1]
    assert [*tree.nodes[0].sleep] == [0]
    tree.begin()
    assert tree.choose([0, 1], None) == 1 and tree.choose([0], step(1, "x=w")) == 0
    tree.end(step(0, "x=w"))
    assert not tree.more() and not tree.advance() and tree.nodes == []


def test_a_run_that_is_repeated_goes_the_same_way() -> None:
    tree = one_run(step(0, "x=w"), step(1, "x=w"))
    tree.begin()
    with pytest.raises(AssertionError, match="another way"):
        tree.choose([1], None)


def test_a_run_given_up_before_its_step_was_taken_leaves_the_place() -> None:
    tree = Tree()
    tree.begin()
    tree.choose([0, 1], None)
    tree.nodes[0].wanted = {0, 1}
    tree.end(None)
    assert tree.nodes[0].step is None
    assert tree.advance() and tree.nodes[0].chosen == 1 and tree.nodes[0].wanted == {1}
