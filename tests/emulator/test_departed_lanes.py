"""Threads that have left: a shuffle from one of them, a barrier that they went around."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.emulator import Run
from tests.emulator.tensor_ptx import run
from tests.emulator.wgmma_cases import HEAD

SCHEDULES = ("eager", "late", "random")
KERNEL = (
    HEAD
    + """
.visible .entry kernel(.param .u64 out)
{
    .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<4>; .shared .b32 word;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd1, %rd1, %rd2; mov.u32 %r2, %r1;
    BODY
    st.global.u32 [%rd1], %r2;
    ret;
}
"""
)


def launch(body: str, schedule: str, threads: int = 64, blocks: int = 1) -> Run:
    out = np.zeros(64, np.uint32)
    text = KERNEL.replace("BODY", body)
    return run(text, out, threads=threads, blocks=blocks, schedule=schedule)


LEAVE = "and.b32 %r4, %r1, 31; setp.ge.u32 %p1, %r4, 20; @%p1 ret;"
SHUFFLE = "shfl.sync.down.b32 %r2|%p2, %r1, DELTA, 31, MASK;"


@pytest.mark.parametrize("schedule", SCHEDULES)
class TestShuffle:
    """9.7.9.6: the value of a thread that is not active is undefined."""

    def test_from_a_lane_that_has_left(self, schedule: str) -> None:
        text = LEAVE + SHUFFLE.replace("DELTA", "8").replace("MASK", "0xffffffff")
        (finding,) = launch(text, schedule).findings
        assert finding.rule == "shuffle-from-departed" and finding.line
        assert "thread 12 of block 0 takes the value of thread 20 of block 0" in finding.message

    def test_from_lanes_that_are_there(self, schedule: str) -> None:
        there = LEAVE + SHUFFLE.replace("DELTA", "12").replace("down", "up")
        assert not launch(there.replace("MASK", "0xffffffff"), schedule).findings

    @pytest.mark.parametrize(("threads", "mask"), [(64, "0xfffff"), (20, "0xffffffff")])
    def test_what_no_mask_names_and_what_never_was(
        self, threads: int, mask: str, schedule: str
    ) -> None:
        """The usual sum over a warp in which some lanes have no part; nobody uses their values."""
        text = (LEAVE if threads == 64 else "") + SHUFFLE.replace("DELTA", "8")
        assert not launch(text.replace("MASK", mask), schedule, threads).findings


AROUND = "setp.lt.u32 %p1, %r1, 32; @!%p1 bra ON; BARRIER ON: add.u32 %r2, %r2, 1;"


@pytest.mark.parametrize("schedule", SCHEDULES)
class TestBarrier:
    """``if (threadIdx.x < 32) __syncthreads();``: half of the threads go around, and leave."""

    def test_a_barrier_of_all_that_a_warp_goes_around(self, schedule: str) -> None:
        (finding,) = launch(AROUND.replace("BARRIER", "bar.sync 0;"), schedule).findings
        assert finding.rule == "divergent-barrier" and finding.line
        assert "warp 0 of block 0 stand at `bar.sync 0`" in finding.message
        assert "warp 1 of block 0 of the same block went around it and left" in finding.message

    @pytest.mark.parametrize(
        "body",
        [
            AROUND.replace("BARRIER", "bar.sync 1, 32;"),
            AROUND.replace("BARRIER", "") + "bar.sync 0;",
            "setp.ge.u32 %p1, %r1, 32; @%p1 ret; bar.sync 0; add.u32 %r2, %r2, 1;",
        ],
        ids=["of some", "behind", "after an early exit"],
    )
    def test_a_barrier_that_is_no_mistake(self, body: str, schedule: str) -> None:
        assert not launch(body, schedule).findings


APART = "setp.ge.u32 %p1, %r1, 32; @%p1 bra ON; ROLE ON: bar.sync 0; add.u32 %r2, %r2, 1;"
"""The first warp has a role, the other goes on to a barrier behind it."""
TURNS = (
    "mov.u32 %r4, 0; TURN: bar.sync 0; add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 3; "
    "@%p2 bra TURN;"
)
FIRST_BLOCK_ELSEWHERE = (
    "mov.u32 %r4, %ctaid.x; setp.eq.u32 %p3, %r4, 0; @%p3 bra OTHER; "
    "setp.ge.u32 %p1, %r1, 32; @%p1 bra ON; bra ROLE; "
    "OTHER: setp.ge.u32 %p1, %r1, 32; @%p1 bra ON; bra ROLE; "
    "ROLE: bar.sync 0; bar.sync 0; add.u32 %r4, %r4, 1; ON: bar.sync 0; add.u32 %r2, %r2, 1;"
)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("blocks", [1, 3])
class TestBarriersAtSeveralPlaces:
    """A barrier counts who comes, wherever in the program: ``bar.sync`` names no place.

    Warps that meet at two places are in order by the PTX ISA, and nothing is said of them.
    Whoever leaves after such a meeting, though, has gone around what the others still wait at.
    """

    @pytest.mark.parametrize(
        "body",
        [
            APART.replace("ROLE", TURNS),
            APART.replace("ROLE", "bar.sync 0; bar.sync 0; add.u32 %r2, %r2, 1;"),
            FIRST_BLOCK_ELSEWHERE,
        ],
        ids=["in a loop", "twice", "blocks that come by two branches"],
    )
    def test_who_left_is_missed_in_each_block(
        self, body: str, blocks: int, schedule: str
    ) -> None:
        """Blocks that run together part at a barrier and meet again; none forgets the branch."""
        found = [one for one in launch(body, schedule, blocks=blocks).findings
                 if one.kind == "barrier"]  # fmt: skip
        assert found and {one.rule for one in found} == {"divergent-barrier"}
        assert "warp 1 of block" in found[0].message

    @pytest.mark.parametrize(
        "body",
        [
            APART.replace("bra ON; ROLE", "bra ELSE; bar.sync 0; bra ON; ELSE: bar.sync 0;"),
            APART.replace("ROLE", "bar.sync 0;"),
        ],
        ids=["each has its own", "one has one more, before it comes to the other's"],
    )
    def test_who_met_elsewhere_is_not_missed(self, body: str, blocks: int, schedule: str) -> None:
        """CUDA C++ forbids both; by the PTX ISA the second is an early exit of warp 1."""
        found = launch(body, schedule, blocks=blocks).findings
        assert "barrier" not in {one.kind for one in found}

    @pytest.mark.parametrize("threads", [64, 96])
    def test_a_wait_ends_a_branch(self, threads: int, blocks: int, schedule: str) -> None:
        """Behind the branch its cut is past, also for who wakes up there."""
        text = (
            "setp.ge.u32 %p1, %r1, 32; setp.ge.u32 %p3, %r1, 64; @%p3 bra OUT; @%p1 bra ON; "
            "bar.sync 1, 32; ON: add.u32 %r2, %r2, 1; OUT: add.u32 %r2, %r2, 1; "
            "@%p1 ret; bar.sync 0; add.u32 %r2, %r2, 1;"
        )
        found = launch(text, schedule, threads, blocks).findings
        assert "barrier" not in {one.kind for one in found}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_9_7_13_3_a_wait_at_the_cluster_barrier_without_an_arrival(schedule: str) -> None:
    text = KERNEL.replace("BODY", "barrier.cluster.wait.acquire;")
    out = np.zeros(64, np.uint32)
    (finding,) = run(text, out, threads=32, blocks=2, cluster=2, schedule=schedule).findings
    assert "waits at the cluster barrier without having arrived" in finding.message


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize(("told", "ordered"), [
    ("", False), ("bar.sync 0;", True), ("fence.acq_rel.gpu;", False),
    ("bar.arrive 0, 64;", True),
])  # fmt: skip
def test_leaving_the_kernel_orders_nothing(
    told: str, ordered: bool, blocks: int, schedule: str
) -> None:
    """The second warp stores and leaves; the first one meets at a barrier, and loads."""
    behind = "bar.sync 0, 64;" if "arrive" in told else "bar.sync 0;"
    body = (
        "setp.lt.u32 %p1, %r1, 32; @%p1 bra ON; setp.eq.u32 %p3, %r1, 40; @%p3 st.shared.u32 "
        f"[word], %r1; {told} ret; ON: {behind} ld.shared.u32 %r5, [word];"
    )
    out = np.zeros(64, np.uint32)
    text = KERNEL.replace("BODY", body).replace("st.global.u32 [%rd1], %r2;", "")
    found = run(text, out, threads=64, blocks=blocks, schedule=schedule).findings
    mine = [one for one in found if one.rule in ("race", "uninitialised-read")]
    assert bool(mine) != ordered, found
    assert ordered or all("of block" in one.message for one in mine)
