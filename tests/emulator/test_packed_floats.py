"""f32x2: two numbers in 64 bits, each as the scalar instruction makes it (PTX ISA 9.7.3.6 to .9).

The scalar instructions agree with an H200; there was no Blackwell for the packed ones.
"""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.launching.launch import Module
from tests.emulator.tensor_kernels import HEAD

KERNEL = HEAD + """
.visible .entry kernel(.param .u64 in, .param .u64 packed, .param .u64 single)
{
    .reg .b32 %r<20>; .reg .b64 %rd<9>; .reg .f32 %f<20>;
    ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [packed]; ld.param.u64 %rd3, [single];
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd4, %r1, 24; mul.wide.u32 %rd5, %r1, 8;
    add.u64 %rd1, %rd1, %rd4; add.u64 %rd2, %rd2, %rd5; add.u64 %rd3, %rd3, %rd5;
    ld.global.v2.f32 {%f1, %f2}, [%rd1]; ld.global.v2.f32 {%f3, %f4}, [%rd1+8];
    ld.global.v2.f32 {%f5, %f6}, [%rd1+16];
    mov.b64 %rd6, {%f1, %f2}; mov.b64 %rd7, {%f3, %f4}; mov.b64 %rd8, {%f5, %f6};
    OP.f32x2 %rd6, %rd6, %rd7THIRD;
    st.global.b64 [%rd2], %rd6;
    OP.f32 %f1, %f1, %f3FIRST; OP.f32 %f2, %f2, %f4SECOND;
    st.global.v2.f32 [%rd3], {%f1, %f2};
    ret;
}
"""


ROUNDINGS = (".rn", ".rz", ".rm", ".rp", ".rn.ftz", ".rz.ftz")
FORMS = [("add", ""), ("sub", ""), ("mul", ""),
         *((op, r) for op in ("add", "sub", "mul", "fma") for r in ROUNDINGS)]  # fmt: skip


@pytest.mark.parametrize(("op", "rounding"), FORMS)
def test_9_7_3_packed_is_twice_the_scalar(op: str, rounding: str) -> None:
    text = KERNEL.replace("OP", op + rounding)
    for name, register in (("THIRD", "%rd8"), ("FIRST", "%f5"), ("SECOND", "%f6")):
        text = text.replace(name, f", {register}" if op == "fma" else "")
    random = np.random.default_rng()
    given = random.integers(0, 1 << 32, (256, 6), np.uint32)
    given[::2] = given[::2] & 0x807FFFFF | 0x3F000000  # near one another
    given[1::4] &= 0x80FFFFFF  # and subnormal ones
    packed, single = np.zeros((2, 256, 2), np.uint32)
    Module(text)["kernel"].launch(1, 256, [given, packed, single])
    assert np.array_equal(packed, single) and single.any()
