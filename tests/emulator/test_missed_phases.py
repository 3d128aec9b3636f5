"""A lane that comes late to its wait may find the phase after it complete (PTX ISA 9.7.13.15.16).

All threads wait for a phase; then one of them makes the next one complete. Who of its warp has not
been held together with it may wait for ever.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.emulator.tensor_ptx import HEAD, run

KERNEL = (
    HEAD
    + """
.visible .entry kernel(.param .u64 out)
{
    .shared .align 8 .b64 full; .shared .align 8 .b64 other;
    .reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
    setp.ne.u32 %p1, %r2, WORKS; @%p1 bra END;
    setp.eq.u32 %p2, %r1, 40; setp.eq.u32 %p3, %r1, 37; setp.lt.u32 %p5, %r1, 32;
    @%p2 mbarrier.init.shared::cta.b64 [full], 1; @%p2 mbarrier.init.shared::cta.b64 [other], 64;
    bar.sync 0;
    @%p2 mbarrier.arrive.shared::cta.b64 _, [full];
FIRST: mbarrier.try_wait.parity.shared::cta.b64 %p4, [full], 0; @!%p4 bra FIRST;
    BETWEEN
    @%p3 mbarrier.arrive.shared::cta.b64 _, [full];
SECOND: mbarrier.try_wait.parity.shared::cta.b64 %p4, [full], 1; @!%p4 bra SECOND;
END:
    ret;
}
"""
)
ALL = ("mbarrier.arrive.shared::cta.b64 _, [other]; "
       "MET: mbarrier.try_wait.parity.shared::cta.b64 %p4, [other], 0; @!%p4 bra MET;")  # fmt: skip


@pytest.mark.parametrize("block", [0, 2])
@pytest.mark.parametrize(("between", "missed"), [
    ("", True), ("bar.warp.sync 0xffffffff;", False), ("bar.sync 0;", False),
    ("shfl.sync.idx.b32 %r3, %r1, 0, 31, 0xffffffff;", False), (ALL, False),
    ("vote.sync.any.pred %p6, %p3, 0xffffffff;", False), ("fence.acq_rel.cta;", True),
    ("@%p5 bar.warp.sync 0xffffffff;", True), ("bar.sync 1, 64;", False),
])  # fmt: skip
def test_what_keeps_the_lanes_of_a_warp_together(between: str, missed: bool, block: int) -> None:
    text = KERNEL.replace("BETWEEN", between).replace("WORKS", str(block))
    found = run(text, np.zeros(1), threads=64, blocks=3).findings
    assert [each.rule for each in found] == ["phase-may-be-missed"] * missed
    for each in found:
        assert re.sub(r" at PTX line \d+", "", each.message) == (
            f"thread 32 of block {block} may come too late to see phase 0 of full complete: "
            "`mbarrier.try_wait.parity.shared::cta.b64 %p4, [full], 0`; the next phase completes "
            f"after thread 37 of block {block} has gone on, and nothing keeps the lanes of the "
            "warp together: put __syncwarp() behind the wait"
        )


def test_before_the_wait_it_does_not_help() -> None:
    early = "bar.warp.sync 0xffffffff; FIRST:"
    text = KERNEL.replace("FIRST:", early, 1).replace("BETWEEN", "").replace("WORKS", "0")
    found = run(text, np.zeros(1), threads=64, blocks=1).findings
    assert [each.rule for each in found] == ["phase-may-be-missed"]
