"""The checks of *Barriers*: right answers pass, planted wrong ones are refused for their reason."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from phasebit.chapters.barriers import exercises as barriers
from phasebit.chapters.barriers.meetings import load
from phasebit.pipeline import mistakes, ring, steps
from phasebit.pipeline.explore import explore
from phasebit.pipeline.ring import Ring
from phasebit.pipeline.steps import Step, add, arrive, fill, read, store, until, wait
from tests.book.notebooks import ROOT, solutions

CHAPTER = next(ROOT.glob("book/*/??_barriers.ipynb"))


def verdict(check: object, *answers: object) -> str:
    return check.verdict(*answers)  # type: ignore[attr-defined, no-any-return]


def skeleton(*arguments: object) -> object:
    return ...


@pytest.mark.parametrize(
    ("check", "answers"),
    [
        (barriers.stage_and_phase, [skeleton]),
        (barriers.counts, [skeleton]),
        (barriers.one_test, [...]),
        (barriers.seven_runs, [dict.fromkeys(barriers.CASES, ...)]),
        (barriers.seven_runs, [...]),
        (barriers.whole_ring, [None, None]),
        (barriers.whole_ring, [skeleton, skeleton]),
        (barriers.works_ahead, [None]),
        (barriers.works_ahead, [skeleton]),
        (barriers.meeting, [skeleton]),
    ],
)
def test_skeletons_are_not_answered_yet(check: object, answers: list[object]) -> None:
    assert verdict(check, *answers).endswith(": not answered yet")


def test_a_check_prints_its_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    barriers.one_test(None)
    assert capsys.readouterr().out == "one_test: not answered yet\n"


class TestStageAndPhase:
    def test_right(self) -> None:
        assert "OK" in verdict(barriers.stage_and_phase, lambda i, s: (i % s, i // s % 2))
        assert "OK" in verdict(barriers.stage_and_phase, lambda i, s: (i % s, i // s & 1))

    @pytest.mark.parametrize(
        "wrong",
        [
            lambda i, s: (i % s, i & 1),  # flips with every item
            lambda i, s: (i % s, i // s),  # a round, not a bit
            lambda i, s: (i % s, 0),  # never flips
            lambda i, s: (i % 2, i // 2 & 1),  # two slots only
            lambda i, s: (i % s, (i // s + 1) % 2),  # the producer's
        ],
    )
    def test_wrong(self, wrong: object) -> None:
        assert "not right yet" in verdict(barriers.stage_and_phase, wrong)

    def test_a_list_is_as_good_as_a_tuple(self) -> None:
        assert "OK" in verdict(barriers.stage_and_phase, lambda i, s: [i % s, i // s % 2])

    def test_an_exception_is_told(self) -> None:
        assert "raises ZeroDivisionError" in verdict(barriers.stage_and_phase, lambda i, s: 1 // 0)


class TestCounts:
    def test_right(self) -> None:
        def answer(warps: int, lanes: int, BM: int, BN: int, BK: int, size: int) -> object:
            return 1, warps * lanes, (BM + BN) * BK * size

        assert "OK" in verdict(barriers.counts, answer)

    @pytest.mark.parametrize(
        "wrong",
        [
            lambda w, n, BM, BN, BK, s: (2, w * n, (BM + BN) * BK * s),  # one for each copy
            lambda w, n, BM, BN, BK, s: (1, w * 32, (BM + BN) * BK * s),  # every lane, always
            lambda w, n, BM, BN, BK, s: (1, w, (BM + BN) * BK * s),
            lambda w, n, BM, BN, BK, s: (1, w * n, (BM + BN) * BK),  # elements, not bytes
            lambda w, n, BM, BN, BK, s: (1, w * n, BM * BK * s),  # A alone
            lambda w, n, BM, BN, BK, s: (1, w * n, BM * BN * s),  # the output's tile
        ],
    )
    def test_wrong(self, wrong: object) -> None:
        assert "not right yet" in verdict(barriers.counts, wrong)

    @pytest.mark.parametrize("shape", [7, (1, 2), "abc!"])
    def test_another_shape_is_told(self, shape: object) -> None:
        said = verdict(barriers.counts, lambda *case: shape)
        assert said.endswith(f"give three numbers, (full, empty, bytes), not {shape!r}")


class TestOneTest:
    @pytest.mark.parametrize("answer", [Ring(2, 5, 2, BK=16), Ring(3, 7, 2, BK=16)])
    def test_right(self, answer: Ring) -> None:
        assert "OK" in verdict(barriers.one_test, answer)

    @pytest.mark.parametrize(
        ("wrong", "why"),
        [
            (Ring(4, 4, 2, BK=16), "lets 'a missing arrive' pass"),
            (Ring(2, 5, 1, BK=16), "lets 'wrong count: one for all consumers' pass"),
            (Ring(2, 5, 2), "lets 'index from k instead of k / BK' pass"),
            (Ring(2, 5, 2, BK=2), "lets 'index from k instead of k / BK' pass"),
            (Ring(1, 5, 2, BK=16), 'lets "waiting on the wrong barrier: another slot\'s" pass'),
            (Ring(2, 13, 2, BK=16), "at most"),
            (Ring(2, 5, 2, BK=16, empty_count=1), "choose only"),
            ((2, 5), "give a Ring"),
        ],
    )
    def test_wrong(self, wrong: object, why: str) -> None:
        assert why in verdict(barriers.one_test, wrong)


def serial_producer(r: Ring) -> Iterator[Step]:
    """Right, but through one slot."""
    for i in range(r.items):
        yield wait(r.empty[0], (i & 1) ^ 1)
        yield from fill(0, item=i)
        yield arrive(r.full[0])


def serial_consumer(r: Ring) -> Iterator[Step]:
    for i in range(r.items):
        yield wait(r.full[0], i & 1)
        yield from read(0)
        yield arrive(r.empty[0])


def endless(r: Ring) -> Iterator[Step]:
    while True:
        yield arrive(r.full[0])


IN_A_PROGRAM = [
    m
    for m in mistakes.MISTAKES
    if (m.producer, m.consumer) != (ring.producer, ring.consumer)  # in a count
    and "bytes" not in m.name
    and "index from k" not in m.name  # right when BK is 1
]


class TestRepair:
    def test_right(self) -> None:
        assert "OK" in verdict(barriers.whole_ring, ring.producer, ring.consumer)

    @pytest.mark.parametrize("mistake", IN_A_PROGRAM, ids=lambda m: m.name)
    def test_every_mistake_of_programs_is_refused(self, mistake: mistakes.Mistake) -> None:
        assert "not right yet" in verdict(barriers.whole_ring, mistake.producer, mistake.consumer)

    def test_one_slot_for_all_is_refused(self) -> None:
        said = verdict(barriers.whole_ring, serial_producer, serial_consumer)
        assert "never are all slots full at once" in said

    def test_a_consumer_that_reads_nothing_is_refused_for_that(self) -> None:
        said = verdict(barriers.whole_ring, ring.producer, mistakes.never_reads)
        assert "an item is never read" in said, said

    def test_a_program_without_steps_is_told(self) -> None:
        assert "a program is a generator of steps, not int" in verdict(
            barriers.whole_ring, lambda r: 7, ring.consumer
        )

    def test_endless_programs_and_wrong_slots_are_told(self) -> None:
        assert "does its loop end?" in verdict(barriers.whole_ring, endless, ring.consumer)
        assert "no slot 9" in verdict(barriers.whole_ring, lambda r: fill(9, item=0), ring.consumer)


def ahead(r: Ring, early: bool = False, own: bool = False, last: bool = True) -> Iterator[Step]:
    """A consumer that works ahead: right, or with one mistake."""
    stage, phase, slot, end = 0, 0, 0, None
    for _ in range(r.items):
        yield wait(r.full[stage], phase)
        begin, ends = read(stage)
        yield begin
        if end and early:
            yield from (arrive(r.empty[slot]), end)
        elif end:
            yield from (end, arrive(r.empty[stage if own else slot]))
        slot, end = stage, ends
        stage, phase = ring.advance(stage, phase, r.stages)
    if end and last:
        yield from (end, arrive(r.empty[slot]))


class TestWorksAhead:
    def test_right(self) -> None:
        assert "OK" in verdict(barriers.works_ahead, ahead)

    @pytest.mark.parametrize(
        ("wrong", "why"),
        [
            (ring.consumer, "items=2, consumers=1 it is clean, but a read does not end right"),
            (lambda r: ahead(r, early=True), "a slot is overwritten before it is read"),
            (lambda r: ahead(r, own=True), "a barrier is misused"),
            (lambda r: ahead(r, last=False), "a read never ends"),
        ],
    )
    def test_wrong(self, wrong: object, why: str) -> None:
        said = verdict(barriers.works_ahead, wrong)
        assert "not right yet" in said and why in said, said

    def test_with_one_slot_it_waits_for_ever(self) -> None:
        assert explore(Ring(1, 1).system(ring.producer, ahead)).clean
        found = explore(Ring(1, 2).system(ring.producer, ahead))
        assert found.failure and found.failure.kind.value == "deadlock"


Meeting = Generator[Step, int, None]


def by_phase(n: int) -> Meeting:
    """The counter counts, the phase signals."""
    phase = yield load("phase")
    before = yield add("count", 1)
    if before == n - 1:
        yield store("count", 0)
        yield store("phase", phase ^ 1)
    else:
        yield until("phase", "!=", phase)


def by_spinning(n: int) -> Meeting:
    """The same, with a loop in place of until."""
    phase = yield load("phase")
    if (yield add("count", 1)) == n - 1:
        yield store("count", 0)
        yield store("phase", phase + 1)
    else:
        while (yield load("phase")) == phase:
            pass


def counter_only(n: int) -> Meeting:
    yield add("count", 1)
    yield until("count", ">=", n)


def back_to_zero(n: int) -> Meeting:
    """The last one resets; the others wait for zero, and may miss it."""
    if (yield add("count", 1)) == n - 1:
        yield store("count", 0)
    else:
        yield until("count", "==", 0)


def lost_update(n: int) -> Meeting:
    phase = yield load("phase")
    count = yield load("count")
    yield store("count", count + 1)
    if count == n - 1:
        yield store("count", 0)
        yield store("phase", phase ^ 1)
    else:
        yield until("phase", "!=", phase)


def signals_before_reset(n: int) -> Meeting:
    phase = yield load("phase")
    if (yield add("count", 1)) == n - 1:
        yield store("phase", phase ^ 1)
        yield store("count", 0)
    else:
        yield until("phase", "!=", phase)


def looks_too_late(n: int) -> Meeting:
    before = yield add("count", 1)
    phase = yield load("phase")
    if before == n - 1:
        yield store("count", 0)
        yield store("phase", phase ^ 1)
    else:
        yield until("phase", "!=", phase)


def never_waits(n: int) -> Meeting:
    yield add("count", 1)


def spins_for_ever(n: int) -> Meeting:
    while (yield load("phase")) == 0:
        pass


def flips_nothing(n: int) -> Meeting:
    """Right once: the phase is 1 for ever after."""
    phase = yield load("phase")
    if (yield add("count", 1)) == n - 1:
        yield store("count", 0)
        yield store("phase", 1)
    else:
        yield until("phase", "!=", phase)


def for_two(n: int) -> Meeting:
    phase = yield load("phase")
    if (yield add("count", 1)) == 1:
        yield store("count", 0)
        yield store("phase", phase ^ 1)
    else:
        yield until("phase", "!=", phase)


def all_reset(n: int) -> Meeting:
    phase = yield load("phase")
    if (yield add("count", 1)) == n - 1:
        yield store("phase", phase ^ 1)
    yield until("phase", "!=", phase)
    yield store("count", 0)


def in_one_expression(n: int) -> Meeting:
    """The counter is read twice in one expression, which keeps the first value out of sight."""
    phase = yield load("phase")
    yield add("count", 1)
    if (yield load("count")) + (yield load("count")) == 2 * n:
        yield store("count", 0)
        yield store("phase", phase ^ 1)
    else:
        yield until("phase", "!=", phase)


def chases(n: int) -> Meeting:
    """Both go on taking back what the other one said."""
    yield add("count", 1)
    while (yield load("count")) < n:
        yield add("count", -1)
        yield add("count", 1)
        if (yield load("phase")) == 2:
            return


def grows(n: int) -> Meeting:
    while (yield add("count", 1)) >= 0:
        pass


def spins_around_two(n: int) -> Meeting:
    """A deadlock in which everybody is busy."""
    while (yield load("phase")) == 0 and (yield load("count")) == 0:
        pass


def ever_counting(n: int) -> Meeting:
    """Right without a reset: the counter grows, and the phase with it."""
    before = yield add("count", 1)
    if before % n == n - 1:
        yield add("phase", 1)
    yield until("phase", ">", before // n)


def from_a_list(n: int) -> Meeting:
    """Right, and its last thread yields two steps from a list."""
    phase = yield load("phase")
    if (yield add("count", 1)) == n - 1:
        yield from [store("count", 0), store("phase", 1 - phase)]
    else:
        yield until("phase", "!=", phase)


class TestMeeting:
    @pytest.mark.parametrize("right", [by_phase, by_spinning, ever_counting, from_a_list])
    def test_right(self, right: object) -> None:
        assert "OK" in verdict(barriers.meeting, right)

    @pytest.mark.parametrize(
        ("wrong", "why"),
        [
            (counter_only, "2 threads, 2 meetings: thread 0 leaves meeting 1 before thread 1 has"),
            (back_to_zero, "deadlock"),
            (lost_update, ""),
            (signals_before_reset, "deadlock"),
            (looks_too_late, "deadlock"),
            (never_waits, "2 threads, 1 meeting: thread 0 leaves meeting 0 before thread 1 has"),
            (spins_for_ever, "deadlock, thread 0 at load phase"),
            (flips_nothing, "2 threads, 2 meetings: "),
            (for_two, "3 threads, 1 meeting: thread 1 leaves meeting 0 before"),
            (all_reset, ""),
            (in_one_expression, ""),
            (chases, "leaves meeting 1 before"),
            (grows, "does a variable grow for ever"),
            (spins_around_two, "from here on the threads never end"),
            (lambda n: (yield add("count", 1 // (n - n))), "raises ZeroDivisionError"),
            (lambda n: [add("count", 1)], "meet is a generator"),
            (lambda n: (yield add("counter", 1)), "yield load, store, add or until"),
            (lambda n: (yield arrive("count")), "yield load, store, add or until"),
        ],
    )
    def test_wrong(self, wrong: object, why: str) -> None:
        said = verdict(barriers.meeting, wrong)
        assert "not right yet" in said and why in said, said


class TestSevenRuns:
    def test_right(self) -> None:
        assert "OK" in verdict(barriers.seven_runs, dict(barriers.CASES))

    @pytest.mark.parametrize(
        ("wrong", "why"),
        [
            ({**barriers.CASES, "B": "wrong count: one too many"}, "6 of 7 are right; not B"),
            ({**barriers.CASES, "A": barriers.CASES["E"], "E": barriers.CASES["A"]}, "not A, E"),
            ({**barriers.CASES, "C": ...}, "not C"),
            ({**barriers.CASES, "D": "too early"}, "'too early' is none of barriers.CHOICES"),
            ({"A": "a missing arrive"}, "give a dictionary with the letters A, B, C, D, E, F, G"),
            (["a missing arrive"], "give a dictionary"),
        ],
    )
    def test_wrong(self, wrong: object, why: str) -> None:
        said = verdict(barriers.seven_runs, wrong)
        assert "not right yet" in said and why in said

    def test_no_two_runs_are_alike(self) -> None:
        runs = [barriers.failing_run(letter).shortest for letter in barriers.CASES]
        assert len({str(run.events) for run in runs if run}) == len(barriers.CASES)

    def test_every_run_fails_and_a_letter_that_none_has_is_refused(self) -> None:
        assert not any(barriers.failing_run(letter).clean for letter in barriers.CASES)
        with pytest.raises(ValueError, match="no run 'H': choose from A, B, C"):
            barriers.failing_run("H")


def test_the_folded_solutions_are_right() -> None:
    names: dict = dict(vars(steps)) | {"Ring": Ring, "advance": ring.advance, "load": load}
    for text in solutions(CHAPTER):
        exec(text, names)
    for check, *answers in (
        (barriers.stage_and_phase, "stage_and_phase"),
        (barriers.counts, "counts"),
        (barriers.one_test, "one_test"),
        (barriers.seven_runs, "names"),
        (barriers.whole_ring, "my_producer", "my_consumer"),
        (barriers.works_ahead, "ahead"),
        (barriers.meeting, "meet"),
    ):
        assert "OK" in verdict(check, *(names[answer] for answer in answers)), answers
