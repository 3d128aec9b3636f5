"""A block of a cluster leaves: are tensor operations of the others done with it?

Six blocks of four threads in clusters of two, numbered from 10; nobody runs.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.checker.tensor_columns import TensorColumns
from phasebit.emulator.checker.tensor_shadow import Reading, TensorShadow
from phasebit.emulator.findings import Place, Sentence, Threads, say
from phasebit.emulator.tensor_core.regions import HALVES, Region
from phasebit.emulator.tensor_core.tensor_memory import COLUMNS
from tests.emulator.test_shared_shadow import shadow

TEAM = 8


class Said(list[tuple[str, str, int, Any]]):
    def report(self, rule: str, sentence: Sentence, access: int, key: Any) -> None:
        self.append((rule, str(sentence), access, key))

    def place(self, access: int) -> Sentence:
        return say("{}", Place(access))


def watched(
    cluster: int = 2, leaks: dict[int, list[Any]] | None = None, threads: int = 4
) -> Any:
    """Columns and shadows of one batch; ``leaks``: what stays allocated in each block."""
    s = shadow(6, cluster, threads=threads, copies=True, bulk=True)
    memory = SimpleNamespace(leaked=lambda slot: (leaks or {}).get(slot, []), group=None)
    s.batch.known = lambda kind: memory
    s.batch.blocks = np.arange(6) + 10
    s.batch.describe = lambda lanes: Threads.of(
        10 + lanes[0] // threads, lanes % threads, threads
    )
    t, said = TensorShadow(6), Said()
    races = SimpleNamespace(shadows={s.batch: s}, facts=SimpleNamespace(shift=2))
    machine = SimpleNamespace(cluster_size=cluster)
    cells: Any = SimpleNamespace(
        machine=machine, races=races, findings=said, shadows={s.batch: t}
    )  # fmt: skip
    return TensorColumns(cells), s, t, said


def told(block: int, thread: int, of: int, what: str, access: int) -> tuple[str, str, int, Any]:
    return (
        "block-leaves-too-early",
        f"block {block} may leave the kernel before a tensor operation of thread {thread} of block "
        f"{of} {what}: PTX line {access}; let it wait for an mbarrier at which a tcgen05.commit "
        "after that arrives",
        access, ("outlives", access),
    )  # fmt: skip


KNOWN = np.zeros(0)
START = 2048
"""The word at which the shared memory of the first block begins; each has 1024."""


@pytest.mark.parametrize(("words", "late"), [
    ((START + 3 * 1024, START + 4 * 1024 - 1), True), ((START, START + 3 * 1024), True),
    ((START, START + 3 * 1024 - 1), False), ((START + 4 * 1024, START + 5 * 1024), False),
    ((START + 4 * 1024 - 1, START + 5 * 1024), True), ((START + 3500, START + 3500), True),
])  # fmt: skip
def test_it_reads_the_shared_memory_of_the_block(words: tuple[int, int], late: bool) -> None:
    """Block 13 is the fourth; thread 1 of block 12 is the tenth of the batch."""
    columns, s, t, said = watched()
    t.reading.append(Reading(np.array(words), 9, TEAM + 1, 30, 5))
    columns.block_ends(s.batch, 3, KNOWN)
    what = "reads its shared memory"
    assert said == ([told(13, 1, 12, what, 5)] if late else [])
    for lane, time in ((14, 29), (13, 30)):  # one thread of the block has to know
        said.clear()
        s.clock[lane, TEAM + 1] = time
        columns.block_ends(s.batch, 3, KNOWN)
        assert said == ([told(13, 1, 12, what, 5)] if late and time < 30 else [])


@pytest.mark.parametrize("lane", [7, 16])
def test_operations_of_other_clusters_are_none_of_its_business(lane: int) -> None:
    columns, s, t, said = watched()
    t.reading.append(Reading(np.array([START + 3500]), lane, TEAM + lane % 8, 30, 5))
    columns.block_ends(s.batch, 3, KNOWN)
    assert said == []


@pytest.mark.parametrize("threads", [4, 6])
def test_its_own_operations_it_may_leave_behind(threads: int) -> None:
    """Of the lanes of the fourth block, the second of its cluster: that is asked elsewhere."""
    columns, s, t, said = watched(threads=threads)
    team = 2 * threads
    for lane in range(3 * threads, 4 * threads):
        t.reading.append(Reading(np.array([START + 3500]), lane, team + lane % team, 30, 5))
    t.arrivals[team + threads, 3] = (30, 7)
    t.written.note(Region(3, slice(0, 1), slice(0, 8)), 2 * team - 1, 30, 8)
    columns.block_ends(s.batch, 3, KNOWN)
    assert said == []
    columns.block_ends(s.batch, 2, KNOWN)  # nothing reaches into the other one
    assert said == []


def test_an_arrival_at_one_of_its_barriers() -> None:
    columns, s, t, said = watched()
    t.arrivals |= {(TEAM + 2, 3): (30, 7), (TEAM + 2, 2): (31, 8), (TEAM + 5, 1): (40, 9)}
    columns.block_ends(s.batch, 3, KNOWN)
    what = "arrives at an mbarrier in its shared memory"
    assert said == [told(13, 2, 12, what, 7)]
    said.clear()
    s.clock[15, TEAM + 2] = 30
    columns.block_ends(s.batch, 3, KNOWN)
    assert said == []


@pytest.mark.parametrize("which", ["written", "consumed"])
@pytest.mark.parametrize("at", [(0, 0), (HALVES - 1, COLUMNS - 1), (3, 100)])
def test_it_uses_the_tensor_memory_of_the_block(which: str, at: tuple[int, int]) -> None:
    columns, s, t, said = watched()
    half, column = at
    cell = slice(half, half + 1), slice(column, column + 1)
    last = getattr(t, which)
    last.note(Region(3, *cell), TEAM + 3, 30, 6)
    last.note(Region(2, *cell), TEAM + 3, 40, 7)
    columns.block_ends(s.batch, 3, KNOWN)
    assert said == [told(13, 3, 12, "uses its tensor memory", 6)]
    said.clear()
    last.note(Region(3, *cell), 3, 30, 6)  # a thread, not its tensor core
    columns.block_ends(s.batch, 3, KNOWN)
    assert said == []
    s.clock[12, TEAM + 3] = 30
    last.note(Region(3, *cell), TEAM + 3, 30, 6)
    columns.block_ends(s.batch, 3, KNOWN)
    assert said == []
    last.note(Region(3, *cell), TEAM, 30, 6)  # the first column of the tensor cores
    columns.block_ends(s.batch, 3, KNOWN)
    assert said == [told(13, 0, 12, "uses its tensor memory", 6)]


def test_a_block_alone_is_asked_for_its_columns_only() -> None:
    left = [SimpleNamespace(count=64, where=say("there")), SimpleNamespace(count=32, where="here")]
    columns, s, t, said = watched(1, {3: left})
    t.reading.append(Reading(np.array([START + 3500]), 13, 4 + 1, 30, 5))
    columns.block_ends(s.batch, 2, KNOWN)
    assert said == []
    columns.block_ends(s.batch, 3, KNOWN)
    assert [text for _, text, _, _ in said] == [
        f"block 13 leaves the kernel with {count} columns of tensor memory allocated: {where}; a "
        "warp must execute tcgen05.dealloc before the block ends"
        for count, where in ((64, "there"), (32, "here"))
    ]
    assert {(rule, access) for rule, _, access, _ in said} == {("tensor-memory-leak", -1)}
    s.batch.known = lambda kind: None
    said.clear()
    columns.block_ends(s.batch, 3, KNOWN)
    assert said == []
