"""The ring of slots with one parity bit, in the words that CUDA kernels use.

Slots are numbered from 0, item ``i`` lives in slot ``i % stages``. Each slot has
two barriers: *full* (the consumer may read) and *empty* (the producer may
write). A producer or consumer carries two numbers around the ring: the stage it
is at, and a phase bit that flips whenever it wraps.
"""

from __future__ import annotations


def advance(stage: int, phase: int, stages: int) -> tuple[int, int]:
    """The next (stage, phase): one slot further; at the end wrap, and flip the bit.

    >>> advance(0, 0, stages=2), advance(1, 0, stages=2), advance(1, 1, stages=2)
    ((1, 0), (0, 1), (0, 0))
    """
    stage += 1
    if stage == stages:
        stage = 0
        phase ^= 1
    return stage, phase
