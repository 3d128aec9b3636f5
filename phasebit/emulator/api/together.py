"""Launches that run at the same time, on one device or several.

    together = Together()
    together.begin(execution)       # prepared with ``seat=together.seat(…)``
    while together.running:
        ended = together.advance()
"""

from __future__ import annotations

from collections.abc import Callable

from phasebit.emulator.api.execution import Execution
from phasebit.emulator.errors import EmulatorError
from phasebit.emulator.machine.company import Company, Seat


class Together:
    """The launches that run now, each an :class:`Execution` whose seat is one of these."""

    def __init__(self) -> None:
        self.company = Company()
        self.running: list[Execution] = []
        self.ends: dict[int, int] = {}
        """Launch -> the clock at its end."""

    def seat(
        self, number: int, device: int, after: int = 0, also: frozenset[int] = frozenset(),
        reaches: Callable[[int], bool] = lambda device: True,
    ) -> Seat:  # fmt: skip
        """A place for one more; see :class:`Seat`."""
        return Seat(self.company, number, device, after, also, reaches)

    def begin(self, execution: Execution) -> None:
        """A launch begins, when all that it comes after have ended."""
        seat: Seat = execution.machine.seat
        before = [end for number, end in self.ends.items() if seat.knows(number)]
        self.running.append(execution)
        self.company.joins(execution.machine, max(before, default=0))

    def advance(self) -> tuple[Execution, EmulatorError | None] | None:
        """One turn of one launch; the launch that has ended with it, and of what.

        When all spin and none can change what another waits for, each ends with that livelock.
        """
        machine = self.company.next()
        if machine is None:
            error = self.company.livelock()
            assert isinstance(error, EmulatorError)
            return self.running[0], self._over(self.running[0], error)
        execution = next(each for each in self.running if each.machine is machine)
        try:
            with execution.attempt():
                going = machine.advance()
        except EmulatorError as failure:
            return execution, self._over(execution, failure)
        if going:
            return None
        return execution, self._over(execution, None)

    def give_up(self) -> None:
        """All that run end here."""
        for execution in list(self.running):
            self._over(execution, None)

    def forget(self, below: int) -> None:
        """Launches with lower numbers come before whatever runs or will begin."""
        if self.company.board is not None:
            self.company.board.forget(below)
        if below and self.ends:
            last = max(self.ends.values())
            for number in [n for n in self.ends if n < below]:
                del self.ends[number]
            self.ends[below - 1] = last

    def _over(self, execution: Execution, error: EmulatorError | None) -> EmulatorError | None:
        self.running.remove(execution)
        self.company.leaves(execution.machine)
        execution.over()
        board = self.company.board
        if board is not None and execution.machine.seat.number in board.launches:
            board.launches[execution.machine.seat.number].ended()
        self.ends[execution.machine.seat.number] = execution.cycles
        return error


__all__ = ["Together"]
