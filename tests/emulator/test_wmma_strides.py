"""Rows of wmma's matrices need not follow each other, and apart need not be a power of two."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.tensor_ptx import HEAD, run

KERNEL = (
    HEAD
    + """
.visible .entry kernel(.param .u64 in, .param .u64 out, .param .u32 from, .param .u32 to)
{
    .reg .b32 %r<3>; .reg .b64 %rd<3>; .reg .f32 %f<8>;
    ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
    ld.param.u32 %r1, [from]; ld.param.u32 %r2, [to];
    wmma.load.c.sync.aligned.LOADED.m16n16k16.global.f32
        {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, [%rd1], %r1;
    wmma.store.d.sync.aligned.STORED.m16n16k16.global.f32
        [%rd2], {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, %r2;
    ret;
}
"""
)


@pytest.mark.parametrize(("loaded", "stored"), [("row", "row"), ("row", "col"), ("col", "row")])
@pytest.mark.parametrize(("start", "end"), [(16, 16), (20, 28), (28, 36), (100, 20)])
def test_9_7_14_4_2_a_matrix_is_copied_from_stride_to_stride(
    start: int, end: int, loaded: str, stored: str
) -> None:
    given = np.random.default_rng(0).random((16, start), np.float32)
    out = np.zeros((16, end), np.float32)
    text = KERNEL.replace("LOADED", loaded).replace("STORED", stored)
    assert not run(text, given, out, start, end, threads=32).findings
    matrix = given[:, :16] if loaded == stored else given[:, :16].T
    assert (out[:, :16] == matrix).all() and not out[:, 16:].any()
