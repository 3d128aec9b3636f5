"""Cluster launch control: running blocks take over what has not started (PTX ISA 9.7.13.17).

A block asks for the launch of a cluster that has not begun to be cancelled, and does that
cluster's work itself.  The answer, 16 bytes whose layout PTX leaves open, says whether one was
cancelled and which.  No two answers name the same cluster, and what nobody cancels starts as
ever.

On a GPU an answer may also be "no" while clusters wait, for another kernel may want the
multiprocessor: so it is now and then under the schedule ``random``.
"""

from __future__ import annotations

import numpy as np

from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.program import Program
from phasebit.emulator.ptx.types import Array

RESIDENT = 2
"""Clusters that a program which steals work has on the machine at once: so that some are left."""

REFUSALS = 0.2
"""How often an answer is "no" without need, under the schedule ``random``."""

YES = 0x57EA1ED
"""The last word of an answer that names a cluster."""


NOWHERE = 0x7FFF_FFFF
"""Each coordinate of the block that an answer of "no" is asked for: beyond every grid."""


def asks(program: Program) -> bool:
    """Whether a program ever looks if an answer was a "yes"."""
    return any(chosen.entry.traits.sees_refusal for chosen in program.every())


def steals(program: Program) -> bool:
    """Whether a program asks for launches to be cancelled."""
    return any(chosen.entry.traits.engine == "launches" for chosen in program.every())


def cancel(batch: Batch) -> Array:
    """A block of a batch cancels the next cluster that has not started: 16 bytes, the answer."""
    machine = batch.machine
    answer = np.zeros(4, np.uint32)
    refused = machine.schedule == "random" and machine.random.random() < REFUSALS
    if machine.next_block < machine.blocks and not refused:
        first = machine.order[machine.next_block]
        machine.next_block += machine.cluster_size
        x, y, _ = machine.grid
        answer[:] = first % x, first // x % y, first // (x * y), YES
    return answer.view(np.uint8)


class Answer:
    """The side of a copy from which an answer comes: cancels when it is read, once."""

    space = "registers"

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.bytes: Array | None = None

    def read(self) -> Array:
        if self.bytes is None:
            self.bytes = cancel(self.batch)
        return self.bytes

    def write(self, data: Array) -> None:
        raise NotImplementedError("answers are sent, never received")

    def words(self, shift: int) -> Array:
        return np.zeros(0, np.int64)


__all__ = ["NOWHERE", "RESIDENT", "YES", "Answer", "asks", "cancel", "steals"]
