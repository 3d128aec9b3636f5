"""Tensor operations under way: a queue for each thread that issues them (PTX ISA 9.7.16.6).

``tcgen05.mma`` returns at once; the tensor core works through what a thread has issued in
the order in which it was issued.  ``tcgen05.commit`` goes into the same queue: when its turn
comes all before it are done, and it arrives at an mbarrier.  When the queue moves is the
schedule's choice (:mod:`~phasebit.emulator.agents`): under ``late`` only when somebody waits,
so that the operands are read as late as a tensor core may read them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from phasebit.emulator.agents import Agent, start
from phasebit.emulator.tensor_memory import tensor_memory

if TYPE_CHECKING:
    from phasebit.emulator.machine import Batch


class TensorWork(Agent):
    """One operation of a thread's queue."""

    def __init__(
        self, batch: Batch, lane: int, action: Callable[[], None], signals: bool = False
    ) -> None:
        super().__init__(batch, signals)
        self.action = action
        self.queue = tensor_memory(batch).queues.setdefault(lane, [])

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


def issue(
    batch: Batch, lane: int, action: Callable[[], None], *, signals: bool = False
) -> None:
    """Put an operation into the queue of a thread; ``signals``: it tells somebody."""
    work = TensorWork(batch, lane, action, signals)
    work.queue.append(work)
    start(batch.machine, work)


__all__ = ["TensorWork", "issue"]
