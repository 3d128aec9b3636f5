# mypy: ignore-errors
"""C = A · Bᵀ in CuTe DSL: the rings of chain.cu for one tile, with their barriers in pipelines."""

import cutlass
import cutlass.cute as cute
import cutlass.memory as memory
import cutlass.pipeline as pipeline
import cutlass.utils.blackwell_helpers as sm100
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, tcgen05

BF16, F32 = cutlass.BFloat16, cutlass.Float32
TILE = (128, 128, 64)  # of C, and along k
STAGES = 3
LOAD, MULTIPLY = 4, 5  # warps; 0 to 3 are the epilogue
THREADS = 192


@cute.kernel
def kernel(mma: cute.TiledMma, load_a: cute.CopyAtom, a: cute.Tensor, load_b: cute.CopyAtom,
           b: cute.Tensor, c: cute.Tensor, in_a: cute.ComposedLayout,
           in_b: cute.ComposedLayout):  # fmt: skip
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    thread, _, _ = cute.arch.thread_idx()
    row, column, _ = cute.arch.block_idx()

    shared = memory.SmemAllocator()
    ring = shared.allocate_array(cutlass.Int64, 2 * STAGES)
    sums = shared.allocate_array(cutlass.Int64, 2)
    address = shared.allocate(cutlass.Int32, 4)
    sa = shared.allocate_tensor(BF16, in_a.outer, 128, in_a.inner)
    sb = shared.allocate_tensor(BF16, in_b.outer, 128, in_b.inner)

    one = pipeline.CooperativeGroup(pipeline.Agent.Thread)
    four_warps = pipeline.CooperativeGroup(pipeline.Agent.Thread, 128)
    slot_bytes = sum(cute.size_in_bytes(BF16, cute.slice_(x, (None, None, None, 0)))
                     for x in (in_a, in_b))  # fmt: skip
    loader, multiplier = pipeline.PipelineTmaUmma.create(
        num_stages=STAGES, producer_group=one, consumer_group=one, tx_count=slot_bytes,
        barrier_storage=ring,
    ).make_participants()  # fmt: skip
    summer, reader = pipeline.PipelineUmmaAsync.create(
        num_stages=1, producer_group=one, consumer_group=four_warps, barrier_storage=sums,
    ).make_participants()  # fmt: skip

    mine = mma.get_slice(0)
    tile_a = mine.partition_A(cute.local_tile(a, cute.select(TILE, [0, 2]), (row, None)))
    tile_b = mine.partition_B(cute.local_tile(b, cute.select(TILE, [1, 2]), (column, None)))
    tile_c = mine.partition_C(cute.local_tile(c, TILE[:2], (row, column)))
    alone = cute.make_layout(1)
    to_a, from_a = cpasync.tma_partition(load_a, 0, alone, cute.group_modes(sa, 0, 3),
                                         cute.group_modes(tile_a, 0, 3))  # fmt: skip
    to_b, from_b = cpasync.tma_partition(load_b, 0, alone, cute.group_modes(sb, 0, 3),
                                         cute.group_modes(tile_b, 0, 3))  # fmt: skip
    slices = cute.size(from_a, mode=[1])

    shape = mma.make_fragment_C(mma.partition_shape_C(TILE[:2]))
    tensor_memory = memory.TmemAllocator(
        address, barrier_for_retrieve=pipeline.NamedBarrier(barrier_id=1, num_threads=THREADS)
    )
    tensor_memory.allocate(memory.get_num_tmem_alloc_cols(shape))
    tensor_memory.wait_for_alloc()
    base = tensor_memory.retrieve_ptr(F32)
    sum_ = cute.make_tensor(base, shape.layout)

    if warp == LOAD:
        for k in cutlass.range(slices):
            slot = loader.acquire_and_advance()
            cute.copy(load_a, from_a[(None, k)], to_a[(None, slot.index)], tma_bar_ptr=slot.barrier)
            cute.copy(load_b, from_b[(None, k)], to_b[(None, slot.index)], tma_bar_ptr=slot.barrier)
        loader.tail()
    if warp == MULTIPLY:
        fa, fb = mma.make_fragment_A(sa), mma.make_fragment_B(sb)
        total = summer.acquire_and_advance()
        mma.set(tcgen05.Field.ACCUMULATE, False)
        for _ in cutlass.range(slices):
            slot = multiplier.wait_and_advance()
            for step in cutlass.range_constexpr(cute.size(fa, mode=[2])):
                at = (None, None, step, slot.index)
                cute.gemm(mma, sum_, fa[at], fb[at], sum_)
                mma.set(tcgen05.Field.ACCUMULATE, True)
            slot.release()
        total.commit()
    if warp < LOAD:
        atom = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x32), F32)
        pieces = cute.flat_divide(sum_[((None, None), 0, 0)], (128, 32))
        copy = tcgen05.make_tmem_copy(atom, pieces[(None, None, 0, 0)])
        my = copy.get_slice(thread)
        source = my.partition_S(pieces)
        target = my.partition_D(cute.flat_divide(tile_c[((None, None), 0, 0)], (128, 32)))
        source = cute.group_modes(source, 3, cute.rank(source))
        target = cute.group_modes(target, 3, cute.rank(target))
        registers = cute.make_rmem_tensor(target[(None, None, None, 0)].shape, F32)
        ready = reader.wait_and_advance()
        for piece in cutlass.range_constexpr(cute.size(source, mode=[3])):
            cute.copy(copy, source[(None, None, None, piece)], registers)
            cute.arch.fence_view_async_tmem_load()  # tcgen05.wait::ld
            cute.autovec_copy(registers, target[(None, None, None, piece)])
        ready.release()
    cute.arch.sync_threads()
    tensor_memory.relinquish_alloc_permit()
    tensor_memory.free(base)


@cute.jit
def matmul(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    k_major = OperandMajorMode.K
    mma = sm100.make_trivial_tiled_mma(
        BF16, BF16, k_major, k_major, F32, tcgen05.CtaGroup.ONE, TILE[:2]
    )
    in_a = sm100.make_smem_layout_a(mma, TILE, BF16, STAGES)
    in_b = sm100.make_smem_layout_b(mma, TILE, BF16, STAGES)
    one_block = cute.tiled_divide(cute.make_layout((1, 1, 1)), (mma.thr_id.shape,))
    load = sm100.cluster_shape_to_tma_atom_A((1, 1, 1), mma.thr_id)
    load_a, boxes_a = cute.nvgpu.make_tiled_tma_atom_A(
        load, a, cute.slice_(in_a, (None, None, None, 0)), TILE, mma, one_block.shape
    )
    load_b, boxes_b = cute.nvgpu.make_tiled_tma_atom_B(
        load, b, cute.slice_(in_b, (None, None, None, 0)), TILE, mma, one_block.shape
    )
    grid = (c.shape[0] // TILE[0], c.shape[1] // TILE[1], 1)
    kernel(mma, load_a, boxes_a, load_b, boxes_b, c, in_a, in_b).launch(
        grid=grid, block=(THREADS, 1, 1)
    )
