"""Operands that do not fit their instruction: refused before anything runs, with the reason."""

from __future__ import annotations

import pytest

from phasebit.emulator.errors import Fault, PtxError
from phasebit.launching.launch import Module

KERNEL = """.version 9.0\n.target sm_100a\n.address_size 64
.visible .entry k(.param .u64 out) {
.reg .b16 %h<5>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .b128 %q<2>; .reg .pred %p<4>;
.reg .f32 %f<5>;
    {}
    ret;
}
"""
FOUR = "{%r1, %r2, %r3, %r4}"
TENSOR = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], {}, "
TENSOR += "[%r4]"
WGMMA = "wgmma.mma_async.sync.aligned.m64n8k{}.f32.{}"
MISFITS = [
    ("st.global.u32 [%rd1], [%rd2]", "st needs registers or numbers"),
    ("ld.global.v2.u32 {%r1, {%r2}}, [%rd1]", "ld needs registers or numbers"),
    ("ld.global.u32 %r1, %rd1", "ld needs an address in brackets"),
    ("ld.global.u32 %r1, [%rd1], %rd2", "ld needs an address and a value"),
    ("st.global.u32 %rd1, [%r1]", "st needs an address in brackets"),
    ("ld.global.v2.u32 %r1, [%rd1]", "ld of 2 needs as many registers"),
    ("ld.global.u32 {%r1, %r2}, [%rd1]", "ld of 1 needs as many registers"),
    ("st.global.v4.u32 [%rd1], {%r1, %r2}", "st of 4 needs as many registers"),
    ("ld.global.e4m3x2 %h1, [%rd1]", "ld needs the type of what memory holds"),
    ("ld.global %r1, [%rd1]", "ld needs the type of what memory holds"),
    ("ld.global.v2.b128 {%q1, %q1}, [%rd1]",
     "ld of 128 bits takes one register, and no parameter"),
    ("ld.param.b128 %q1, [out]", "ld of 128 bits takes one register, and no parameter"),
    ("mov.u32 [%rd1]", "mov needs a result and a source"),
    ("mov.b64 %rd1, {%r1, %r2, %r3}", "mov packs and unpacks 2 registers or 4"),
    ("mov.b32 {%r1, %r2, %r3, %r4, %r5}, %r6", "mov packs and unpacks 2 registers or 4"),
    ("mov.b64 {%rd2}, %rd1", "mov packs and unpacks 2 registers or 4"),
    ("mov.u32 5, %r1", "Immediate(value=5, bits=None) cannot be written"),
    ("add.u32 %r1|%r2, %r3, %r4", "add.u32 has one result"),
    ("add.u32 %r1, (%r2), %r3", "operand Tuple(items=(%r2,)) does not fit here"),
    ("add.u32 %r1, [%rd1], 4", "operand Address(base=%rd1, offset=0, rest=()) does not fit here"),
    ("mov.u32 %r1, %pm0", "the special register %pm0 is not supported"),
    (TENSOR.format("[%rd1]"), "a tensor is a map and coordinates in braces"),
    (TENSOR.format("[%rd1, {%r1}, {%r1}]"), "a tensor is a map and coordinates in braces"),
    (TENSOR.format("%rd1"), "a tensor is a map and coordinates in braces"),
    ("st.bulk.weak.shared::cta [%r1], 8, %r2",
     "st.bulk needs an address in brackets, a size, and the number 0"),
    ("st.bulk.weak.shared::cta %r1, 8, 0",
     "st.bulk needs an address in brackets, a size, and the number 0"),
    ("st.bulk.weak.shared::cluster [%r1], 8, 0",
     "st.bulk initializes shared memory of its own block"),
    (f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16 {FOUR}, {FOUR}, {{%r1, %r2}}, {FOUR}",
     "mma names the types of D, A, B and C"),
    ("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1}, [%r2]",
     "ldmatrix of this shape needs 2 registers"),
    ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2}, [%r2]",
     "ldmatrix of this shape needs 4 registers"),
    ("ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8 {%r1, %r2}, [%r2]",
     "ldmatrix of this shape needs 4 registers"),
    ("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r2], {%r1}",
     "stmatrix of this shape needs 2 registers"),
    (f"{WGMMA.format(16, 'f16.e5m2')} {FOUR}, %rd1, %rd1, %p1, 1, 1", "wgmma cannot multiply f16 by"
     " e5m2"),
    (f"{WGMMA.format(32, 'e4m3.e5m2')} {FOUR}, %rd1, %rd1, %p1, 1, 1, 0",
     "this wgmma takes 2 numbers (signs, transposes) after scale-d"),
    (f"{WGMMA.format(16, 'f16.f16')} {FOUR}, {FOUR}, %rd1, %p1, 1, 1, 0, 0",
     "this wgmma takes 3 numbers (signs, transposes) after scale-d"),
    (f"{WGMMA.format(16, 'f16.f16')} {FOUR}, %rd1, %rd1, %p1, 1, 1, 0",
     "this wgmma takes 4 numbers (signs, transposes) after scale-d"),
    (f"{WGMMA.format(16, 'f16.f16')} {FOUR}, {{%r1, %r2}}, %rd1, %p1, 1, 1, 0",
     "A in registers is 4 of them"),
    (f"{WGMMA.format(16, 'f16.f16')} {FOUR}, %rd1, %rd1, %p1, 0, 1, 0, 0",
     "operand 5 of wgmma is one of (1, -1)"),
    (f"{WGMMA.format(16, 'f16.f16')} {FOUR}, %rd1, %rd1, %p1, 1, 2, 0, 0",
     "operand 6 of wgmma is one of (1, -1)"),
    (f"{WGMMA.format(16, 'f16.f16')} {FOUR}, %rd1, %rd1, %p1, 1, 1, -1, 0",
     "operand 7 of wgmma is one of (0, 1)"),
    (f"{WGMMA.format(16, 'f16.f16')} {FOUR}, %rd1, %rd1, %p1, 1, 1, 0, %r1",
     "operand 8 of wgmma is one of (0, 1)"),
    (f"{WGMMA.format(16, 'bf16.bf16').replace('f32.b', 'f16.b', 1)} {{%r1, %r2}}, %rd1, %rd1, %p1,"
     " 1, 1, 0, 0", "wgmma of bf16 has a D of f32"),
    ("wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.u8 %r1, %rd1, %rd1, %p1",
     "wgmma of integers has an n of 8, 24 or a multiple of 16"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "why"), MISFITS, ids=[text for text, _ in MISFITS])
def test_what_an_instruction_cannot_take(text: str, why: str) -> None:
    with pytest.raises(PtxError) as refused:
        Module(KERNEL.replace("{}", text + ";"))["k"].program()
    assert str(refused.value) == f"PTX line 7: {why}: {text}" or (
        "special register" in why and str(refused.value) == f"PTX line 7: {why}"
    )


@pytest.mark.parametrize("text", [
    "mov.b64 %rd1, {%r1, %r2}", "mov.b64 {%h1, %h2, %h3, %h4}, %rd1", "ld.global.u32 {%r1}, [%rd1]",
    "wgmma.mma_async.sync.aligned.m64n24k32.s32.s8.u8 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r1, %r2,"
    " %r3, %r4, %r5}, %rd1, %rd1, %p1",
    f"{WGMMA.format(32, 'e4m3.e5m2')} {FOUR}, %rd1, %rd1, %p1, -1, 1",
    f"{WGMMA.format(16, 'f16.f16')} {FOUR}, {FOUR}, %rd1, %p1, 1, -1, 1",
])  # fmt: skip
def test_what_an_instruction_can_take(text: str) -> None:
    Module(KERNEL.replace("{}", text + ";"))["k"].program()


SCALED = "tcgen05.mma.cta_group::1.kind::{}.block_scale{} [%r1], %rd1, %rd1, %r2, [%r3], [%r4], %p1"
SPARSE = "mma.sp.sync.aligned.{}.row.col.f32.{kind}.{kind}.f32 {FOUR}, {}, {}, {FOUR}, %r5, 0"


@pytest.mark.parametrize(("text", "why"), [
    ("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 "
     "[%r1], 0", "tcgen05.commit to no block, for its mask is 0: "),
    (SCALED.format("mxf4nvf4", ""), "kind::mxf4nvf4 has no block_scale without its size: "),
    (SCALED.format("mxf4nvf4", ".scale_vec::1X"), "kind::mxf4nvf4 has no scale_vec::1X: "),
    (SCALED.format("mxf4", ".block16"), "kind::mxf4 has no block16: "),
    (SPARSE.format("m16n8k8", "{%r1, %r2}", "{%r1, %r2}", kind="f16", FOUR=FOUR),
     "mma.sp has no m16n8k8 of f16"),
    (SPARSE.format("m16n8k4", "{%r1, %r2}", "{%r1}", kind="tf32", FOUR=FOUR),
     "mma.sp has no m16n8k4 of tf32"),
])  # fmt: skip
def test_what_is_said_when_it_runs(text: str, why: str) -> None:
    with pytest.raises(Fault) as refused:
        Module(KERNEL.replace("{}", text + ";"))["k"].launch(1, 32, [0])
    assert str(refused.value).startswith(why)
    if "scale" in text and "mxf4nvf4" in text:
        known = ".scale_vec::2X, .block32, .scale_vec::4X, .block16"
        assert f"PTX line 7; it takes {known}" in str(refused.value)
    if "mxf4." in text:
        assert "PTX line 7; it takes none, .scale_vec::2X, .block32" in str(refused.value)
