"""Two blocks fill their rings by tensor copies that one barrier counts; one thread multiplies.

PTX ISA 9.7.9.27.1.2 (``cta_group::2`` of a tensor copy: the barrier may be the pair's other
block's) and 9.7.16.12.1 (a commit that tells both).  The leader's barrier has the address of
one's own with bit 24 cleared.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from phasebit.edits import replace_each
from phasebit.emulator.copy_engine.tensormap import TensorMap
from phasebit.emulator.errors import EmulatorError
from phasebit.emulator.numbers.formats import encode
from phasebit.emulator.tensor_core.instruction_descriptors import encode as instruction
from tests.emulator.tensor_ptx import HEAD, run

SLICES, M, N = 5, 256, 64
LOAD = "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile"
LOAD += ".mbarrier::complete_tx::bytes"
COMMIT = "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64"
RING = HEAD + """
.visible .entry kernel(.param .align 64 .b8 ma[128], .param .align 64 .b8 mb[128], .param .u64 out,
    .param .u32 idesc)
{
    .reg .pred %p<12>; .reg .b32 %r<99>; .reg .b64 %rd<20>; .reg .b16 %h<2>;
    .shared .align 1024 .b8 ring[40960];
    .shared .align 8 .b64 full[2]; .shared .align 8 .b64 empty[2]; .shared .align 8 .b64 done;
    .shared .align 4 .b32 slot;
    ld.param.u64 %rd2, [out]; ld.param.u32 %r6, [idesc];
    mov.b64 %rd3, ma; cvta.param.u64 %rd3, %rd3; mov.b64 %rd4, mb; cvta.param.u64 %rd4, %rd4;
    mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; shl.b32 %r3, %r2, 21; mov.u32 %r7, %cluster_ctarank;
    setp.eq.u32 %p8, %r7, 0; mov.b16 %h1, 3;
    setp.eq.u32 %p1, %r2, 2;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    @!%p1 bra INIT;
    tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 64;
INIT:
    setp.eq.u32 %p2, %r1, 0;
    @!%p2 bra START;
    mbarrier.init.shared::cta.b64 [full], 1; mbarrier.init.shared::cta.b64 [full+8], 1;
    mbarrier.init.shared::cta.b64 [empty], 1; mbarrier.init.shared::cta.b64 [empty+8], 1;
    mbarrier.init.shared::cta.b64 [done], 1; fence.mbarrier_init.release.cluster;
START:
    tcgen05.fence::before_thread_sync;
    barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
    tcgen05.fence::after_thread_sync;
    ld.shared.u32 %r4, [slot]; add.u32 %r5, %r4, %r3;
    mov.u32 %r10, 0; mov.u32 %r11, 0; mov.u32 %r12, 0;
    mov.u32 %r14, full; mov.u32 %r15, empty; mov.u32 %r16, ring;
    @%p2 bra LOAD;
    setp.eq.u32 %p3, %r1, 32; and.pred %p3, %p3, %p8; @%p3 bra MULTIPLY;
    bra EPILOGUE;
LOAD:
    shl.b32 %r20, %r11, 3; add.u32 %r21, %r14, %r20; add.u32 %r22, %r15, %r20;
    xor.b32 %r23, %r12, 1;
LOAD_WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r22], %r23; @!%p4 bra LOAD_WAIT;
    @%p8 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r21], 40960;
    and.b32 %r21, %r21, 0xFEFFFFFF;
    mul.lo.u32 %r24, %r11, 20480; add.u32 %r24, %r24, %r16; add.u32 %r25, %r24, 16384;
    shl.b32 %r26, %r10, 6; shl.b32 %r27, %r7, 7; shl.b32 %r28, %r7, 5;
    LOAD [%r24], [%rd3, {%r26, %r27}], [%r21];
    LOAD [%r25], [%rd4, {%r26, %r28}], [%r21];
    add.u32 %r11, %r11, 1; setp.eq.u32 %p5, %r11, 2; selp.u32 %r11, 0, %r11, %p5;
    selp.u32 %r25, 1, 0, %p5; xor.b32 %r12, %r12, %r25;
    add.u32 %r10, %r10, 1; setp.lt.u32 %p6, %r10, 5; @%p6 bra LOAD;
    bra EPILOGUE;
MULTIPLY:
    shl.b32 %r20, %r11, 3; add.u32 %r21, %r14, %r20; add.u32 %r22, %r15, %r20;
FULL_WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r21], %r12; @!%p4 bra FULL_WAIT;
    tcgen05.fence::after_thread_sync;
    mad.lo.u32 %r24, %r11, 20480, %r16; and.b32 %r24, %r24, 0x3FFFF; shr.u32 %r24, %r24, 4;
    cvt.u64.u32 %rd6, %r24; or.b64 %rd7, %rd6, 0x4000404000010000; add.u64 %rd8, %rd7, 1024;
    setp.ne.u32 %p7, %r10, 0; mov.u32 %r30, 0;
STEP:
    tcgen05.mma.cta_group::2.kind::f16 [%r4], %rd7, %rd8, %r6, %p7;
    setp.eq.u32 %p7, %r1, %r1; add.u64 %rd7, %rd7, 2; add.u64 %rd8, %rd8, 2;
    add.u32 %r30, %r30, 1; setp.lt.u32 %p6, %r30, 4; @%p6 bra STEP;
    COMMIT [%r22], %h1;
    add.u32 %r11, %r11, 1; setp.eq.u32 %p5, %r11, 2; selp.u32 %r11, 0, %r11, %p5;
    selp.u32 %r25, 1, 0, %p5; xor.b32 %r12, %r12, %r25;
    add.u32 %r10, %r10, 1; setp.lt.u32 %p6, %r10, 5; @%p6 bra MULTIPLY;
    COMMIT [done], %h1;
EPILOGUE:
    bar.warp.sync -1;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [done], 0; @!%p3 bra WAIT;
    tcgen05.fence::after_thread_sync;
    mov.u32 %r9, %ctaid.x; shl.b32 %r9, %r9, 7; add.u32 %r9, %r9, %r1;
    mul.wide.u32 %rd9, %r9, 256; add.u64 %rd9, %rd9, %rd2; mov.u32 %r31, 0;
STORE:
    tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r40, %r41, %r42, %r43}, [%r5];
    tcgen05.wait::ld.sync.aligned;
    st.global.v4.u32 [%rd9], {%r40, %r41, %r42, %r43};
    add.u32 %r5, %r5, 4; add.u64 %rd9, %rd9, 16; add.u32 %r31, %r31, 4;
    setp.lt.u32 %p6, %r31, 64; @%p6 bra STORE;
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    @!%p1 bra END;
    tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
    tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r4, 64;
END:
    ret;
}
"""
"""Thread 0 of each block loads, thread 32 of the leader multiplies, all warps write the result."""
RING = RING.replace("    LOAD [", f"    {LOAD} [").replace("COMMIT", COMMIT)


def ring(
    schedule: str, changes: dict[str, str] | None = None, same: bool = False
) -> tuple[bool, list[str]]:
    """Whether the product is right, and the findings.  ``same``: both blocks have one half of B."""
    text = RING
    text = replace_each(text, (changes or {}).items())
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-4, 5, (rows, 64 * SLICES)).astype(float) for rows in (M, N))
    bits = [encode("bf16", x) for x in (a, b)]
    maps = [
        TensorMap(x, (64, rows // 2), data_type="bf16", dims=(64 * SLICES, rows),
                  strides=(128 * SLICES,), swizzle="128B")
        for x, rows in zip(bits, (M, N), strict=True)
    ]  # fmt: skip
    out = np.zeros((M, N), np.float32)
    idesc = instruction("f16", M, N, "bf16", "bf16", "f32")
    try:
        found = run(text, *maps, out, idesc, blocks=2, cluster=2, schedule=schedule)
    except EmulatorError as error:
        return False, [str(error), *(h.message for h in error.findings)]
    if same:
        b[N // 2 :] = b[: N // 2]
    return np.array_equal(out, a @ b.T), [h.message for h in found.findings]


SCHEDULES = ("eager", "late", "random")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_9_7_9_27_1_2_the_leaders_barrier_counts_both_blocks(schedule: str) -> None:
    right, findings = ring(schedule)
    assert right and not findings, findings


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_9_7_9_27_1_2_a_multicast_tells_the_leader_of_each_pair(schedule: str) -> None:
    """The leader brings its half of B to both blocks; its barrier counts both."""
    right, findings = ring(schedule, {
        f"{LOAD} [%r25], [%rd4, {{%r26, %r28}}], [%r21];":
        f"@%p8 {LOAD}.multicast::cluster [%r25], [%rd4, {{%r26, 0}}], [%r21], %h1;",
    }, same=True)  # fmt: skip
    assert right and not findings, findings


def test_9_7_16_4_1_copies_and_tensor_core_swizzle_alike_wherever_a_tile_begins() -> None:
    """By the address: so CuTe DSL aligns its tiles to 128 bytes only."""
    right, findings = ring("late", {"ring[40960]": "ring[41984]", "mov.u32 %r16, ring;":
                                   "mov.u32 %r16, ring; add.u32 %r16, %r16, 384;"})  # fmt: skip
    assert right and not findings, findings


MISTAKES = [
    ("the pair's copies without cta_group::2", {
        f"{LOAD} [%r25]": f"{LOAD.replace('.cta_group::2', '')} [%r25]",
    }, "is not in the block that is copied to"),
    ("the other block's own barrier", {"and.b32 %r21, %r21, 0xFEFFFFFF;": ""},
     "too many announced|bytes"),
    ("the bytes of one block", {", 40960;\n    and": ", 20480;\n    and"}, "bytes"),
    ("the slots of the leader only are given back", {f"{COMMIT} [%r22], %h1;": (
        f"{COMMIT.replace('.multicast::cluster', '')} [%r22];")}, "deadlock"),
    ("the other block does not wait for its slot", {
        "LOAD_WAIT:\n": "LOAD_WAIT: @!%p8 bra FREE;\n",
        "@%p8 mbarrier.arrive.expect_tx": "FREE: @%p8 mbarrier.arrive.expect_tx"},
     "thread 0 of block 1 writes ring"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "says"), [m[1:] for m in MISTAKES],
                         ids=[m[0] for m in MISTAKES])  # fmt: skip
def test_9_7_16_6_mistakes_of_a_pair_are_found(changes: dict[str, str], says: str) -> None:
    _, found = ring("late", changes)
    assert any(re.search(says, text) for text in found), found
