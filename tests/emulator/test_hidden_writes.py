"""Strong writes that follow each other: what they hide, a plain access may still race with.

Each warp waits until the one before it has made its accesses, and learns nothing by that: a relaxed
load of a counter. So the order is the same each time, and orders nothing (PTX ISA 8.7).
"""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.launching.launch import Module

KERNEL = """
.version 8.0
.target sm_90
.address_size 64
.global .u32 turn;
.visible .entry k(.param .u64 p)
{
    .reg .b32 %r<20>; .reg .b64 %d<9>; .reg .pred %p<9>; .shared .align 4 .b32 sum;
    .shared .align 4 .b32 flag;
    ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; and.b32 %r3, %r1, 31;
    setp.ne.u32 %p3, %r3, 0; @%p3 bra END; setp.eq.u32 %p4, %r2, 0;
    TURNS
END:
    ret;
}
"""
TURN = """
    setp.ne.u32 %p1, %r2, {warp}; @%p1 bra NEXT{turn};
WAIT{turn}:
    ld.relaxed.gpu.global.u32 %r5, [turn]; setp.ne.u32 %p2, %r5, {turn}; @%p2 bra WAIT{turn};
    {access}
    st.relaxed.gpu.global.u32 [turn], {next};
NEXT{turn}:
"""
TELL = "st.release.cta.global.u32 [%d1+64], 1;"
HEAR = "ld.acquire.cta.global.u32 %r9, [%d1+64];"
ADD, RED = "atom.SPACE.add.u32 %r6, [SUM], 1;", "red.SPACE.add.u32 [SUM], 1;"
PUT, GET = "st.SPACE.u32 [SUM], 1;", "ld.SPACE.u32 %r7, [SUM];"
LOOK = "ld.relaxed.cta.SPACE.u32 %r7, [SUM];"


def found(space: str, *turns: tuple[int, str]) -> set[str]:
    """The rules that warps break which make their accesses in turn, each by its first lane."""
    place = "sum" if space == "shared" else "%d1"
    text = "".join(
        TURN.format(warp=warp, turn=turn, next=turn + 1, access=access)
        for turn, (warp, access) in enumerate(turns)
    ).replace("SPACE", space).replace("SUM", place)
    run = Module(KERNEL.replace("TURNS", text))["k"].launch(1, 128, [np.zeros(64, np.uint32)])
    return {each.rule for each in run.findings}


@pytest.mark.parametrize("space", ["shared", "global"])
@pytest.mark.parametrize(("second", "rules"), [
    (RED, {"race"}), (ADD, {"race"}), (LOOK, {"race"}), (HEAR + RED, set()), (HEAR + LOOK, set()),
])  # fmt: skip
def test_the_plain_store_before_anothers_strong_write(
    space: str, second: str, rules: set[str]
) -> None:
    """Warp 0 makes a sum and adds; warp 1 adds, and nothing told it of the store."""
    assert found(space, (0, PUT + TELL + RED), (1, second)) == rules


@pytest.mark.parametrize("space", ["shared", "global"])
def test_a_later_plain_store_hides_the_earlier_ones(space: str) -> None:
    turns = (0, PUT + RED + TELL), (1, HEAR + PUT + TELL + RED), (2, HEAR + RED)
    assert found(space, *turns) == set()


@pytest.mark.parametrize(("last", "rules"), [
    (GET, {"race-beside-atomics"}), (PUT, {"race"}), (ADD + GET, set()), (ADD + PUT, set()),
    (LOOK + GET, set()), (RED + GET, {"race-beside-atomics"}),
])  # fmt: skip
def test_an_atomic_of_which_nobody_told(last: str, rules: set[str]) -> None:
    """Warps 0 and 1 add; warp 2 hears of warp 1 only, and looks at the sum as if it were done.

    Who has read the sum itself by an atomic or a strong load has seen what was added before.
    """
    turns = (3, PUT + TELL), (0, HEAR + RED), (1, HEAR + RED + TELL), (2, HEAR + last)
    assert found("shared", *turns) == rules


def test_one_that_all_have_told_of() -> None:
    turns = (3, PUT + TELL), (0, HEAR + RED + TELL), (1, HEAR + RED + TELL), (2, HEAR + GET)
    assert found("shared", *turns) == set()
