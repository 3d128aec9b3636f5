"""Small parts of the machine: call stacks, room, multiprocessors, counters, cluster cancelling."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.machine import cluster_launch, multiprocessors, room
from phasebit.emulator.machine.accesses import ABSENT, Access
from phasebit.emulator.machine.agents import Agent
from phasebit.emulator.machine.call_stacks import CallStacks
from phasebit.emulator.machine.counters import Counters
from phasebit.emulator.machine.scheduler import STACKED_BYTES, Machine


def test_call_stacks_have_numbers_and_parents() -> None:
    stacks = CallStacks()
    one = stacks.number(0, 7)
    two = stacks.number(one, 7)
    assert (one, two) == (1, 2) and stacks.number(0, 7) == one and stacks.number(0, 8) == 3
    assert [stacks.parent(each) for each in (one, two, 3, 0)] == [0, one, 0, 0]


@pytest.mark.parametrize(("text", "bytes_"), [
    ("MemTotal: 9 kB\nMemAvailable:   123 kB\n", 123 << 10), ("MemTotal: 9 kB\n", None),
    (None, None),
])  # fmt: skip
def test_how_much_memory_is_left(
    text: str | None, bytes_: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "meminfo"
    if text is not None:
        file.write_text(text)
    monkeypatch.setattr(room, "MEMINFO", file)
    assert room.available() == bytes_


@pytest.mark.parametrize(("left", "fails"), [
    (None, False), (400 << 20, False), ((400 << 20) - 1, True), (0, True),
])  # fmt: skip
def test_too_little_memory_is_said(
    left: int | None, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "available", lambda: left)
    if not fails:
        room.ask()
        return
    with pytest.raises(MemoryError) as raised:
        room.ask()
    assert str(raised.value) == (
        f"this machine has {left >> 20} MB left. The checks keep up to 65 bytes for each word of "
        "global memory that is used: make the program's sizes smaller"
    )


def batch(**machine: Any) -> Any:
    return SimpleNamespace(count=machine.pop("count", 99), machine=SimpleNamespace(**machine))


@pytest.mark.parametrize(("size", "resident", "count", "slot", "shared_with"), [
    (1, 1, 8, 3, [3]), (1, 2, 8, 3, [2, 3]), (1, 2, 8, 4, [4, 5]), (1, 2, 5, 4, [4]),
    (4, 2, 8, 1, [1, 5]), (4, 2, 8, 6, [2, 6]), (2, 3, 6, 0, [0, 2, 4]), (2, 3, 12, 7, [7, 9, 11]),
    (1, 3, 4, 3, [3]),
])  # fmt: skip
def test_which_blocks_share_a_multiprocessor(
    size: int, resident: int, count: int, slot: int, shared_with: list[int]
) -> None:
    made = batch(cluster_size=size, resident=resident, count=count)
    assert multiprocessors.sharers(made, slot) == shared_with


@pytest.mark.parametrize(("blocks", "size", "reserved", "fit"), [
    (2, 1, 0, True), (1, 1, 0, False), (4, 4, 0, False), (8, 4, 0, True),
    (2, 1, 113 * 1024, True), (2, 1, 113 * 1024 + 1, False),
])  # fmt: skip
def test_whether_two_blocks_fit(blocks: int, size: int, reserved: int, fit: bool) -> None:
    made = batch(blocks=blocks, cluster_size=size, reserved=reserved)
    assert multiprocessors.two_fit(made) is fit


@pytest.mark.parametrize(("more", "size"), [
    ({}, 32), ({"threads": 1}, 1024), ({"threads": 1024}, 1), ({"threads": 2000}, 1),
    ({"cooperative": True}, 99), ({"cluster_size": 5}, 30), ({"cluster_size": 3, "resident": 2},
     30),
    ({"cluster_size": 16, "resident": 3}, 48), ({"stealing": True}, 2),
    ({"stealing": True, "cluster_size": 4}, 8), ({"shared_size": STACKED_BYTES // 7}, 7),
    ({"shared_size": STACKED_BYTES * 2}, 1), ({"local": STACKED_BYTES // 32 // 5}, 5),
])  # fmt: skip
def test_how_many_blocks_are_stacked(more: dict[str, Any], size: int) -> None:
    given = {"cooperative": False, "blocks": 99, "stacked": 1024, "threads": 32, "shared_size": 0,
             "stealing": False, "cluster_size": 1, "resident": 1} | more  # fmt: skip
    layout = SimpleNamespace(local_size=given.pop("local", 0))
    machine: Any = SimpleNamespace(program=SimpleNamespace(layout=layout), **given)
    assert Machine.batch_size(machine) == size


def test_counters_are_a_mapping_that_names_what_there_is() -> None:
    counters = Counters()
    assert str(counters) == "" and len(counters) == 0
    counters.add("b", 1200)
    counters.add("b", 34)
    counters.add_all([("long.name", 1), ("b", 1), ("long.name", 0)])
    assert dict(counters) == {"b": 1235, "long.name": 1} and [*counters] == ["b", "long.name"]
    assert str(counters) == "b                 1,235\nlong.name             1"
    with pytest.raises(KeyError, match=r"no counter 'c'; there are: b, long.name"):
        counters["c"]


def test_lanes_that_take_part_in_an_access() -> None:
    addresses = np.full(32, ABSENT)
    addresses[[0, 5, 31]] = 0, 8, 4
    assert Access("global", "load", 4, 0, 0, addresses, "a", None).lanes == [0, 5, 31]


class Noted(Agent):
    def work(self) -> None:
        self.batch.worked.append(self)


def under(schedule: str, number: float) -> tuple[Any, Noted]:
    machine = SimpleNamespace(agents=[], schedule="".join(schedule), changes=0,
                              random=SimpleNamespace(random=lambda: number))  # fmt: skip
    made = SimpleNamespace(machine=machine, worked=[])
    agent = Noted(made, True)  # type: ignore[arg-type]
    agent.start()
    return made, agent


@pytest.mark.parametrize(("schedule", "number", "at_once"), [
    ("eager", 0.9, True), ("late", 0.0, False), ("random", 0.49, True), ("random", 0.5, False),
])  # fmt: skip
def test_work_is_done_when_the_schedule_says_and_once(
    schedule: str, number: float, at_once: bool
) -> None:
    made, agent = under(schedule, number)
    assert bool(made.worked) == agent.done == at_once
    assert made.machine.agents == ([] if at_once else [agent])
    agent.finish()
    agent.finish()
    assert made.worked == [agent] and made.machine.changes == 1 and made.machine.agents == []
    assert agent.signals


def cancelling(
    next_block: int, schedule: str = "late", number: float = 0.5
) -> tuple[Any, list[int]]:
    made = batch(
        schedule="".join(schedule), random=SimpleNamespace(random=lambda: number),
        next_block=next_block,
        blocks=24, order=list(range(24)), cluster_size=2, grid=(4, 3, 2),
    )  # fmt: skip
    answer = cluster_launch.cancel(made)
    assert answer.dtype == np.uint8
    return made.machine, answer.view(np.uint32).tolist()


@pytest.mark.parametrize(("next_block", "answer"), [
    (0, [0, 0, 0, 0x57EA1ED]), (18, [2, 1, 1, 0x57EA1ED]), (23, [3, 2, 1, 0x57EA1ED]),
    (24, [0, 0, 0, 0]),
])  # fmt: skip
def test_the_next_cluster_is_cancelled(next_block: int, answer: list[int]) -> None:
    machine, got = cancelling(next_block)
    assert got == answer and machine.next_block == next_block + 2 * (next_block < 24)


def test_a_random_answer_is_no_now_and_then() -> None:
    for number, refused in ((0.19, True), (0.2, False)):
        machine, got = cancelling(4, "random", number)
        assert (got[3] == 0) == refused and machine.next_block == 4 + 2 * (not refused)
    assert cancelling(4, "eager", 0.0)[1][3] != 0


def test_an_answer_is_asked_for_once_and_never_written(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def cancel(made: object) -> str:
        asked.append(made)
        return "answer"

    monkeypatch.setattr(cluster_launch, "cancel", cancel)
    made: Any = object()
    answer = cluster_launch.Answer(made)
    assert answer.read() == answer.read() == "answer" and asked == [made]
    assert answer.space == "registers" and answer.words(2).tolist() == []
    with pytest.raises(NotImplementedError, match="answers are sent, never received"):
        answer.write(np.zeros(1))
