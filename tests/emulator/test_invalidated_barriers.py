"""``mbarrier.inval``: what a block's barrier has ordered, orders this too, in every block."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.tensor_ptx import HEAD, run

KERNEL = (
    HEAD
    + """
.visible .entry kernel(.param .u64 out)
{
    .shared .align 8 .b64 full;
    .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
    setp.ne.u32 %p1, %r2, WORKS; @%p1 bra END;
    setp.eq.u32 %p2, %r1, 0;
    @%p2 mbarrier.init.shared::cta.b64 [full], 64;
    bar.sync 0;
    mbarrier.arrive.shared::cta.b64 _, [full];
    BARRIER
    @%p2 mbarrier.inval.shared::cta.b64 [full];
END:
    ret;
}
"""
)
"""One block of several has work: all its threads arrive, and one invalidates the barrier."""


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("block", [0, 1, 3])
@pytest.mark.parametrize("orders", [True, False])
def test_9_7_13_15_10_only_without_a_barrier_it_is_found(
    orders: bool, block: int, schedule: str
) -> None:
    text = KERNEL.replace("BARRIER", "bar.sync 0;" if orders else "")
    ran = run(text.replace("WORKS", str(block)), np.zeros(1), threads=64, blocks=4,
              schedule=schedule)  # fmt: skip
    rules = {each.rule for each in ran.findings}
    assert rules == (set() if orders else {"mbarrier-invalidated-in-use"})
