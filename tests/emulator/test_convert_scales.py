"""cvt to and from pairs of ue8m0 scales, PTX ISA 9.7.9.21; the numbers themselves: test_formats."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.emulator import formats
from phasebit.launching.launch import Module
from tests.emulator import saved

SOURCE = """
__global__ void scales(const float* a, const float* b, unsigned short* out, unsigned* back) {
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    const int t = threadIdx.x;
    unsigned short s;
    unsigned pair;
    asm("cvt.ROUNDING.ue8m0x2.f32 %0, %1, %2;" : "=h"(s) : "f"(a[t]), "f"(b[t]));
    out[t] = s;
    asm("cvt.rn.bf16x2.ue8m0x2 %0, %1;" : "=r"(pair) : "h"(s));
    back[t] = pair;
    asm("cvt.ROUNDING.ue8m0x2.bf16x2 %0, %1;" : "=h"(s) : "r"(pair));
    out[32 + t] = s;
#endif
}
"""


TO_ZERO = SOURCE.replace("ROUNDING", "rz")


@pytest.mark.parametrize("rounding", ["rz", "rp", "rz.satfinite", "rp.satfinite"])
def test_two_numbers_become_two_scales_and_numbers_again(rounding: str) -> None:
    a = np.geomspace(1e-30, 1e30, 32).astype(np.float32)
    b = np.array([0, 1, 1.5, 2, 448, 6, 3e38, 1e-45, *np.linspace(0.1, 9, 24)], np.float32)
    out, back = np.zeros(64, np.uint16), np.zeros(32, np.uint32)
    text = saved.module("convert_scales").ptx.replace("cvt.rz.ue8m0x2", f"cvt.{rounding}.ue8m0x2")
    kernel = Module(text)["scales"]
    assert not kernel.launch(1, 32, [a, b, out, back]).findings
    way, _, finite = rounding.partition(".")
    high, low = (
        formats.encode_scale(x, way, satfinite=bool(finite)).astype(np.uint16) for x in (a, b)
    )
    assert np.array_equal(out[:32], high << 8 | low)
    assert np.array_equal(out[32:], out[:32])  # a scale is a power of two: nothing to round
    halves = np.stack([back & 0xFFFF, back >> 16]).astype(np.uint32) << 16
    values = np.stack([formats.decode_scale(x) for x in (low, high)])
    assert np.array_equal(halves.view(np.float32), values.astype(np.float32), equal_nan=True)
