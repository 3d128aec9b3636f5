"""The stack of a thread, in PTX: its own, and no further than it goes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from phasebit.emulator.errors import OutOfBounds, StackOverflow
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


ASKING = (
    HEAD
    + """
.visible .entry kernel(.param .u64 out, .param .u32 rounds, .param .u32 unused)
{
    .local .align 16 .b8 stack[16];
    .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<2>;
    ld.param.u64 %rd1, [out]; ld.param.u32 %r2, [rounds]; mov.u32 %r1, %tid.x;
    st.local.u32 [stack], %r1;
    mad.lo.u32 %r3, %r1, 4, 4; cvt.u64.u32 %rd2, %r3;
    alloca.u64 %rd3, %rd2, 16;
    mul.wide.u32 %rd4, %r1, 4; add.u64 %rd5, %rd3, %rd4; st.local.u32 [%rd5], 7;
ROUND:
    SAVE
    alloca.u64 %rd6, %rd2, 16; add.u64 %rd7, %rd6, %rd4; st.local.u32 [%rd7], %r2;
    RESTORE
    sub.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra ROUND;
    ld.local.u32 %r4, [%rd5]; ld.local.u32 %r5, [stack]; add.u32 %r4, %r4, %r5;
    add.u64 %rd1, %rd1, %rd4; st.global.u32 [%rd1], %r4;
    ret;
}
"""
)
"""Each thread asks for ``4 * tid + 4`` bytes of its stack, once and then in every round."""


@pytest.mark.parametrize("rounds", [1, 3, 5000])
def test_9_7_17_a_thread_asks_for_memory_of_its_stack(rounds: int) -> None:
    text = ASKING.replace("SAVE", "stacksave.u64 %rd8;")
    text = text.replace("RESTORE", "stackrestore.u64 %rd8;")
    out = np.zeros(16, np.uint32)
    assert not run(text, out, rounds, 0, threads=16).findings
    assert out.tolist() == [7 + t for t in range(16)]


def test_9_7_17_a_stack_has_an_end() -> None:
    text = ASKING.replace("SAVE", "").replace("RESTORE", "")
    assert not run(text, np.zeros(16, np.uint32), 3, 0, threads=16).findings
    with pytest.raises(StackOverflow, match="stack overflow"):
        run(text, np.zeros(16, np.uint32), 5000, 0, threads=16)
