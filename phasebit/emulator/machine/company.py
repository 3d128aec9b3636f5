"""Launches that are on the machine at the same time: on several devices, or in several streams.

Each is a :class:`Machine` of its own; they share memory and one clock.  A turn goes to the launch
that is furthest behind by the clock (at random, where the schedule says so).  A launch of which
every thread spins or waits gives its turns away and looks again after ``REST`` turns of others.
When all launches spin, and none has done anything else since all of them looked again, nobody will
ever change what they wait for: that is a livelock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from phasebit.emulator.findings import Sentence, joined, say
from phasebit.emulator.machine.livelock import Watch, livelock
from phasebit.emulator.machine.scheduler import Machine
from phasebit.emulator.ptx.mangling import readable

REST = 16
"""Turns of others after which a launch that spins looks again."""


@dataclass(frozen=True)
class Seat:
    """A launch's place among those that may run at the same time.

    ``number``: as the program issued them, from 0.  ``after``: the launches below that number have
    ended before this one begins, and those of ``also`` too, as the host orders them.
    ``reaches``: whether its device may touch the memory of another.
    """

    company: Company
    number: int
    device: int
    after: int = 0
    also: frozenset[int] = frozenset()
    reaches: Callable[[int], bool] = field(default=lambda device: True)

    def knows(self, launch: int) -> bool:
        """Whether all that a launch did comes before this one."""
        return launch < self.after or launch in self.also


class Company:
    """The launches that run now.  ``board``: what the checker keeps for all of them."""

    def __init__(self) -> None:
        self.machines: list[Machine] = []
        self.board: Any = None
        self.rested: dict[Machine, int] = {}
        """For each that spins how many turns it has given away."""
        self.watches: dict[Machine, Watch | None] = {}
        """With which watch each began to look again; None: it has done something since."""

    def joins(self, machine: Machine, clock: int) -> None:
        """A launch begins, at this time."""
        machine.clock = clock
        self.machines.append(machine)
        self.watches[machine] = None
        machine.start_batch()

    def leaves(self, machine: Machine) -> None:
        """A launch has ended, or is given up."""
        machine.close()
        self.machines.remove(machine)
        self.rested.pop(machine, None)
        self.watches.pop(machine)
        for other in self.machines:
            self.watches[other] = None

    def next(self) -> Machine | None:
        """Whose turn it is; None: everybody spins, for good."""
        while True:
            at_work = [machine for machine in self.machines if machine.spins is None]
            if at_work:
                break
            if all(self.watches[machine] is machine.spins for machine in self.machines):
                return None
            for machine in self.machines:
                self._wake(machine)
                self.watches[machine] = machine.watch
        chosen = min(at_work, key=_time)
        if chosen.schedule == "random":
            chosen = chosen.random.choice(at_work)
        for machine in self.machines:
            if machine.spins is not None:
                self.rested[machine] = self.rested.get(machine, 0) + 1
                if self.rested[machine] >= REST:
                    self._again(machine)
        return chosen

    def _again(self, machine: Machine) -> None:
        """A launch that spins looks again; if it has been still so far, it may be so still."""
        still = self.watches[machine] is machine.spins
        self._wake(machine)
        self.watches[machine] = machine.watch if still else None

    def _wake(self, machine: Machine) -> None:
        self.rested[machine] = 0
        machine.look_again()

    def livelock(self) -> Exception:
        """The error for all of them."""
        parts: list[Sentence] = []
        for machine in self.machines:
            assert machine.spins is not None
            name = readable(machine.program.kernel.name)
            error = livelock(machine, machine.spins, machine.blocks - machine.next_block)
            parts.append(say("device {}, kernel {}: {}", machine.seat.device, name, error.sentence))
        return type(error)(joined("\n", parts))


def _time(machine: Machine) -> int:
    """Until when a launch has run."""
    return int(machine.running.time if machine.running is not None else machine.clock)


__all__ = ["Company", "Seat"]
