"""What warp groups asked of ``setmaxnreg`` is kept until their own blocks end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from phasebit.emulator.checker.register_counts import RegisterCounts
from phasebit.emulator.findings import say


class Said:
    def __init__(self) -> None:
        self.messages: list[str] = []

    def report(self, kind: str, message: Any, *_: object) -> None:
        self.messages.append(str(message))


class Blocks(SimpleNamespace):
    """A batch of one block of 384 threads."""

    def __init__(self, number: int) -> None:
        super().__init__(blocks=np.array([number]), count=1, threads=384)

    __hash__ = object.__hash__  # type: ignore[assignment]


def test_the_end_of_one_batch_forgets_that_batch_alone() -> None:
    said: Any = Said()
    counts = RegisterCounts(None, said)  # type: ignore[arg-type]
    batches: list[Any] = [Blocks(0), Blocks(7), Blocks(9)]
    for batch in batches:
        for group in (0, 1):
            counts.agreed[batch, 0, group] = [("inc", 232, say("there"))]
            counts.last[batch, 0, group] = None
        counts.done[batch, 3] = 1
    for left, batch in zip((2, 1, 0), batches, strict=True):
        counts.ends(batch)
        for kept in (counts.agreed, counts.done, counts.last):
            assert {key[0] for key in kept} == {*batches[len(batches) - left :]}
    assert [f"of block {number} " in message for number, message in
            zip((0, 7, 9), said.messages, strict=True)] == [True] * 3  # fmt: skip
