"""Copies that are under way, and fences: which one is asked, and who may go on.

Blocks of four threads that nobody runs; lanes 4 to 7 are the second block's.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.checker.footprint import Footprint
from phasebit.emulator.checker.global_proxies import Fences
from phasebit.emulator.checker.proxies import MANY, Engine
from phasebit.emulator.checker.wgmma_checks import Reads, WarpGroupChecks
from phasebit.emulator.findings import Place, Sentence, Threads, say
from tests.emulator.test_shared_shadow import shadow


class Said(list[str]):
    def report(self, rule: str, sentence: Sentence, access: int, key: Any) -> None:
        self.append(f"{rule}: {sentence}")

    def place(self, access: int) -> Sentence:
        return say("{}", Place(access))


class Copy(SimpleNamespace):
    __hash__ = object.__hash__  # type: ignore[assignment]


def site(offset: int) -> Any:
    return SimpleNamespace(slot=1, offset=offset, name=f"full{offset}")


def copy(access: int, started: int, lane: int = 5, at: Any = None, reduces: bool = False) -> Any:
    return Copy(site=at, started=started, lanes=np.array([lane]), access=access, reduces=reduces)


def engine(**parts: Any) -> tuple[Engine, Any, Said]:
    s, said = shadow(3, copies=True, bulk=True), Said()
    s.batch.describe = lambda lanes: Threads.of(  # type: ignore[method-assign]
        int(lanes[0]) // 4, [int(lane) % 4 for lane in lanes], 4
    )
    made = Engine.__new__(Engine)
    races = SimpleNamespace(
        shadows={s.batch: s}, shared_name=lambda _, word: f"word {word}",
        global_memory=SimpleNamespace(name=lambda word: f"global {word}",
                                      shadow=SimpleNamespace(size=4000)),
    )  # fmt: skip
    given = {"findings": said, "races": races, "reading": {}, "writing": [],
             "written_by": np.zeros(4000, np.uint16)}  # fmt: skip
    for name, value in (given | parts).items():
        setattr(made, name, value)
    return made, s, said


def names(said: Said) -> list[tuple[str, str]]:
    """Who does what, and the line of the copy."""
    return [(one.split(": ")[1], one.rpartition(" ")[2]) for one in said]


GROUP = [4, 7]


def test_each_copy_that_may_still_read_is_asked() -> None:
    """Elsewhere; over, as all know; nothing in common; over for one thread; and one in a group."""
    made, s, said = engine()
    over, half, none = site(8), site(16), site(24)
    s.clock[4:8, s.site(over)] = 30
    s.clock[[4, 7], s.site(half)] = 29, 30
    made.reading[s.batch] = {
        copy(1, 30): np.array([2148, 2149]) + 100, copy(2, 30, at=over): np.array([2147, 2148]),
        copy(3, 30): np.array([2140, 2160]), copy(4, 30, at=half): np.array([2149]),
        copy(5, 30, at=half): np.array([2148, 2149]), copy(6, 30, 6, none): np.array([2149]),
        copy(7, 31): np.array([2148]),
    }  # fmt: skip
    g: Any = SimpleNamespace(batch=s.batch, lanes=np.array(GROUP), n=2)
    made.against_readers(s, g, Footprint.plain(np.array([[48, 49]])), 2100, 9)
    assert names(said) == [
        ("thread 0 of block 1 writes word 100", "5"), ("thread 3 of block 1 writes word 101", "6"),
        ("thread 0 of block 1 writes word 100", "7"),
    ]  # fmt: skip
    assert "a bulk copy of thread 2 of block 1 may still read it, and nobody has waited for " \
           "mbarrier full24" in said[1]  # fmt: skip
    assert "and it has not waited (cp.async.bulk.wait_group.read)" in said[2]
    said.clear()
    s.clock[4, s.site(half)] = 30
    made.against_readers(s, g, Footprint.plain(np.array([[48, 49]])), 2100, 9)
    assert [line for _, line in names(said)] == ["6", "7"]
    other: Any = SimpleNamespace(batch=object(), lanes=g.lanes, n=2)
    said.clear()
    made.against_readers(s, other, Footprint.plain(np.array([[48, 49]])), 2100, 9)
    assert said == []


def test_copies_that_are_over_for_all_are_forgotten_when_there_are_many() -> None:
    made, s, said = engine()
    over, late = site(8), site(16)
    s.clock[:, s.site(over)] = 30
    s.clock[1:, s.site(late)] = 30
    copies = {copy(number, 30, at=over): np.array([2100]) for number in range(MANY - 2)}
    copies |= {copy(99, 30, at=late): np.array([2100]), copy(98, 31, at=over): np.array([2100])}
    made.reading[s.batch] = copies
    g: Any = SimpleNamespace(batch=s.batch, lanes=np.array(GROUP), n=2)
    far = Footprint.plain(np.array([[0, 1]]))
    made.against_readers(s, g, far, 2048, 9)
    assert len(copies) == MANY
    copies[copy(97, 1)] = np.array([2100])
    made.against_readers(s, g, far, 2048, 9)
    assert {each.access for each in copies} == {97, 98, 99}
    s.batch.alive[0] = False
    copies |= {copy(number, 30, at=over): np.array([2100]) for number in range(MANY)}
    made.against_readers(s, g, far, 2048, 9)
    assert {each.access for each in copies} == {97, 98} and said == []


def test_each_copy_that_may_still_write_is_asked() -> None:
    made, s, said = engine()
    for number, (words, reduces) in enumerate([
        ([300, 301], False), ([140, 160], False), ([149], True), ([148], False), ([149], False),
    ]):  # fmt: skip
        one = copy(number, 30, reduces=reduces)
        one.batch = s.batch
        made.writing.append((np.array(words), one))
        made._count(np.array(words), 1)
    g: Any = SimpleNamespace(batch=s.batch, lanes=np.array(GROUP), n=2)
    both = Footprint.plain(np.array([[48, 49]]))
    made.against_writers(g, both, 100, 9, "reads", False)
    assert names(said) == [
        ("thread 3 of block 1 reads global 149", "2"),
        ("thread 0 of block 1 reads global 148", "3"),
        ("thread 3 of block 1 reads global 149", "4"),
    ]  # fmt: skip
    for strong, access, lines in ((True, 9, ["3", "4"]), (False, 3, ["2", "4"])):
        said.clear()
        made.against_writers(g, both, 100, access, "writes", strong)
        assert [line for _, line in names(said)] == lines
    said.clear()
    for words, _ in made.writing[2:]:
        made._count(words, -1)
    made.against_writers(g, both, 100, 9, "reads", False)
    made.against_writers(g, Footprint.plain(np.array([[0, 0]])), 9000, 9, "reads", False)
    assert said == []


def fences(now: int = 50, blocks: int = 3) -> tuple[Fences, Any, Any]:
    s = shadow(blocks)
    machine = SimpleNamespace(now=now)
    races: Any = SimpleNamespace(shadows={s.batch: s}, machine=machine)
    return Fences(races), s, machine


def group(s: Any, *lanes: int) -> Any:
    return SimpleNamespace(batch=s.batch, lanes=np.array(lanes))


@pytest.mark.parametrize(("time", "writer", "lane", "fenced"), [
    (50, 29, 4, True), (51, 29, 4, False),  # the writer has fenced: thread 24 + 5
    (50, 28, 5, True), (50, 28, 4, False),  # thread 5 itself; thread 4 has not heard of it
    (50, -1, 7, True), (50, -1, 8, False), (51, -1, 7, False), (50, 10**6, 4, False),
])  # fmt: skip
def test_somebody_on_the_way_has_fenced_since(
    time: int, writer: int, lane: int, fenced: bool
) -> None:
    """Thread 5 fences at the time 50, and thread 7 of its block hears of it; others do not."""
    made, s, machine = fences()
    assert not made.since(group(s, 4), 0, -1)
    made.note(group(s, 5))
    machine.now = 60
    s.clock[7, 1], s.clock[4, 1], s.clock[8, 1] = 50, 49, 50
    assert made.since(group(s, lane), time, writer) is fenced


def test_a_barrier_tells_of_a_fence_and_later_ones_count() -> None:
    made, s, machine = fences()
    made.note(group(s, 5, 10))
    machine.now = 60
    assert not made.since(group(s, 6), 50, -1)
    s.floor[1] = 50
    assert made.since(group(s, 6), 50, -1) and not made.since(group(s, 0), 50, -1)
    assert not made.since(group(s, 9), 50, -1) and made.since(group(s, 10), 50, -1)
    made.note(group(s, 6))
    assert made.since(group(s, 6), 60, -1) and not made.since(group(s, 6), 61, -1)
    assert made.since(group(s, 0), 60, 24 + 6) and not made.since(group(s, 0), 60, 24 + 5)


def test_the_last_thread_that_there_is_room_for_counts_for_itself_alone() -> None:
    """Who asks without a writer asks nobody else."""
    made, s, _ = fences(blocks=9)
    made.note(group(s, 5))
    made.note(group(s, 35))
    assert len(made.times) == 24 + 36
    assert not made.since(group(s, 8), 50, -1) and made.since(group(s, 35), 50, -1)
    assert made.since(group(s, 8), 50, 24 + 35)


def test_each_multiplication_that_may_still_read_is_asked() -> None:
    """Elsewhere; over, as both threads know; nothing in common; over for one of the two."""
    made, s, said = engine()
    checks = WarpGroupChecks.__new__(WarpGroupChecks)
    checks.findings, checks.races = said, made.races  # type: ignore[assignment]
    over, half = s.warp_groups, s.overwrites
    s.clock[4:8, over] = 30
    s.clock[[4, 7], half] = 29, 30

    def reads(access: int, started: int, *words: int) -> Reads:
        one = Reads(np.array(words), access, np.array([5, 6]))
        one.started = started
        return one

    checks.reads = {s.batch: {
        (over, 0): reads(1, 31, 2248, 2249), (over, 1): reads(2, 30, 2148, 2149),
        (over, 2): reads(3, 31, 2140, 2160), (half, 3): reads(4, 30, 2149),
        (half, 4): reads(5, 30, 2148, 2149), (over, 5): reads(6, 31, 2149),
    }}  # fmt: skip
    g: Any = SimpleNamespace(batch=s.batch, lanes=np.array(GROUP), n=2)
    both = Footprint.plain(np.array([[48, 49]]))
    checks.against_readers(s, g, both, 2100, 9)
    assert names(said) == [
        ("thread 0 of block 1 writes word 100", "5"), ("thread 3 of block 1 writes word 101", "6"),
    ]  # fmt: skip
    assert "a multiplication of threads 1-2 of block 1 may still read it" in said[0]
    said.clear()
    checks.reads = {}
    checks.against_readers(s, g, both, 2100, 9)
    assert said == []
