"""tcgen05.cp, named after its section of the PTX ISA: rows of shared memory into tensor memory."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.edits import replace_each
from phasebit.emulator.errors import EmulatorError
from phasebit.emulator.machine.device_memory import POISON
from phasebit.emulator.numbers import swizzle
from phasebit.emulator.tensor_core.matrix_descriptors import decode, encode, places
from tests.emulator.tensor_ptx import HEAD, run

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
    text = replace_each(text, (changes or {}).items())
    rows = int(ROWS[shape].max()) + 1
    bits = encode(0, 16 * rows, 128, swizzle.NONE, "tcgen05")
    image = np.random.default_rng(1).integers(0, 256, 4096, np.uint8)
    out = np.zeros((128, 8), np.uint32)
    found = run(text, image, out, bits, schedule=schedule)
    matrix = image[places(decode(bits, "tcgen05"), rows, 4 * wide, 1, False)].view(np.uint32)
    if not changes:
        assert np.array_equal(out[:, :wide], matrix[ROWS[shape]])
    return [h.message for h in found.findings]


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("shape", ROWS)
def test_9_7_16_9_2_every_shape(shape: str, schedule: str) -> None:
    assert not copied(shape, schedule)


@pytest.mark.parametrize("lane", [0, 31])
def test_9_7_16_2_3_four_rows_go_to_four_quarters(lane: int) -> None:
    """4x256b: row r to lane 32 r after the address's; CUTLASS has a row for each 32 lanes."""
    text = COPY.replace("SHAPE [%r6]", "4x256b [%r8]").replace("WIDE", "8")
    text = text.replace("@!%p2 bra WAIT;", f"@!%p2 bra WAIT; add.u32 %r8, %r6, {lane << 16};")
    names = [f"%r{20 + i}" for i in range(8)]
    text = text.replace("REGISTERS", "{" + ", ".join(names) + "}")
    text = text.replace("STORES", " ".join(
        f"st.global.u32 [%rd2+{4 * i}], {name};" for i, name in enumerate(names)
    ))  # fmt: skip
    image = np.random.default_rng(1).integers(0, 256, 4096, np.uint8)
    out = np.zeros((128, 8), np.uint32)
    run(text, image, out, encode(0, 128, 128, swizzle.NONE, "tcgen05"))
    rows = np.stack([image[16 * r : 16 * r + 16] for r in range(4)])
    rows = np.concatenate([rows, [image[128 + 16 * r :][:16] for r in range(4)]], axis=1)
    assert np.array_equal(out[lane::32], np.ascontiguousarray(rows).view(np.uint32))
    assert (np.delete(out, [lane, lane + 32, lane + 64, lane + 96], axis=0) == POISON).all()


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize(("source", "width"), [("b4x16_p64", 4), ("b6x16_p32", 6)])
def test_9_7_16_9_1_small_numbers_get_a_byte_each(source: str, width: int, schedule: str) -> None:
    """16 numbers at the beginning of 16 bytes; 4 bits come to the middle of their byte."""
    text = COPY.replace("SHAPE", f"128x128b.b8x16.{source}").replace("WIDE", "4")
    text = text.replace("REGISTERS", "{%r20, %r21, %r22, %r23}")
    text = text.replace("STORES", "st.global.v4.u32 [%rd2], {%r20, %r21, %r22, %r23};")
    numbers = np.random.default_rng(2).integers(0, 1 << width, (128, 16))
    slots = b"".join(
        sum(int(x) << width * i for i, x in enumerate(row)).to_bytes(2 * width, "little")
        + b"\xff" * (16 - 2 * width) for row in numbers
    )  # fmt: skip
    image = np.zeros(4096, np.uint8)
    image[:2048] = np.frombuffer(slots, np.uint8)
    out = np.zeros((128, 32), np.uint8)
    found = run(text, image, out, encode(0, 2048, 128, swizzle.NONE, "tcgen05"), schedule=schedule)
    assert not found.findings
    assert np.array_equal(out[:, :16], numbers << (2 if width == 4 else 0))


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_9_7_16_9_1_the_gaps_of_slots_need_not_be_written(schedule: str) -> None:
    changes = {
        "st.shared.v4.u32 [%r5], {%r10, %r11, %r12, %r13};":
        "st.shared.v2.u32 [%r5], {%r10, %r11};",
        "st.shared.v4.u32 [%r5+16], {%r14, %r15, %r16, %r17};":
        "st.shared.v2.u32 [%r5+16], {%r14, %r15};",
    }
    assert any("nobody has written" in h for h in copied("128x128b", schedule, changes))
    changes["128x128b"] = "128x128b.b8x16.b4x16_p64"
    assert not copied("128x128b", schedule, changes)


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("lane", [0, 32, 64, 96])
def test_9_7_16_9_3_a_shift_takes_the_next_lane(lane: int, schedule: str) -> None:
    """31 of a quarter (9.7.16.2.3); after a copy it has to wait (9.7.16.6.2)."""
    text = COPY.replace("SHAPE [%r6], %rd3;", "128x256b [%r6], %rd3;\n"
                        "    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"
                        " [copied];\nCOPIED:\n    mbarrier.try_wait.parity.shared::cta.b64 %p3,"
                        " [copied], 0; @!%p3 bra COPIED;\n"
                        f"    add.u32 %r8, %r6, {lane << 16};\n"
                        "    tcgen05.shift.cta_group::1.down [%r8];")  # fmt: skip
    text = text.replace("    mbarrier.init", "    .shared .align 8 .b64 copied;\n"
                        "    mbarrier.init.shared::cta.b64 [copied], 1;\n    mbarrier.init")
    names = [f"%r{20 + i}" for i in range(8)]
    text = text.replace("REGISTERS", "{" + ", ".join(names) + "}").replace("WIDE", "8")
    text = text.replace("STORES", " ".join(
        f"st.global.u32 [%rd2+{4 * i}], {name};" for i, name in enumerate(names)
    ))  # fmt: skip
    image = np.random.default_rng(1).integers(0, 256, 4096, np.uint8)
    out = np.zeros((128, 8), np.uint32)
    bits = encode(0, 2048, 128, swizzle.NONE, "tcgen05")
    found = run(text, image, out, bits, schedule=schedule)
    assert not found.findings
    before = image[places(decode(bits, "tcgen05"), 128, 32, 1, False)].view(np.uint32)
    source = np.where((lane // 32 == LANE // 32) & (LANE % 32 < 31), LANE + 1, LANE)
    assert np.array_equal(out, before[source])


@pytest.mark.parametrize(("more", "says"), [
    ("tcgen05.shift.cta_group::1.down [%r8];", "begins at lane 1; it is a multiple of 32"),
    ("tcgen05.shift.cta_group::1.down [%r9];", "which is not allocated"),
])  # fmt: skip
def test_9_7_16_9_3_wrong_addresses(more: str, says: str) -> None:
    more = "add.u32 %r8, %r6, 0x10000; add.u32 %r9, %r6, 28;\n" + more
    with pytest.raises(EmulatorError, match=says):
        copied("128x128b", "late", {"tcgen05.commit": more + "tcgen05.commit"})


def test_9_7_16_9_2_a_copy_beyond_the_last_column_is_told_with_its_lanes() -> None:
    text = COPY.replace("SHAPE [%r6]", "128x256b [%r8]").replace("REGISTERS", "{%r20}")
    text = text.replace("WIDE", "1").replace("STORES", "")
    text = text.replace("@!%p2 bra WAIT;", "@!%p2 bra WAIT; mov.u32 %r8, 508;")
    bits = encode(0, 2048, 128, swizzle.NONE, "tcgen05")
    with pytest.raises(EmulatorError) as raised:
        run(text, np.zeros(4096, np.uint8), np.zeros((128, 8), np.uint32), bits)
    assert "beyond tensor memory, lanes 0-127 and columns 508-515 of 128" in str(raised.value)


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_9_7_16_6_a_shift_of_what_another_thread_copies(schedule: str) -> None:
    more = "setp.eq.u32 %p4, %r1, 32; @!%p4 bra WAIT;\n" \
           "tcgen05.shift.cta_group::1.down [%r6];\nWAIT:\n"  # fmt: skip
    changes = {"@!%p2 bra WAIT;": "@!%p2 bra OTHER;", "WAIT:\n": f"bra WAIT;\nOTHER:\n{more}"}
    says = copied("128x256b", schedule, changes)
    assert any("a tensor operation of thread" in h for h in says)


@pytest.mark.parametrize(("old", "says"), [
    ("fence.proxy.async.shared::cta;", "no fence.proxy.async lies between"),
    ("mbarrier.try_wait.parity.shared::cta.b64 %p3, [done], 0; @!%p3 bra WAIT;",
     "a tensor operation of thread 0"),
])  # fmt: skip
def test_9_7_16_6_planted_mistakes_are_found(old: str, says: str) -> None:
    assert any(says in h for h in copied("128x128b", "late", {old: ""}))
