"""PTX that the kernels for the tests of tensor memory share, and the launch of such a text."""

from __future__ import annotations

from typing import Any

from phasebit.emulator import Run
from phasebit.launching.launch import Module

HEAD = """
.version 9.0
.target sm_100a
.address_size 64
"""

FRAME = HEAD + """
.visible .entry kernel(.param .u64 input, .param .u64 out)
{
    .reg .pred %p<9>; .reg .b32 %r<300>; .reg .b64 %rd<9>;
    .shared .align 4 .b32 slot; .shared .align 8 .b64 done;
    ld.param.u64 %rd1, [input]; ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; shl.b32 %r3, %r2, 21;
    setp.eq.u32 %p1, %r2, 0; setp.eq.u32 %p2, %r1, 0;
    @!%p1 bra START;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], COLUMNS;
START:
    bar.sync 0;
    ld.shared.u32 %r4, [slot]; add.u32 %r5, %r4, %r3;
    BODY
    bar.sync 0;
    @!%p1 bra END;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, COLUMNS;
END:
    ret;
}
"""
"""Four warps: %r1 thread, %r2 warp, %r3 the lanes of its quarter, %r4 the address, %r5 both."""


def frame(body: str, columns: int = 32) -> str:
    """A kernel that allocates, does ``body``, and deallocates."""
    return FRAME.replace("BODY", body).replace("COLUMNS", str(columns))


def run(
    text: str, *args: Any, threads: int = 128, blocks: int = 1, schedule: str = "late", **more: Any
) -> Run:
    """Launch the only kernel of a text."""
    module = Module(text)
    (name,) = module.kernels
    return module[name].launch(blocks, threads, list(args), schedule=schedule, **more)


D_INTO = """\
FILL:
    mov.u32 %r9, tile; shl.b32 %r10, %r1, 4; add.u32 %r9, %r9, %r10;
    cvt.u64.u32 %rd8, %r10; add.u64 %rd1, %rd1, %rd8;
COPY:
    ld.global.v4.u32 {%r11, %r12, %r13, %r14}, [%rd1];
    st.shared.v4.u32 [%r9], {%r11, %r12, %r13, %r14};
    add.u32 %r9, %r9, 2048; add.u64 %rd1, %rd1, 2048; add.u32 %r10, %r10, 2048;
    setp.lt.u32 %p3, %r10, SHARED; @%p3 bra COPY;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    ld.shared.u32 %r4, [slot]; add.u32 %r5, %r4, %r3;
    mov.u32 %r20, %r5; mul.wide.u32 %rd9, %r1, 1024; add.u64 %rd10, %rd3, %rd9;
    add.u64 %rd12, %rd2, %rd9;
    mov.u32 %r21, 0;
OLD:
    ld.global.v4.u32 {%r11, %r12, %r13, %r14}, [%rd10];
    tcgen05.st.sync.aligned.32x32b.x4.b32 [%r20], {%r11, %r12, %r13, %r14};
    add.u32 %r20, %r20, 4; add.u64 %rd10, %rd10, 16; add.u32 %r21, %r21, 4;
    setp.lt.u32 %p3, %r21, 256; @%p3 bra OLD;
"""
"""After the barriers are initialized: operands from %rd1 to ``tile`` (SHARED bytes), the cells of D
(128 lanes × 256 columns) from %rd3 to tensor memory.

128 threads; %r1 to %r5 as in ``FRAME``, %p2 for thread 0, which skips to FILL where it must.
"""

D_OUT = """\
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [done], 0;
    @!%p3 bra WAIT;
    tcgen05.fence::after_thread_sync;
    mov.u32 %r20, %r5; mov.u32 %r21, 0;
NEW:
    tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r11, %r12, %r13, %r14}, [%r20];
    tcgen05.wait::ld.sync.aligned;
    st.global.v4.u32 [%rd12], {%r11, %r12, %r13, %r14};
    add.u32 %r20, %r20, 4; add.u64 %rd12, %rd12, 16; add.u32 %r21, %r21, 4;
    setp.lt.u32 %p3, %r21, 256; @%p3 bra NEW;
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
"""
"""Wait until ``done`` says that the tensor core has come to its end; the cells of D go to %rd2."""
