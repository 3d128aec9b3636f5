"""The explorer: rings that are right are clean, planted mistakes are found, by a shortest run."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle, product

import pytest

from phasebit.mbarrier import Mbarrier
from phasebit.pipeline.explore import StateLimitError, explore
from phasebit.pipeline.interleaving import walk
from phasebit.pipeline.mistakes import MISTAKES, Mistake, expects_each, never_reads
from phasebit.pipeline.moves import Broken, Kind, Machine, State
from phasebit.pipeline.ring import Ring, advance, consumer, copying_producer, producer
from phasebit.pipeline.steps import (
    Step,
    System,
    add,
    arrive,
    arrive_drop,
    copy,
    fill,
    read,
    store,
    until,
    wait,
)

by_name = pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.name)


def size(ring: Ring) -> tuple[int, int, int]:
    """What "smallest" means: fewest stages, then consumers, then items."""
    return ring.stages, ring.consumers, ring.items


SMALL = [
    replace(Ring(1, 1), stages=s, consumers=c, items=n)
    for s, c, n in product(range(1, 4), range(1, 3), range(1, 6))
]


class TestAdvance:
    @pytest.mark.parametrize("stages", range(1, 6))
    def test_is_division_with_remainder_without_dividing(self, stages: int) -> None:
        stage, phase = 0, 0
        for i in range(30):
            assert (stage, phase) == (i % stages, i // stages % 2)
            stage, phase = advance(stage, phase, stages)


class TestRightRings:
    @pytest.mark.drawn
    @pytest.mark.parametrize("consumers", [1, 2])
    @pytest.mark.parametrize("stages", [1, 2, 3, 4])
    def test_clean_for_1_to_12_items(self, stages: int, consumers: int) -> None:
        for items in range(1, 13):
            found = explore(Ring(stages, items, consumers).system(producer, consumer))
            assert found.clean, found

    @pytest.mark.parametrize("stages", [1, 2, 3])
    def test_three_consumers(self, stages: int) -> None:
        assert explore(Ring(stages, 4, 3).system(producer, consumer)).clean

    @pytest.mark.parametrize(("parts", "consumers"), [(1, 1), (2, 1), (2, 2)])
    @pytest.mark.parametrize("stages", [1, 2, 3])
    def test_asynchronous_copies(self, stages: int, parts: int, consumers: int) -> None:
        for items in range(1, 6):
            ring = Ring(stages, items, consumers, parts=parts)
            found = explore(ring.system(copying_producer, consumer))
            assert found.clean, found

    @pytest.mark.parametrize("stages", [1, 2, 3, 4])
    def test_producer_gets_ahead_by_the_stages_and_no_further(self, stages: int) -> None:
        """No ring is clean by going one item at a time: the slots are really used."""
        machine = Machine(Ring(stages, 6).system(producer, consumer))
        most = max(
            sum(p.filled and bool(p.unread) for p in state.parts) for state in reachable(machine)
        )
        assert most == stages

    @pytest.mark.parametrize(("stages", "consumers"), [(1, 1), (1, 2), (2, 2), (3, 1)])
    def test_nobody_is_ever_more_than_one_phase_late(self, stages: int, consumers: int) -> None:
        """Why one bit is enough: each wait asks for the current phase or the one before."""
        system = Ring(stages, 7, consumers).system(producer, consumer)
        machine = Machine(system)
        meant = {}  # (thread, position) -> the phase that the wait there is for
        for thread, steps in enumerate(machine.programs):
            waits = [at for at, step in enumerate(steps) if step.do == "wait"]
            for item, at in enumerate(waits):
                meant[thread, at] = item // stages - (thread == 0)  # the producer: one round back
        seen = 0
        for state in reachable(machine):
            for thread, at in enumerate(state.at):
                if (thread, at) in meant:
                    barrier = Mbarrier()
                    name = machine.programs[thread][at].on
                    barrier.restore(state.barriers[machine.barrier_index[str(name)]])
                    assert barrier.in_reach(meant[thread, at])
                    assert barrier.test_wait_parity(meant[thread, at] & 1) is (
                        meant[thread, at] < barrier.phase
                    )
                    seen += 1
        assert seen > 50


class TestMistakes:
    def test_there_are_enough_and_all_kinds_occur(self) -> None:
        assert len(MISTAKES) >= 8
        assert {m.fails for m in MISTAKES} == set(Kind)

    @by_name
    def test_the_diff_is_taken_from_the_sources(self, mistake: Mistake) -> None:
        def lines(*functions: Callable[..., object]) -> set[str]:
            return {line.strip() for f in functions for line in inspect.getsource(f).splitlines()}

        right = lines(expects_each, mistake.repaired_producer, mistake.repaired_consumer)
        wrong = lines(mistake.init, mistake.producer, mistake.consumer)
        shown = mistake.diff.splitlines()
        assert {line[1:].strip() for line in shown if line[0] == "-"} <= right
        assert {line[1:].strip() for line in shown if line[0] == "+"} <= wrong
        assert {line[0] for line in shown} >= {" "} or "init" in mistake.diff
        assert any(line[0] in "+-" for line in shown)

    def test_a_diff_is_short_and_names_the_program(self) -> None:
        mistake = next(m for m in MISTAKES if m.name == "wrong initial phase: the producer's")
        assert mistake.diff == (
            "producer:\n"
            "     for i in range(ring.items):\n"
            "-        yield wait(ring.empty[stage], phase ^ 1)\n"
            "+        yield wait(ring.empty[stage], phase)\n"
            "         yield from fill(stage, item=i)"
        )

    @by_name
    def test_fails_so_in_its_smallest_ring(self, mistake: Mistake) -> None:
        failure = explore(mistake.broken()).failure
        assert failure is not None
        assert failure.kind is mistake.fails

    @pytest.mark.drawn
    @by_name
    def test_repaired_it_is_clean_everywhere(self, mistake: Mistake) -> None:
        for stages, consumers, items in map(size, SMALL):
            ring = replace(mistake.smallest, stages=stages, consumers=consumers, items=items)
            found = explore(mistake.repaired(ring))
            assert found.clean, (ring, found)

    @by_name
    def test_nothing_smaller_fails(self, mistake: Mistake) -> None:
        for stages, consumers, items in map(size, SMALL):
            ring = replace(mistake.smallest, stages=stages, consumers=consumers, items=items)
            if size(ring) < size(mistake.smallest):
                assert explore(mistake.broken(ring)).clean, ring

    @by_name
    def test_no_run_with_fewer_steps_fails(self, mistake: Mistake) -> None:
        """Against a search with neither memory nor levels: all runs, one by one."""
        found = explore(mistake.broken())
        assert found.shortest is not None
        length = len(found.shortest.events)
        assert not fails_within(Machine(mistake.broken()), length - 1)
        assert fails_within(Machine(mistake.broken()), length)

    @by_name
    def test_the_run_can_be_replayed_and_drawn(self, mistake: Mistake) -> None:
        run = explore(mistake.broken()).shortest
        assert run is not None and run.failure is not None
        broke_a_rule = not run.failure.waiting and not run.failure.who
        assert len(run.states) == len(run.events) + (0 if broke_a_rule else 1)
        text = str(run.timeline)
        assert run.failure.what in text
        assert run.failure.what.replace("'", "&#x27;") in run.timeline.svg()

    def test_parity_never_flipped_passes_a_test_of_one_round(self) -> None:
        mistake = next(m for m in MISTAKES if m.name.startswith("parity never flipped"))
        for stages in (1, 2, 3, 4):
            assert explore(mistake.broken(Ring(stages, stages))).clean
            assert not explore(mistake.broken(Ring(stages, stages + 1))).clean

    def test_index_by_k_is_clean_but_useless_when_BK_is_the_number_of_stages(self) -> None:
        mistake = next(m for m in MISTAKES if m.name.startswith("index from k"))
        system = mistake.broken(Ring(2, 6, BK=2))
        assert explore(system).clean
        assert {s.on for program in system.threads.values() for s in program if s.do == "fill"} == {
            0
        }


class TestEveryConsumerReadsEveryItem:
    """A ring whose consumers do not read is never clean, in whatever way they fail to."""

    @pytest.mark.parametrize("ring", SMALL, ids=str)
    def test_one_that_never_reads(self, ring: Ring) -> None:
        failure = explore(ring.system(producer, never_reads)).failure
        assert failure is not None and failure.kind is Kind.LOST

    def test_its_waits_and_arrivals_are_right(self) -> None:
        """Nobody but the rule about reading notices: without it the ring is clean."""
        system = Ring(2, 6, 2).system(producer, never_reads)
        assert explore(replace(system, readers=())).clean

    def test_the_picture_blames_who_did_not_read(self) -> None:
        drawn = explore(Ring(1, 1).system(producer, never_reads)).timeline
        lines = str(drawn).splitlines()
        assert "step 6, consumer: consumer never reads item 0" in lines
        assert [line.split() for line in lines if line.startswith("6")] == [["6", "!", "ends"]]

    def test_one_of_two_that_never_reads(self) -> None:
        ring = Ring(2, 3, 2)
        system = ring.system(producer, consumer)
        threads = {**system.threads, "consumer 1": never_reads(ring)}
        failure = explore(replace(system, threads=threads)).failure
        assert failure is not None and failure.kind is Kind.LOST
        assert failure.what == "item 2 goes into slot 0 over item 0, and consumer 1 never reads it"

    @pytest.mark.parametrize("ring", SMALL, ids=str)
    def test_one_that_skips_the_last_item(self, ring: Ring) -> None:
        def skips_the_last(ring: Ring) -> Iterator[Step]:
            for step in consumer(ring):
                if seen[0] < 2 * (ring.items - 1) or step.do not in ("read", "done"):
                    yield step
                seen[0] += step.do in ("read", "done")

        seen = [0]
        failure = explore(replace(ring, consumers=1).system(producer, skips_the_last)).failure
        assert failure is not None and failure.kind is Kind.LOST
        assert failure.what == f"consumer never reads item {ring.items - 1}"

    def test_empty_programs(self) -> None:
        found = explore(Ring(1, 1, 2).system(lambda ring: iter(()), lambda ring: iter(())))
        assert found.failure is not None and found.failure.kind is Kind.LOST
        assert found.failure.what == "consumer 0 never reads item 0"

    def test_a_reader_must_be_a_thread(self) -> None:
        with pytest.raises(ValueError, match="no thread 'c' to read; there are t"):
            System({"t": [*read(0)]}, 1, 0, readers=["c"])


class TestOneBarrierForBoth:
    """Even phases mean empty, odd ones full: a flag, and no better than one."""

    @staticmethod
    def system(consumers: int, items: int) -> System:
        def fills() -> Iterator[Step]:
            for i in range(items):
                yield wait("slot", 1)
                yield from fill(0, item=i)
                yield arrive("slot", consumers)

        def reads() -> Iterator[Step]:
            for _ in range(items):
                yield wait("slot", 0)
                yield from read(0)
                yield arrive("slot")

        threads = {"producer": fills()} | {f"consumer {c}": reads() for c in range(consumers)}
        return System(threads, 1, items, {"slot": consumers})

    def test_is_right_for_one_consumer(self) -> None:
        assert all(explore(self.system(1, items)).clean for items in range(1, 6))

    def test_fails_with_two_as_the_counter_does(self) -> None:
        failure = explore(self.system(2, 2)).failure
        assert failure is not None and failure.kind is Kind.WRONG_ITEM


def reachable(machine: Machine) -> set[State]:
    """All states, by depth-first search."""
    seen, stack = {machine.start}, [machine.start]
    while stack:
        state = stack.pop()
        for event, who in machine.possible(state):
            after = machine.take(state, event.step, who)
            if after not in seen:
                seen.add(after)
                stack.append(after)
    return seen


def fails_within(machine: Machine, length: int) -> bool:
    """Whether some run of at most ``length`` steps fails; remembers no state."""

    def search(state: State, left: int) -> bool:
        stuck = True
        for event, who in machine.possible(state):
            stuck = False
            if left == 0:
                break
            try:
                after = machine.take(state, event.step, who)
            except Broken:
                return True
            if search(after, left - 1):
                return True
        return stuck and machine.verdict(state) is not None

    return length >= 0 and search(machine.start, length)


class TestCounting:
    def test_two_threads_of_one_step_have_two_interleavings_and_four_states(self) -> None:
        found = explore(System({"a": [store("x", 1)], "b": [store("y", 1)]}, 0, 0,
                               cells={"x": 0, "y": 0}))  # fmt: skip
        assert (found.interleavings, found.states) == (2, 4)

    @pytest.mark.parametrize(("n", "m"), [(1, 3), (2, 2), (4, 3)])
    def test_independent_threads_interleave_binomially(self, n: int, m: int) -> None:
        from math import comb

        found = explore(System({"a": [add("x", 1)] * n, "b": [add("y", 1)] * m}, 0, 0,
                               cells={"x": 0, "y": 0}))  # fmt: skip
        assert found.interleavings == comb(n + m, n)
        assert found.states == (n + 1) * (m + 1)

    def test_against_a_search_without_memory(self) -> None:
        system = Ring(2, 2).system(producer, consumer)
        machine = Machine(system)

        def runs(state: State) -> int:
            moves = list(machine.possible(state))
            return sum(runs(machine.take(state, e.step, who)) for e, who in moves) or 1

        found = explore(system)
        assert found.interleavings == runs(machine.start)
        assert found.states == len(reachable(machine))

    def test_said_in_few_words(self) -> None:
        assert str(explore(Ring(1, 1).system(producer, consumer))) == (
            "clean: 1 interleaving, 9 states"
        )
        big = str(explore(Ring(4, 12).system(producer, consumer)))
        assert big == "clean: 3.3e+24 interleavings, 577 states"

    def test_limit(self) -> None:
        with pytest.raises(StateLimitError, match="more than 10 states"):
            explore(Ring(2, 4).system(producer, consumer), limit=10)


class TestRules:
    """Each rule of the machine, broken by the smallest program that can break it."""

    def failure(self, *programs: list[Step], **shared: object) -> Kind | None:
        threads = {f"t{n}": program for n, program in enumerate(programs)}
        found = explore(System(threads, **{"slots": 1, "items": 0, **shared}))  # type: ignore[arg-type]
        return None if found.failure is None else found.failure.kind

    def test_read_of_a_slot_never_filled(self) -> None:
        assert self.failure([*read(0)]) is Kind.READ_TOO_EARLY

    def test_read_while_filling(self) -> None:
        begin, end = fill(0, item=0)
        programs = (
            [begin, store("go", 1), until("go", "==", 2), end],
            [until("go", "==", 1), *read(0)],
        )
        assert self.failure(*programs, cells={"go": 0}) is Kind.READ_TOO_EARLY

    def test_read_while_a_copy_is_in_flight(self) -> None:
        program = [copy(0, 0, "full", 16), *read(0)]
        assert self.failure(program, barriers={"full": 1}) is Kind.READ_TOO_EARLY

    def test_overwriting_an_unread_item(self) -> None:
        assert self.failure([*fill(0, item=0), *fill(0, item=1)], [until("x", "==", 1), *read(0)],
                            cells={"x": 0}) is Kind.OVERWRITTEN  # fmt: skip

    def test_two_threads_filling_one_slot(self) -> None:
        assert self.failure([*fill(0, item=0)], [*fill(0, item=0)]) is Kind.OVERWRITTEN

    def test_the_same_item_twice(self) -> None:
        assert self.failure([*fill(0, item=0), *read(0), *read(0)]) is Kind.WRONG_ITEM

    def test_items_out_of_order(self) -> None:
        assert self.failure([*fill(0, item=1), *read(0)]) is Kind.WRONG_ITEM

    def test_an_item_never_read(self) -> None:
        assert self.failure([*fill(0, item=0), *read(0)], items=2) is Kind.LOST

    def test_deadlock_of_two_who_wait_for_each_other(self) -> None:
        barriers = {"a": 1, "b": 1}
        programs = [wait("a", 0), arrive("b")], [wait("b", 0), arrive("a")]
        assert self.failure(*programs, barriers=barriers) is Kind.DEADLOCK

    def test_one_stuck_thread_is_a_deadlock_though_others_finish(self) -> None:
        assert (
            self.failure([wait("a", 0)], [add("x", 1)], barriers={"a": 1}, cells={"x": 0})
            is Kind.DEADLOCK
        )

    def test_misuse(self) -> None:
        assert self.failure([arrive("a", 2)], barriers={"a": 1}) is Kind.MISUSE
        assert self.failure([arrive_drop("a")], barriers={"a": 1}) is Kind.MISUSE

    def test_clean(self) -> None:
        assert self.failure([*fill(0, item=0), *read(0)], items=1) is None

    def test_deadlock_names_barrier_phase_and_who_could_still_arrive(self) -> None:
        found = explore(System({"a": [wait("x", 0), arrive("y")], "b": [wait("y", 0), arrive("x")]},
                               0, 0, {"x": 1, "y": 3}))  # fmt: skip
        assert str(found.shortest).splitlines() == [
            "deadlock, after 0 steps: a and b wait for ever",
            "  a waits for parity 0 of x, which is in phase 0: 1 of 1 arrivals missing, only",
            "    b could still arrive, after a wait that never ends",
            "  b waits for parity 0 of y, which is in phase 0: 3 of 3 arrivals missing, only",
            "    a could still arrive, after a wait that never ends",
        ]

    def test_a_deadlock_is_preferred_to_a_broken_step_of_the_same_level(self) -> None:
        """a, b leave c stuck after two steps; a, c passes, c reads fails after three."""
        threads = {"c": [until("x", "==", 1), *read(0)], "a": [store("x", 1)], "b": [store("x", 2)]}
        found = explore(System(threads, 1, 0, cells={"x": 0}))
        assert found.shortest is not None and found.failure is not None
        assert (found.failure.kind, len(found.shortest.events)) == (Kind.DEADLOCK, 2)


class TestSystem:
    @pytest.mark.parametrize(
        ("program", "complaint"),
        [
            ([wait("ful[0]", 0)], "t, step 0 .*: no barrier 'ful\\[0\\]'; there are full\\[0\\]"),
            (
                [arrive("full[0]"), *fill(7, item=0)],
                "t, step 1 .*: no slot 7; there are slots 0 to 1",
            ),
            ([copy(0, 0, "nowhere", 8)], "no barrier 'nowhere'"),
            ([*fill(0, 0, part=2)], "no part 2; a slot has parts 0 to 0"),
            ([add("n", 1)], "no shared variable 'n'; there are none"),
        ],
    )
    def test_unknown_names_are_refused(self, program: list[Step], complaint: str) -> None:
        with pytest.raises(ValueError, match=complaint):
            System({"t": program}, 2, 0, {"full[0]": 1})

    def test_a_forgotten_from_is_named(self) -> None:
        with pytest.raises(ValueError, match=r"t, step 0: generator is no step; .* 'yield from'"):
            System({"t": [fill(0, item=0)]}, 1, 0)  # type: ignore[list-item]

    def test_endless_programs_are_refused(self) -> None:
        with pytest.raises(ValueError, match="t has more than 10,000 steps: does its loop end"):
            System({"t": cycle([arrive("a")])}, 0, 0, {"a": 1})

    @pytest.mark.parametrize("field", ["stages", "items", "consumers", "parts", "BK"])
    def test_rings_of_nothing_are_refused(self, field: str) -> None:
        with pytest.raises(ValueError, match=f"a ring needs {field} of at least 1, not 0"):
            replace(Ring(1, 1), **{field: 0})

    @pytest.mark.parametrize("wrong", ["2", 2.0, None, True])
    def test_rings_of_something_else_are_refused(self, wrong: object) -> None:
        with pytest.raises(TypeError, match="a ring needs stages as a whole number, not"):
            Ring(wrong, 3)  # type: ignore[arg-type]

    def test_a_slot_that_is_not_there_is_named(self) -> None:
        ring = Ring(2, 3)
        with pytest.raises(IndexError, match=r"full\[7\]: the ring has slots 0 to 1"):
            ring.full[7]
        with pytest.raises(IndexError, match=r"empty\[2\]: the ring has slots 0 to 1"):
            ring.empty[2]
        assert (ring.full[-1], ring.empty[:1]) == ("full[1]", ("empty[0]",))

    def test_a_program_that_is_no_generator_is_refused(self) -> None:
        with pytest.raises(TypeError, match="consumer: a program is a generator of steps, not int"):
            Ring(1, 1).system(producer, lambda ring: 7)  # type: ignore[arg-type, return-value]

    def test_unknown_relation(self) -> None:
        with pytest.raises(ValueError, match="use one of"):
            until("n", "=", 1)


class TestWalk:
    @pytest.mark.parametrize("seed", range(20))
    def test_every_walk_of_a_clean_ring_is_clean(self, seed: int) -> None:
        run = walk(Ring(2, 5, 2).system(producer, consumer), seed)
        assert run.failure is None
        assert len(run.states) == len(run.events) + 1

    def test_same_seed_same_walk(self) -> None:
        system = Ring(2, 5, 2).system(producer, consumer)
        assert walk(system, 7) == walk(system, 7)
        assert walk(system, 7).events != walk(system, 8).events

    @by_name
    def test_what_walks_find_the_explorer_finds_no_later(self, mistake: Mistake) -> None:
        system = mistake.broken()
        shortest = explore(system).shortest
        assert shortest is not None
        failing = [run for seed in range(30) if (run := walk(system, seed)).failure]
        assert all(len(run.events) >= len(shortest.events) for run in failing)

    def test_random_programs_never_crash_and_agree(self) -> None:
        """Programs without sense: the explorer finds a failure whenever a walk does."""
        for seed in range(150):
            system = nonsense(random.Random(seed))
            found = explore(system)
            walks = [walk(system, s) for s in range(10)]
            if found.clean:
                assert all(run.failure is None for run in walks)
            else:
                assert found.shortest is not None
                assert not fails_within(Machine(system), len(found.shortest.events) - 1)


def nonsense(draw: random.Random) -> System:
    """Two threads of a few random steps."""

    def steps() -> Iterator[Step]:
        for _ in range(draw.randint(1, 3)):
            match draw.randrange(6):
                case 0:
                    yield wait(draw.choice("ab"), draw.randrange(2))
                case 1:
                    yield arrive(draw.choice("ab"))
                case 2:
                    yield from fill(0, item=draw.randrange(2))
                case 3:
                    yield from read(0)
                case 4:
                    yield copy(0, draw.randrange(2), draw.choice("ab"), 8)
                case 5:
                    yield arrive_drop(draw.choice("ab"))

    return System({"p": list(steps()), "q": list(steps())}, 1, draw.randrange(2), {"a": 1, "b": 2})
