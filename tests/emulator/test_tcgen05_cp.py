"""tcgen05.cp, named after its section of the PTX ISA: rows of shared memory into tensor memory."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.emulator import swizzle
from phasebit.emulator.matrix_descriptors import decode, encode, places
from tests.emulator.tensor_kernels import HEAD, run

COPY = HEAD + """
.visible .entry kernel(.param .u64 image, .param .u64 out, .param .u64 desc)
{
    .reg .pred %p<9>; .reg .b32 %r<40>; .reg .b64 %rd<9>;
    .shared .align 1024 .b8 tile[4096]; .shared .align 8 .b64 done; .shared .align 4 .b32 slot;
    ld.param.u64 %rd1, [image]; ld.param.u64 %rd2, [out]; ld.param.u64 %rd3, [desc];
    mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; shl.b32 %r3, %r2, 21;
    setp.eq.u32 %p1, %r2, 0; setp.eq.u32 %p2, %r1, 0;
    @!%p1 bra START;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
START:
    @!%p2 bra FILL;
    mbarrier.init.shared::cta.b64 [done], 1;
FILL:
    shl.b32 %r4, %r1, 5; mov.u32 %r5, tile; add.u32 %r5, %r5, %r4; cvt.u64.u32 %rd4, %r4;
    add.u64 %rd1, %rd1, %rd4; add.u64 %rd2, %rd2, %rd4;
    ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd1];
    ld.global.v4.u32 {%r14, %r15, %r16, %r17}, [%rd1+16];
    st.shared.v4.u32 [%r5], {%r10, %r11, %r12, %r13};
    st.shared.v4.u32 [%r5+16], {%r14, %r15, %r16, %r17};
    fence.proxy.async.shared::cta;
    bar.sync 0;
    ld.shared.u32 %r6, [slot]; add.u32 %r7, %r6, %r3;
    @!%p2 bra WAIT;
    tcgen05.cp.cta_group::1.SHAPE [%r6], %rd3;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [done], 0; @!%p3 bra WAIT;
    tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.xWIDE.b32 REGISTERS, [%r7];
    tcgen05.wait::ld.sync.aligned;
    STORES
    bar.sync 0;
    @!%p1 bra END;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 32;
END:
    ret;
}
"""
LANE = np.arange(128)
ROWS = {
    "128x256b": LANE, "128x128b": LANE, "64x128b.warpx2::02_13": LANE % 64,
    "64x128b.warpx2::01_23": LANE % 32 + LANE // 64 * 32, "32x128b.warpx4": LANE % 32,
}  # fmt: skip
"""The row of shared memory that each lane receives."""


def copied(shape: str, schedule: str, changes: dict[str, str] | None = None) -> list[str]:
    wide = 8 if "256b" in shape else 4
    text = COPY.replace("SHAPE", shape).replace("WIDE", str(wide))
    names = [f"%r{20 + i}" for i in range(wide)]
    text = text.replace("REGISTERS", "{" + ", ".join(names) + "}")
    stores = (f"st.global.u32 [%rd2+{4 * i}], {name};" for i, name in enumerate(names))
    text = text.replace("STORES", " ".join(stores))
    for old, new in (changes or {}).items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    rows = int(ROWS[shape].max()) + 1
    bits = encode(0, 16 * rows, 128, swizzle.NONE, "tcgen05")
    image = np.random.default_rng(1).integers(0, 256, 4096, np.uint8)
    out = np.zeros((128, 8), np.uint32)
    found = run(text, image, out, bits, schedule=schedule)
    matrix = image[places(decode(bits, "tcgen05"), rows, 4 * wide, 1, False)].view(np.uint32)
    if not changes:
        assert np.array_equal(out[:, :wide], matrix[ROWS[shape]])
    return [h.message for h in found.hazards]


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("shape", ROWS)
def test_9_7_16_9_2_every_shape(shape: str, schedule: str) -> None:
    assert not copied(shape, schedule)


@pytest.mark.parametrize(("old", "says"), [
    ("fence.proxy.async.shared::cta;", "no fence.proxy.async lies between"),
    ("mbarrier.try_wait.parity.shared::cta.b64 %p3, [done], 0; @!%p3 bra WAIT;",
     "a tensor operation of thread 0"),
])  # fmt: skip
def test_9_7_16_6_planted_mistakes_are_found(old: str, says: str) -> None:
    assert any(says in h for h in copied("128x128b", "late", {old: ""}))
