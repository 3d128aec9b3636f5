"""The mbarrier of PTX as a state machine (PTX ISA 9.1, section 9.7.13.15).

A barrier counts down to a signal. It is told how many arrivals to expect; each
arrival takes one off the pending count; when none is pending, and no byte of an
asynchronous copy is outstanding, the current *phase* completes: the phase
number goes up by one and the pending count starts again at the expected count.
Nothing has to be reset, so the same barrier serves every round of a ring.

    >>> full = Mbarrier(2, name="full[0]")
    >>> full.arrive(), full.arrive()       # tokens: the phase each arrival was part of
    (2, 1)
    >>> full.phase, full.pending           # phase 0 is complete, phase 1 is open
    (1, 2)
    >>> full.test_wait_parity(0)           # "has the phase of parity 0 completed?"
    True

A waiter names the phase it waits for by the token of its own arrival or by the
phase's parity, one bit. Hardware shows no more than that bit, and it is enough
as long as nobody is more than one phase late (see :meth:`Mbarrier.in_reach`).

The class executes the operations; it never blocks. ``mbarrier.try_wait`` is
``test_wait`` plus a scheduler that may suspend the thread for a while, so it
has no method of its own. Where the object lies and who may use it from afar
(9.7.13.15.1, 9.7.13.15.8), and memory ordering (``.release``, ``.acquire``,
``.relaxed`` and their scopes) are likewise the caller's business.
"""

from __future__ import annotations

from enum import Enum

MAX_COUNT = (1 << 20) - 1
"""The largest expected, pending and transaction count (9.7.13.15.2)."""

_TOKEN_SHIFT = 24  # the pending count of a token sits below the phase number


class Rule(Enum):
    """The rules that a program can break: the section that states it, and the rule."""

    INITIALISED = ("9.7.13.15.3", "a barrier must be initialised before any other operation")
    INIT_ONCE = ("9.7.13.15.9", "a live barrier must be invalidated before it is initialised again")
    COUNT_RANGE = ("9.7.13.15.2", f"a count lies between 1 and {MAX_COUNT}")
    PENDING_RANGE = ("9.7.13.15.2", f"the pending count lies between 0 and {MAX_COUNT}")
    EXPECTED_RANGE = ("9.7.13.15.2", f"the expected count lies between 1 and {MAX_COUNT}")
    TX_RANGE = ("9.7.13.15.2", f"the transaction count lies between -{MAX_COUNT} and {MAX_COUNT}")
    BYTES_RANGE = ("9.7.13.15.5", f"a number of bytes lies between 0 and {MAX_COUNT}")
    OBSERVED = (
        "9.7.13.15.4",
        "somebody must see a phase complete, by a successful wait, "
        "before anyone arrives in the next phase",
    )
    NO_COMPLETE = ("9.7.13.15.13", "an arrival with .noComplete must not complete the phase")
    PARITY_RANGE = ("9.7.13.15.16", "a parity is 0 or 1")
    WAIT_REACH = (
        "9.7.13.15.16",
        "a wait may ask only for the current phase or the one just before it",
    )

    @property
    def section(self) -> str:
        """The section of the PTX ISA that states the rule."""
        return self.value[0]

    @property
    def text(self) -> str:
        """The rule in one clause."""
        return self.value[1]


class MbarrierError(RuntimeError):
    """A program used a barrier in a way that the PTX ISA leaves undefined.

    ``barrier`` is its name, ``what`` the operation and why it cannot be, ``rule``
    the rule. The barrier is left as it was before the operation.
    """

    def __init__(self, barrier: str, what: str, rule: Rule) -> None:
        super().__init__(f"{barrier}: {what}; {rule.text} (PTX ISA {rule.section})")
        self.barrier = barrier
        self.what = what
        self.rule = rule


Snapshot = tuple[bool, int, int, int, int, bool]
"""The whole state of a barrier: live, phase, pending, expected, tx, observed."""


class Mbarrier:
    """One mbarrier object: phase, pending arrivals, expected arrivals, transaction bytes.

    ``Mbarrier(count)`` makes an initialised barrier, ``Mbarrier()`` the bare
    memory, on which only :meth:`init` is allowed (9.7.13.15.3). ``name`` is used
    in error messages. With ``check_observed=False`` the rule
    :attr:`Rule.OBSERVED` is not enforced; the state after the arrival is what
    counting makes it.

    The attributes are for reading; only the operations change them.

    ========== =================================================================
    live       initialised and not invalidated
    phase      how many phases have completed: the number of the current phase
    pending    arrivals that the current phase still waits for
    expected   arrivals that the next phase will wait for
    tx         bytes of asynchronous copies outstanding; negative for a moment
               when a copy finishes before it was expected
    observed   a wait has seen the phase before the current one complete
    ========== =================================================================
    """

    __slots__ = (
        "check_observed", "expected", "live", "name", "observed", "pending", "phase", "tx",
    )  # fmt: skip

    def __init__(
        self, count: int | None = None, *, name: str = "mbarrier", check_observed: bool = True
    ) -> None:
        self.name = name
        self.check_observed = check_observed
        self.live = False
        self.phase = self.pending = self.expected = self.tx = 0
        self.observed = True
        if count is not None:
            self.init(count)

    # Life (9.7.13.15.3)

    def init(self, count: int) -> None:
        """``mbarrier.init`` (9.7.13.15.9): phase 0, ``count`` arrivals expected and pending.

        Raises :class:`MbarrierError` when the barrier is live or ``count`` is
        outside 1 … 2^20 - 1, :class:`TypeError` when it is no whole number.
        """
        _whole("init", count)
        if self.live:
            raise MbarrierError(self.name, f"init({count}) on a live barrier", Rule.INIT_ONCE)
        if not 1 <= count <= MAX_COUNT:
            raise MbarrierError(self.name, f"init({count})", Rule.COUNT_RANGE)
        self.live = True
        self.phase = 0
        self.pending = self.expected = count
        self.tx = 0
        self.observed = True  # there is no phase before phase 0

    def inval(self) -> None:
        """``mbarrier.inval`` (9.7.13.15.10): the memory may be used for something else."""
        if not self.live:
            raise self._dead("inval()")
        self.live = False

    # Arriving (9.7.13.15.7): each returns a token that names the phase arrived in

    def arrive(self, count: int = 1) -> int:
        """``mbarrier.arrive`` (9.7.13.15.13): take ``count`` off the pending arrivals.

        Completes the phase when nothing is pending any more. Returns the token
        of the phase before the arrival, for :meth:`test_wait` and
        :func:`pending_count`. Raises :class:`MbarrierError` when fewer than
        ``count`` arrivals are pending.
        """
        token = self._begin_arrival("arrive", count)
        self.pending -= count
        self._complete_if_done()
        return token

    def arrive_no_complete(self, count: int) -> int:
        """``mbarrier.arrive.noComplete`` (9.7.13.15.13): an arrival that must not be the last.

        Raises :class:`MbarrierError` when it would complete the phase.
        """
        token = self._begin_arrival("arrive.noComplete", count)
        if self.pending == count and self.tx == 0:
            raise MbarrierError(
                self.name, f"arrive.noComplete({count}) with {count} pending", Rule.NO_COMPLETE
            )
        self.pending -= count
        return token

    def arrive_drop(self, count: int = 1) -> int:
        """``mbarrier.arrive_drop`` (9.7.13.15.14): arrive, and be expected no more.

        All later phases expect ``count`` arrivals fewer; the current one does
        not change. Raises :class:`MbarrierError` when nobody would be left.
        """
        self._check_drop("arrive_drop", count)
        token = self._begin_arrival("arrive_drop", count)
        self.expected -= count
        self.pending -= count
        self._complete_if_done()
        return token

    def arrive_drop_no_complete(self, count: int) -> int:
        """``mbarrier.arrive_drop.noComplete`` (9.7.13.15.14)."""
        self._check_drop("arrive_drop.noComplete", count)
        token = self.arrive_no_complete(count)
        self.expected -= count
        return token

    def arrive_expect_tx(self, nbytes: int) -> int:
        """``mbarrier.arrive.expect_tx`` (9.7.13.15.13): expect ``nbytes``, then arrive once."""
        tx = self._tx_after("arrive.expect_tx", nbytes, +1)
        token = self._begin_arrival("arrive.expect_tx", 1)
        self.tx = tx
        self.pending -= 1
        self._complete_if_done()
        return token

    def arrive_drop_expect_tx(self, nbytes: int) -> int:
        """``mbarrier.arrive_drop.expect_tx`` (9.7.13.15.14): expect, then arrive and drop one."""
        tx = self._tx_after("arrive_drop.expect_tx", nbytes, +1)
        self._check_drop("arrive_drop.expect_tx", 1)
        token = self._begin_arrival("arrive_drop.expect_tx", 1)
        self.tx = tx
        self.expected -= 1
        self.pending -= 1
        self._complete_if_done()
        return token

    def add_pending(self) -> None:
        """The first half of ``cp.async.mbarrier.arrive`` without ``.noinc`` (9.7.13.15.15).

        The current phase waits for one arrival more: the one that the copies
        themselves will make, by :meth:`arrive`, when they are done.
        """
        if not self.live:
            raise self._dead("cp.async.mbarrier.arrive")
        if self.pending == MAX_COUNT:
            raise MbarrierError(
                self.name, f"one arrival more than {self.pending} pending", Rule.PENDING_RANGE
            )
        self.pending += 1

    # Bytes of asynchronous copies (9.7.13.15.5)

    def expect_tx(self, nbytes: int) -> None:
        """``mbarrier.expect_tx`` (9.7.13.15.11): ``nbytes`` more are outstanding.

        By the letter of 9.7.13.15.5.1 this never completes a phase, even when it
        brings a negative transaction count back to zero with nobody pending.
        """
        self.tx = self._tx_after("expect_tx", nbytes, +1)

    def complete_tx(self, nbytes: int) -> None:
        """``mbarrier.complete_tx`` (9.7.13.15.12): ``nbytes`` have landed.

        Completes the phase when nothing else is outstanding. It moves no data:
        the copy did. It is no arrival.
        """
        self.tx = self._tx_after("complete_tx", nbytes, -1)
        self._complete_if_done()

    # Waiting (9.7.13.15.16)

    def test_wait(self, token: int) -> bool:
        """``mbarrier.test_wait`` by token: has the phase of that arrival completed?

        Raises :class:`MbarrierError` when the token is of a phase further back
        than the one just before the current.
        """
        if not self.live:
            raise self._dead("test_wait(token)")
        phase = token >> _TOKEN_SHIFT
        if not self.in_reach(phase):
            raise MbarrierError(
                self.name, f"wait for phase {phase} in phase {self.phase}", Rule.WAIT_REACH
            )
        return self._answer(phase < self.phase)

    def test_wait_parity(self, parity: int) -> bool:
        """``mbarrier.test_wait.parity``: is the phase of that parity the one just completed?

        True exactly when the current phase has the other parity. On a fresh
        barrier parity 1 therefore succeeds at once: "the phase before phase 0"
        counts as complete. That lets a producer find every slot empty in its
        first round without anybody having said so.

        The bit names the current phase or the one before. A waiter that means
        an older phase gets the answer for one of these two, and cannot know:
        see :meth:`in_reach`.
        """
        if not self.live:
            raise self._dead(f"test_wait.parity({parity!r})")
        if parity != 0 and parity != 1:
            raise MbarrierError(self.name, f"test_wait.parity({parity!r})", Rule.PARITY_RANGE)
        return self._answer(self.phase & 1 != parity)

    def in_reach(self, phase: int) -> bool:
        """Whether a wait may ask for ``phase``: it is the current one or the one just before.

        Outside this reach the parity lies. Phase ``n`` and phase ``n + 2`` have
        the same bit, so a waiter for phase ``n`` that looks when phase ``n + 2``
        is open is told "not complete", although phase ``n`` completed long ago.
        A checker that knows which phase each waiter means asks here.
        """
        return self.phase - 1 <= phase <= self.phase

    # The state as a value

    def snapshot(self) -> Snapshot:
        """The whole state as a hashable tuple."""
        return (self.live, self.phase, self.pending, self.expected, self.tx, self.observed)

    def restore(self, state: Snapshot) -> None:
        """Become what :meth:`snapshot` described."""
        self.live, self.phase, self.pending, self.expected, self.tx, self.observed = state

    def __repr__(self) -> str:
        if not self.live:
            return f"<{self.name}: not initialised>"
        bytes_out = f", {self.tx} bytes outstanding" if self.tx else ""
        return (
            f"<{self.name}: phase {self.phase} (parity {self.phase & 1}), "
            f"{self.pending} of {self.expected} pending{bytes_out}>"
        )

    # Shared steps

    def _begin_arrival(self, what: str, count: int) -> int:
        """Check an arrive-on operation and return its token; changes nothing."""
        _whole(what, count)
        if not self.live:
            raise self._dead(f"{what}({count})")
        if not 1 <= count <= MAX_COUNT:
            raise MbarrierError(self.name, f"{what}({count})", Rule.COUNT_RANGE)
        if count > self.pending:
            raise MbarrierError(
                self.name,
                f"{what} of {count} with {self.pending} of {self.expected} "
                f"pending in phase {self.phase}",
                Rule.PENDING_RANGE,
            )
        if not self.observed and self.check_observed:
            raise MbarrierError(
                self.name,
                f"{what} in phase {self.phase}, but nobody saw phase {self.phase - 1} complete",
                Rule.OBSERVED,
            )
        return self.phase << _TOKEN_SHIFT | self.pending

    def _check_drop(self, what: str, count: int) -> None:
        _whole(what, count)
        if self.live and count >= self.expected:
            raise MbarrierError(
                self.name, f"{what}({count}) with {self.expected} expected", Rule.EXPECTED_RANGE
            )

    def _tx_after(self, what: str, nbytes: int, sign: int) -> int:
        """The transaction count after an expect (+1) or a complete (-1); changes nothing."""
        _whole(what, nbytes)
        if not self.live:
            raise self._dead(f"{what}({nbytes})")
        if not 0 <= nbytes <= MAX_COUNT:
            raise MbarrierError(self.name, f"{what}({nbytes})", Rule.BYTES_RANGE)
        tx = self.tx + sign * nbytes
        if not -MAX_COUNT <= tx <= MAX_COUNT:
            raise MbarrierError(
                self.name, f"{what}({nbytes}) with {self.tx} outstanding", Rule.TX_RANGE
            )
        return tx

    def _complete_if_done(self) -> None:
        """Phase completion (9.7.13.15.6): no arrival pending and no byte outstanding."""
        if self.pending == 0 and self.tx == 0:
            self.phase += 1
            self.pending = self.expected
            self.observed = False

    def _answer(self, complete: bool) -> bool:
        if complete:
            self.observed = True
        return complete

    def _dead(self, what: str) -> MbarrierError:
        return MbarrierError(
            self.name, f"{what} on a barrier that is not initialised", Rule.INITIALISED
        )


def _whole(what: str, value: object) -> None:
    if not isinstance(value, int):
        raise TypeError(f"{what}({value!r}): give a whole number")


def pending_count(token: int) -> int:
    """``mbarrier.pending_count`` (9.7.13.15.17): how many were pending before that arrival."""
    return token & ((1 << _TOKEN_SHIFT) - 1)
