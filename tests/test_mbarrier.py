"""The mbarrier, rule by rule (PTX ISA 9.1, 9.7.13.15), and against a naive model."""

from __future__ import annotations

import doctest
import subprocess
import sys

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

import phasebit.mbarrier
from phasebit.mbarrier import MAX_COUNT, Mbarrier, MbarrierError, Rule, pending_count


def broken(rule: Rule) -> pytest.RaisesExc[MbarrierError]:
    """Expect an error that names this rule and its section."""
    return pytest.raises(
        MbarrierError, match=f"PTX ISA {rule.section}", check=lambda e: e.rule is rule
    )


def test_docstring_examples() -> None:
    assert doctest.testmod(phasebit.mbarrier).failed == 0


def test_imports_nothing_outside_the_standard_library() -> None:
    code = (
        "import sys; import phasebit.mbarrier; "
        "print([m for m in ('numpy', 'IPython', 'matplotlib') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


class Test_9_7_13_15_2_Contents:
    @pytest.mark.parametrize("count", [1, 2, MAX_COUNT])
    def test_expected_count_from_1_to_2_20_minus_1(self, count: int) -> None:
        barrier = Mbarrier(count)
        assert (barrier.expected, barrier.pending) == (count, count)

    @pytest.mark.parametrize("count", [0, -1, MAX_COUNT + 1])
    def test_expected_count_outside_is_refused(self, count: int) -> None:
        with broken(Rule.COUNT_RANGE):
            Mbarrier(count)

    def test_pending_count_does_not_fall_below_zero(self) -> None:
        barrier = Mbarrier(2)
        barrier.expect_tx(16)  # keeps the phase open
        barrier.arrive(2)
        assert barrier.pending == 0
        with broken(Rule.PENDING_RANGE):
            barrier.arrive()

    def test_arrive_with_more_than_is_pending(self) -> None:
        with broken(Rule.PENDING_RANGE):
            Mbarrier(2).arrive(3)

    @pytest.mark.parametrize("count", [0, -1, MAX_COUNT + 1])
    def test_count_operand_range(self, count: int) -> None:
        with broken(Rule.COUNT_RANGE):
            Mbarrier(1).arrive(count)

    def test_tx_count_may_be_negative(self) -> None:
        barrier = Mbarrier(1)
        barrier.complete_tx(MAX_COUNT)
        assert barrier.tx == -MAX_COUNT
        with broken(Rule.TX_RANGE):
            barrier.complete_tx(1)

    def test_tx_count_upper_end(self) -> None:
        barrier = Mbarrier(1)
        barrier.expect_tx(MAX_COUNT)
        with broken(Rule.TX_RANGE):
            barrier.expect_tx(1)
        with broken(Rule.TX_RANGE):
            barrier.arrive_expect_tx(1)
        assert (barrier.tx, barrier.pending) == (MAX_COUNT, 1), "a refused operation does nothing"

    @pytest.mark.parametrize("nbytes", [-1, MAX_COUNT + 1])
    def test_bytes_operand_range(self, nbytes: int) -> None:
        with broken(Rule.BYTES_RANGE):
            Mbarrier(1).expect_tx(nbytes)
        with broken(Rule.BYTES_RANGE):
            Mbarrier(1).complete_tx(nbytes)


ANY_OPERATION = [
    lambda b: b.inval(),
    lambda b: b.arrive(),
    lambda b: b.arrive_no_complete(1),
    lambda b: b.arrive_drop(),
    lambda b: b.arrive_drop_no_complete(1),
    lambda b: b.arrive_expect_tx(4),
    lambda b: b.arrive_drop_expect_tx(4),
    lambda b: b.add_pending(),
    lambda b: b.expect_tx(4),
    lambda b: b.complete_tx(4),
    lambda b: b.test_wait(0),
    lambda b: b.test_wait_parity(0),
]


class Test_9_7_13_15_3_Lifecycle:
    @pytest.mark.parametrize("operation", ANY_OPERATION)
    def test_only_init_on_bare_memory(self, operation: object) -> None:
        with broken(Rule.INITIALISED):
            operation(Mbarrier())  # type: ignore[operator]

    @pytest.mark.parametrize("operation", ANY_OPERATION)
    def test_only_init_after_inval(self, operation: object) -> None:
        barrier = Mbarrier(3)
        barrier.inval()
        with broken(Rule.INITIALISED):
            operation(barrier)  # type: ignore[operator]

    def test_init_after_inval_starts_afresh(self) -> None:
        barrier = Mbarrier(1)
        barrier.arrive()
        barrier.inval()
        barrier.init(5)
        assert barrier.snapshot() == Mbarrier(5).snapshot()

    def test_init_on_a_live_barrier_is_refused(self) -> None:
        with broken(Rule.INIT_ONCE):
            Mbarrier(1).init(1)


class Test_9_7_13_15_4_Phase:
    def test_reinitialised_for_the_next_phase(self) -> None:
        barrier = Mbarrier(2)
        for phase in range(5):
            assert (barrier.phase, barrier.pending) == (phase, 2)
            barrier.arrive()
            barrier.arrive()
            assert barrier.test_wait_parity(phase & 1)

    def test_a_phase_must_be_seen_complete_before_the_next_arrival(self) -> None:
        barrier = Mbarrier(1)
        barrier.arrive()
        with broken(Rule.OBSERVED):
            barrier.arrive()
        assert barrier.test_wait_parity(0)
        barrier.arrive()

    def test_a_failing_wait_is_no_observation(self) -> None:
        barrier = Mbarrier(1)
        barrier.arrive()
        assert not barrier.test_wait_parity(1)
        with broken(Rule.OBSERVED):
            barrier.arrive()

    def test_the_check_can_be_left_out(self) -> None:
        barrier = Mbarrier(1, check_observed=False)
        barrier.arrive()
        barrier.arrive()
        assert barrier.phase == 2


class Test_9_7_13_15_5_Transactions:
    def test_expect_tx_keeps_the_phase_open(self) -> None:
        barrier = Mbarrier(1)
        barrier.arrive_expect_tx(128)
        assert (barrier.phase, barrier.pending, barrier.tx) == (0, 0, 128)
        barrier.complete_tx(96)
        assert barrier.phase == 0
        barrier.complete_tx(32)
        assert (barrier.phase, barrier.pending, barrier.tx) == (1, 1, 0)

    def test_complete_tx_is_no_arrival(self) -> None:
        barrier = Mbarrier(1)
        barrier.expect_tx(8)
        barrier.complete_tx(8)
        assert (barrier.phase, barrier.pending) == (0, 1)

    def test_bytes_may_land_before_they_are_expected(self) -> None:
        barrier = Mbarrier(1)
        barrier.complete_tx(64)
        assert barrier.phase == 0
        barrier.arrive_expect_tx(64)
        assert barrier.phase == 1

    def test_a_negative_count_keeps_the_phase_open_too(self) -> None:
        barrier = Mbarrier(1)
        barrier.complete_tx(64)
        barrier.arrive()
        assert (barrier.phase, barrier.pending, barrier.tx) == (0, 0, -64)

    def test_expect_tx_alone_never_completes(self) -> None:
        barrier = Mbarrier(1)
        barrier.complete_tx(64)
        barrier.arrive()
        barrier.expect_tx(64)
        assert (barrier.phase, barrier.pending, barrier.tx) == (0, 0, 0)

    def test_expecting_nothing_is_allowed(self) -> None:
        barrier = Mbarrier(1)
        barrier.arrive_expect_tx(0)
        assert barrier.phase == 1


class Test_9_7_13_15_13_Arrive:
    def test_token_names_the_phase_before_the_arrival(self) -> None:
        barrier = Mbarrier(1)
        token = barrier.arrive()
        assert barrier.phase == 1
        assert barrier.test_wait(token)

    def test_count_takes_many_at_once(self) -> None:
        barrier = Mbarrier(32)
        barrier.arrive(32)
        assert barrier.phase == 1

    def test_no_complete_must_not_complete(self) -> None:
        barrier = Mbarrier(4)
        barrier.arrive_no_complete(3)
        assert barrier.pending == 1
        with broken(Rule.NO_COMPLETE):
            barrier.arrive_no_complete(1)

    def test_no_complete_may_be_the_last_arrival_while_bytes_are_out(self) -> None:
        barrier = Mbarrier(1)
        barrier.expect_tx(16)
        barrier.arrive_no_complete(1)
        barrier.complete_tx(16)
        assert barrier.phase == 1


class Test_9_7_13_15_14_ArriveDrop:
    def test_later_phases_expect_fewer(self) -> None:
        barrier = Mbarrier(3)
        barrier.arrive_drop()
        assert (barrier.phase, barrier.pending, barrier.expected) == (0, 2, 2)
        barrier.arrive(2)
        assert (barrier.phase, barrier.pending) == (1, 2)

    def test_the_last_participant_cannot_drop(self) -> None:
        barrier = Mbarrier(1)
        with broken(Rule.EXPECTED_RANGE):
            barrier.arrive_drop()
        assert barrier.snapshot() == Mbarrier(1).snapshot()

    def test_no_complete(self) -> None:
        barrier = Mbarrier(3)
        barrier.arrive_drop_no_complete(2)
        assert (barrier.pending, barrier.expected) == (1, 1)
        barrier = Mbarrier(3)
        barrier.arrive(1)
        with broken(Rule.NO_COMPLETE):
            barrier.arrive_drop_no_complete(2)
        assert barrier.expected == 3

    def test_expect_tx(self) -> None:
        barrier = Mbarrier(2)
        barrier.arrive_drop_expect_tx(8)
        assert (barrier.pending, barrier.expected, barrier.tx) == (1, 1, 8)
        barrier.arrive()
        barrier.complete_tx(8)
        assert (barrier.phase, barrier.pending) == (1, 1)


class Test_9_7_13_15_15_CpAsyncArrive:
    def test_one_more_pending_then_one_arrival_is_net_zero(self) -> None:
        barrier = Mbarrier(1)
        barrier.add_pending()
        barrier.arrive()
        assert barrier.phase == 0
        barrier.arrive()  # by the copies
        assert (barrier.phase, barrier.pending) == (1, 1)

    def test_limit(self) -> None:
        with broken(Rule.PENDING_RANGE):
            Mbarrier(MAX_COUNT).add_pending()


class Test_9_7_13_15_16_Wait:
    def test_fresh_barrier_answers_true_for_parity_1(self) -> None:
        """The producer's first wait."""
        assert Mbarrier(1).test_wait_parity(1)
        assert not Mbarrier(1).test_wait_parity(0)

    @pytest.mark.parametrize("completed", range(6))
    def test_parity_of_the_preceding_phase_is_complete(self, completed: int) -> None:
        barrier = Mbarrier(1, check_observed=False)
        for _ in range(completed):
            barrier.arrive()
        assert barrier.test_wait_parity(completed & 1) is False  # the current phase
        assert barrier.test_wait_parity(completed & 1 ^ 1) is True  # the one before

    @pytest.mark.parametrize("parity", [-1, 2])
    def test_parity_is_a_bit(self, parity: int) -> None:
        with broken(Rule.PARITY_RANGE):
            Mbarrier(1).test_wait_parity(parity)

    def test_token_of_the_current_phase_is_not_complete(self) -> None:
        barrier = Mbarrier(2)
        assert not barrier.test_wait(barrier.arrive())

    def test_token_from_further_back_is_refused(self) -> None:
        barrier = Mbarrier(1)
        token = barrier.arrive()
        assert barrier.test_wait(token)
        barrier.arrive()
        with broken(Rule.WAIT_REACH):
            barrier.test_wait(token)

    def test_one_phase_late_is_told_the_truth_two_phases_late_is_not(self) -> None:
        """Aliasing: phases n and n + 2 have the same parity, so the bit lies."""
        barrier = Mbarrier(1)
        meant = 0
        barrier.arrive()
        assert barrier.in_reach(meant) and barrier.test_wait_parity(meant & 1)
        barrier.arrive()
        assert not barrier.in_reach(meant)
        assert not barrier.test_wait_parity(meant & 1), "phase 0 is complete; the bit says no"

    def test_waiting_changes_nothing_that_others_see(self) -> None:
        barrier = Mbarrier(2)
        before = repr(barrier)
        barrier.test_wait_parity(0)
        barrier.test_wait_parity(1)
        assert repr(barrier) == before


def test_9_7_13_15_17_pending_count_of_a_token() -> None:
    barrier = Mbarrier(5)
    assert [pending_count(barrier.arrive(n)) for n in (1, 3, 1)] == [5, 4, 1]
    big = Mbarrier(MAX_COUNT)
    assert pending_count(big.arrive(MAX_COUNT)) == MAX_COUNT


def test_errors_are_sentences_that_name_barrier_rule_and_section() -> None:
    with pytest.raises(MbarrierError) as caught:
        Mbarrier(2, name="full[3]").arrive(3)
    assert str(caught.value) == (
        "full[3]: arrive of 3 with 2 of 2 pending in phase 0; "
        "the pending count lies between 0 and 1048575 (PTX ISA 9.7.13.15.2)"
    )


def test_snapshot_and_restore() -> None:
    barrier = Mbarrier(3)
    barrier.arrive_expect_tx(7)
    other = Mbarrier()
    other.restore(barrier.snapshot())
    assert other.snapshot() == barrier.snapshot()
    assert hash(other.snapshot()) == hash(barrier.snapshot())


class Naive(RuleBasedStateMachine):
    """A barrier as the list of everything that ever happened to it, recounted each time.

    Independent of the class under test: it keeps no counters, only events since
    the phase began, and decides completion by adding them up.
    """

    def __init__(self) -> None:
        super().__init__()
        self.real = Mbarrier(4, check_observed=False)
        self.expected = 4
        self.next_expected = 4
        self.arrivals: list[int] = []
        self.traffic: list[int] = []
        self.completed: list[tuple[int, int]] = []
        self.tokens: list[tuple[int, int]] = []
        self.invited = 0  # by cp.async.mbarrier.arrive without .noinc, in this phase

    def left(self) -> int:
        return self.expected + self.invited - sum(self.arrivals)

    def settle(self) -> None:
        if self.left() == 0 and sum(self.traffic) == 0:
            self.completed.append((len(self.arrivals), self.expected))
            self.arrivals, self.traffic, self.invited = [], [], 0
            self.expected = self.next_expected

    @precondition(lambda self: self.left() > 0)
    @rule(data=st.data())
    def arrive(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(1, self.left()))
        before = self.left()
        token = self.real.arrive(count)
        assert pending_count(token) == before
        self.tokens.append((token, len(self.completed)))
        self.arrivals.append(count)
        self.settle()

    @precondition(lambda self: self.left() > 0)
    @rule(nbytes=st.integers(0, 3))
    def arrive_expect_tx(self, nbytes: int) -> None:
        self.real.arrive_expect_tx(nbytes)
        self.traffic.append(nbytes)
        self.arrivals.append(1)
        self.settle()

    @precondition(lambda self: self.left() > 0 and self.next_expected > 1)
    @rule()
    def arrive_drop(self) -> None:
        self.real.arrive_drop()
        self.next_expected -= 1
        self.arrivals.append(1)
        self.settle()

    @precondition(lambda self: self.left() > 1)
    @rule(data=st.data())
    def arrive_no_complete(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(1, self.left() - 1))
        self.real.arrive_no_complete(count)
        self.arrivals.append(count)

    @precondition(lambda self: self.left() > 0 and self.next_expected > 1)
    @rule(nbytes=st.integers(0, 3))
    def arrive_drop_expect_tx(self, nbytes: int) -> None:
        self.real.arrive_drop_expect_tx(nbytes)
        self.next_expected -= 1
        self.traffic.append(nbytes)
        self.arrivals.append(1)
        self.settle()

    @rule()
    def add_pending(self) -> None:
        self.real.add_pending()
        self.invited += 1

    @rule(count=st.integers(1, 5))
    def reuse_the_memory(self, count: int) -> None:
        self.real.inval()
        self.real.init(count)
        self.expected = self.next_expected = count
        self.invited = 0
        self.arrivals, self.traffic, self.completed, self.tokens = [], [], [], []

    @rule(nbytes=st.integers(0, 3))
    def expect_tx(self, nbytes: int) -> None:
        self.real.expect_tx(nbytes)
        self.traffic.append(nbytes)

    @rule(nbytes=st.integers(0, 3))
    def complete_tx(self, nbytes: int) -> None:
        self.real.complete_tx(nbytes)
        self.traffic.append(-nbytes)
        self.settle()

    @rule()
    def too_many(self) -> None:
        before = self.real.snapshot()
        with pytest.raises(MbarrierError):
            self.real.arrive(self.left() + 1)
        assert self.real.snapshot() == before

    @rule()
    def look(self) -> None:
        phase = len(self.completed)
        assert self.real.phase == phase
        assert self.real.pending == self.left()
        assert self.real.tx == sum(self.traffic)
        assert self.real.test_wait_parity(phase % 2) is False
        assert self.real.test_wait_parity((phase + 1) % 2) is True
        for token, when in self.tokens:
            if when >= phase - 1:
                assert self.real.test_wait(token) is (when < phase)


TestAgainstNaiveModel = Naive.TestCase
TestAgainstNaiveModel.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda b: Mbarrier("3"), r"init\('3'\): give a whole number"),
        (lambda b: b.arrive("1"), r"arrive\('1'\): give a whole number"),
        (lambda b: b.arrive_drop(1.5), r"arrive_drop\(1.5\): give a whole number"),
        (lambda b: b.expect_tx("64"), r"expect_tx\('64'\): give a whole number"),
    ],
)
def test_a_count_that_is_no_number_is_named(use, said) -> None:
    with pytest.raises(TypeError, match=said):
        use(Mbarrier(2))


def test_a_parity_that_is_no_number_is_shown_as_it_was_given() -> None:
    with pytest.raises(MbarrierError, match=r"test_wait.parity\('0'\); a parity is 0 or 1"):
        Mbarrier(1).test_wait_parity("0")
