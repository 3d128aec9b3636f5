"""Tensor operations under way: a queue for each thread that issues them (PTX ISA 9.7.16.6).

``tcgen05.mma`` returns at once; the tensor core works through what a thread has issued in
the order in which it was issued.  ``tcgen05.commit`` goes into the same queue: when its turn
comes all before it are done, and it arrives at an mbarrier.  When the queue moves is the
schedule's choice (``machine.agents``): under ``late`` only when somebody waits,
so that the operands are read as late as a tensor core may read them.
"""

from __future__ import annotations

from collections.abc import Callable

from phasebit.emulator.machine.agents import Agent
from phasebit.emulator.machine.batch import Batch


class TensorWork(Agent):
    """One operation of a thread's queue."""

    def __init__(
        self, batch: Batch, lane: int, action: Callable[[], None], signals: bool = False
    ) -> None:
        super().__init__(batch, signals)
        self.action = action
        self.queue = batch.of(TensorQueues).by_thread.setdefault(lane, [])

    def finish(self) -> None:
        """Do all that was issued before, then this."""
        while not self.done:
            first = self.queue.pop(0)
            first.begin()

    def begin(self) -> None:
        """Do this one; it is the first of its queue."""
        super().finish()

    def work(self) -> None:
        self.action()


class TensorQueues:
    """The tensor operations under way of a batch."""

    def __init__(self, batch: Batch) -> None:
        self.by_thread: dict[int, list[TensorWork]] = {}
        """Lane -> its operations, in the order of issue."""


def issue(
    batch: Batch, lane: int, action: Callable[[], None], *, signals: bool = False
) -> None:
    """Put an operation into the queue of a thread; ``signals``: it tells somebody."""
    work = TensorWork(batch, lane, action, signals)
    work.queue.append(work)
    work.start()


__all__ = ["TensorWork", "issue"]
