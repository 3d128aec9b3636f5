# mypy: ignore-errors
"""Attention's weights are stored to shared memory, and the tensor core reads them."""

import gluon_bug as common
import numpy as np
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    warpgroup_mma,
    warpgroup_mma_wait,
)

M, N, K = gl.constexpr(64), gl.constexpr(64), gl.constexpr(64)
LINES = (
    "p.store(gl.load(weights + at))",
    "sums = warpgroup_mma(p, v.permute((1, 0)), sums, is_async=True)",
)


@gluon.jit
def kernel(weights, values, out, BROKEN: gl.constexpr):
    spread: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    shared: gl.constexpr = gl.NVMMASharedLayout(
        swizzle_byte_width=128, element_bitwidth=16, rank=2
    )
    result: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, N, 16])
    rows = gl.arange(0, M, layout=gl.SliceLayout(1, spread))
    columns = gl.arange(0, K, layout=gl.SliceLayout(0, spread))
    at = rows[:, None] * K + columns[None, :]
    v = gl.allocate_shared_memory(gl.float16, [N, K], shared)
    v.store(gl.load(values + at))
    fence_async_shared()
    p = gl.allocate_shared_memory(gl.float16, [M, K], shared)
    p.store(gl.load(weights + at))
    if not BROKEN:
        fence_async_shared()
    sums = gl.zeros((M, N), gl.float32, result)
    sums = warpgroup_mma(p, v.permute((1, 0)), sums, is_async=True)
    sums = warpgroup_mma_wait(num_outstanding=0, deps=[sums])
    row = gl.arange(0, M, layout=gl.SliceLayout(1, result))
    column = gl.arange(0, N, layout=gl.SliceLayout(0, result))
    gl.store(out + row[:, None] * N + column[None, :], sums)


def run(device, broken):
    weights = (np.arange(M.value * K.value) % 3 - 1).reshape(-1, K.value).astype(np.float16)
    values = (np.arange(N.value * K.value) % 5 - 2).reshape(-1, K.value).astype(np.float16)
    out = device.array(np.full((M.value, N.value), np.nan, np.float32))
    kernel[(1,)](device.array(weights), device.array(values), out, broken, num_warps=4)
    return device.back(out), weights.astype(np.float32) @ values.T.astype(np.float32)


if __name__ == "__main__":
    common.main(run)
