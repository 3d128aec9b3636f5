"""The copy engine fills slots, the tensor core empties them: roles that meet at mbarriers only."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.edits import replace_each
from phasebit.emulator.errors import EmulatorError
from phasebit.emulator.numbers import swizzle
from phasebit.emulator.numbers.formats import encode
from phasebit.emulator.tensor_core.instruction_descriptors import encode as instruction
from phasebit.emulator.tensor_core.matrix_descriptors import decode, places
from phasebit.emulator.tensor_core.matrix_descriptors import encode as matrix
from tests.emulator.tensor_ptx import HEAD, run

SLICES, SLICE = 7, 5120
RING = HEAD + """
.visible .entry kernel(.param .u64 slices, .param .u64 out, .param .u64 adesc, .param .u64 bdesc,
    .param .u32 idesc)
{
    .reg .pred %p<9>; .reg .b32 %r<60>; .reg .b64 %rd<20>;
    .shared .align 1024 .b8 ring[10240];
    .shared .align 8 .b64 full[2]; .shared .align 8 .b64 empty[2]; .shared .align 8 .b64 done;
    .shared .align 4 .b32 slot;
    ld.param.u64 %rd1, [slices]; ld.param.u64 %rd2, [out]; ld.param.u64 %rd4, [adesc];
    ld.param.u64 %rd5, [bdesc]; ld.param.u32 %r6, [idesc];
    mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; shl.b32 %r3, %r2, 21;
    setp.eq.u32 %p1, %r2, 2;
    @!%p1 bra INIT;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
INIT:
    setp.eq.u32 %p2, %r1, 0;
    @!%p2 bra START;
    mbarrier.init.shared::cta.b64 [full], 1; mbarrier.init.shared::cta.b64 [full+8], 1;
    mbarrier.init.shared::cta.b64 [empty], 1; mbarrier.init.shared::cta.b64 [empty+8], 1;
    mbarrier.init.shared::cta.b64 [done], 1; fence.mbarrier_init.release.cluster;
START:
    bar.sync 0;
    ld.shared.u32 %r4, [slot]; add.u32 %r5, %r4, %r3;
    mov.u32 %r10, 0; mov.u32 %r11, 0; mov.u32 %r12, 0;
    mov.u32 %r14, full; mov.u32 %r15, empty; mov.u32 %r16, ring;
    @%p2 bra LOAD;
    setp.eq.u32 %p3, %r1, 32; @%p3 bra MULTIPLY;
    bra EPILOGUE;
LOAD:
    shl.b32 %r20, %r11, 3; add.u32 %r21, %r14, %r20; add.u32 %r22, %r15, %r20;
    xor.b32 %r23, %r12, 1;
LOAD_WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r22], %r23; @!%p4 bra LOAD_WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r21], 5120;
    mul.lo.u32 %r24, %r11, 5120; add.u32 %r24, %r24, %r16;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r24], [%rd1], 5120, [%r21];
    add.u64 %rd1, %rd1, 5120;
    add.u32 %r11, %r11, 1; setp.eq.u32 %p5, %r11, 2; selp.u32 %r11, 0, %r11, %p5;
    selp.u32 %r25, 1, 0, %p5; xor.b32 %r12, %r12, %r25;
    add.u32 %r10, %r10, 1; setp.lt.u32 %p6, %r10, 7; @%p6 bra LOAD;
    bra EPILOGUE;
MULTIPLY:
    shl.b32 %r20, %r11, 3; add.u32 %r21, %r14, %r20; add.u32 %r22, %r15, %r20;
FULL_WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r21], %r12; @!%p4 bra FULL_WAIT;
    tcgen05.fence::after_thread_sync;
    mul.lo.u32 %r24, %r11, 320; cvt.u64.u32 %rd6, %r24;
    add.u64 %rd7, %rd4, %rd6; add.u64 %rd8, %rd5, %rd6;
    setp.ne.u32 %p7, %r10, 0;
    tcgen05.mma.cta_group::1.kind::f16 [%r4], %rd7, %rd8, %r6, %p7;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r22];
    add.u32 %r11, %r11, 1; setp.eq.u32 %p5, %r11, 2; selp.u32 %r11, 0, %r11, %p5;
    selp.u32 %r25, 1, 0, %p5; xor.b32 %r12, %r12, %r25;
    add.u32 %r10, %r10, 1; setp.lt.u32 %p6, %r10, 7; @%p6 bra MULTIPLY;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];
EPILOGUE:
    bar.warp.sync -1;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [done], 0; @!%p3 bra WAIT;
    tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x16.b32 {%r30, %r31, %r32, %r33, %r34, %r35, %r36, %r37, %r38,
        %r39, %r40, %r41, %r42, %r43, %r44, %r45}, [%r5];
    tcgen05.wait::ld.sync.aligned;
    mul.wide.u32 %rd9, %r1, 64; add.u64 %rd9, %rd9, %rd2;
    st.global.v4.u32 [%rd9], {%r30, %r31, %r32, %r33};
    st.global.v4.u32 [%rd9+16], {%r34, %r35, %r36, %r37};
    st.global.v4.u32 [%rd9+32], {%r38, %r39, %r40, %r41};
    st.global.v4.u32 [%rd9+48], {%r42, %r43, %r44, %r45};
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    @!%p1 bra END;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 32;
END:
    ret;
}
"""
"""Thread 0 loads, thread 32 multiplies, warp 2 allocates, all four warps write the result."""


def ring(schedule: str, changes: dict[str, str] | None = None) -> tuple[bool, list[str]]:
    """Whether the product is right, and the findings."""
    text = RING
    text = replace_each(text, (changes or {}).items())
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-4, 5, (rows, 16 * SLICES)).astype(float) for rows in (128, 16))
    descriptors = [matrix(0, 2048, 128, swizzle.NONE, "tcgen05"),
                   matrix(4096, 256, 128, swizzle.NONE, "tcgen05")]  # fmt: skip
    image = np.zeros((SLICES, SLICE // 2), np.uint16)
    for one, bits in ((a, descriptors[0]), (b, descriptors[1])):
        at = places(decode(bits, "tcgen05"), len(one), 16, 2, False) // 2
        for i in range(SLICES):
            image[i, at] = encode("bf16", one[:, 16 * i : 16 * i + 16])
    out = np.zeros((128, 16), np.float32)
    idesc = instruction("f16", 128, 16, "bf16", "bf16", "f32")
    try:
        found = run(text, image, out, *descriptors, idesc, schedule=schedule)
    except EmulatorError as error:
        return False, [h.message for h in error.findings]
    return np.array_equal(out, a @ b.T), [h.message for h in found.findings]


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_a_ring_is_right_and_clean(schedule: str) -> None:
    right, findings = ring(schedule)
    assert right and not findings, findings


TRY = "mbarrier.try_wait.parity.shared::cta.b64"
MISTAKES = [
    ("the loader waits for its own copy", f"{TRY} %p4, [%r22], %r23;", f"{TRY} %p4, [%r21], %r23;",
     "may still read it"),
    ("the slice is not waited for", f"{TRY} %p4, [%r21], %r12; @!%p4 bra FULL_WAIT;", "",
     "a bulk copy writes it"),
    ("the end is not waited for", f"{TRY} %p3, [done], 0; @!%p3 bra WAIT;", "",
     "a tensor operation of thread 32"),
    ("the epilogue waits for a slot", "[done], 0;", "[empty], 0;",
     "a tensor operation of thread 32"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "says"), [m[1:] for m in MISTAKES],
                         ids=[m[0] for m in MISTAKES])  # fmt: skip
def test_a_missing_wait_is_found(old: str, new: str, says: str) -> None:
    _, findings = ring("late", {old: new})
    assert any(says in h for h in findings), findings
