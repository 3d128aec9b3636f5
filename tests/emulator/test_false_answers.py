"""``mbarrier.try_wait`` may say "no": who then does something that counts may be told so again."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.emulator.errors import Deadlock
from phasebit.emulator.machine.scheduler import FALSE_ANSWERS
from tests.emulator.tensor_ptx import HEAD, run

KERNEL = (
    HEAD
    + """
.visible .entry kernel(.param .u64 out)
{
    .shared .align 8 .b64 full;
    .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, 0;
    mbarrier.init.shared::cta.b64 [full], COUNT;
LOOK:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [full], 0; @%p bra END;
    add.u32 %r1, %r1, 1;
    BODY
    bra LOOK;
END:
    st.global.u32 [%rd1], %r1;
    ret;
}
"""
)
"""One thread looks, and does something each time it is told "no"."""

ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [full];"


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("count", [1, FALSE_ANSWERS + 1, 3 * FALSE_ANSWERS])
def test_9_7_13_15_16_who_arrives_at_every_no_gets_on(count: int, schedule: str) -> None:
    out = np.zeros(1, np.uint32)
    text = KERNEL.replace("BODY", ARRIVE).replace("COUNT", str(count))
    run(text, out, threads=1, schedule=schedule)
    assert out[0] == count


def test_9_7_13_15_16_who_only_counts_never_gets_on() -> None:
    text = KERNEL.replace("BODY", "").replace("COUNT", "1")
    with pytest.raises(Deadlock):
        run(text, np.zeros(1, np.uint32), threads=1)
