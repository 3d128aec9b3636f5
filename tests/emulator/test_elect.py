"""``elect.sync``: one leader, which may be any member, but always the same."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.tensor_ptx import HEAD, run

KERNEL = (
    HEAD
    + """
.visible .entry kernel(.param .u64 out)
{
    .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 31;
    mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2;
    setp.lt.u32 %p1, %r2, 4; setp.gt.u32 %p2, %r2, 27; or.pred %p3, %p1, %p2;
    @%p3 bra END;
    elect.sync %r3|%p1, 0x0ffffff0;
    selp.u32 %r4, 100, 200, %p1; add.u32 %r3, %r3, %r4;
    st.global.u32 [%rd1], %r3;
END:
    ret;
}
"""
)


def elected(schedule: str, seed: int) -> int:
    """The leader of lanes 4 to 27 in each of two warps, which all of them agree on."""
    out = np.zeros((2, 32), np.uint32)
    run(KERNEL, out, threads=64, schedule=schedule, seed=seed)
    leads, follow = np.nonzero((out >= 100) & (out < 200))[1], out[(out >= 200)] - 200
    assert len(leads) == 2 and len({*leads, *follow, *(out[(out >= 100) & (out < 200)] - 100)}) == 1
    assert not out[:, :4].any() and not out[:, 28:].any()
    return int(leads[0])


@pytest.mark.parametrize("schedule", ["eager", "late"])
def test_9_7_13_13_the_lowest_member_leads(schedule: str) -> None:
    assert elected(schedule, 0) == 4


def test_9_7_13_13_under_random_schedules_the_highest_may_lead() -> None:
    assert {elected("random", seed) for seed in range(8)} == {4, 27}
