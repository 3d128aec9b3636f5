"""What warp groups asked of ``setmaxnreg`` is kept until their own blocks end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

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


@pytest.mark.parametrize(("asked", "says"), [
    ([("inc", 240), ("dec", 40), ("dec", 40)], ""), ([("inc", 168)] * 3, ""),
    ([("inc", 176), ("dec", 160), ("dec", 168)], ""),
    ([("inc", 176), ("dec", 168), ("dec", 168)],
     "setmaxnreg.inc 176 waits for ever: 384 threads begin with at most 168 registers each, and "),
    ([("inc", 232), ("inc", 240), ("dec", 48)],
     "setmaxnreg.inc 240 waits for ever: 3 warp groups of block 7 ask for 232 + 240 + 48 registers "
     "a thread, 66560 in all, and a multiprocessor has 65536: at 1"),
    ([("inc", 232), ("dec", 160)], "384 threads begin with at most 168 registers each, and the "
     "other warp groups of block 7 have not given back enough: at 0; let them execute"),
    ([("dec", 176), ("dec", 168), ("dec", 176)], ""), ([("inc", 176)], "at most 168"),
    ([("inc", 168)], ""),
])  # fmt: skip
def test_more_registers_than_a_block_has(asked: list[tuple[str, int]], says: str) -> None:
    """A block of 384 threads begins with at most 168 each, of 65536 in all."""
    said: Any = Said()
    counts = RegisterCounts(None, said)  # type: ignore[arg-type]
    batch: Any = Blocks(7)
    for group, (word, number) in enumerate(asked):
        counts.agreed[batch, 0, group] = [("dec", 24, say("before")), (word, number,
                                                                      say("at {}", group))]
    counts.agreed[Blocks(8), 0, 0] = [("inc", 240, say("elsewhere"))]  # type: ignore[index]
    counts._starved(batch)
    assert len(said.messages) == bool(says)
    assert not says or says in said.messages[0]


def test_one_warp_group_may_have_all_256() -> None:
    said: Any = Said()
    counts = RegisterCounts(None, said)  # type: ignore[arg-type]
    batch: Any = Blocks(7)
    batch.threads = 128
    counts.agreed[batch, 0, 0] = [("inc", 256, say("there"))]
    counts._starved(batch)
    assert said.messages == []
