# mypy: ignore-errors
"""C = A · Bᵀ of NVFP4 in CuTe DSL: scales by the copy engine, then tcgen05.cp, as in nvfp4.cu."""

import cutlass
import cutlass.cute as cute
import cutlass.memory as memory
import cutlass.pipeline as pipeline
import cutlass.utils.blackwell_helpers as sm100
import cutlass.utils.blockscaled_layout as blocks_of
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, tcgen05

F4, UE4M3, F32 = cutlass.Float4E2M1FN, cutlass.Float8E4M3FN, cutlass.Float32
VECTOR = 16  # numbers along k that share a scale
TILE, STAGES = (128, 128, 256), 3
LOAD, MULTIPLY, THREADS = 4, 5, 192
ONE = pipeline.CooperativeGroup(pipeline.Agent.Thread)
WARPS = pipeline.CooperativeGroup(pipeline.Agent.Thread, 4)
SLOT = (None, None, None, 0)


@cute.jit
def ask(moves, places, k, slot):
    for (copy, source, to), tile in zip(moves, places, strict=True):
        cute.copy(copy, source[(None, tile, k)], to[(None, slot.index)], tma_bar_ptr=slot.barrier)


@cute.jit
def load(moves, row, column, steps, slices):
    for k in cutlass.range(steps, unroll=1):
        slot = slices.acquire_and_advance()
        ask(moves, (row, column, row, column), k, slot)
    slices.tail()


@cute.jit
def bring(moves, slot):
    for copy, source, to in moves:
        cute.copy(copy, source[(None, None, None, None, slot.index)], to)


@cute.jit
def multiply(mma, sa, sb, ssa, ssb, in_sa, in_sb, total, steps, slices, sums):
    a, b = mma.make_fragment_A(sa), mma.make_fragment_B(sb)
    behind = tcgen05.find_tmem_tensor_col_offset(total)  # columns of the sum, then of the scales
    place = cute.recast_ptr(total.iterator + behind, dtype=UE4M3)
    of_a = cute.make_tensor(
        place, blocks_of.make_tmem_layout_sfa(mma, TILE, VECTOR, cute.slice_(in_sa, SLOT))
    )
    behind += tcgen05.find_tmem_tensor_col_offset(of_a)
    place = cute.recast_ptr(total.iterator + behind, dtype=UE4M3)
    of_b = cute.make_tensor(
        place, blocks_of.make_tmem_layout_sfb(mma, TILE, VECTOR, cute.slice_(in_sb, SLOT))
    )
    atom = cute.make_copy_atom(tcgen05.Cp4x32x128bOp(tcgen05.CtaGroup.ONE), UE4M3)
    moves = []
    for shared, there in ((ssa, of_a), (ssb, of_b)):
        to = cute.filter_zeros(there)
        copy = tcgen05.make_s2t_copy(atom, to)
        source = copy.get_slice(0).partition_S(cute.filter_zeros(shared))
        source = tcgen05.get_s2t_smem_desc_tensor(copy, source)
        moves.append((copy, source, copy.get_slice(0).partition_D(to)))
    sum_ = sums.acquire_and_advance()
    mma.set(tcgen05.Field.ACCUMULATE, False)
    for _ in cutlass.range(steps, unroll=1):
        slot = slices.wait_and_advance()
        bring(moves, slot)
        for part in cutlass.range_constexpr(cute.size(a, mode=[2])):
            mma.set(tcgen05.Field.SFA, of_a[(None, None, part)].iterator)
            mma.set(tcgen05.Field.SFB, of_b[(None, None, part)].iterator)
            at = (None, None, part, slot.index)
            cute.gemm(mma, total, a[at], b[at], total)
            mma.set(tcgen05.Field.ACCUMULATE, True)
        slot.release()
    sum_.commit()


@cute.jit
def store(thread, total, tile_c, sums):
    fetch = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x32), F32)
    parts = cute.flat_divide(total[((None, None), 0, 0)], (128, 32))
    fetch = tcgen05.make_tmem_copy(fetch, parts[(None, None, 0, 0)])
    source = fetch.get_slice(thread).partition_S(parts)
    target = cute.flat_divide(tile_c[((None, None), 0, 0)], (128, 32))
    target = fetch.get_slice(thread).partition_D(target)
    registers = cute.make_rmem_tensor(target[(None, None, None, 0, 0)].shape, F32)
    sum_ = sums.wait_and_advance()
    for piece in cutlass.range_constexpr(TILE[1] // 32):
        cute.copy(fetch, source[(None, None, None, 0, piece)], registers)
        cute.arch.fence_view_async_tmem_load()
        cute.autovec_copy(registers, target[(None, None, None, 0, piece)])
    with cute.arch.elect_one():
        sum_.release()


@cute.kernel
def scaled_kernel(
    mma: cute.TiledMma,
    copy_a: cute.CopyAtom,
    a: cute.Tensor,
    copy_b: cute.CopyAtom,
    b: cute.Tensor,
    copy_sa: cute.CopyAtom,
    scales_a: cute.Tensor,
    copy_sb: cute.CopyAtom,
    scales_b: cute.Tensor,
    c: cute.Tensor,
    in_a: cute.ComposedLayout,
    in_b: cute.ComposedLayout,
    in_sa: cute.Layout,
    in_sb: cute.Layout,
):
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    thread, _, _ = cute.arch.thread_idx()
    column, row, _ = cute.arch.block_idx()
    shared = memory.SmemAllocator()
    ring = shared.allocate_array(cutlass.Int64, 2 * STAGES)
    done = shared.allocate_array(cutlass.Int64, 2)
    address = shared.allocate(cutlass.Int32, 4)
    sa = shared.allocate_tensor(F4, in_a.outer, 1024, in_a.inner)
    sb = shared.allocate_tensor(F4, in_b.outer, 1024, in_b.inner)
    ssa = shared.allocate_tensor(UE4M3, in_sa, 1024)
    ssb = shared.allocate_tensor(UE4M3, in_sb, 1024)
    slot_bytes = (
        cute.size_in_bytes(F4, cute.slice_(in_a, SLOT))
        + cute.size_in_bytes(F4, cute.slice_(in_b, SLOT))
        + cute.size_in_bytes(UE4M3, cute.slice_(in_sa, SLOT))
        + cute.size_in_bytes(UE4M3, cute.slice_(in_sb, SLOT))
    )
    loader, multiplier = pipeline.PipelineTmaUmma.create(
        num_stages=STAGES, producer_group=ONE, consumer_group=ONE, tx_count=slot_bytes,
        barrier_storage=ring,
    ).make_participants()  # fmt: skip
    summer, reader = pipeline.PipelineUmmaAsync.create(
        num_stages=1, producer_group=ONE, consumer_group=WARPS, barrier_storage=done
    ).make_participants()
    tensor_memory = memory.TmemAllocator(
        address, barrier_for_retrieve=pipeline.NamedBarrier(barrier_id=1, num_threads=THREADS)
    )
    tensor_memory.allocate(256)
    tensor_memory.wait_for_alloc()
    base = tensor_memory.retrieve_ptr(F32)
    total = cute.make_tensor(base, mma.make_fragment_C(mma.partition_shape_C(TILE[:2])).layout)

    mine, alone = mma.get_slice(0), cute.make_layout(1)
    rows, columns = cute.select(TILE, [0, 2]), cute.select(TILE, [1, 2])
    moves = []
    for copy, slots, tiles in (
        (copy_a, sa, mine.partition_A(cute.local_tile(a, rows, (None, None)))),
        (copy_b, sb, mine.partition_B(cute.local_tile(b, columns, (None, None)))),
        (copy_sa, ssa, mine.partition_A(cute.local_tile(scales_a, rows, (None, None)))),
        (copy_sb, ssb, mine.partition_B(cute.local_tile(scales_b, columns, (None, None)))),
    ):
        to, source = cpasync.tma_partition(
            copy, 0, alone, cute.group_modes(slots, 0, 3), cute.group_modes(tiles, 0, 3)
        )
        moves.append((copy, cute.filter_zeros(source), cute.filter_zeros(to)))
    steps = cute.size(moves[0][1], mode=[2])
    tile_c = mine.partition_C(cute.local_tile(c, TILE[:2], (row, column)))
    if warp == LOAD:
        load(moves, row, column, steps, loader)
    if warp == MULTIPLY:
        multiply(mma, sa, sb, ssa, ssb, in_sa, in_sb, total, steps, multiplier, summer)
    if warp < LOAD:
        store(thread, total, tile_c, reader)
    cute.arch.sync_threads()
    tensor_memory.relinquish_alloc_permit()
    tensor_memory.free(base)


@cute.jit
def scaled(
    a: cute.Tensor, b: cute.Tensor, scales_a: cute.Tensor, scales_b: cute.Tensor, c: cute.Tensor
):
    """A (m, k), B (n, k), C (m, n), row-major; a scale for 16 numbers; whole tiles and slices."""
    k_major = OperandMajorMode.K
    mma = sm100.make_blockscaled_trivial_tiled_mma(
        F4, F4, k_major, k_major, UE4M3, VECTOR, tcgen05.CtaGroup.ONE, TILE[:2]
    )
    in_a = sm100.make_smem_layout_a(mma, TILE, F4, STAGES)
    in_b = sm100.make_smem_layout_b(mma, TILE, F4, STAGES)
    in_sa = blocks_of.make_smem_layout_sfa(mma, TILE, VECTOR, STAGES)
    in_sb = blocks_of.make_smem_layout_sfb(mma, TILE, VECTOR, STAGES)
    atom = blocks_of.BlockScaledBasicChunk(VECTOR).layout  # 512 bytes: 4 scales of 128 rows
    scales_a = cute.make_tensor(scales_a.iterator, cute.tile_to_shape(atom, a.shape, (2, 1)))
    scales_b = cute.make_tensor(scales_b.iterator, cute.tile_to_shape(atom, b.shape, (2, 1)))
    op = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.ONE)
    for_a, for_b = cute.nvgpu.make_tiled_tma_atom_A, cute.nvgpu.make_tiled_tma_atom_B
    small = {"internal_type": cutlass.Int16}
    copies = (
        *for_a(op, a, cute.slice_(in_a, SLOT), TILE, mma, (1, 1, 1, 1)),
        *for_b(op, b, cute.slice_(in_b, SLOT), TILE, mma, (1, 1, 1, 1)),
        *for_a(op, scales_a, cute.slice_(in_sa, SLOT), TILE, mma, (1, 1, 1, 1), **small),
        *for_b(op, scales_b, cute.slice_(in_sb, SLOT), TILE, mma, (1, 1, 1, 1), **small),
    )
    grid = (cute.ceil_div(c.shape[1], TILE[1]), cute.ceil_div(c.shape[0], TILE[0]), 1)
    scaled_kernel(mma, *copies, c, in_a, in_b, in_sa, in_sb).launch(
        grid=grid, block=(THREADS, 1, 1)
    )
