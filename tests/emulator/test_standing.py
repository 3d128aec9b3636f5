"""Where threads stand, in words: of one block, of several alike, of those that run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from phasebit.emulator.findings import Sentence, Threads, say
from phasebit.emulator.machine.standing import deadlock, not_started, position, standing
from phasebit.emulator.machine.waiting import Waiting


class Batch:
    """Blocks of 64 threads, lanes counted through."""

    def describe(self, lanes: list[int]) -> Threads:
        return Threads.of(lanes[0] // 64, [lane % 64 for lane in lanes], 64)


BATCH = Batch()


def group(*lanes: int) -> Any:
    """A group of threads; each is another key, as groups are."""

    class Group(SimpleNamespace):
        __hash__ = object.__hash__

    return Group(batch=BATCH, lanes=[*lanes])


def waits(what: str = "barrier 0", why: str | Sentence = "") -> Waiting:
    return Waiting(what, say("at 3"), (lambda: why) if why else None)


def test_nobody_and_somebody() -> None:
    assert str(standing(None, None, {})) == "no thread has begun"
    assert str(standing(group(0, 1), say("line 7"), {})) == "threads 0-1 of block 0 stand at line 7"
    parked = {group(*range(32)): waits(), group(70): waits("barrier 1")}
    assert str(standing(None, None, parked)) == (
        "warp 0 of block 0 wait for barrier 0; thread 6 of block 1 wait for barrier 1"
    )
    both = str(standing(group(40), say("x"), parked))
    assert both.startswith(
        "thread 40 of block 0 stand at x; warp 0 of block 0 wait for barrier 0; "
    )


def test_blocks_that_wait_alike_are_told_once() -> None:
    parked = {group(*range(64 * block, 64 * block + 32)): waits() for block in range(4)}
    assert str(standing(None, None, parked)) == (
        "warp 0 of block 0 wait for barrier 0; so do those of blocks 1-3"
    )
    text = str(deadlock(parked, 2)).splitlines()
    assert text == [
        "deadlock: every thread waits and nothing is left that could wake one",
        "  warp 0 of block 0 wait for barrier 0: at 3", "  so do those of blocks 1-3",
        "  2 more blocks wait for room: no GPU holds more of them at once",
    ]  # fmt: skip
    (wait,) = deadlock(parked).waits
    assert [each.block for each in wait.threads.blocks] == [0, 1, 2, 3]
    assert (wait.what, wait.place, wait.why, wait.barrier) == ("barrier 0", None, "", "")


@pytest.mark.parametrize("other", [
    waits("barrier 1"), waits(why="something else"), Waiting("barrier 0", say("at 4")),
])  # fmt: skip
def test_blocks_that_wait_otherwise_are_told_by_themselves(other: Waiting) -> None:
    parked = {group(*range(32)): waits(why="why"), group(*range(64, 96)): other}
    said = str(standing(None, None, parked))
    assert "so do" not in said and said.count("wait for") == 2
    assert str(deadlock(parked)).count("\n  warp 0 of block") == 2


def test_why_is_told_and_compared_without_the_block() -> None:
    def why(block: int) -> Sentence:
        return say("not here: {}", Threads.of(block, [40], 64))

    parked = {group(*range(64 * b, 64 * b + 32)): waits(why=why(b)) for b in range(2)}
    lines = str(deadlock(parked)).splitlines()
    assert lines[2:] == ["    not here: thread 40 of block 0", "  so do those of block 1"]
    other = {group(*range(32)): waits(why=why(0)), group(*range(64, 96)): waits(why=why(0))}
    assert "so do" not in str(deadlock(other))


def test_bytes_that_are_missing_and_blocks_without_room() -> None:
    parked = {group(0): Waiting("x", say("at 3"), barrier="full", missing=lambda: 24)}
    (wait,) = deadlock(parked).waits
    assert (wait.barrier, wait.missing) == ("full", 24)
    assert not_started(0) == [] and len(not_started(1)) == 1


def test_a_block_of_the_program_is_its_first_and_last_line() -> None:
    def at(line: int) -> Any:
        return SimpleNamespace(line=line, text=f"i{line}")

    block: Any = SimpleNamespace(body=[at(3), at(4)], collective=None, skip=at(6), end=at(7))
    assert position(block) == "PTX lines 3 to 7 (the last: i7)"
    block = SimpleNamespace(body=[], collective=at(5), skip=None, end=None)
    assert position(block) == "PTX lines 5 to 5 (the last: i5)"
    block = SimpleNamespace(body=[], collective=None, skip=None, end=None)
    assert position(block) == "an empty block"
