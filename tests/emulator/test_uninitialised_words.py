"""A word of shared memory that nobody has written is named, and so is who reads it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.tensor_ptx import HEAD, run

KERNEL = (
    HEAD
    + """
.visible .entry kernel(.param .u64 out)
{
    .shared .align 1024 .b8 tile[8192];
    .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2;
    mov.u32 %r3, tile; add.u32 %r3, %r3, %r2; setp.lt.u32 %p, %r1, COUNT;
    @%p st.shared.u32 [%r3+FROM], %r1;
    bar.sync 0;
    ld.shared.u32 %r5, [%r3+FROM];
    cvt.u64.u32 %rd2, %r2; add.u64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r5;
    ret;
}
"""
)
"""The first threads write a word each; all read theirs."""


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("start", [0, 2048 - 64, 4096 - 64, 6144 - 8, 8192 - 128])
@pytest.mark.parametrize("count", [1, 24, 32])
def test_the_first_thread_that_reads_what_nobody_wrote(
    count: int, start: int, schedule: str
) -> None:
    out = np.zeros(32, np.uint32)
    text = KERNEL.replace("FROM", str(start)).replace("COUNT", str(count))
    ran = run(text, out, threads=32, schedule=schedule)
    found = [each.message for each in ran.findings if each.rule == "uninitialised-read"]
    said = f"thread {count} of block 0 reads tile[{start + 4 * count} bytes in]"
    assert len(found) == (count < 32) and all(said in each for each in found)
    assert (out[:count] == np.arange(count)).all()
