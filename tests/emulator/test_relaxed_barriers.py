"""Relaxed arrivals and waits, at an mbarrier and at a cluster's barrier: what orders is a fence.

``fence.acq_rel`` before a relaxed arrival releases, one behind a relaxed wait acquires (PTX ISA
8.7, 8.8; 9.7.13.3 has the first as its example). Without the fence neither orders anything.
"""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.launching.launch import Module

TEXT = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 given)
{
    .reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    .shared .align 16 .b32 tile[64]; .shared .align 8 .b64 full;
    ld.param.u64 %rd1, [given]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0;
    setp.lt.u32 %p2, %r1, 32; mov.u32 %r2, tile; shl.b32 %r3, %r1, 2; add.u32 %r2, %r2, %r3;
    @%p1 mbarrier.init.shared::cta.b64 [full], 32;
    bar.sync 0;
    @!%p2 bra HEAR;
    st.shared.u32 [%r2], %r1;
    FENCE
    mbarrier.arrive.ARRIVAL.shared::cta.b64 _, [full];
    bra LAST;
HEAR:
W:  mbarrier.try_wait.parity.WAIT.shared::cta.b64 %p3, [full], 0; @!%p3 bra W;
    BEHIND
    ld.shared.u32 %r4, [%r2+-128];
LAST:
    ret;
}
"""
FENCE = "fence.acq_rel.cta;"


def found_in(text: str, blocks: int, threads: int, *args: object, **mode: object) -> set[str]:
    """The rules that a launch of a kernel breaks."""
    run = Module(text)["k"].launch(blocks, threads, [*args], **mode)  # type: ignore[arg-type]
    return {each.rule for each in run.findings}


def rules(fence: str, arrival: str, wait: str, behind: str, schedule: str) -> set[str]:
    text = TEXT.replace("FENCE", fence).replace("ARRIVAL", arrival).replace("WAIT", wait)
    given = np.zeros(1, np.uint32)
    return found_in(text.replace("BEHIND", behind), 1, 64, given, schedule=schedule)


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize(("fence", "arrival", "wait", "behind", "ordered"), [
    ("", "release.cta", "acquire.cta", "", True),
    (FENCE, "relaxed.cta", "acquire.cta", "", True),
    ("", "relaxed.cta", "acquire.cta", "", False),
    ("", "release.cta", "relaxed.cta", FENCE, True),
    ("", "release.cta", "relaxed.cta", "", False),
    (FENCE, "relaxed.cta", "relaxed.cta", FENCE, True),
    (FENCE, "relaxed.cta", "relaxed.cta", "", False),
    ("", "relaxed.cta", "relaxed.cta", FENCE, False),
])  # fmt: skip
def test_8_8_a_relaxed_operation_of_an_mbarrier_and_a_fence(
    fence: str, arrival: str, wait: str, behind: str, ordered: bool, schedule: str
) -> None:
    assert rules(fence, arrival, wait, behind, schedule) == (set() if ordered else {"race"})


COPY = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 given)
{
    .reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    .shared .align 16 .b32 tile[64]; .shared .align 8 .b64 full;
    ld.param.u64 %rd1, [given]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared::cta.b64 [full], 1; @%p1 fence.proxy.async; bar.sync 0;
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 16;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 16,
        [full];
W:  mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 %p3, [full], 0; @!%p3 bra W;
    BEHIND
    ld.shared.u32 %r4, [tile];
    ret;
}
"""


@pytest.mark.parametrize(("behind", "found"), [("", {"missing-mbarrier-wait"}), (FENCE, set())])
def test_a_bulk_copys_bytes_behind_a_relaxed_wait(behind: str, found: set[str]) -> None:
    run = Module(COPY.replace("BEHIND", behind))["k"].launch(1, 32, [np.ones(4, np.uint32)])
    assert {each.rule for each in run.findings} == found


CLUSTER = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k() .reqnctapercluster 2, 1, 1
{
    .reg .pred %p<9>; .reg .b32 %r<9>; .shared .align 16 .b32 tile[32]; .shared .b64 full;
    mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank; xor.b32 %r2, %r2, 1;
    mov.u32 %r3, tile; shl.b32 %r4, %r1, 2; add.u32 %r3, %r3, %r4;
    mapa.shared::cluster.u32 %r5, %r3, %r2;
    st.shared.u32 [%r3], %r1;
    FENCE
    barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;
    ld.shared::cluster.u32 %r6, [%r5];
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    ret;
}
"""


@pytest.mark.parametrize(("fence", "found"), [
    ("fence.acq_rel.cluster;", set()), ("fence.acq_rel.gpu;", set()), ("", {"race"}),
    ("fence.acq_rel.cta;", {"narrow-scope"}),
])  # fmt: skip
def test_9_7_13_3_a_fence_before_a_relaxed_arrival_at_the_clusters_barrier(
    fence: str, found: set[str]
) -> None:
    assert found_in(CLUSTER.replace("FENCE", fence), 2, 32) == found


REMOTE = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k() .reqnctapercluster 2, 1, 1
{
    .reg .pred %p<9>; .reg .b32 %r<12>; .shared .align 16 .b32 tile[32];
    .shared .align 8 .b64 full;
    mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank; mov.u32 %r7, 1;
    mov.u32 %r3, tile; shl.b32 %r4, %r1, 2; add.u32 %r3, %r3, %r4; mov.u32 %r8, full;
    mapa.shared::cluster.u32 %r5, %r3, %r7; mapa.shared::cluster.u32 %r9, %r8, %r7;
    setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r2, 0;
    @%p1 mbarrier.init.shared::cta.b64 [full], 32;
    @%p1 fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    @!%p2 bra HEAR;
    st.shared::cluster.u32 [%r5], %r1;
    FENCE
    mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%r9];
    bra LAST;
HEAR:
W:  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [full], 0; @!%p3 bra W;
    ACCESS
LAST:
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    ret;
}
"""


@pytest.mark.parametrize("access", ["ld.shared.u32 %r6, [%r3];", "st.shared.u32 [%r3], 7;"])
@pytest.mark.parametrize(("fence", "found"), [
    ("fence.acq_rel.cluster;", set()), ("", {"race"}), ("fence.acq_rel.cta;", {"narrow-scope"}),
])  # fmt: skip
def test_a_fence_before_a_relaxed_arrival_at_another_blocks_mbarrier(
    fence: str, found: set[str], access: str
) -> None:
    """Who hears of it reads what the other block has written, or writes over it."""
    assert found_in(REMOTE.replace("FENCE", fence).replace("ACCESS", access), 2, 32) == found


COUNTER = """
.version 8.7
.target sm_90a
.address_size 64
.global .u32 count;
.visible .entry k()
{
    .reg .pred %p<9>; .reg .b32 %r<9>; .shared .align 16 .b32 tile[64];
    mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; mov.u32 %r2, tile;
    mad.lo.u32 %r2, %r1, 4, %r2; and.b32 %r3, %r1, 31; setp.eq.u32 %p2, %r3, 0;
    @!%p1 bra SECOND;
    st.shared.u32 [%r2], %r1; bar.warp.sync 0xffffffff;
    @%p2 red.release.cta.global.add.u32 [count], 1;
    bra LAST;
SECOND:
    @%p2 AND_I [count], 1;
    bar.warp.sync 0xffffffff;
    LOOK
    ld.shared.u32 %r4, [%r2+-128];
LAST:
    ret;
}
"""
RED, ATOM = "red.release.cta.global.add.u32", "atom.acq_rel.cta.global.add.u32 %r5,"
LOOK = "W: ld.acquire.cta.global.u32 %r6, [count]; setp.ne.u32 %p3, %r6, 2; @%p3 bra W;"


@pytest.mark.parametrize(("mine", "look", "found"), [
    (RED, "", {"race"}), (RED, LOOK, set()), (ATOM, "", set()),
])  # fmt: skip
def test_a_reduction_tells_its_thread_nothing(mine: str, look: str, found: set[str]) -> None:
    """Only who reads the counter knows that others have counted; the atomic here comes second."""
    assert found_in(COUNTER.replace("AND_I", mine).replace("LOOK", look), 1, 64) == found
