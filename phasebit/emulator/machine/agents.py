"""Asynchronous work: what goes on while the threads that started it go on.

An *agent* is a piece of work under way, such as the copies of one ``cp.async``
instruction.  When it is done is the schedule's choice:

``eager``   at once, as if copies took no time
``late``    at the last moment: when somebody waits for it
``random``  now, or later, by the launch's seed

A correct kernel gives the same result under all three.  One that reads before it
has waited reads stale bytes under ``late``, every time.
"""

from __future__ import annotations

from typing import Any

from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.ptx.types import Array


class Agent:
    """Work under way: ``start`` begins it, ``finish`` does it.

    ``signals``: others may wait for its end.
    """

    def __init__(self, batch: Batch, signals: bool) -> None:
        self.batch = batch
        self.signals = signals
        self.done = False

    def start(self) -> None:
        """Put the work under way, as the schedule says."""
        machine = self.batch.machine
        machine.agents.append(self)
        if machine.schedule == "eager" or (
            machine.schedule == "random" and machine.random.random() < 0.5
        ):
            self.finish()

    def finish(self) -> None:
        """Do the work, once."""
        if self.done:
            return
        self.done = True
        machine = self.batch.machine
        machine.changes += 1
        if self in machine.agents:
            machine.agents.remove(self)
        self.work()

    def work(self) -> None:
        raise NotImplementedError


class ThreadCopy(Agent):
    """The copies of one ``cp.async``: for each thread some bytes from global to shared memory."""

    def __init__(
        self, batch: Batch, lanes: Array, target: Array, source: Array, width: int, bytes_: Any,
        number: Array, access: int,
    ) -> None:  # fmt: skip
        super().__init__(batch, False)
        self.lanes = lanes
        self.target = target
        self.source = source
        self.width = width
        self.bytes = bytes_
        """Bytes to read, for each thread; the rest of the target is filled with zeros."""
        self.number = number
        """The commit group of each thread that the copy belongs to."""
        self.access = access
        """The number of the instruction."""
        self.started = batch.machine.now

    def work(self) -> None:
        memory = self.batch.machine.memory.u1
        for k in range(self.width):
            inside = k < self.bytes
            memory[self.target + k] = memory[self.source + k * inside] * inside


class CopiesArrive(Agent):
    """``cp.async.mbarrier.arrive``: an arrival once the thread's earlier copies are done."""

    def __init__(self, batch: Batch, copies: list[Agent], arrive: Any) -> None:
        super().__init__(batch, True)
        self.copies = copies
        self.arrive = arrive

    def work(self) -> None:
        for copy in self.copies:
            copy.finish()
        self.arrive()


__all__ = ["Agent", "CopiesArrive", "ThreadCopy"]
