"""``mbarrier.arrive_drop``, thread by thread: who drops is expected no more, the last may not."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.emulator.errors import MbarrierFault
from tests.emulator.tensor_ptx import HEAD, run

KERNEL = (
    HEAD
    + """
.visible .entry kernel(.param .u64 out)
{
    .shared .align 8 .b64 full;
    .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; setp.eq.u32 %p2, %r1, 0;
    @%p2 mbarrier.init.shared::cta.b64 [full], EXPECTED;
    bar.sync 0;
    setp.lt.u32 %p1, %r1, DROPS;
    @%p1 mbarrier.arrive_dropHOW;
    @!%p1 mbarrier.arrive.shared::cta.b64 _, [full];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], 0; @!%p3 bra WAIT;
    bar.sync 0;
    @%p1 bra END;
    mbarrier.arrive.shared::cta.b64 _, [full];
AGAIN:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], 1; @!%p3 bra AGAIN;
    atom.global.add.u32 %r2, [%rd1], 1;
END:
    ret;
}
"""
)
"""The first threads drop; the others meet a second time."""

PLAIN = ".shared::cta.b64 _, [full]"
BYTES = (
    ".expect_tx.shared::cta.b64 _, [full], 8;"
    "@%p1 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [full], 8"
)
"""How they drop; with ``BYTES`` the phase waits for what they announced, too."""


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("drops", [0, 1, 20, 31])
@pytest.mark.parametrize("how", [PLAIN, BYTES])
def test_9_7_13_15_14_the_others_meet_without_those_who_dropped(
    drops: int, schedule: str, how: str
) -> None:
    out = np.zeros(1, np.uint32)
    text = KERNEL.replace("DROPS", str(drops)).replace("EXPECTED", "32").replace("HOW", how)
    assert not run(text, out, threads=32, schedule=schedule).findings
    assert out[0] == 32 - drops


@pytest.mark.parametrize("expected", [32, 20])
def test_9_7_13_15_14_the_last_may_not_drop(expected: int) -> None:
    """It is the drop of one that is told, not that of all who dropped before."""
    text = KERNEL.replace("DROPS", "32").replace("EXPECTED", str(expected)).replace("HOW", PLAIN)
    with pytest.raises(MbarrierFault, match=r"arrive_drop\(1\) with 1 expected"):
        run(text, np.zeros(1, np.uint32), threads=32)
