"""``mbarrier.test_wait`` does not wait: who asks once and goes on regardless is found.

In random schedules with an odd seed it first says no where the phase is not complete, as it may.
Source: PTX ISA, "mbarrier.test_wait / mbarrier.try_wait": test_wait is a non-blocking instruction.
"""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.emulator import Run
from tests.emulator.tensor_ptx import HEAD, run

SCHEDULES = [("eager", 0), ("late", 0), ("random", 0), ("random", 1), ("random", 3)]

PASSED = (
    HEAD
    + """
.visible .entry kernel(.param .u64 out)
{
    .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<4>;
    .shared .align 8 .b64 full; .shared .align 4 .b32 slot;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x;
    setp.eq.u32 %p1, %r1, 0; setp.lt.u32 %p2, %r1, 32;
    @%p1 mbarrier.init.shared::cta.b64 [full], 32;
    bar.sync 0;
    @%p2 bra CONSUME;
    setp.eq.u32 %p3, %r1, 32; nanosleep.u32 1000;
    @%p3 st.shared.u32 [slot], 7;
    mbarrier.arrive.shared::cta.b64 _, [full];
    ret;
CONSUME:
AGAIN:
    mbarrier.WAIT.parity.shared::cta.b64 %p3, [full], 0;
    LOOP
    ld.shared.u32 %r2, [slot];
    mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2;
    st.global.u32 [%rd1], %r2;
    ret;
}
"""
)


def passed(wait: str, loop: str, how: tuple[str, int]) -> tuple[Run, list[int]]:
    out = np.zeros(32, np.uint32)
    text = PASSED.replace("WAIT", wait).replace("LOOP", loop)
    found = run(text, out, threads=64, schedule=how[0], seed=how[1])
    return found, sorted(set(out.tolist()))


@pytest.mark.parametrize("how", SCHEDULES, ids=str)
@pytest.mark.parametrize("wait", ["test_wait", "try_wait"])
def test_who_asks_until_it_is_so_is_right(wait: str, how: tuple[str, int]) -> None:
    found, values = passed(wait, "@!%p3 bra AGAIN;", how)
    assert found.findings == [] and values == [7]


def test_who_asks_once_and_goes_on_is_found() -> None:
    found, values = passed("test_wait", "", ("random", 1))
    assert {each.rule for each in found.findings} == {"uninitialised-read", "race"}
    assert values != [7]
