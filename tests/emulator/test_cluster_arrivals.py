"""The barrier of a cluster, in PTX: who arrives twice is named."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.emulator.errors import Deadlock
from tests.emulator.tensor_ptx import HEAD, run

KERNEL = (
    HEAD
    + """
.visible .entry kernel(.param .u64 out)
{
    .reg .pred %p; .reg .b32 %r;
    mov.u32 %r, %tid.x; setp.ge.u32 %p, %r, FIRST;
    barrier.cluster.arrive;
    @%p barrier.cluster.arrive;
    barrier.cluster.wait;
    ret;
}
"""
)


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("first", [3, 40])
def test_9_7_13_4_the_first_thread_that_arrives_twice_is_named(first: int, schedule: str) -> None:
    """The others wait for it at the next phase, which is not theirs: so it ends."""
    text = KERNEL.replace("FIRST", str(first))
    said = f"thread {first} of block 0 arrives at the cluster barrier for the second time"
    with pytest.raises(Deadlock, match=said):
        run(text, np.zeros(1), threads=64, blocks=2, cluster=2, schedule=schedule)


def test_9_7_13_4_once_is_right() -> None:
    text = KERNEL.replace("FIRST", "64")
    assert not run(text, np.zeros(1), threads=64, blocks=2, cluster=2).findings
