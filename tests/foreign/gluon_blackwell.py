# mypy: ignore-errors
"""Kernels for Blackwell in Gluon, written from its documented API."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    add2,
    allocate_tensor_memory,
    clc,
    cluster,
    fence_async_shared,
    fma2,
    mbarrier,
    mul2,
    sub2,
    tcgen05_commit,
    tcgen05_mma,
    tcgen05_mma_barrier_count,
    tma,
)

ROWS = gl.constexpr(gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0]))


@gluon.jit
def put(c, row, column, in_c, numbers, LAYOUT: gl.constexpr):
    """Numbers to C through shared memory, which an earlier box may still be read from."""
    tma.store_wait(pendings=0)
    in_c.store(gl.convert_layout(numbers.to(c.dtype), LAYOUT))
    fence_async_shared()
    tma.async_store(c, [row, column], in_c)


@gluon.jit
def load_tiles(a, b, in_a, in_b, full, empty, tiles, across, steps, STAGES: gl.constexpr):
    BM: gl.constexpr = a.block_type.shape[0]
    BN: gl.constexpr = b.block_type.shape[0]
    BK: gl.constexpr = a.block_type.shape[1]
    i = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        for step in range(steps):
            slot = i % STAGES
            mbarrier.wait(empty.index(slot), (i // STAGES & 1) ^ 1)
            mbarrier.expect(full.index(slot), a.block_type.nbytes + b.block_type.nbytes)
            tma.async_load(a, [tile // across * BM, step * BK], full.index(slot), in_a.index(slot))
            tma.async_load(b, [tile % across * BN, step * BK], full.index(slot), in_b.index(slot))
            i += 1


@gluon.jit
def multiply_tiles(in_a, in_b, totals, full, empty, ready, free, tiles, steps,
                   STAGES: gl.constexpr):  # fmt: skip
    i = 0
    turn = 0
    for _ in range(gl.program_id(0), tiles, gl.num_programs(0)):
        one = turn % 2
        mbarrier.wait(free.index(one), (turn // 2 & 1) ^ 1)
        adds = False
        for _ in range(steps):
            slot = i % STAGES
            mbarrier.wait(full.index(slot), i // STAGES & 1)
            tcgen05_mma(in_a.index(slot), in_b.index(slot).permute((1, 0)), totals.index(one),
                        use_acc=adds, mbarriers=[empty.index(slot)])  # fmt: skip
            adds = True
            i += 1
        tcgen05_commit(ready.index(one))
        turn += 1  # noqa: SIM113 (Gluon has no enumerate)


@gluon.jit
def store_tiles(c, in_c, totals, ready, free, tiles, across):
    BM: gl.constexpr = c.block_type.shape[0]
    BN: gl.constexpr = c.block_type.shape[1]
    turn = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        one = turn % 2
        mbarrier.wait(ready.index(one), turn // 2 & 1)
        numbers = totals.index(one).load()
        mbarrier.arrive(free.index(one))
        put(c, tile // across * BM, tile % across * BN, in_c, numbers, ROWS)
        turn += 1  # noqa: SIM113 (Gluon has no enumerate)
    tma.store_wait(pendings=0)


@gluon.jit
def staying(a, b, c, M, N, K, STAGES: gl.constexpr):
    """Blocks that stay: a warp loads, a warp multiplies, four store; two accumulators."""
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
    totals = allocate_tensor_memory(gl.float32, [2, BM, BN], TensorMemoryLayout([BM, BN], 1))
    across = gl.cdiv(N, BN)
    tiles = gl.cdiv(M, BM) * across
    steps = gl.cdiv(K, BK)
    gl.warp_specialize([
        (store_tiles, (c, in_c, totals, ready, free, tiles, across)),
        (load_tiles, (a, b, in_a, in_b, full, empty, tiles, across, steps, STAGES)),
        (multiply_tiles, (in_a, in_b, totals, full, empty, ready, free, tiles, steps, STAGES)),
    ], [1, 1], [24, 24])  # fmt: skip


@gluon.jit
def taking(a, b, c, K):
    """Blocks that take over the tiles of those not started yet (cluster launch control)."""
    BM: gl.constexpr = c.block_type.shape[0]
    BN: gl.constexpr = c.block_type.shape[1]
    BK: gl.constexpr = a.block_type.shape[1]
    in_a = gl.allocate_shared_memory(a.dtype, [BM, BK], a.layout)
    in_b = gl.allocate_shared_memory(b.dtype, [BN, BK], b.layout)
    in_c = gl.allocate_shared_memory(c.dtype, [BM, BN], c.layout)
    answer = gl.allocate_shared_memory(gl.int64, [2], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    full = mbarrier.allocate_mbarrier()
    done = mbarrier.allocate_mbarrier()
    told = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    mbarrier.init(done, count=1)
    mbarrier.init(told, count=1)
    total = allocate_tensor_memory(gl.float32, [BM, BN], TensorMemoryLayout([BM, BN], 1))
    x, y = gl.program_id(0), gl.program_id(1)
    phase = 0
    turn = 0
    more = True
    while more:
        mbarrier.expect(told, 16)
        clc.try_cancel(answer, told)
        adds = False
        for k in range(0, K, BK):
            mbarrier.expect(full, a.block_type.nbytes + b.block_type.nbytes)
            tma.async_load(a, [x * BM, k], full, in_a)
            tma.async_load(b, [y * BN, k], full, in_b)
            mbarrier.wait(full, phase)
            tcgen05_mma(in_a, in_b.permute((1, 0)), total, use_acc=adds, mbarriers=[done])
            mbarrier.wait(done, phase)
            phase ^= 1
            adds = True
        put(c, x * BM, y * BN, in_c, total.load(), ROWS)
        mbarrier.wait(told, turn)
        turn ^= 1
        found = clc.load_result(answer)
        more = found.is_canceled()
        x = found.program_id(0)  # asked for whatever the answer was
        y = found.program_id(1)
        gl.barrier()
    tma.store_wait(pendings=0)


@gluon.jit
def pairs(a, b, c, K, SPREAD: gl.constexpr, MANY: gl.constexpr, LAYOUT: gl.constexpr):
    """Pairs of blocks multiply together; MANY: two pairs share the tiles of A."""
    BM: gl.constexpr = c.block_type.shape[0]
    BN: gl.constexpr = c.block_type.shape[1]
    BK: gl.constexpr = a.block_type.shape[1]
    row, column = gl.program_id(0) * BM, gl.program_id(1) * BN
    in_a = gl.allocate_shared_memory(a.dtype, [2, BM, BK], a.layout)
    in_b = gl.allocate_shared_memory(b.dtype, [2, BN, BK], b.layout)
    in_c = gl.allocate_shared_memory(c.dtype, [BM, BN], c.layout)
    full = mbarrier.allocate_mbarrier(batch=2, two_ctas=True)
    done = mbarrier.allocate_mbarrier(batch=2)
    for i in gl.static_range(2):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(done.index(i), count=tcgen05_mma_barrier_count([in_a, in_b], MANY, True))
    cluster.barrier()
    total = allocate_tensor_memory(gl.float32, [BM, BN], TensorMemoryLayout(
        [128, BN // 2 if MANY else BN], 1, cga_layout=SPREAD, two_ctas=True))  # fmt: skip
    steps = gl.cdiv(K, BK)
    adds = False
    for i in range(steps):
        slot = i % 2
        mbarrier.wait(done.index(slot), (i // 2 & 1) ^ 1)
        mbarrier.expect(full.index(slot), a.nbytes_per_cta + b.nbytes_per_cta)
        tma.async_load(a, [row, i * BK], full.index(slot), in_a.index(slot), multicast=MANY)
        tma.async_load(b, [column, i * BK], full.index(slot), in_b.index(slot), multicast=MANY)
        mbarrier.wait(full.index(slot), i // 2 & 1)
        tcgen05_mma(in_a.index(slot), in_b.index(slot).permute((1, 0)), total, use_acc=adds,
                    multicast=MANY, mbarriers=[done.index(slot)])  # fmt: skip
        adds = True
    last = steps - 1
    mbarrier.wait(done.index(last % 2), last // 2 & 1)
    put(c, row, column, in_c, total.load(), LAYOUT)
    tma.store_wait(pendings=0)


@gluon.jit
def chain(q, k, v, o):
    """(Q·Kᵀ)·V; the first product, as halves, is the second one's A in tensor memory."""
    BM: gl.constexpr = q.block_type.shape[0]
    BN: gl.constexpr = k.block_type.shape[0]
    D: gl.constexpr = q.block_type.shape[1]
    in_q = gl.allocate_shared_memory(q.dtype, [BM, D], q.layout)
    in_k = gl.allocate_shared_memory(k.dtype, [BN, D], k.layout)
    in_v = gl.allocate_shared_memory(v.dtype, [BN, D], v.layout)
    in_o = gl.allocate_shared_memory(o.dtype, [BM, D], o.layout)
    full = mbarrier.allocate_mbarrier()
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    mbarrier.init(done, count=1)
    row = gl.program_id(0) * BM
    mbarrier.expect(full, q.block_type.nbytes + k.block_type.nbytes + v.block_type.nbytes)
    tma.async_load(q, [row, 0], full, in_q)
    tma.async_load(k, [0, 0], full, in_k)
    tma.async_load(v, [0, 0], full, in_v)
    mbarrier.wait(full, 0)
    scores = allocate_tensor_memory(gl.float32, [BM, BN], TensorMemoryLayout([BM, BN], 1))
    tcgen05_mma(in_q, in_k.permute((1, 0)), scores, use_acc=False, mbarriers=[done])
    mbarrier.wait(done, 0)
    numbers = scores.load().to(gl.float16)
    p = scores.reinterpret(gl.float16, [BM, BN], TensorMemoryLayout([BM, BN], 1))
    p.store(gl.convert_layout(numbers, p.get_reg_layout()))
    out = allocate_tensor_memory(gl.float32, [BM, D], TensorMemoryLayout([BM, D], 1))
    tcgen05_mma(p, in_v, out, use_acc=False, mbarriers=[done])
    mbarrier.wait(done, 1)
    put(o, row, 0, in_o, out.load(), ROWS)
    tma.store_wait(pendings=0)


@gluon.jit
def move_rows(source, taken, target, given, COUNT: gl.constexpr):
    """Rows from anywhere to anywhere, four at a time (tile::gather4, tile::scatter4)."""
    WIDTH: gl.constexpr = source.block_type.shape[1]
    layout: gl.constexpr = gl.SliceLayout(0, gl.BlockedLayout([1, 4], [32, 1], [1, 4], [1, 0]))
    rows = gl.allocate_shared_memory(source.dtype, [COUNT, WIDTH], source.layout)
    full = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    i = gl.program_id(0) * COUNT + gl.arange(0, COUNT, layout=layout)
    mbarrier.expect(full, COUNT * source.block_type.nbytes)
    tma.async_gather(source, gl.load(taken + i), gl.program_id(1) * WIDTH, full, rows)
    mbarrier.wait(full, 0)
    tma.async_scatter(target, gl.load(given + i), gl.program_id(1) * WIDTH, rows)
    tma.store_wait(pendings=0)


@gluon.jit
def there_and_back(x, y, BM: gl.constexpr, BN: gl.constexpr, SHAPE: gl.constexpr):
    """To tensor memory and back, with one shape of ``tcgen05.st`` and ``.ld``; and doubled."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    rows = gl.arange(0, BM, layout=gl.SliceLayout(1, layout))
    columns = gl.arange(0, BN, layout=gl.SliceLayout(0, layout))
    place = rows[:, None] * BN + columns[None, :]
    cells = allocate_tensor_memory(gl.float32, [BM, BN], TensorMemoryLayout([BM, BN], 1))
    held: gl.constexpr = cells.get_reg_layout(instr_variant=SHAPE)
    cells.store(gl.convert_layout(gl.load(x + place), held))
    gl.store(y + place, gl.convert_layout(cells.load(held), layout) * 2)


@gluon.jit
def packed(x, y, z, out):
    """x·y + z + x·z - y, two numbers at a time."""
    i = gl.arange(0, 512, layout=gl.BlockedLayout([4], [32], [4], [0]))
    a, b, c = gl.load(x + i), gl.load(y + i), gl.load(z + i)
    gl.store(out + i, sub2(add2(fma2(a, b, c), mul2(a, c)), b))
