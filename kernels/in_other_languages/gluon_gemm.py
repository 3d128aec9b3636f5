# mypy: ignore-errors
"""C = A · Bᵀ in Gluon, f16 in, f32 out: the chain's two rings, every wait and arrival by hand."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    fence_async_shared,
    mbarrier,
    tcgen05_commit,
    tcgen05_mma,
    tma,
)

ROWS = gl.constexpr(gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0]))  # of a piece, in registers


@gluon.jit
def load(a, b, in_a, in_b, full, empty, tiles, rows, steps, STAGES: gl.constexpr):
    """One warp asks the copy engine for slices."""
    BM: gl.constexpr = a.block_type.shape[0]
    BN: gl.constexpr = b.block_type.shape[0]
    BK: gl.constexpr = a.block_type.shape[1]
    i = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        for step in range(steps):
            slot = i % STAGES
            mbarrier.wait(empty.index(slot), (i // STAGES & 1) ^ 1)
            mbarrier.expect(full.index(slot), a.block_type.nbytes + b.block_type.nbytes)
            tma.async_load(a, [tile % rows * BM, step * BK], full.index(slot), in_a.index(slot))
            tma.async_load(b, [tile // rows * BN, step * BK], full.index(slot), in_b.index(slot))
            i += 1


@gluon.jit
def multiply(in_a, in_b, sums, full, empty, ready, free, tiles, steps, STAGES: gl.constexpr):
    """One warp issues the products."""
    i = 0
    turn = 0
    for _ in range(gl.program_id(0), tiles, gl.num_programs(0)):
        mbarrier.wait(free.index(turn % 2), (turn // 2 & 1) ^ 1)
        add = False
        for _ in range(steps):
            slot = i % STAGES
            mbarrier.wait(full.index(slot), i // STAGES & 1)
            b = in_b.index(slot).permute((1, 0))
            freed = [empty.index(slot)]
            tcgen05_mma(in_a.index(slot), b, sums.index(turn % 2), use_acc=add, mbarriers=freed)
            add = True
            i += 1
        tcgen05_commit(ready.index(turn % 2))
        turn += 1  # noqa: SIM113 (Gluon has no enumerate)


@gluon.jit
def store(c, in_c, sums, ready, free, tiles, rows):
    """Four warps fetch a sum and store it."""
    BM: gl.constexpr = c.block_type.shape[0]
    BN: gl.constexpr = c.block_type.shape[1]
    turn = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        mbarrier.wait(ready.index(turn % 2), turn // 2 & 1)
        numbers = sums.index(turn % 2).load()
        mbarrier.arrive(free.index(turn % 2))
        tma.store_wait(pendings=0)  # the tile before this one has left
        in_c.store(gl.convert_layout(numbers, ROWS))
        fence_async_shared()
        tma.async_store(c, [tile % rows * BM, tile // rows * BN], in_c)
        turn += 1  # noqa: SIM113 (Gluon has no enumerate)
    tma.store_wait(pendings=0)


@gluon.jit
def matmul(a, b, c, M, N, K, STAGES: gl.constexpr):
    """a, b, c: tensor maps with boxes of a tile."""
    BM: gl.constexpr = c.block_type.shape[0]
    BN: gl.constexpr = c.block_type.shape[1]
    BK: gl.constexpr = a.block_type.shape[1]
    in_a = gl.allocate_shared_memory(a.dtype, [STAGES, BM, BK], a.layout)
    in_b = gl.allocate_shared_memory(b.dtype, [STAGES, BN, BK], b.layout)
    in_c = gl.allocate_shared_memory(c.dtype, [BM, BN], c.layout)
    full = mbarrier.allocate_mbarrier(batch=STAGES)
    empty = mbarrier.allocate_mbarrier(batch=STAGES)
    ready = mbarrier.allocate_mbarrier(batch=2)
    free = mbarrier.allocate_mbarrier(batch=2)
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    for i in gl.static_range(2):
        mbarrier.init(ready.index(i), count=1)
        mbarrier.init(free.index(i), count=1)
    sums = allocate_tensor_memory(gl.float32, [2, BM, BN], TensorMemoryLayout([BM, BN], 1))
    rows = gl.cdiv(M, BM)
    tiles = rows * gl.cdiv(N, BN)
    steps = gl.cdiv(K, BK)
    gl.warp_specialize(
        [
            (store, (c, in_c, sums, ready, free, tiles, rows)),
            (load, (a, b, in_a, in_b, full, empty, tiles, rows, steps, STAGES)),
            (multiply, (in_a, in_b, sums, full, empty, ready, free, tiles, steps, STAGES)),
        ],
        [1, 1],
        [24, 24],
    )
