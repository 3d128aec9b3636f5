# mypy: ignore-errors
"""C = A · Bᵀ in CuTe DSL, bf16 in, f32 out: the four roles and three rings of chain.cu.

copy engine ─slices→ tensor core ─sums→ epilogue ─pieces→ copy engine, to C
"""

import cutlass
import cutlass.cute as cute
import cutlass.memory as memory
import cutlass.pipeline as pipeline
import cutlass.utils.blackwell_helpers as sm100
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, tcgen05
from cutlass.tensor_utils import LayoutEnum

BF16, F32 = cutlass.BFloat16, cutlass.Float32
TILE = (128, 256, 64)  # of C, and a slice of k: 128 bytes a row, as long as the swizzle
STAGES, SUMS, PIECES = 4, 2, 2  # slots: 48 KiB, 256 columns of tensor memory, 16 KiB
PIECE = (128, 32)  # rows and columns of C that are stored at a time
LOAD, MULTIPLY = 4, 5  # warps; 0 to 3 are the epilogue, one for each quarter of tensor memory
THREADS = 192
ONE = pipeline.CooperativeGroup(pipeline.Agent.Thread)
FOUR = pipeline.CooperativeGroup(pipeline.Agent.Thread, 4)  # one thread of each epilogue warp


@cute.struct
class Shared:
    slices: cute.struct.MemRange[cutlass.Int64, 2 * STAGES]  # full, then empty
    sums: cute.struct.MemRange[cutlass.Int64, 2 * SUMS]
    tensor_memory: cutlass.Int32  # its address


@cute.jit
def tiles(c: cute.Tensor):
    """This block's tiles, down the columns of C: first, end, step; and how many lie in a column."""
    rows, columns = cute.ceil_div(c.shape[0], TILE[0]), cute.ceil_div(c.shape[1], TILE[1])
    block, _, _ = cute.arch.block_idx()
    blocks, _, _ = cute.arch.grid_dim()
    return block, rows * columns, blocks, rows


@cute.jit
def load(c, copy_a, from_a, to_a, copy_b, from_b, to_b, slices):
    first, end, step, rows = tiles(c)
    for tile in cutlass.range(first, end, step, unroll=1):
        for k in cutlass.range(cute.size(from_a, mode=[2]), unroll=1):
            slot = slices.acquire_and_advance()
            row, column = from_a[(None, tile % rows, k)], from_b[(None, tile // rows, k)]
            into = (None, slot.index)
            cute.copy(copy_a, row, to_a[into], tma_bar_ptr=slot.barrier)
            cute.copy(copy_b, column, to_b[into], tma_bar_ptr=slot.barrier)
    slices.tail()


@cute.jit
def multiply(c, mma, a, b, totals, count, slices, sums):
    first, end, step, _ = tiles(c)
    for _ in cutlass.range(first, end, step, unroll=1):
        sum_ = sums.acquire_and_advance()
        total = totals[(None, None, None, sum_.index)]
        mma.set(tcgen05.Field.ACCUMULATE, False)
        for _ in cutlass.range(count, unroll=1):
            slot = slices.wait_and_advance()
            for part in cutlass.range_constexpr(cute.size(a, mode=[2])):
                at = (None, None, part, slot.index)
                cute.gemm(mma, total, a[at], b[at], total)
                mma.set(tcgen05.Field.ACCUMULATE, True)
            slot.release()
        sum_.commit()
    sums.tail()


@cute.jit
def store(c, thread, warp, totals, pieces, copy_c, from_c, to_c, sums):
    first, end, step, rows = tiles(c)
    leaving = pipeline.PipelineTmaStore.create(
        num_stages=PIECES, producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, 128)
    )
    written = pipeline.NamedBarrier(barrier_id=2, num_threads=128)
    fetch = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x32), F32)
    parts = cute.flat_divide(totals[((None, None), 0, 0, None)], PIECE)  # (128, 32, 1, 8, SUMS)
    fetch = tcgen05.make_tmem_copy(fetch, parts[(None, None, 0, 0, 0)])
    mine = fetch.get_slice(thread).partition_S(parts)
    write = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), F32, num_bits_per_copy=128)
    write = cute.make_tiled_copy_D(write, fetch)
    there = write.get_slice(thread).partition_D(pieces)
    shape = fetch.get_slice(thread).partition_D(pieces[(None, None, 0)]).shape
    registers = cute.make_rmem_tensor(shape, F32)
    for tile in cutlass.range(first, end, step, unroll=1):
        sum_ = sums.wait_and_advance()
        for piece in cutlass.range_constexpr(TILE[1] // PIECE[1]):
            cute.copy(fetch, mine[(None, None, None, 0, piece, sum_.index)], registers)
            cute.arch.fence_view_async_tmem_load()
            if cutlass.const_expr(piece == TILE[1] // PIECE[1] - 1):
                with cute.arch.elect_one():
                    sum_.release()
            if warp == 0:
                leaving.producer_acquire()
            written.arrive_and_wait()
            cute.copy(write, write.retile(registers), there[(None, None, None, piece % PIECES)])
            cute.arch.fence_view_async_shared()
            written.arrive_and_wait()
            if warp == 0:
                at = (None, (tile % rows, tile // rows * (TILE[1] // PIECE[1]) + piece))
                cute.copy(copy_c, from_c[(None, piece % PIECES)], to_c[at])
                leaving.producer_commit()
    if warp == 0:
        leaving.producer_tail()


@cute.kernel
def kernel(
    mma: cute.TiledMma,
    copy_a: cute.CopyAtom,
    a: cute.Tensor,
    copy_b: cute.CopyAtom,
    b: cute.Tensor,
    copy_c: cute.CopyAtom,
    c: cute.Tensor,
    in_a: cute.ComposedLayout,
    in_b: cute.ComposedLayout,
    in_c: cute.ComposedLayout,
):
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    thread, _, _ = cute.arch.thread_idx()

    shared = memory.SmemAllocator()
    names = shared.allocate(Shared)
    sa = shared.allocate_tensor(BF16, in_a.outer, 1024, in_a.inner)
    sb = shared.allocate_tensor(BF16, in_b.outer, 1024, in_b.inner)
    sc = shared.allocate_tensor(F32, in_c.outer, 1024, in_c.inner)

    slot_bytes = cute.size_in_bytes(BF16, cute.select(in_a, [0, 1, 2])) + cute.size_in_bytes(
        BF16, cute.select(in_b, [0, 1, 2])
    )
    loader, multiplier = pipeline.PipelineTmaUmma.create(
        num_stages=STAGES,
        producer_group=ONE,
        consumer_group=ONE,
        tx_count=slot_bytes,
        barrier_storage=names.slices.data_ptr(),
    ).make_participants()
    summer, reader = pipeline.PipelineUmmaAsync.create(
        num_stages=SUMS,
        producer_group=ONE,
        consumer_group=FOUR,
        barrier_storage=names.sums.data_ptr(),
    ).make_participants()

    tensor_memory = memory.TmemAllocator(
        names.tensor_memory.ptr,
        barrier_for_retrieve=pipeline.NamedBarrier(barrier_id=1, num_threads=THREADS),
    )
    tensor_memory.allocate(SUMS * TILE[1])
    tensor_memory.wait_for_alloc()
    base = tensor_memory.retrieve_ptr(F32)
    shape = cute.append(mma.partition_shape_C(TILE[:2]), SUMS)
    totals = cute.make_tensor(base, mma.make_fragment_C(shape).layout)

    mine = mma.get_slice(0)
    tiles_a = mine.partition_A(cute.local_tile(a, cute.select(TILE, [0, 2]), (None, None)))
    tiles_b = mine.partition_B(cute.local_tile(b, cute.select(TILE, [1, 2]), (None, None)))
    alone = cute.make_layout(1)
    to_a, from_a = cpasync.tma_partition(
        copy_a, 0, alone, cute.group_modes(sa, 0, 3), cute.group_modes(tiles_a, 0, 3)
    )
    to_b, from_b = cpasync.tma_partition(
        copy_b, 0, alone, cute.group_modes(sb, 0, 3), cute.group_modes(tiles_b, 0, 3)
    )
    pieces_c = cute.zipped_divide(c, PIECE)  # ((128, 32), (rows, columns) of pieces)
    from_c, to_c = cpasync.tma_partition(copy_c, 0, alone, cute.group_modes(sc, 0, 2), pieces_c)

    if warp == LOAD:
        load(c, copy_a, from_a, to_a, copy_b, from_b, to_b, loader)
    if warp == MULTIPLY:
        fragments = mma.make_fragment_A(sa), mma.make_fragment_B(sb)
        multiply(c, mma, *fragments, totals, cute.size(from_a, mode=[2]), multiplier, summer)
    if warp < LOAD:
        store(c, thread, warp, totals, sc, copy_c, from_c, to_c, reader)
    cute.arch.sync_threads()
    tensor_memory.relinquish_alloc_permit()
    tensor_memory.free(base)


@cute.jit
def matmul(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, blocks: cutlass.Int32):
    """A (m, k), B (n, k), C (m, n), all row-major; ``blocks``: how many share the tiles of C."""
    k_major = OperandMajorMode.K
    mma = sm100.make_trivial_tiled_mma(
        BF16, BF16, k_major, k_major, F32, tcgen05.CtaGroup.ONE, TILE[:2]
    )
    in_a = sm100.make_smem_layout_a(mma, TILE, BF16, STAGES)
    in_b = sm100.make_smem_layout_b(mma, TILE, BF16, STAGES)
    in_c = sm100.make_smem_layout_epi(F32, LayoutEnum.ROW_MAJOR, PIECE, PIECES)
    op = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.ONE)
    copy_a, boxes_a = cute.nvgpu.make_tiled_tma_atom_A(
        op, a, cute.select(in_a, [0, 1, 2]), TILE, mma, (1, 1, 1, 1)
    )
    copy_b, boxes_b = cute.nvgpu.make_tiled_tma_atom_B(
        op, b, cute.select(in_b, [0, 1, 2]), TILE, mma, (1, 1, 1, 1)
    )
    copy_c, boxes_c = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileS2GOp(), c, cute.select(in_c, [0, 1]), PIECE
    )
    kernel(mma, copy_a, boxes_a, copy_b, boxes_b, copy_c, boxes_c, in_a, in_b, in_c).launch(
        grid=(blocks, 1, 1), block=(THREADS, 1, 1)
    )
