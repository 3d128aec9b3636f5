# mypy: ignore-errors
"""The pipelines of CuTe DSL that gemm.py has no use for, one small kernel each; and helpers."""

import cutlass
import cutlass.cute as cute
import cutlass.memory as memory
import cutlass.pipeline as pipeline
import cutlass.utils.blackwell_helpers as sm100
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, tcgen05
from cutlass.pipeline import PipelineUserType

BF16, F32 = cutlass.BFloat16, cutlass.Float32
SLOTS = 2
ONE = pipeline.CooperativeGroup(pipeline.Agent.Thread)
WARP = pipeline.CooperativeGroup(pipeline.Agent.Thread, 32)


# -- threads to threads: PipelineAsync, with its states in sight -----------------------


@cute.kernel
def by_hand_kernel(x: cute.Tensor, y: cute.Tensor):
    """Warp 0 writes rows of 32 numbers to the slots, warp 1 doubles them."""
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    lane = cute.arch.lane_idx()
    shared = memory.SmemAllocator()
    barriers = shared.allocate_array(cutlass.Int64, 2 * SLOTS)
    slots = shared.allocate_tensor(F32, cute.make_layout((32, SLOTS)), 128)
    ring = pipeline.PipelineAsync.create(
        num_stages=SLOTS, producer_group=WARP, consumer_group=WARP, barrier_storage=barriers
    )
    if warp == 0:
        at = pipeline.make_pipeline_state(PipelineUserType.Producer, SLOTS)
        for job in cutlass.range(x.shape[0], unroll=1):
            ring.producer_acquire(at)
            slots[lane, at.index] = x[job, lane]
            ring.producer_commit(at)
            at.advance()
        ring.producer_tail(at)
    if warp == 1:
        at = pipeline.make_pipeline_state(PipelineUserType.Consumer, SLOTS)
        for job in cutlass.range(y.shape[0], unroll=1):
            ring.consumer_wait(at)
            y[job, lane] = 2 * slots[lane, at.index]
            ring.consumer_release(at)
            at.advance()


@cute.jit
def by_hand(x: cute.Tensor, y: cute.Tensor):
    """y = 2 x; both (rows, 32)."""
    by_hand_kernel(x, y).launch(grid=(1, 1, 1), block=(64, 1, 1))


# -- copy engine to threads: PipelineTmaAsync ------------------------------------------

BOX = (8, 32)  # rows of 128 bytes


@cute.kernel
def copied_kernel(copy: cute.CopyAtom, x: cute.Tensor, y: cute.Tensor, in_x: cute.Layout):
    """Warp 0 asks for boxes, warp 1 doubles them."""
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    lane = cute.arch.lane_idx()
    shared = memory.SmemAllocator()
    barriers = shared.allocate_array(cutlass.Int64, 2 * SLOTS)
    slots = shared.allocate_tensor(F32, in_x, 128)
    producer, consumer = pipeline.PipelineTmaAsync.create(
        num_stages=SLOTS,
        producer_group=ONE,
        consumer_group=ONE,
        barrier_storage=barriers,
        tx_count=BOX[0] * BOX[1] * 4,
    ).make_participants()
    boxes = cute.zipped_divide(x, BOX)
    to_x, from_x = cpasync.tma_partition(
        copy, 0, cute.make_layout(1), cute.group_modes(slots, 0, 2), boxes
    )
    rows = cute.zipped_divide(y, BOX)
    jobs = cute.size(rows, mode=[1])
    if warp == 0:
        for job in cutlass.range(jobs, unroll=1):
            slot = producer.acquire_and_advance()
            box, into = (None, (job, 0)), (None, slot.index)
            cute.copy(copy, from_x[box], to_x[into], tma_bar_ptr=slot.barrier)
        producer.tail()
    if warp == 1:
        for job in cutlass.range(jobs, unroll=1):
            slot = consumer.wait_and_advance()
            for row in cutlass.range_constexpr(BOX[0]):
                rows[((row, lane), (job, 0))] = 2 * slots[row, lane, slot.index]
            cute.arch.sync_warp()  # lane 0 releases for all
            slot.release()


@cute.jit
def copied(x: cute.Tensor, y: cute.Tensor):
    """y = 2 x; both (rows, 32), rows a multiple of 8."""
    in_x = cute.make_layout((*BOX, SLOTS), stride=(BOX[1], 1, BOX[0] * BOX[1]))
    copy, boxes = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileG2SOp(), x, cute.select(in_x, [0, 1]), BOX
    )
    copied_kernel(copy, boxes, y, in_x).launch(grid=(1, 1, 1), block=(64, 1, 1))


# -- threads to the tensor core: PipelineAsyncUmma -------------------------------------

TILE = (128, 64, 64)
WRITERS = pipeline.CooperativeGroup(pipeline.Agent.Thread, 128)


@cute.kernel
def multiplied_kernel(
    mma: cute.TiledMma,
    a: cute.Tensor,
    b: cute.Tensor,
    c: cute.Tensor,
    in_a: cute.ComposedLayout,
    in_b: cute.ComposedLayout,
):
    """Four warps write slices of A and B to the slots, a fifth multiplies; the four fetch."""
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    thread, _, _ = cute.arch.thread_idx()
    shared = memory.SmemAllocator()
    ring = shared.allocate_array(cutlass.Int64, 2 * SLOTS)
    sums = shared.allocate_array(cutlass.Int64, 2)
    address = shared.allocate(cutlass.Int32, 4)
    sa = shared.allocate_tensor(BF16, in_a.outer, 1024, in_a.inner)
    sb = shared.allocate_tensor(BF16, in_b.outer, 1024, in_b.inner)
    writer, multiplier = pipeline.PipelineAsyncUmma.create(
        num_stages=SLOTS, producer_group=WRITERS, consumer_group=ONE, barrier_storage=ring
    ).make_participants()
    summer, reader = pipeline.PipelineUmmaAsync.create(
        num_stages=1, producer_group=ONE, consumer_group=WRITERS, barrier_storage=sums
    ).make_participants()
    shape = mma.make_fragment_C(mma.partition_shape_C(TILE[:2]))
    tensor_memory = memory.TmemAllocator(
        address, barrier_for_retrieve=pipeline.NamedBarrier(barrier_id=1, num_threads=160)
    )
    tensor_memory.allocate(memory.get_num_tmem_alloc_cols(shape))
    tensor_memory.wait_for_alloc()
    base = tensor_memory.retrieve_ptr(F32)
    total = cute.make_tensor(base, shape.layout)
    mine = mma.get_slice(0)
    tile_a = mine.partition_A(cute.local_tile(a, cute.select(TILE, [0, 2]), (0, None)))
    tile_b = mine.partition_B(cute.local_tile(b, cute.select(TILE, [1, 2]), (0, None)))
    tile_c = mine.partition_C(cute.local_tile(c, TILE[:2], (0, 0)))
    slices = cute.size(tile_a, mode=[3])
    if warp < 4:
        for k in cutlass.range(slices, unroll=1):
            slot = writer.acquire_and_advance()
            cute.autovec_copy(
                tile_a[((thread, None), 0, None, k)], sa[((thread, None), 0, None, slot.index)]
            )
            if thread < TILE[1]:
                cute.autovec_copy(
                    tile_b[((thread, None), 0, None, k)], sb[((thread, None), 0, None, slot.index)]
                )
            cute.arch.fence_view_async_shared()  # the tensor core sees it
            slot.commit()
        writer.tail()
        fetch = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x64), F32)
        fetch = tcgen05.make_tmem_copy(fetch, total[((None, None), 0, 0)])
        source = fetch.get_slice(thread).partition_S(total[((None, None), 0, 0)])
        target = fetch.get_slice(thread).partition_D(tile_c[((None, None), 0, 0)])
        registers = cute.make_rmem_tensor(target.shape, F32)
        ready = reader.wait_and_advance()
        cute.copy(fetch, source, registers)
        cute.arch.fence_view_async_tmem_load()
        ready.release()
        cute.autovec_copy(registers, target)
    if warp == 4:
        fa, fb = mma.make_fragment_A(sa), mma.make_fragment_B(sb)
        sum_ = summer.acquire_and_advance()
        mma.set(tcgen05.Field.ACCUMULATE, False)
        for _ in cutlass.range(slices, unroll=1):
            slot = multiplier.wait_and_advance()
            for part in cutlass.range_constexpr(cute.size(fa, mode=[2])):
                at = (None, None, part, slot.index)
                cute.gemm(mma, total, fa[at], fb[at], total)
                mma.set(tcgen05.Field.ACCUMULATE, True)
            slot.release()
        sum_.commit()
        summer.tail()
    cute.arch.sync_threads()
    tensor_memory.relinquish_alloc_permit()
    tensor_memory.free(base)


@cute.jit
def multiplied(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    """C (128, 64) = A (128, k) · B (64, k)ᵀ, k a multiple of 64."""
    k_major = OperandMajorMode.K
    mma = sm100.make_trivial_tiled_mma(
        BF16, BF16, k_major, k_major, F32, tcgen05.CtaGroup.ONE, TILE[:2]
    )
    in_a = sm100.make_smem_layout_a(mma, TILE, BF16, SLOTS)
    in_b = sm100.make_smem_layout_b(mma, TILE, BF16, SLOTS)
    multiplied_kernel(mma, a, b, c, in_a, in_b).launch(grid=(1, 1, 1), block=(160, 1, 1))


# -- helpers ---------------------------------------------------------------------------


@cute.kernel
def said_kernel(x: cute.Tensor):
    """Two warp groups share registers out; one lane of each speaks."""
    thread, _, _ = cute.arch.thread_idx()
    group = cute.arch.make_warp_uniform(cute.arch.warp_idx()) // 4
    if group == 0:
        cute.arch.setmaxregister_decrease(40)
    if group == 1:
        cute.arch.setmaxregister_increase(232)
    if cute.arch.warp_idx() % 4 == 0:
        with cute.arch.elect_one():
            cute.printf("warp group {} begins at {}", group, x[thread])


@cute.jit
def said(x: cute.Tensor):
    """x: (256,), a number for each thread."""
    said_kernel(x).launch(grid=(1, 1, 1), block=(256, 1, 1))
