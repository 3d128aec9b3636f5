"""The stack of a thread, in PTX: its own, and no further than it goes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from phasebit.emulator.errors import OutOfBounds
from tests.emulator.tensor_ptx import HEAD, run

KERNEL = (
    HEAD
    + """
.visible .entry kernel(.param .u64 out, .param .u32 step, .param .u32 at)
{
    .local .align 16 .b8 stack[64];
    .reg .b32 %r<9>; .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [out]; ld.param.u32 %r2, [step]; ld.param.u32 %r3, [at];
    mov.u32 %r1, %tid.x; mad.lo.u32 %r4, %r1, %r2, %r3;
    mov.u64 %rd2, stack; cvt.u64.u32 %rd3, %r4; add.u64 %rd2, %rd2, %rd3;
    st.local.u32 [%rd2], %r1;
    ld.local.u32 %r5, [%rd2];
    mul.wide.u32 %rd4, %r1, 4; add.u64 %rd1, %rd1, %rd4; st.global.u32 [%rd1], %r5;
    ret;
}
"""
)
"""Each thread writes its number ``tid * step + at`` bytes into its stack, and reads it."""


@pytest.mark.parametrize("step", [0, 4])
def test_each_thread_has_a_stack_of_its_own(step: int) -> None:
    out = np.zeros(16, np.uint32)
    assert not run(KERNEL, out, step, 0, threads=16).findings
    assert (out == np.arange(16)).all()


@pytest.mark.parametrize(
    ("step", "at", "thread", "address"),
    [(4, 16, 12, 64), (4, 4, 15, 64), (0, 64, 0, 64), (1, 0, 1, 1)],
)  # fmt: skip
def test_the_first_thread_that_is_beyond_its_stack_is_named(
    step: int, at: int, thread: int, address: int
) -> None:
    said = f"thread {thread} of block 0: address {address} of a stack of 64 bytes"
    with pytest.raises(OutOfBounds, match=re.escape(said)):
        run(KERNEL, np.zeros(16, np.uint32), step, at, threads=16)
