"""What is known of a batch's shared memory and of its threads: columns, floors, pending reads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.checker import shared_shadow
from phasebit.emulator.checker.footprint import Footprint
from phasebit.emulator.checker.shared_shadow import (
    AREA,
    LATEST,
    PENDING,
    SITES,
    SharedShadow,
    remember,
    run,
)

THREADS = 4


class Batch(SimpleNamespace):
    __hash__ = object.__hash__  # type: ignore[assignment]


def shadow(
    count: int = 6, cluster: int = 1, shift: int = 2, threads: int = THREADS, **parts: bool
) -> SharedShadow:
    """Blocks of four threads, 4096 bytes each, from byte 8192 on; six blocks came before."""
    machine = SimpleNamespace(cluster_size=cluster, next_block=6 + count, now=50)
    machine.program = SimpleNamespace(
        layout=SimpleNamespace(shared_name=lambda offset: f"at{offset}+0")
    )
    batch = Batch(
        threads=threads, count=count, lanes=count * threads, shared_stride=4096, shared_base=8192,
        machine=machine, slots=lambda lanes: lanes // threads, alive=np.ones(count * threads, bool),
    )  # fmt: skip
    return SharedShadow(batch, shift, parts.pop("copies", False), **parts)  # type: ignore[arg-type]


def group(s: SharedShadow, *lanes: int) -> Any:
    return SimpleNamespace(batch=s.batch, lanes=np.array(lanes), n=len(lanes), known=None)


def site(slot: int, offset: int) -> Any:
    return SimpleNamespace(slot=slot, offset=offset)


@pytest.mark.parametrize(("cluster", "parts", "columns"), [
    (1, {}, {"team": 4, "bulk": 4, "inits": 4, "wide": 4, "proxy": 4, "warp_groups": 4,
             "overwrites": 4, "fences": 4}),
    (1, {"copies": True}, {"team": 4, "bulk": 8, "inits": 8, "wide": 8, "proxy": 8, "fences": 8}),
    (1, {"copies": True, "bulk": True},
     {"bulk": 8, "inits": 8 + SITES, "wide": 8 + SITES, "proxy": 8 + SITES,
      "warp_groups": 12 + SITES, "overwrites": 13 + SITES, "fences": 17 + SITES}),
    (1, {"fences": True}, {"proxy": 4, "fences": 4}),
    (2, {}, {"team": 8, "bulk": 8, "inits": 8, "wide": 16, "proxy": 24, "fences": 24}),
    (2, {"copies": True, "bulk": True, "fences": True},
     {"team": 8, "bulk": 16, "inits": 16 + SITES, "wide": 24 + SITES, "proxy": 32 + SITES,
          "warp_groups": 40 + SITES, "overwrites": 41 + SITES, "fences": 49 + SITES}),
])  # fmt: skip
def test_columns_of_the_clocks(
    cluster: int, parts: dict[str, bool], columns: dict[str, int]
) -> None:
    s = shadow(cluster=cluster, **parts)
    assert {name: getattr(s, name) for name in columns} == columns
    last = columns["fences"] + (s.team if parts.get("fences") else 0)
    assert s.clock.shape == (24, last)
    assert len(s.write_time) == 6 * 1024 and s.readers.shape == (6 * 1024, s.team)
    assert (s.base, s.first) == (2048, 24)
    assert not s.clock.any() and not s.write_time.any() and not s.write_strong.any()
    assert (s.relaxed == -1).all() and (s.waits_at == -1).all() and (s.waits_near == -1).all()
    assert (s.lowest, s.version) == (0, 0)


def test_warp_groups_have_a_column_each() -> None:
    s = shadow()
    s.batch.threads = 160
    s.batch.lanes = 160 * 6
    made = SharedShadow(s.batch, 2, True, True)
    assert made.overwrites - made.warp_groups == 2


def test_units_and_columns_of_threads() -> None:
    s = shadow(cluster=2)
    assert [s.unit(lane) for lane in (0, 7, 8, 23)] == [3, 3, 4, 5]
    assert s.threads(np.array([0, 7, 8, 23])).tolist() == [0, 7, 0, 7]
    alone = shadow(1)
    lanes = np.array([1, 3])
    assert alone.threads(lanes) is lanes and alone.unit(3) == 6 and shadow().unit(23) == 11


def test_what_threads_publish_is_known_up_to_now() -> None:
    s = shadow(cluster=2)
    known = np.zeros(s.clock.shape[1], int)
    s.did(known, np.array([9, 12]), 7)
    assert np.flatnonzero(known).tolist() == [1, 4, s.wide + 1, s.wide + 4]
    assert set(known[known > 0].tolist()) == {7}
    s = shadow()
    known = np.zeros(s.clock.shape[1], int)
    s.did(known, np.array([9, 14]), 7)
    assert known.tolist() == [0, 7, 7, 0]


def test_a_wide_fence_matters_once_somebody_was_told_with_too_small_a_scope() -> None:
    s = shadow(cluster=2)
    s.clock[9, 2], s.clock[9, 3], s.clock[9, s.wide + 3] = 5, 6, 8
    s.widen(np.array([9]))
    assert s.clock[9, s.wide + 2] == 0 and s.version == 0
    s.waited_near(2, 77)  # block 2 is the first of its cluster
    assert s.narrow == {1: 77}
    s.waited_near(5, 78)
    s.waited_near(4, 79)
    assert s.narrow == {1: 77, 0: 78}
    s.widen(np.array([9]))
    assert s.clock[9, s.wide : s.proxy].tolist() == [0, 0, 5, 8, 0, 0, 0, 0] and s.version == 1
    assert not s.clock[8].any() and not s.clock[10].any()


def test_who_initialises_a_barrier() -> None:
    alone = shadow()
    assert alone.initialiser(9) == 1 and alone.version == 0 and not alone.clock.any()
    s = shadow(cluster=2)
    assert s.initialiser(13) == s.inits + 5 and s.version == 1
    assert s.clock[13, s.inits + 5] == 50 and np.count_nonzero(s.clock) == 1


def test_barriers_that_count_copies_share_columns_when_there_are_many() -> None:
    s = shadow(cluster=2, copies=True, bulk=True)
    assert s.site(site(2, 8)) == s.bulk and s.site(site(4, 8)) == s.bulk  # of the same rank
    assert s.site(site(3, 8)) == s.bulk + 1 and s.site(site(2, 16)) == s.bulk + 2
    assert s.site_name(s.bulk + 1) == "at8 of rank 1" and s.site_name(s.bulk + 2) == (
        "at16 of rank 0"
    )
    for number in range(3, SITES):
        assert s.site(site(0, 1000 + 8 * number)) == s.bulk + number
    assert s.site(site(0, 9000)) == s.bulk and s.site(site(0, 9008)) == s.bulk + 1
    assert shadow(copies=True, bulk=True).site(site(5, 8)) == 8


def test_a_copy_that_no_thread_of_the_block_has_waited_for() -> None:
    s = shadow(copies=True, bulk=True)
    assert not s.unobserved(2)
    s.site_started(site(2, 8), 30)
    s.site_started(site(3, 16), 40)
    assert [s.unobserved(slot) for slot in range(5)] == [False, False, True, True, False]
    s.clock[11, s.bulk] = 29
    assert s.unobserved(2)
    s.clock[7, s.bulk] = s.clock[12, s.bulk] = 30  # threads of the blocks beside it
    assert s.unobserved(2)
    s.clock[11, s.bulk] = 30
    assert not s.unobserved(2) and s.unobserved(3)
    s.clock[15, s.bulk + 1] = 40
    assert not s.unobserved(3)


def test_what_is_learnt_is_the_later_of_two() -> None:
    s = shadow()
    for lanes in (np.array([4, 5]), np.array([4, 6])):
        s.clock[:] = [1, 5, 1, 5]
        before = s.version
        s.learn(lanes, np.array([3, 3, 0, 9]))
        assert s.clock[lanes].tolist() == [[3, 5, 1, 9]] * 2 and s.version == before + 1
        others = np.delete(s.clock, lanes, axis=0)
        assert (others == [1, 5, 1, 5]).all()
    s.learn(np.array([1, 2]), np.array([[0, 0, 7, 0], [8, 0, 0, 0]]))
    assert s.clock[1].tolist() == [1, 5, 7, 5] and s.clock[2].tolist() == [8, 5, 1, 5]


def test_floors_of_blocks() -> None:
    s = shadow(3)
    s.pending.append((None, 0, np.array([0]), 1))  # type: ignore[arg-type]
    s.barrier(np.array([0, 2]), 5)
    assert s.floor.tolist() == [5, 0, 5] and (s.lowest, s.version) == (0, 1) and s.pending
    s.barrier(np.array([1]), 7)
    assert s.lowest == 5 and s.pending  # a read at 6 may be open
    s.barrier(np.array([0, 1, 2]), 9)
    assert s.floor.tolist() == [9, 9, 9] and s.lowest == 9 and not s.pending
    assert s.floors[:3].tolist() == [[9, 9, 9], [5, 7, 5], [0, 0, 0]]
    assert s.floor_of(group(s, 3, 4)).tolist() == [9, 9]
    s.barrier(np.array([1]), 11)
    assert s.floor_of(group(s, 3, 4, 8)).tolist() == [9, 11, 9]


def test_the_latest_times_are_remembered() -> None:
    times = np.zeros((LATEST, 3), int)
    for now in range(1, LATEST + 3):
        remember(times, np.array([1]), now)
    assert times[:, 1].tolist() == [*range(LATEST + 2, 2, -1)]
    assert not times[:, [0, 2]].any()


def test_fences_of_one_thread_count_for_its_block() -> None:
    s = shadow(3, copies=True, bulk=True)
    s.clock[5, s.proxy + 2] = 9
    s.clock[7, s.overwrites + 1] = 8
    s.clock[6, 3] = 4
    s.share_fences(np.array([1]))
    for lane in range(4, 8):
        assert s.clock[lane, s.proxy + 2] == 9 and s.clock[lane, s.overwrites + 1] == 8
        assert (s.clock[lane, 3] == 4) == (lane == 6)
    assert not s.clock[:4].any() and not s.clock[8:].any()
    s.share_fences(np.array([0, 2]))
    assert not s.clock[:4].any() and not s.clock[8:].any()


def test_what_the_whole_group_knows() -> None:
    s = shadow(3)
    agents, times, later = np.array([0, 1]), np.array([5, 6]), np.array([5, 7])
    g = group(s, 4, 5, 8)
    assert s.ordered(g, agents, np.array([0, 0]))
    assert not s.ordered(group(s, 4, 5, 8), agents, times)
    s.clock[:, 0], s.clock[:, 1] = 5, 6
    s.version += 1
    g = group(s, 4, 5, 8)
    assert s.ordered(g, agents, times) and not s.ordered(g, agents, later)
    assert g.known[0] == s.version
    s.clock[8, 1] = 5
    assert s.ordered(g, agents, times)  # what it knew it still knows
    assert not s.ordered(group(s, 4, 5, 8), agents, times)
    assert s.ordered(group(s, 4, 5), agents, times)
    s.clock[8, 1] = 7
    s.clock[[4, 5], 1] = 7
    assert not s.ordered(g, agents, later)  # unless something has moved
    s.version += 1
    assert s.ordered(g, agents, later)
    s = shadow(3)
    s.floor[:] = 3, 9, 8
    assert s.ordered(group(s, 4, 9), agents, np.array([8, 8]))  # the floors of both blocks
    assert not s.ordered(group(s, 4, 9), agents, np.array([8, 9]))
    assert not s.ordered(group(s, 3, 9), agents, np.array([4, 0]))
    assert s.ordered(group(s, 3, 9), agents, np.array([3, 0]))


def plain(*words: int) -> Footprint:
    return Footprint.plain(np.array([words]))


def test_reads_are_pending_until_somebody_asks() -> None:
    s = shadow(3)
    s.note_read(group(s, 5, 6), plain(300, 301), 10, 7)
    assert len(s.pending) == 1 and not s.readers.any()
    assert s.last_read.tolist() == [0, 7, 7, 0]
    s.enter_reads()
    assert not s.pending and s.readers[310, 1] == 7 and s.readers[311, 2] == 7
    assert np.count_nonzero(s.readers) == 2
    assert s.areas[310 // AREA].tolist() == [0, 7, 7, 0] and np.count_nonzero(s.areas) == 2
    s.read(np.array([310]), 1, 5)
    assert s.readers[310, 1] == 5 and s.areas[1, 1] == 7


def test_of_many_pending_reads_those_are_dropped_that_everybody_knows_of() -> None:
    s = shadow(1)
    for number in range(PENDING):
        s.note_read(group(s, 1), plain(number), 0, number + 1)
    assert len(s.pending) == PENDING
    s.clock[:, 1] = 200
    s.clock[2, 1] = 150
    s.note_read(group(s, 1), plain(500), 0, PENDING + 1)
    assert [each[3] for each in s.pending] == [*range(151, PENDING + 2)]
    assert not s.readers.any()
    s = shadow(1)
    s.clock[2] = 10**6  # one that is alive knows nothing
    for number in range(PENDING + 1):
        s.note_read(group(s, 1), plain(number), 0, number + 1)
    assert not s.pending and s.readers[PENDING, 1] == PENDING + 1 and s.readers[0, 1] == 1
    s = shadow(1)
    s.lowest = 200
    for number in range(PENDING + 1):
        s.note_read(group(s, 1), plain(number), 0, number + 1)
    assert [each[3] for each in s.pending] == [*range(201, PENDING + 2)]
    s = shadow(1)
    s.batch.alive[2] = False
    s.clock[[0, 1, 3]] = 200
    for number in range(PENDING + 1):
        s.note_read(group(s, 1), plain(number), 0, number + 1)
    assert [each[3] for each in s.pending] == [*range(201, PENDING + 2)]


def test_who_uses_a_barrier_of_another_block_reads_its_words() -> None:
    s = shadow(2, cluster=2)
    s.note_remote(group(s, 1, 6), plain(2048 + 70, 2048 + 71), 33, 9)
    assert s.last_remote.tolist() == [0, 9, 0, 0, 0, 0, 9, 0]
    assert s.readers[70, 1] == 9 and s.readers[71, 6] == 9 and np.count_nonzero(s.readers) == 2
    assert s.read_access[[69, 70, 71, 72]].tolist() == [0, 33, 33, 0]
    assert not s.last_read.any()


def test_rows_without_a_gap_are_a_slice() -> None:
    assert run(np.array([3])) == slice(3, 4) and run(np.array([3, 4, 5])) == slice(3, 6)
    apart = np.array([3, 5])
    assert run(apart) is apart


def test_what_a_thread_knew_when_it_fenced() -> None:
    fenced = shared_shadow.Fenced(np.ones((3, 5), np.int32))
    assert fenced.rows.shape == (3, 5) and not fenced.rows.any()
    assert fenced.times.shape == (shared_shadow.LATEST, 3) and not fenced.times.any()


def test_of_a_threads_fences_the_latest_counts_that_is_known() -> None:
    fenced = shared_shadow.Fenced(np.zeros((3, 5), np.int32))
    both = np.array([0, 2])
    for now in (4, 7, 9):
        fenced.note(both, np.full((2, 5), now, np.int32), now)
    assert fenced.rows[:, 0].tolist() == [9, 0, 9]
    for known, until in ((3, 0), (4, 4), (8, 7), (12, 9)):
        assert fenced.until(np.arange(3), np.full(3, known)).tolist() == [until, 0, until]
    for now in range(10, 10 + shared_shadow.LATEST):
        fenced.note(both[:1], np.zeros((1, 5), np.int32), now)
    assert fenced.until(np.arange(3), np.full(3, 8)).tolist() == [8, 0, 7]  # 7 is forgotten
