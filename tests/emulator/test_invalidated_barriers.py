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


@pytest.mark.parametrize("block", [0, 2])
@pytest.mark.parametrize(("user", "found"), [(0, False), (5, False), (37, True), (32, True)])
def test_9_7_13_15_10_who_uses_the_barrier_and_who_invalidates_it_are_named(
    user: int, found: bool, block: int
) -> None:
    """Thread 0 invalidates it; who has used it is of another warp, or of its own."""
    text = KERNEL.replace("BARRIER", "").replace("WORKS", str(block)).replace(
        "    mbarrier.arrive.shared::cta.b64 _, [full];",
        f"    setp.eq.u32 %p3, %r1, {user}; @%p3 mbarrier.arrive.shared::cta.b64 _, [full];",
    )  # fmt: skip
    said = run(text, np.zeros(1), threads=64, blocks=4).findings
    assert [each.rule for each in said] == ["mbarrier-invalidated-in-use"] * found
    for each in said:
        assert each.message.startswith(
            f"thread 0 of block {block} invalidates mbarrier full: `@%p2 mbarrier.inval."
        )
        assert each.message.endswith(
            f"; thread {user} of block {block} uses it, and nothing orders the two"
        )


def test_9_7_13_15_10_of_a_warp_it_is_enough_to_have_heard_of_one_lane() -> None:
    """As libcu++ has it: the flag of thread 40 tells of thread 45, not of thread 70."""
    body = """
    setp.eq.u32 %p3, %r1, USER; @%p3 mbarrier.arrive.shared::cta.b64 _, [full];
    setp.eq.u32 %p3, %r1, 40; ld.param.u64 %rd1, [out];
    @%p3 st.release.cta.global.u32 [%rd1], 1;
    @!%p2 bra END;
SEEN: ld.acquire.cta.global.u32 %r3, [%rd1]; setp.eq.u32 %p3, %r3, 0; @%p3 bra SEEN;
"""
    for user, found in ((45, False), (70, True)):
        text = KERNEL.replace("    mbarrier.arrive.shared::cta.b64 _, [full];",
                              body.replace("USER", str(user)))  # fmt: skip
        text = text.replace("BARRIER", "").replace("WORKS", "1")
        said = run(text, np.zeros(1, np.uint32), threads=96, blocks=4).findings
        assert [each.rule for each in said] == ["mbarrier-invalidated-in-use"] * found
