# mypy: ignore-errors
"""Kernels for Hopper in Gluon, written from its documented API; C = A·Bᵀ through tensor maps."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)


@gluon.jit
def load_ring(a, b, in_a, in_b, full, empty, row, column, steps, STAGES: gl.constexpr):
    """A warp that fills the stages."""
    BK: gl.constexpr = a.block_type.shape[1]
    for step in range(steps):
        slot = step % STAGES
        mbarrier.wait(empty.index(slot), (step // STAGES & 1) ^ 1)
        mbarrier.expect(full.index(slot), a.block_type.nbytes + b.block_type.nbytes)
        tma.async_load(a, [row, step * BK], full.index(slot), in_a.index(slot))
        tma.async_load(b, [column, step * BK], full.index(slot), in_b.index(slot))


@gluon.jit
def multiply_ring(c, in_a, in_b, in_c, full, empty, row, column, steps, STAGES: gl.constexpr):
    """A warp group that empties them; one multiplication is always under way."""
    BM: gl.constexpr = c.block_type.shape[0]
    BN: gl.constexpr = c.block_type.shape[1]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    total = gl.zeros((BM, BN), gl.float32, layout)
    for step in range(steps):
        slot = step % STAGES
        mbarrier.wait(full.index(slot), step // STAGES & 1)
        total = warpgroup_mma(
            in_a.index(slot), in_b.index(slot).permute((1, 0)), total, is_async=True
        )
        total = warpgroup_mma_wait(num_outstanding=1, deps=[total])
        mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES), pred=step > 0)
    total = warpgroup_mma_wait(num_outstanding=0, deps=[total])
    in_c.store(total.to(c.dtype))
    fence_async_shared()
    tma.async_store(c, [row, column], in_c)
    tma.store_wait(pendings=0)


@gluon.jit
def roles(a, b, c, K, STAGES: gl.constexpr):
    BM: gl.constexpr = c.block_type.shape[0]
    BN: gl.constexpr = c.block_type.shape[1]
    BK: gl.constexpr = a.block_type.shape[1]
    row, column = gl.program_id(0) * BM, gl.program_id(1) * BN
    in_a = gl.allocate_shared_memory(a.dtype, [STAGES, BM, BK], a.layout)
    in_b = gl.allocate_shared_memory(b.dtype, [STAGES, BN, BK], b.layout)
    in_c = gl.allocate_shared_memory(c.dtype, [BM, BN], c.layout)
    full = mbarrier.allocate_mbarrier(batch=STAGES)
    empty = mbarrier.allocate_mbarrier(batch=STAGES)
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    steps = gl.cdiv(K, BK)
    gl.warp_specialize([
        (multiply_ring, (c, in_a, in_b, in_c, full, empty, row, column, steps, STAGES)),
        (load_ring, (a, b, in_a, in_b, full, empty, row, column, steps, STAGES)),
    ], [1], [24])  # fmt: skip


@gluon.jit
def split(a, b, c, K):
    """Blocks that share a tile of C add their parts to it with the copy engine."""
    BM: gl.constexpr = c.block_type.shape[0]
    BN: gl.constexpr = c.block_type.shape[1]
    BK: gl.constexpr = a.block_type.shape[1]
    row, column = gl.program_id(0) * BM, gl.program_id(1) * BN
    in_a = gl.allocate_shared_memory(a.dtype, [BM, BK], a.layout)
    in_b = gl.allocate_shared_memory(b.dtype, [BN, BK], b.layout)
    full = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    total = gl.zeros((BM, BN), gl.float32, layout)
    phase = 0
    for k in range(gl.program_id(2) * BK, K, BK * gl.num_programs(2)):
        mbarrier.expect(full, a.block_type.nbytes + b.block_type.nbytes)
        tma.async_load(a, [row, k], full, in_a)
        tma.async_load(b, [column, k], full, in_b)
        mbarrier.wait(full, phase)
        phase ^= 1
        total = warpgroup_mma(in_a, in_b.permute((1, 0)), total)
    in_c = gl.allocate_shared_memory(c.dtype, [BM, BN], c.layout)
    in_c.store(total)
    fence_async_shared()
    tma.async_atomic_add(c, [row, column], in_c)
    tma.store_wait(pendings=0)


@gluon.jit
def one_tile(a, b, c, BM: gl.constexpr, BN: gl.constexpr, TOTAL: gl.constexpr, DEEP: gl.constexpr,
             REGISTERS: gl.constexpr):  # fmt: skip
    """One multiplication of any type, with A from shared memory or from registers."""
    BK: gl.constexpr = a.block_type.shape[1]
    in_a = gl.allocate_shared_memory(a.dtype, [BM, BK], a.layout)
    in_b = gl.allocate_shared_memory(b.dtype, [BN, BK], b.layout)
    full = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, DEEP])
    mbarrier.expect(full, a.block_type.nbytes + b.block_type.nbytes)
    tma.async_load(a, [0, 0], full, in_a)
    tma.async_load(b, [0, 0], full, in_b)
    mbarrier.wait(full, 0)
    total = gl.zeros((BM, BN), TOTAL, layout)
    if REGISTERS:
        width: gl.constexpr = 32 // a.dtype.primitive_bitwidth
        own = in_a.load(gl.DotOperandLayout(operand_index=0, parent=layout, k_width=width))
        total = warpgroup_mma(own, in_b.permute((1, 0)), total)
    else:
        total = warpgroup_mma(in_a, in_b.permute((1, 0)), total)
    rows = gl.arange(0, BM, layout=gl.SliceLayout(1, layout))
    columns = gl.arange(0, BN, layout=gl.SliceLayout(0, layout))
    gl.store(c + rows[:, None] * BN + columns[None, :], total)
