"""Barriers by themselves, of the three kinds: who is counted, who waits, what is told and said."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.errors import Fault, MbarrierFault, TooManyArrivals, UninitialisedMbarrier
from phasebit.emulator.machine.barrier_sites import (
    BarrierSite,
    MbarrierObserver,
    site_at,
    sites,
)
from phasebit.emulator.machine.cluster import ClusterBarrier, ClusterObserver, cluster_barrier
from phasebit.emulator.machine.gathering import WARP_GROUP, Gathering
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.machine.named_barriers import (
    BlockBarrierObserver,
    NamedBarrier,
    NamedBarriers,
    barrier_of,
)
from phasebit.mbarrier import MAX_COUNT
from tests.emulator.machines import groups


class Log(LaunchObserver, MbarrierObserver, BlockBarrierObserver, ClusterObserver):
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def misused(self, g: Any, text: Any) -> None:
        self.heard.append(str(text))

    def arrives_at(self, g: Any, barrier: str) -> None:
        self.heard.append(("arrives at", barrier))

    def operated(self, g: Any, site: Any) -> None:
        self.heard.append(("operated", site.name, g.lanes.tolist()[0]))

    def refuses(self, site: Any) -> None:
        self.heard.append(("refuses", site.name))

    def completes(self, site: Any) -> None:
        self.heard.append(("completes", site.name))

    def waits(self, g: Any, site: Any, blocked: bool) -> None:
        self.heard.append(("waits", int(g.lanes[0]), blocked))

    def passes(self, g: Any, site: Any) -> None:
        self.heard.append(("passes", int(g.lanes[0])))

    def joins_barrier(self, g: Any, barrier: Any) -> None:
        self.heard.append(("joins", int(g.lanes[0]), barrier.arrived))

    def opens_barrier(
        self, barrier: Any, lanes: Any, groups: Any, instructions: Any, everyone: bool
    ) -> None:
        first = [int(g.lanes[0]) for g in groups]
        self.heard.append(("opens", len(lanes), first, len(instructions), everyone))

    def joins_cluster(self, g: Any, barrier: Any, one: int, lanes: Any, sem: str) -> None:
        self.heard.append(("joins", one, lanes.tolist(), sem))

    def opens_cluster(self, barrier: Any, one: int) -> None:
        self.heard.append(("opens", one))

    def passes_cluster(self, g: Any, barrier: Any, one: int) -> None:
        self.heard.append(("passes", one, int(g.lanes[0])))


def launch(count: int = 2, **how: Any) -> tuple[Any, list[Group], list[Any]]:
    """A launch of so many warps a block that waits for nothing, and what it tells."""
    made, found = groups(count, check=False, **how)
    log = Log()
    made.told.subscribe(log)
    return made, found, log.heard


# -- mbarriers ------------------------------------------------------------------------------------


def full(g: Group, count: int = 2, offset: int = 0) -> BarrierSite:
    made = BarrierSite(g.batch, 0, offset)
    made.barrier.init(count)
    return made


def test_a_barrier_is_named_by_its_variable_and_in_a_cluster_by_its_block() -> None:
    _, (g, *_), _ = launch(grid=4)
    for offset, name in ((0, "bar"), (8, "more"), (4, "bar+4"), (24, "more+16")):
        assert BarrierSite(g.batch, 0, offset).name == name
    made = BarrierSite(g.batch, 2, 8)
    batch = g.batch
    assert made.position() == batch.shared_base + 2 * batch.shared_stride + 8
    _, (g, *_), _ = launch(grid=4, cluster=2)
    assert BarrierSite(g.batch, 2, 24).name == "more+16 of block 2"
    assert made.barrier.name == "more" and not made.barrier.check_observed


def test_the_barriers_at_addresses_with_the_threads_that_name_them() -> None:
    _, (g, _), _ = launch(grid=1)
    ((one, where),) = sites(g, np.uint32(8), "shared")
    assert (one.slot, one.offset, where) == (0, 8, None)
    assert site_at(g.batch, one.position()) is one
    ((again, where),) = sites(g, np.full(32, 8, np.uint32), "shared")
    assert again is one and where is None
    addresses = np.where(np.arange(32) % 4 == 1, 0, 8).astype(np.uint32)
    (low, few), (high, rest) = sites(g, addresses, "shared")
    assert (low.offset, high) == (0, one) and few is not None and rest is not None
    assert few.tolist() == [*range(1, 32, 4)] and len(rest) == 24
    _, found, _ = launch(1, grid=3)
    ((one, _),) = sites(found[2], np.full(32, 8, np.uint32), "shared")
    assert (one.slot, one.offset) == (2, 8)


@pytest.mark.parametrize(("change", "new"), [
    (None, True), ("arrive", False), ("add_pending", False), ("waiter", False), ("count", False),
    ("dead", False), ("bytes", False), ("phase", False),
])  # fmt: skip
def test_a_barrier_is_new_until_anybody_uses_it(change: str | None, new: bool) -> None:
    _, (g, _), _ = launch()
    made, count = full(g), 2
    if change in ("arrive", "add_pending"):
        getattr(made.barrier, change)()
    elif change == "waiter":
        made.waiters.append((g, 0, True, None, 0))
    elif change == "count":
        count = 3
    elif change == "dead":
        made.barrier.inval()
    elif change == "bytes":
        made.barrier.expect_tx(8)
    elif change == "phase":
        made.barrier.arrive(2)
    assert made.is_new(count) is new


def test_an_operation_is_told_and_completes_the_phase() -> None:
    made, (a, b), heard = launch()
    bar, progress = full(a), made.progress
    a.time, b.time = 9, 5
    assert bar.operate(a, "arrive") == bar.barrier.snapshot()[1] << 24 | 2
    assert bar.operate(a, "expect_tx", 16) == 0 and bar.announced == 16
    assert bar.operate(b, "arrive") != 0 and bar.barrier.phase == 0
    assert bar.operate(b, "complete_tx", 16) == 0
    assert (made.progress - progress, bar.time, bar.opened, bar.barrier.phase) == (4, 9, 9, 1)
    assert bar.announced == 0 and bar.announcers == {} and bar.added == {} and bar.arrived == []
    assert heard == [
        ("operated", "bar", 0), ("operated", "bar", 0), ("operated", "bar", 32),
        ("operated", "bar", 32), ("completes", "bar"),
    ]  # fmt: skip
    bar.operate(a, "arrive_expect_tx", 8)
    assert bar.announced == 8


@pytest.mark.parametrize(("what", "arguments", "kind"), [
    ("arrive", (3,), TooManyArrivals), ("expect_tx", (MAX_COUNT + 1,), MbarrierFault),
    ("init", (1,), MbarrierFault),
])  # fmt: skip
def test_what_the_state_does_not_allow_ends_the_kernel(
    what: str, arguments: tuple[int, ...], kind: type[Fault]
) -> None:
    made, (_, b), heard = launch()
    bar = full(b)
    bar.maker = "; made there"
    with pytest.raises(kind) as caught:
        bar.operate(b, what, *arguments)
    assert type(caught.value) is kind and heard == [("refuses", "bar")]
    text = str(caught.value)
    assert text.startswith("warp 1 of block 0: bar: ")
    assert text.endswith(f"; made there, at {made.where(b)}")
    with pytest.raises(kind, match="PTX line") as caught:
        bar.operate(b, what, *arguments, access=0)
    assert str(caught.value).endswith(f"at {made.place(0)}")


def test_a_barrier_that_nobody_made_is_not_waited_for() -> None:
    _made, (a, _), _ = launch()
    bar = BarrierSite(a.batch, 0, 0)
    with pytest.raises(UninitialisedMbarrier, match=r"^warp 0 of block 0: bar: .*, at "):
        bar.test(a, 0, True)
    with pytest.raises(MbarrierFault):
        full(a).test(a, 2, True)
    assert bar.would_pass(0, True), "the wait will say so"


def wait(bar: BarrierSite, g: Group, key: int = 0, **more: Any) -> int:
    given: dict[str, Any] = {"parity": True, "dest": (0, np.dtype("?")), "resume": 7,
                             "may_fail": False}  # fmt: skip
    return bar.wait(g, key, **(given | more))


def test_who_waits_is_woken_when_the_phase_completes() -> None:
    made, (a, b), heard = launch()
    bar = full(a, 1)
    for g in (a, b):
        g.registers = [None]
    a.time, b.time = 2, 30
    assert wait(bar, a) == -1 and wait(bar, b, resume=8) == -1 and len(bar.waiters) == 2
    assert {g: w.what for g, w in made.parked.items()} == {
        a: "phase 0 of mbarrier bar", b: "phase 0 of mbarrier bar",
    }  # fmt: skip
    waiting = made.parked[a]
    assert waiting.barrier == "bar" and waiting.may_fail is None
    assert str(waiting.where) == str(made.where(a))
    bar.barrier.expect_tx(24)
    assert waiting.missing is not None and waiting.missing() == 24
    bar.barrier.complete_tx(24)
    third = a.part(np.array([3]), 0)
    third.time = 11
    heard.clear()
    bar.operate(third, "arrive")
    assert heard[1:] == [("completes", "bar"), ("passes", 0), ("passes", 32)]
    assert [(g.pc, g.time, bool(g.registers[0])) for g in made.ready] == [
        (7, 11, True), (8, 30, True),
    ]  # fmt: skip
    assert not bar.waiters and not made.parked


def test_who_waits_for_another_phase_waits_on() -> None:
    made, (a, b), _ = launch()
    bar = full(a, 1)
    for g in (a, b):
        g.registers = [None]
    token = bar.barrier.phase << 24 | 1
    assert wait(bar, a, token, parity=False) == -1
    assert made.parked[a].what == "phase 0 of mbarrier bar"
    bar.waiters.append((b, 1, True, None, 9))
    bar.operate(a, "arrive")
    assert [g for g, *_ in bar.waiters] == [b] and [g.pc for g in made.ready] == [7]
    assert wait(bar, b, 1 << 24 | 1, parity=False) == -1
    assert made.parked[b].what == "phase 1 of mbarrier bar"


def test_a_phase_that_is_over_lets_go_on_at_once() -> None:
    made, (a, b), heard = launch()
    bar = full(a, 1)
    a.time = 20
    bar.operate(a, "arrive")
    b.registers, b.time = [None], 4
    heard.clear()
    assert wait(bar, b) == 7 and bool(b.registers[0]) and b.time == 20
    assert heard == [("waits", 32, False), ("passes", 32)] and not made.parked


def test_a_test_may_answer_not_yet_where_it_must() -> None:
    made, (a, _), _heard = launch()
    bar = full(a, 1)
    a.registers, a.time = [None], 6
    assert wait(bar, a, may_fail=True) == -1
    may_fail = made.parked[a].may_fail
    may_fail(a)
    assert not bar.waiters and not made.parked and not bool(a.registers[0])
    assert [(g.pc, g.time) for g in made.ready] == [(7, 7)]


def test_a_hasty_test_says_no_once_of_each_phase() -> None:
    made, (a, b), heard = launch()
    bar = full(a, 1)
    a.registers = b.registers = [None]
    assert bar.may_refuse(a)
    assert wait(bar, a, hasty=True) == 7 and not bool(a.registers[0]) and not heard
    assert not bar.may_refuse(a) and bar.may_refuse(b)
    assert wait(bar, a, hasty=True) == -1 and made.parked
    bar.operate(b, "arrive")
    assert bar.may_refuse(a), "of the phase that there is"
    assert wait(bar, b, hasty=True) == 7 and bool(b.registers[0])


def test_asking_whether_a_wait_would_pass_leaves_no_trace() -> None:
    _, (a, _), _ = launch()
    bar = full(a, 1)
    assert not bar.would_pass(0, True) and bar.would_pass(1, True)
    bar.barrier.arrive()
    assert not bar.barrier.observed
    assert bar.would_pass(0, True) and not bar.would_pass(1, True) and not bar.barrier.observed
    assert bar.would_pass(0 << 24 | 1, False) and not bar.would_pass(1 << 24 | 1, False)


def test_how_bytes_differ_in_words() -> None:
    _, (a, _), _ = launch()
    bar = full(a, 1)
    for announced, missing, said in (
        (48, 0, "48 bytes announced and 48 come"),
        (48, 16, "48 bytes announced and 32 come: 16 too many announced"),
        (16, -32, "16 bytes announced and 48 come: 32 not announced"),
    ):  # fmt: skip
        bar.announced, bar.barrier.tx = announced, missing
        assert bar.bytes_text() == said


def test_which_instructions_announced_and_added() -> None:
    made, (a, _), _ = launch(body="add.u32 %r1, %r1, 1; bar.sync 0; st.global.u32 [%rd1], %r1;"
                                  " ret;")  # fmt: skip
    bar = full(a, 1)
    assert str(bar.announcers_text()) == ""
    bar.announces(8)
    assert str(bar.announcers_text()) == "", "nobody knows by whom"
    made.running = a
    texts = []
    for at, nbytes in ((0, 16), (1, 4), (0, 32)):
        a.at = at
        bar.announces(nbytes)
        by = made.program.instructions[at]
        texts.append(f"`{by.text}` at {by.where}")
    assert str(bar.announcers_text()) == f"; announced: 48 by {texts[0]}, 4 by {texts[1]}"
    a.at = 1
    bar.adds(a, 2)
    bar.adds(a, 1)
    assert bar.added == {made.program.instructions[1]: 3} and bar.barrier.pending == 4


def test_how_far_a_phase_is_for_a_report() -> None:
    made, (a, _b), _ = launch()
    bar = full(a, 3)
    bar.maker = "; made there"
    assert str(bar.explain()) == (
        "bar is in phase 0 (parity 0) with 3 of 3 arrivals pending; nobody has arrived in this "
        "phase; could still arrive: all threads of block 0; made there"
    )
    bar.barrier.arrive(3)
    bar.barrier.arrive()
    bar.arrived = [np.array([40, 41]), np.array([3])]
    a.batch.alive[[0, 41, 50, 51]] = False
    bar.barrier.expect_tx(8)
    bar.announced = 8
    assert str(bar.explain()).startswith(
        "bar is in phase 1 (parity 1) with 2 of 3 arrivals pending, 8 bytes announced and 0 come: "
        "8 too many announced; arrived in this phase: threads 3, 40-41 of block 0; could still "
        "arrive: threads 1-2, 4-39, 42-49, 52-63 of block 0; 3 threads left the kernel without "
        "arriving; made there"
    )
    a.batch.alive[:] = True
    a.batch.alive[0] = False
    made.running, a.at = a, 0
    bar.adds(a, 2)
    bar.announces(8)
    by = made.program.instructions[0]
    text = str(bar.explain())
    assert "; 1 thread left the kernel without arriving; 2 of the arrivals were added by" in text
    assert text.endswith(
        f"2 of the arrivals were added by `{by.text}` at {by.where}, which has no .noinc; "
        f"announced: 8 by `{by.text}` at {by.where}; made there"
    )
    bar.barrier.complete_tx(8)
    assert "bytes announced and 8 come" in str(bar.explain()) and "announced: 8 by" not in str(
        bar.explain()
    )


def test_of_a_cluster_all_blocks_may_arrive() -> None:
    _made, found, _ = launch(1, grid=4, cluster=2)
    bar = BarrierSite(found[0].batch, 3, 0)
    bar.barrier.init(1)
    assert "could still arrive: all threads of blocks 2-3" in str(bar.explain())


# -- barriers of a block --------------------------------------------------------------------------


def test_a_barrier_opens_when_all_who_live_have_come() -> None:
    made, (a, b, c), heard = launch(3)
    bar = barrier_of(a.batch, 0, 2)
    assert barrier_of(a.batch, 0, 2) is bar and barrier_of(a.batch, 0, 3) is not bar
    a.time, b.time, progress = 8, 5, made.progress
    told: list[Any] = []
    bar.arrive(a, None, "bar.sync", 4, lambda g, votes: told.append((g, votes)))
    bar.arrive(b, None, "bar.sync", 5)
    assert (bar.arrived, bar.needed(), bar.name) == (64, 96, "barrier 2")
    assert {w.what for w in made.parked.values()} == {"barrier 2"} and made.progress == progress
    bar.arrive(c, None, "bar.arrive", None)
    assert heard == [
        ("joins", 0, 0), ("joins", 32, 32), ("joins", 64, 64), ("opens", 96, [0, 32], 2, True),
    ]  # fmt: skip
    assert [(g.pc, g.time) for g in made.ready] == [(4, 8), (5, 8)] and told == [(a, None)]
    assert (bar.arrived, bar.kind, bar.expected, bar.lanes) == (0, "", None, [])
    assert made.progress == progress + 1 and not bar.waiting and not bar.instructions


def test_or_when_so_many_have_come_as_one_asks_for() -> None:
    made, (a, b, c), heard = launch(3)
    bar = NamedBarrier(a.batch, 0, 1)
    bar.arrive(a, 64, "bar.sync", 0)
    assert bar.needed() == 64
    bar.votes = [np.array([1, 2]), np.array([3])]
    told: list[Any] = []
    bar.arrive(b, 64, "bar.sync", 0, lambda g, votes: told.append(votes.tolist()))
    assert heard[-1] == ("opens", 64, [0, 32], 2, False) and told == [[1, 2, 3]]
    assert [g.n for g in made.ready] == [64] and bar.votes == []
    bar.arrive(c, 32, "bar.sync", 0)
    assert len(made.ready) == 1 and made.ready[0].n == 96, "it opens for itself"


@pytest.mark.parametrize("expected", [0, -32, 33, 16])
def test_a_number_of_threads_is_a_multiple_of_32(expected: int) -> None:
    made, (a, _), _ = launch()
    bar = NamedBarrier(a.batch, 0, 1)
    with pytest.raises(Fault) as caught:
        bar.arrive(a, expected, "bar.sync", 4)
    assert str(caught.value) == (
        f"barrier 1 is told to wait for {expected} threads by warp 0 of block 0: the number must "
        f"be a multiple of 32; at {made.where(a)}"
    )


@pytest.mark.parametrize(("first", "second", "wrong"), [
    ("bar.sync", "bar.arrive", False), ("red.popc", "red.popc", False),
    ("red.popc", "bar.sync", True), ("bar.sync", "red.and", True), ("red.and", "red.or", True),
])  # fmt: skip
def test_reductions_of_one_kind_alone_share_a_barrier(
    first: str, second: str, wrong: bool
) -> None:
    _made, (a, b, _), _ = launch(3)
    bar = NamedBarrier(a.batch, 0, 1)
    bar.arrive(a, None, first, 4)
    if not wrong:
        bar.arrive(b, None, "".join(second), 4)
        assert bar.arrived == 64
        return
    with pytest.raises(Fault, match=f"barrier 1 is used by {first} and by {second} at once, by"):
        bar.arrive(b, None, second, 4)


def test_other_numbers_in_one_generation_are_misuse() -> None:
    _, (a, b, _), heard = launch(3)
    bar = NamedBarrier(a.batch, 0, 1)
    bar.arrive(a, 96, "bar.sync", 4)
    bar.arrive(b, 96, "bar.sync", 4)
    assert not [each for each in heard if isinstance(each, str)]
    _, (a, b, _), heard = launch(3)
    bar = NamedBarrier(a.batch, 0, 1)
    bar.arrive(a, 96, "bar.sync", 4)
    bar.arrive(b, 128, "bar.sync", 4)
    assert [each for each in heard if isinstance(each, str)] == [
        "barrier 1 is told to wait for 128 threads here and for 96 elsewhere in the same generation"
    ]
    assert bar.needed() == 128
    bar.arrive(b, None, "bar.sync", 4)
    assert bar.expected == 128


def test_threads_of_a_warp_come_to_one_instruction() -> None:
    _made, (a, b), heard = launch()
    bar = NamedBarrier(a.batch, 0, 0)
    for g, resume in ((b, 9), (a.part(np.arange(8), 0), 4), (a.part(np.arange(8, 32), 0), 5)):
        bar.arrive(g, None, "bar.sync", resume)
    assert [each for each in heard if isinstance(each, str)] == [
        "threads 8-31 of block 0 and threads 0-7 of block 0 of one warp wait at different barrier "
        "instructions; all threads of a warp must come to the same one"
    ]


def test_who_leaves_is_waited_for_no_longer() -> None:
    made, (a, b), heard = launch()
    barriers = a.batch.of(NamedBarriers)
    bar = barrier_of(a.batch, 0, 0)
    bar.arrive(a, None, "bar.sync", 4)
    assert "could" not in str(bar.explain()) and str(bar.explain()) == (
        "32 of 64 threads have arrived: warp 0 of block 0; not here: warp 1 of block 0"
    )
    made.exit_threads(b.part(np.arange(30), 0))
    assert bar.arrived == 32 and str(bar.explain()).endswith("not here: threads 62-63 of block 0")
    made.exit_threads(b.part(np.array([30, 31]), 0))
    assert bar.arrived == 0 and made.ready == [a] and barriers.by_number == {(0, 0): bar}
    assert heard[-1] == ("opens", 32, [0], 1, True)
    bar.check()
    assert heard[-1][0] == "opens" and len([e for e in heard if e[0] == "opens"]) == 1


def test_each_block_has_its_own_barriers() -> None:
    _, found, _ = launch(2, grid=2)
    bar = NamedBarrier(found[0].batch, 1, 0)
    bar.arrive(found[2], None, "bar.sync", 4)
    assert str(bar.explain()) == (
        "32 of 64 threads have arrived: warp 0 of block 1; not here: warp 1 of block 1"
    )
    bar.arrived = 0
    bar.lanes = [found[3].lanes, found[2].lanes]
    assert "not here" not in str(bar.explain())
    assert NamedBarrier(found[0].batch, 0, -1).name == "the cluster barrier"
    assert NamedBarrier(found[0].batch, 0, 0).name == "barrier 0"


# -- the barrier of a cluster ---------------------------------------------------------------------


def clusters() -> tuple[Any, list[Group], list[Any], ClusterBarrier]:
    """Two clusters of two blocks of one warp."""
    made, found, heard = launch(1, grid=4, cluster=2)
    return made, found, heard, cluster_barrier(found[0].batch)


def test_a_cluster_waits_for_all_of_its_threads() -> None:
    made, (a, b, c, d), heard, bar = clusters()
    assert cluster_barrier(a.batch) is bar and bar.size == 64
    a.time, b.time, now, progress = 12, 4, made.now, made.progress
    for g in (a, c):
        g.resume = 6
        bar.arrive(g, "release")
        assert bar.wait(g) == -1
    assert [w.what for w in made.parked.values()] == ["the cluster barrier"] * 2
    assert (made.now, made.progress) == (now + 2, progress + 2)
    assert heard == [
        ("arrives at", "cluster"), ("joins", 0, a.lanes.tolist(), "release"),
        ("arrives at", "cluster"), ("joins", 1, c.lanes.tolist(), "release"),
    ]  # fmt: skip
    assert str(made.parked[c].explain()) == (
        "32 of 64 threads of the cluster have arrived; not here: all threads of block 3"
    )
    heard.clear()
    bar.arrive(b, "relaxed")
    assert heard[1:] == [("joins", 0, b.lanes.tolist(), "relaxed"), ("opens", 0), ("passes", 0, 0)]
    assert made.ready == [a] and a.pc == 6 and set(made.parked) == {c}
    assert bar.opened.tolist() == [1, 0] and made.progress == progress + 4
    assert [bar.next(int(g.lanes[0])) for g in (a, b, c, d)] == [2, 2, 2, 1]
    b.resume, heard[:] = 9, []
    assert bar.wait(b) == 9 and b.time == 12 and heard == [("passes", 0, 32)]


def test_who_has_been_through_it_and_how_often() -> None:
    _, (a, b, *_), _, bar = clusters()
    assert bar.last(a.lanes) == 0 and not bar.passed(a.lanes)
    for generation in (1, 2):
        bar.arrive(a, "release")
        assert bar.last(a.lanes) == generation - 1
        bar.arrive(b, "release")
        bar.wait(a)
        bar.wait(b)
        assert bar.last(a.lanes) == generation and bar.passed(a.lanes)
    bar.arrive(a.part(np.array([3]), 0), "release")
    assert bar.last(a.lanes[3:4]) == 2 and bar.last(a.lanes) == 2


def test_who_leaves_a_cluster_is_waited_for_no_longer() -> None:
    made, (a, b, c, _), heard, bar = clusters()
    a.resume = 6
    bar.arrive(a, "release")
    bar.wait(a)
    made.exit_threads(c)
    assert set(made.parked) == {a}
    made.exit_threads(b)
    assert made.ready == [a] and bar.opened.tolist() == [1, 0]
    assert ("opens", 1) not in heard, "nobody had come there"
    bar.check(0)
    assert bar.opened.tolist() == [1, 0]


def test_arriving_twice_and_waiting_without_arriving_are_misuse() -> None:
    _, (a, b, *_), heard, bar = clusters()
    some = a.part(np.arange(4, 8), 0)
    bar.arrive(some, "release")
    assert not [each for each in heard if isinstance(each, str)]
    bar.arrive(a, "release")
    assert [each for each in heard if isinstance(each, str)] == [
        "thread 4 of block 0 arrives at the cluster barrier for the second time without waiting in "
        "between"
    ]
    heard.clear()
    bar.arrive(b.part(np.arange(2), 0), "release")
    b.resume = 3
    bar.wait(b)
    assert [each for each in heard if isinstance(each, str)] == [
        "thread 2 of block 1 waits at the cluster barrier without having arrived"
    ]


def test_a_group_of_several_clusters_parts() -> None:
    made, (a, b, c, d), _heard, bar = clusters()
    for g in (a, b, c):
        bar.arrive(g, "release")
    whole = Group(a.batch, np.arange(128), 0, list(a.registers), 7)
    whole.resume = 0
    bar.mine[d.lanes] = 1
    assert bar.wait(whole) == -1
    assert [g.lanes[[0, -1]].tolist() for g in made.ready] == [[0, 63]]
    assert [g.lanes[[0, -1]].tolist() for g in made.parked] == [[64, 127]]
    (some,) = made.parked
    assert bar.waiting == [(some, 0)]


# -- threads that come together -------------------------------------------------------------------


def test_threads_of_a_warp_wait_for_those_whom_the_mask_names() -> None:
    made, (a, b), _ = launch()
    gathering = Gathering()
    low, high = a.part(np.arange(8), 0), a.part(np.arange(8, 32), 0)
    assert gathering.bring(b, None) and gathering.bring(low, np.uint32(0xFF))
    assert not gathering.bring(low, np.uint32(0x1FF)) and set(made.parked) == {low}
    waiting = made.parked[low]
    assert waiting.what == "the other threads of the warp"
    assert str(waiting.where) == str(made.where(low))
    assert not gathering.bring(high, None) and not made.parked and not gathering.waiting
    (whole,) = made.ready
    assert whole.n == 32 and gathering.bring(whole, None)


def test_who_is_complete_goes_on_and_the_rest_waits() -> None:
    made, (a, _b), _ = launch()
    both = Group(a.batch, np.arange(40), 0, list(a.registers), 0)
    gathering = Gathering()
    assert not gathering.bring(both, None)
    assert [g.lanes.tolist() for g in made.ready] == [[*range(32)]]
    (waiting,) = made.parked
    assert waiting.lanes.tolist() == [*range(32, 40)]
    a.batch.alive_mask[1] = 0xFF
    assert gathering.let_go(SimpleNamespace()) == []  # type: ignore[arg-type]
    assert gathering.let_go(a.batch) == [waiting] and not gathering.waiting


def test_masks_of_each_thread_and_groups_of_other_places() -> None:
    _made, (a, _b), _ = launch()
    gathering = Gathering()
    masks = np.where(np.arange(16) < 8, 0xFF, 0xFF00).astype(np.uint32)
    assert gathering.bring(a.part(np.arange(16), 0), masks)
    low = a.part(np.arange(8), 0)
    assert not gathering.bring(low, None)
    for change in ("pc", "stack"):
        other = a.part(np.arange(8, 32), 0)
        setattr(other, change, 1 if change == "stack" else 0)
        other.pc = other.pc if change == "stack" else low.pc
        if change == "stack":
            assert not gathering.bring(other, None) and len(gathering.waiting) == 2


def test_four_warps_are_a_warp_group() -> None:
    made, found, _ = launch(6)
    whole = Group(found[0].batch, np.arange(192), 0, list(found[0].registers), 0)
    first = whole.part(np.arange(128), 0)
    gathering = Gathering()
    assert gathering.bring(first, WARP_GROUP) and gathering.bring(whole, WARP_GROUP)
    assert gathering.bring(whole.part(np.arange(128, 192), 0), WARP_GROUP), "the last has two"
    some = whole.part(np.arange(32, 192), 0)
    assert not gathering.bring(some, WARP_GROUP)
    assert [g.lanes[[0, -1]].tolist() for g in made.ready] == [[128, 191]]
    (waiting,) = made.parked
    assert waiting.lanes[[0, -1]].tolist() == [32, 127]
    assert made.parked[waiting].what == "the other threads of the warp group"


def test_warp_groups_of_several_blocks_are_their_own() -> None:
    made, found, _ = launch(5, grid=2)
    first = found[0].batch
    whole = Group(first, np.arange(320), 0, list(found[0].registers), 0)
    gathering = Gathering()
    part = whole.part(np.r_[0:128, 160:192, 288:320], 0)
    assert not gathering.bring(part, WARP_GROUP)
    assert [g.lanes.tolist() for g in made.ready] == [[*range(128), *range(288, 320)]]
    (waiting,) = made.parked
    assert waiting.lanes.tolist() == [*range(160, 192)]
