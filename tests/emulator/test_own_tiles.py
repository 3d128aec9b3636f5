"""Two warp groups, each with its own tile, barrier and waits: who is asked is who writes the word.

The threads of both often execute one store together; each writes its own half of the words.
"""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.emulator import Run
from phasebit.emulator.numbers.swizzle import NONE
from phasebit.emulator.tensor_core.matrix_descriptors import encode
from tests.emulator import tensor_ptx

SCHEDULES = [("eager", 0), ("late", 0), ("random", 1), ("random", 2)]

KERNEL = """
.version 9.0
.target TARGET
.address_size 64
.visible .entry kernel()
{
    .reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %rd<9>; .reg .f32 %d<4>;
    .shared .align 1024 .b8 tile[8192]; .shared .align 8 .b64 done[2]; .shared .b32 at;
    mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 7; and.b32 %r3, %r1, 127; setp.eq.u32 %p1, %r3, 0;
    add.u32 %r4, %r2, 1;
    mov.u32 %r5, tile; shl.b32 %r6, %r2, 12; add.u32 %r5, %r5, %r6;
    shr.u32 %r7, %r5, 4; cvt.u64.u32 %rd1, %r7;
    add.u64 %rd2, %rd1, DESCRIPTOR; add.u64 %rd3, %rd2, 128;
    shl.b32 %r6, %r3, 4; add.u32 %r5, %r5, %r6;
    mov.u32 %r8, done; shl.b32 %r6, %r2, 3; add.u32 %r8, %r8, %r6;
    setp.lt.u32 %p2, %r1, 32; setp.ne.u32 %p3, %r1, %r1; mov.u32 %r9, 0;
    BEGIN
ROUND:
    st.shared.v4.u32 [%r5], {%r9, %r9, %r9, %r9};
    st.shared.v4.u32 [%r5+2048], {%r9, %r9, %r9, %r9};
    fence.proxy.async.shared::cta;
    bar.sync %r4, 128;
    MULTIPLY
    add.u32 %r9, %r9, 1; setp.lt.u32 %p4, %r9, 3; @%p4 bra ROUND;
    FINISH
    ret;
}
"""

WGMMA = """
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0, %d1, %d2, %d3}, %rd2, %rd3,
        0, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
"""
ENDS = {
    "its own barrier": "bar.sync %r4, 128;",
    "a barrier of all": "bar.sync 0;",
    "barriers by name": """
        setp.eq.u32 %p5, %r2, 0; @!%p5 bra SECOND; bar.sync 1, 128; bra MET;
        SECOND: bar.sync 2, 128; MET:""",
}
HOPPER = {"TARGET": "sm_90a", "DESCRIPTOR": str(encode(0, 128, 256, NONE, "wgmma")), "BEGIN": "",
          "FINISH": ""}  # fmt: skip

TCGEN05 = """
    @!%p1 bra WAIT;
    tcgen05.mma.cta_group::1.kind::f16 [%r10], %rd2, %rd3, SHAPE, %p3;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];
WAIT:
    and.b32 %r11, %r9, 1;
    mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r8], %r11; @!%p5 bra WAIT;
""".replace("SHAPE", str(1 << 4 | 16 // 8 << 17 | 8 << 24))
BLACKWELL = {
    "TARGET": "sm_100a", "DESCRIPTOR": str(encode(0, 128, 256, NONE, "tcgen05")),
    "BEGIN": """
        @!%p2 bra INIT;
        tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [at], 64;
        INIT: @%p1 mbarrier.init.shared::cta.b64 [%r8], 1;
        bar.sync 0;
        ld.shared.u32 %r12, [at]; shl.b32 %r6, %r2, 5; add.u32 %r10, %r12, %r6;""",
    "FINISH": """
        bar.sync 0; @!%p2 bra END;
        tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r12, 64; END:""",
}  # fmt: skip

BULK = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 out)
{
    .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<4>; .shared .align 128 .b8 box[512];
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 31;
    setp.eq.u32 %p1, %r2, 0; mov.u32 %r3, box; shl.b32 %r4, %r1, 2; add.u32 %r3, %r3, %r4;
    mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2; mov.u32 %r5, 0;
ROUND:
    @%p1 cp.async.bulk.wait_group.read 0;
    bar.warp.sync -1;
    st.shared.u32 [%r3], %r5;
    fence.proxy.async.shared::cta;
    bar.warp.sync -1;
    @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r3], 128;
    @%p1 cp.async.bulk.commit_group;
    add.u64 %rd1, %rd1, 512; add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 3; @%p2 bra ROUND;
    @%p1 cp.async.bulk.wait_group.read 0;
    ret;
}
"""


def launch(parts: dict[str, str], schedule: tuple[str, int]) -> Run:
    text = KERNEL
    for name, part in parts.items():
        text = text.replace(name, part)
    return tensor_ptx.run(text, threads=256, schedule=schedule[0], seed=schedule[1])


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("end", ENDS)
def test_two_groups_that_share_nothing(end: str, schedule: tuple[str, int]) -> None:
    assert launch(HOPPER | {"MULTIPLY": WGMMA + ENDS[end]}, schedule).findings == []


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_two_groups_with_columns_of_their_own(schedule: tuple[str, int]) -> None:
    assert launch(BLACKWELL | {"MULTIPLY": TCGEN05}, schedule).findings == []


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize(
    "parts", [HOPPER | {"MULTIPLY": WGMMA}, BLACKWELL | {"MULTIPLY": TCGEN05}],
    ids=["wgmma", "tcgen05"],
)  # fmt: skip
def test_the_thread_is_named_that_writes_the_word(
    parts: dict[str, str], schedule: tuple[str, int]
) -> None:
    """The second group also writes the first one's tile."""
    also = "@!%p1 st.shared.u32 [%r5], %r9; setp.eq.u32 %p6, %r1, 133; @%p6 st.shared.u32 [tile],"
    found = launch(parts | {"st.shared.v4.u32 [%r5], {": also + " %r9; and.b32 %r9, %r9, 15;"
                            "st.shared.v4.u32 [%r5], {"}, schedule).findings  # fmt: skip
    mine = [one for one in found if "may still read it" in one.message]
    assert mine, found
    assert all("thread 133 of block 0 writes tile[0 bytes in]" in one.message for one in mine), mine


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_each_warp_waits_for_its_own_box(schedule: tuple[str, int]) -> None:
    out = np.zeros((3, 128), np.uint32)
    found = tensor_ptx.run(BULK, out, threads=128, schedule=schedule[0], seed=schedule[1])
    assert found.findings == [] and (out == np.arange(3)[:, None]).all()
