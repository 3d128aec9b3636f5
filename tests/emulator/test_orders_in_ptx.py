"""What orders two accesses and what does not: each way to synchronise, right and a little wrong.

All in PTX, so that no compiler is needed. The first thread makes an access and tells of it; the
second hears of it and makes the other. Source: PTX ISA 8.7 to 8.9, 9.7.13.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from phasebit.launching.launch import Module

HEAD = """
.version 8.0
.target sm_90
.address_size 64
"""
FLAGS = (
    HEAD
    + """
.visible .entry k(.param .u64 p)
{
    .shared .align 4 .b32 data_s; .shared .align 4 .b32 flag_s;
    .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<5>;
    ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
    mov.b32 %r3, 7; mov.b32 %r6, 1;
    mad.lo.u32 %r4, %r2, 32, %r1;
    setp.eq.u32 %p1, %r4, 0; setp.eq.u32 %p2, %r4, 32;
    @%p1 bra FIRST;
    @%p2 bra SECOND;
    ret;
FIRST:
    ONE
    TELL
    ret;
SECOND:
    HEAR
    TWO
    ret;
}
"""
)
STORE, LOAD = "st.SPACE.u32 [DATA], %r3;", "ld.SPACE.u32 %r5, [DATA];"
SPIN = "AGAIN: {} setp.ne.u32 %p3, %r7, 1; @%p3 bra AGAIN; {}"

TELLS = {  # how the first thread tells, and whether that publishes what it did before
    "st.release.{s}.{x}.u32 [FLAG], %r6;": True,
    "st.relaxed.{s}.{x}.u32 [FLAG], %r6;": False,
    "st.volatile.{x}.u32 [FLAG], %r6;": False,
    "fence.acq_rel.{s}; st.relaxed.{s}.{x}.u32 [FLAG], %r6;": True,
    "fence.sc.{s}; st.relaxed.{s}.{x}.u32 [FLAG], %r6;": True,
    "membar.gl; st.volatile.{x}.u32 [FLAG], %r6;": True,
    "st.relaxed.{s}.{x}.u32 [FLAG], %r6; fence.acq_rel.{s};": False,
    "red.release.{s}.{x}.add.u32 [FLAG], 1;": True,
    "red.relaxed.{s}.{x}.add.u32 [FLAG], 1;": False,
    "atom.acq_rel.{s}.{x}.exch.b32 %r8, [FLAG], 1;": True,
    "atom.release.{s}.{x}.cas.b32 %r8, [FLAG], 0, 1;": True,
    "atom.acquire.{s}.{x}.exch.b32 %r8, [FLAG], 1;": False,
    "fence.acq_rel.{s}; atom.relaxed.{s}.{x}.exch.b32 %r8, [FLAG], 1;": True,
}
HEARS = {  # how the second hears, and whether it may count on what was published
    SPIN.format("ld.acquire.{s}.{x}.u32 %r7, [FLAG];", ""): True,
    SPIN.format("ld.relaxed.{s}.{x}.u32 %r7, [FLAG];", ""): False,
    SPIN.format("ld.volatile.{x}.u32 %r7, [FLAG];", ""): False,
    SPIN.format("ld.relaxed.{s}.{x}.u32 %r7, [FLAG];", "fence.acq_rel.{s};"): True,
    SPIN.format("ld.volatile.{x}.u32 %r7, [FLAG];", "membar.gl;"): True,
    SPIN.format("fence.acq_rel.{s}; ld.relaxed.{s}.{x}.u32 %r7, [FLAG];", ""): False,
    SPIN.format("atom.acquire.{s}.{x}.add.u32 %r7, [FLAG], 0;", ""): True,
    SPIN.format("atom.acq_rel.{s}.{x}.add.u32 %r7, [FLAG], 0;", ""): True,
    SPIN.format("atom.relaxed.{s}.{x}.add.u32 %r7, [FLAG], 0;", ""): False,
    SPIN.format("atom.release.{s}.{x}.add.u32 %r7, [FLAG], 0;", ""): False,
    SPIN.format("atom.relaxed.{s}.{x}.add.u32 %r7, [FLAG], 0;", "fence.sc.{s};"): True,
}
TELL, HEAR = next(iter(TELLS)), next(iter(HEARS))


def rules(
    tell: str, hear: str, *, one: str = STORE, two: str = LOAD, space: str = "global",
    scope: str = "gpu", blocks: int = 1, schedule: str = "late", seed: int = 0,
) -> list[str]:  # fmt: skip
    """The rules that are broken; the two threads are of two warps, or of two blocks."""
    text = FLAGS.replace("ONE", one).replace("TWO", two)
    text = text.replace("TELL", tell.format(s=scope, x=space))
    text = text.replace("HEAR", hear.format(s=scope, x=space)).replace("SPACE", space)
    places = ("%d1", "%d1+128") if space == "global" else ("data_s", "flag_s")
    text = text.replace("DATA", places[0]).replace("FLAG", places[1])
    if space == "shared":  # both are 0 before the two begin
        zero = "".join(f"@%p1 st.shared.u32 [{name}], 0; " for name in places)
        text = text.replace("    @%p1 bra FIRST;", f"    {zero} bar.sync 0;\n    @%p1 bra FIRST;")
    memory = np.zeros(64, np.uint32)
    run = Module(text)["k"].launch(
        blocks, 64 // blocks, [memory], schedule=schedule, seed=seed
    )  # fmt: skip
    return sorted({finding.rule for finding in run.findings})


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("tell", TELLS)
def test_8_8_only_what_releases_publishes(tell: str, space: str) -> None:
    assert rules(tell, HEAR, space=space) == ([] if TELLS[tell] else ["race"])


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("hear", HEARS)
def test_8_8_only_what_acquires_learns(hear: str, space: str) -> None:
    assert rules(TELL, hear, space=space) == ([] if HEARS[hear] else ["race"])


@pytest.mark.parametrize(("tell", "hear"), itertools.product(list(TELLS)[1:], list(HEARS)[1:]))
def test_8_8_a_pattern_has_both_ends(tell: str, hear: str) -> None:
    assert rules(tell, hear, blocks=2) == ([] if TELLS[tell] and HEARS[hear] else ["race"])


@pytest.mark.parametrize("schedule", ["late", "eager", "random"])
@pytest.mark.parametrize(("one", "two", "ordered"), [
    (STORE, LOAD, False), (LOAD, STORE, False), (STORE, STORE, False), (LOAD, LOAD, True),
])  # fmt: skip
@pytest.mark.parametrize("blocks", [1, 2])
def test_two_accesses_of_which_one_stores(
    one: str, two: str, ordered: bool, blocks: int, schedule: str
) -> None:
    for tell in (TELL, "st.relaxed.gpu.global.u32 [FLAG], %r6;"):
        found = rules(tell, HEAR, one=one, two=two, blocks=blocks, schedule=schedule, seed=3)
        wrong = [] if ordered or tell == TELL else (
            ["race-equal-stores"] if one == two else ["race"])  # fmt: skip
        assert found == wrong


@pytest.mark.parametrize(("scope", "blocks", "ordered"), [
    ("cta", 1, True), ("cta", 2, False), ("gpu", 2, True), ("sys", 2, True), ("cluster", 1, True),
])  # fmt: skip
@pytest.mark.parametrize("tell", [each for each, releases in TELLS.items() if releases
                                  and "membar" not in each])  # fmt: skip
def test_8_5_a_scope_reaches_so_far(tell: str, scope: str, blocks: int, ordered: bool) -> None:
    assert rules(tell, HEAR, scope=scope, blocks=blocks) == ([] if ordered else ["race"])


SHORT = {  # what a reader with ``.cta`` scope, and one behind it, may count on of another block
    **{hear.replace("{s}", "cta"): False for hear, acquires in HEARS.items()
       if acquires and "membar" not in hear},
    SPIN.format("ld.relaxed.gpu.{x}.u32 %r7, [FLAG];", "fence.acq_rel.cta;"): False,
    SPIN.format("ld.acquire.cta.{x}.u32 %r7, [FLAG];", "fence.acq_rel.gpu;"): True,
    SPIN.format("ld.relaxed.gpu.{x}.u32 %r7, [FLAG];", "fence.acq_rel.cta; membar.gl;"): True,
    SPIN.format("ld.acquire.cluster.{x}.u32 %r7, [FLAG];", ""): False,
    SPIN.format("ld.acquire.cluster.{x}.u32 %r7, [FLAG];",
                "ld.acquire.gpu.{x}.u32 %r7, [FLAG];"): True,
}  # fmt: skip


@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("hear", SHORT)
def test_8_5_the_scope_of_who_hears_reaches_so_far(hear: str, blocks: int) -> None:
    assert rules(TELL, hear, blocks=blocks) == ([] if SHORT[hear] or blocks == 1 else ["race"])


@pytest.mark.parametrize("fence", ["", "membar.cta;"])
@pytest.mark.parametrize("hear", ["acquire.cta", "acquire.cluster", "acquire.gpu", "relaxed.cta",
                                  "relaxed.cluster", "relaxed.gpu", "volatile"])  # fmt: skip
def test_8_5_what_a_block_counts_on_after_its_barrier_has_the_readers_scope(
    hear: str, fence: str
) -> None:
    look = SEEN.replace("relaxed.gpu", hear) + fence
    tell = f"@%p1 st.global.u32 [%d1], %r3; {FENCE} @%p1 {FLAG}"
    found = looked(tell, f"mov.u32 %r7, 1; {look} bar.sync 0; @%p5 ld.global.u32 %r5, [%d1];")
    assert bool(found) == (".c" in hear), found


@pytest.mark.parametrize(("one", "two", "found"), [
    ("st.relaxed.gpu.SPACE.u32 [DATA], %r3;", "ld.relaxed.gpu.SPACE.u32 %r5, [DATA];", []),
    ("st.volatile.SPACE.u32 [DATA], %r3;", "atom.SPACE.add.u32 %r5, [DATA], 1;", []),
    ("red.SPACE.add.u32 [DATA], 1;", "red.SPACE.add.u32 [DATA], 1;", []),
    ("st.relaxed.gpu.SPACE.u32 [DATA], %r3;", LOAD, ["race-with-strong-store"]), (STORE,
     "atom.SPACE.add.u32 %r5, [DATA], 1;", ["race"]),
])  # fmt: skip
@pytest.mark.parametrize("space", ["global", "shared"])
def test_strong_accesses_race_with_weak_ones_only(
    one: str, two: str, found: list[str], space: str
) -> None:
    got = rules("st.relaxed.gpu.{x}.u32 [FLAG], %r6;", HEAR, one=one, two=two, space=space)
    assert bool(got) == bool(found), got


# -- barriers --------------------------------------------------------------------------------

BARRIERS = (
    HEAD
    + """
.visible .entry k(.param .u64 p) CLUSTER
{
    .shared .align 4 .b32 tile[64]; .shared .align 8 .b64 full; .shared .align 8 .b64 other;
    .reg .b32 %r<20>; .reg .b64 %d<9>; .reg .pred %p<6>;
    ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; mov.u32 %r9, %ctaid.x;
    mad.lo.u32 %r10, %r9, 64, %r1;
    xor.b32 %r3, %r1, PARTNER; shl.b32 %r4, %r1, 2; shl.b32 %r5, %r3, 2;
    setp.eq.u32 %p1, %r2, 0; setp.eq.u32 %p2, %r1, 0;
    mov.u32 %r6, tile; add.u32 %r7, %r6, %r4; add.u32 %r8, %r6, %r5;
    @!%p2 bra READY;
    mbarrier.init.shared.b64 [full], 64; mbarrier.init.shared.b64 [other], 32;
READY:
    bar.sync 7;
    st.shared.u32 [%r7], %r1;
    SYNC
    ld.shared.u32 %r11, [%r8];
    mul.wide.u32 %d2, %r10, 4; add.u64 %d1, %d1, %d2; st.global.u32 [%d1], %r11;
    ret;
}
"""
)
WAIT = "L{0}: mbarrier.try_wait.parity.shared.b64 %p4, [{1}], 0; @!%p4 bra L{0};"
ARRIVE = "mbarrier.arrive.shared.b64 %d5, [{}];"
SYNCS = {  # between the store and the load of another warp's word; of another lane's
    "": (False, False),
    "bar.sync 0;": (True, True),
    "bar.sync 3, 64;": (True, True),
    "barrier.sync 2;": (True, True),
    "bar.red.popc.u32 %r12, 0, %p1;": (True, True),
    "bar.warp.sync 0xffffffff;": (False, True),
    "membar.cta;": (False, False),
    "fence.acq_rel.gpu;": (False, False),
    "shfl.sync.idx.b32 %r12, %r1, 0, 31, 0xffffffff;": (False, False),
    "vote.sync.any.pred %p5, %p1, 0xffffffff;": (False, False),
    "@%p1 bar.sync 1, 32; @!%p1 bar.sync 2, 32;": (False, True),
    ARRIVE.format("full") + WAIT.format(1, "full"): (True, True),
    ARRIVE.format("full"): (False, False),
    "mbarrier.arrive.release.cta.shared.b64 %d5, [full];" + WAIT.format(1, "full"): (True, True),
    "bar.sync 0; bar.sync 0;": (True, True),
    "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;": (True, True),
    "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;": (True, True),
    "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;": (False, False),
    "fence.acq_rel.cluster; barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;":
        (True, True),  # the example of 9.7.13.3
}  # fmt: skip


def of_barriers(sync: str, partner: int, schedule: str = "late") -> tuple[list[str], bool]:
    """The rules that are broken, and whether each thread got its partner's word."""
    text = BARRIERS.replace("SYNC", sync).replace("PARTNER", str(partner)).replace("CLUSTER", "")
    memory = np.zeros(64, np.uint32)
    run = Module(text)["k"].launch(1, 64, [memory], schedule=schedule, seed=1)
    right = memory.tolist() == [each ^ partner for each in range(64)]
    return sorted({finding.rule for finding in run.findings}), right


@pytest.mark.parametrize("schedule", ["late", "random"])
@pytest.mark.parametrize("sync", SYNCS)
def test_9_7_13_what_barriers_order(sync: str, schedule: str) -> None:
    for partner, ordered in zip((32, 1), SYNCS[sync], strict=True):
        found, right = of_barriers(sync, partner, schedule)
        assert (found == []) == ordered, found
        assert right or not ordered


@pytest.mark.parametrize("copies", [False, True])
def test_a_relaxed_arrival_of_a_block_alone_publishes_nothing(copies: bool) -> None:
    """Neither what was written, nor that a copy may read it or write there."""
    sync = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;"
    bulk = "@%p2 cp.async.bulk.global.shared::cta.bulk_group [%d1], [tile], 16;"
    for partner in (32, 1):
        found, _ = of_barriers(sync + (bulk if copies else ""), partner)
        assert "race" in found


# -- idioms that go beyond the letter of the model ---------------------------------------------

RELAYS = {  # how a warp of block 1 goes on after its first lane has looked: whether others know
    "bar.sync 0;": True, "bar.warp.sync 0xffffffff;": True,
    "shfl.sync.idx.b32 %r8, %r7, 0, 31, 0xffffffff;": True, "": False,
    "bar.sync 1, 64;": True, "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;": True,
}  # fmt: skip
LOOKED = (
    HEAD
    + """
.visible .entry k(.param .u64 p)
{
    .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<9>;
    ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.b32 %r3, 7;
    setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r2, 1; setp.eq.u32 %p5, %r1, 37;
    @%p2 bra SECOND;
    TELL
    ret;
SECOND:
    HEAR
    ret;
}
"""
)
FENCE = "fence.acq_rel.gpu; "
FLAG = "st.relaxed.gpu.global.u32 [%d1+128], 1;"


def looked(tell: str, hear: str) -> list[str]:
    """Two blocks of 64 threads."""
    text = LOOKED.replace("TELL", tell).replace("HEAR", hear)
    run = Module(text)["k"].launch(2, 64, [np.zeros(64, np.uint32)])
    return [f"{each.rule}: {each.message}" for each in run.findings]


SEEN = "A: @%p1 ld.relaxed.gpu.global.u32 %r7, [%d1+128]; setp.eq.u32 %p3, %r7, 0; @%p3 bra A; "


@pytest.mark.parametrize("reader", [0, 5, 37])
@pytest.mark.parametrize("relay", RELAYS)
def test_one_thread_looks_and_a_barrier_lets_others_go_on(relay: str, reader: int) -> None:
    """Without a fence of theirs; what a warp's barrier or shuffle tells, only its lanes know."""
    tell = f"@%p1 st.global.u32 [%d1], %r3; {FENCE} @%p1 {FLAG}"
    hear = "mov.u32 %r7, 1; " + SEEN + relay + (
        f" setp.eq.u32 %p6, %r1, {reader}; @%p6 ld.global.u32 %r5, [%d1];"
    )
    warp_only = "warp" in relay or "shfl" in relay
    ordered = RELAYS[relay] and not (warp_only and reader == 37)
    found = looked(tell, hear)
    assert bool(found) != ordered
    assert all(f"race: thread {reader} of block 1 reads argument 0[0 bytes in]" in one
               and "; thread 0 of block 0 wrote it" in one for one in found)  # fmt: skip


DELAY = (  # the first warp comes late
    "setp.ge.u32 %p6, %r1, 32; mov.u32 %r6, 0; @%p6 bra ON; D: add.u32 %r6, %r6, 1; "
    "setp.lt.u32 %p6, %r6, 60; @%p6 bra D; ON: "
)


@pytest.mark.parametrize(("before", "behind", "ordered"), [
    ("bar.sync 0; @%p5 " + FENCE + DELAY, "", False),
    ("bar.sync 0; @%p5 " + FENCE + DELAY + "bar.sync 0;", "", True),
    (FENCE + "bar.sync 0; @%p5 " + FENCE + DELAY, "", True),
    (FENCE + "bar.sync 0; " + ("@%p5 " + FENCE) * 20 + DELAY, "", True),
    (FENCE + "bar.sync 0;", "", True), ("bar.sync 0;" + FENCE, "", True),
    ("bar.sync 0;", "", False),
    (FENCE, "", False), (FENCE + "bar.sync 0;", "@%p5 st.global.u32 [%d1+4], %r3;", True),
    ("bar.sync 0; @%p1 " + FENCE, "", True),
])  # fmt: skip
def test_all_threads_fence_and_after_a_barrier_one_tells(
    before: str, behind: str, ordered: bool
) -> None:
    tell = f"@%p5 st.global.u32 [%d1], %r3; {before} @%p1 {FLAG} {behind}"
    hear = f"mov.u32 %r7, 1; {SEEN} {FENCE} bar.sync 0; @%p5 ld.global.u32 %r5, [%d1];"
    found = looked(tell, hear)
    assert bool(found) != ordered
    assert all("thread 37 of block 1 reads argument 0[0 bytes in]" in one
               and "; thread 37 of block 0 wrote it" in one for one in found)  # fmt: skip


@pytest.mark.parametrize(("relay", "reader", "ordered"), [
    ("shfl.sync.idx.b32 %r8, %r7, 0, 31, 0xffffffff;", 37, True),
    ("bar.warp.sync 0xffffffff;", 37, True), ("", 37, False), ("", 32, True),
    ("shfl.sync.idx.b32 %r8, %r7, 0, 31, 0xffffffff;", 64, False),
])  # fmt: skip
@pytest.mark.parametrize("hear", ["ld.acquire.cta", "ld.acquire.gpu", "ld.relaxed.gpu"])
def test_what_a_lane_has_heard_from_another_warp_it_tells_its_own(
    hear: str, relay: str, reader: int, ordered: bool
) -> None:
    """The first warp tells; the first lane of the second looks, and tells its warp, no other."""
    fence = "@%p2 fence.acq_rel.gpu;" if "relaxed" in hear else ""
    text = LOOKED.replace("setp.eq.u32 %p2, %r2, 1;", "setp.eq.u32 %p2, %r1, 32; "
                          "setp.ge.u32 %p4, %r1, 32;").replace("@%p2 bra SECOND", "@%p4 bra SECOND")
    look = f"mov.u32 %r7, 1; A: @%p2 {hear}.global.u32 %r7, [%d1+128]; setp.eq.u32 %p3, %r7, 0; " \
           "@%p3 bra A; "
    last = f" setp.eq.u32 %p6, %r1, {reader}; @%p6 ld.global.u32 %r5, [%d1];"
    text = text.replace("HEAR", look + fence + relay + last)
    text = text.replace("TELL", "@%p1 st.global.u32 [%d1], %r3; @%p1 st.release.gpu.global.u32 "
                        "[%d1+128], 1;")
    found = Module(text)["k"].launch(1, 96, [np.zeros(64, np.uint32)]).findings
    assert [each.rule for each in found] == ([] if ordered else ["race"])


FAR = """
.visible .entry k(.param .u64 p)
{
    .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<9>; .shared .align 4 .b32 tile[1024];
    mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, tile; add.u32 %r4, %r3, %r2;
    st.shared.u32 [%r4], 0; st.shared.u32 [%r4+2048], 0;
    bar.sync 0;
    setp.eq.u32 %p1, %r1, 37; setp.eq.u32 %p2, %r1, 5; setp.eq.u32 %p3, %r1, 70;
    @%p1 ld.shared.u32 %r5, [tile+2068];
    @%p3 ld.shared.u32 %r5, [tile+300];
    @%p2 bra ON; ret;
ON: st.shared.u32 [%r4], 1; st.shared.u32 [%r4+2048], 1; st.shared.u32 [%r4+1024], 1;
    ret;
}
"""


def test_words_far_apart_that_one_register_reaches_are_each_looked_at() -> None:
    """Thread 5 stores to three places; the second of them another warp has just read."""
    (found,) = Module(HEAD + FAR)["k"].launch(1, 96, [np.zeros(1, np.uint32)]).findings
    assert found.rule == "race" and "thread 5 of block 0 writes tile[2068 bytes in]" in (
        found.message
    )
    assert "; thread 37 of block 0 read it" in found.message


@pytest.mark.parametrize(("fences", "ordered"), [
    ("@%p1 fence.acq_rel.gpu; @%p5 fence.acq_rel.gpu;", True),
    ("@%p5 fence.acq_rel.gpu; @%p1 fence.acq_rel.gpu;", True), ("@%p1 fence.acq_rel.gpu;", False),
])  # fmt: skip
def test_of_two_that_have_looked_each_counts_on_its_own_fence(fences: str, ordered: bool) -> None:
    """Threads 0 and 37 look at once; thread 37 goes on."""
    tell = f"@%p1 st.global.u32 [%d1], %r3; {FENCE} @%p1 {FLAG}"
    look = ("mov.u32 %r7, 1; or.pred %p6, %p1, %p5; A: @%p6 ld.relaxed.gpu.global.u32 %r7, "
            "[%d1+128]; setp.eq.u32 %p3, %r7, 0; @%p3 bra A; ")  # fmt: skip
    found = looked(tell, f"{look} {fences} @%p5 ld.global.u32 %r5, [%d1];")
    assert bool(found) != ordered, found
