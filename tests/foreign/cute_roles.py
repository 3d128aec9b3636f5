# mypy: ignore-errors
"""What kernels for Blackwell in CuTe DSL share, written from its documented API.

C = A·Bᵀ.  One warp asks the copy engine for tiles (``PipelineTmaUmma``), one gives them to the
tensor core, four bring the accumulator from tensor memory to C (``PipelineUmmaAsync``).
"""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
import cutlass.memory as memory
import cutlass.pipeline as pipeline
import cutlass.utils.blackwell_helpers as sm100
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, tcgen05
from cutlass.tensor_utils import LayoutEnum

MMA, LOAD = 4, 5  # warps 0 to 3 store: each of them reads 32 lanes of tensor memory
THREADS = 192


def allocator(address, free, pair):
    """Of tensor memory: its address goes to all warps; ``free`` is the pair's mbarrier."""
    return memory.TmemAllocator(
        address,
        barrier_for_retrieve=pipeline.NamedBarrier(barrier_id=1, num_threads=THREADS),
        is_two_cta=pair, two_cta_tmem_dealloc_mbar_ptr=free if pair else None,
    )  # fmt: skip


class Roles:
    """Operands, rings, tensor memory, and six warps with a role each.

    A kernel class says how many blocks there are (``grid``), and for which tiles of C its block (or
    its pair of blocks, with ``pair``) plays each role: ``load``, ``multiply``, ``store``.
    ``load_tile`` and ``multiply_tile`` return what they have moved on (a ring, the MMA's flag):
    the tracer carries a value round a loop only in a local variable.
    """

    threads = THREADS
    accumulators = 1
    """Tiles of C that tensor memory holds at once."""

    def __init__(self, kind, out, tile, stages=3, pair=False, cluster=(1, 1), a_major="k",
                 b_major="k", load=None, kind_b=None):  # fmt: skip
        self.kind, self.kind_b, self.out = kind, kind_b or kind, out
        self.tile, self.stages = tile, stages
        self.pair, self.share, self.cluster = pair, 2 if pair else 1, cluster
        self.majors = a_major, b_major
        self.load_atom, self.notes = load, None
        self.total = cutlass.Int32 if kind is cutlass.Int8 else cutlass.Float32

    @cute.jit
    def __call__(self, a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
        group = tcgen05.CtaGroup.TWO if self.pair else tcgen05.CtaGroup.ONE
        major = {"k": OperandMajorMode.K, "mn": OperandMajorMode.MN}
        mma = sm100.make_trivial_tiled_mma(
            self.kind, self.kind_b, major[self.majors[0]], major[self.majors[1]], self.total,
            group, self.tile[:2],
        )  # fmt: skip
        in_a = sm100.make_smem_layout_a(mma, self.tile, self.kind, self.stages)
        in_b = sm100.make_smem_layout_b(mma, self.tile, self.kind_b, self.stages)
        blocks = cute.tiled_divide(cute.make_layout((*self.cluster, 1)), (mma.thr_id.shape,))
        op_a = sm100.cluster_shape_to_tma_atom_A((*self.cluster, 1), mma.thr_id)
        op_b = sm100.cluster_shape_to_tma_atom_B((*self.cluster, 1), mma.thr_id)
        internal = cutlass.TFloat32 if self.kind is cutlass.Float32 else None
        copy_a, box_a = cute.nvgpu.make_tiled_tma_atom_A(
            op_a, a, cute.slice_(in_a, (None, None, None, 0)), self.tile, mma, blocks.shape,
            internal_type=internal,
        )  # fmt: skip
        copy_b, box_b = cute.nvgpu.make_tiled_tma_atom_B(
            op_b, b, cute.slice_(in_b, (None, None, None, 0)), self.tile, mma, blocks.shape,
            internal_type=internal,
        )  # fmt: skip
        self.notes.shared = 2048 + cute.size_in_bytes(self.kind, in_a) + cute.size_in_bytes(
            self.kind_b, in_b)  # fmt: skip
        self.notes.box(copy_a, in_a.inner, self.kind, self.cluster[1])
        self.notes.box(copy_b, in_b.inner, self.kind_b, self.cluster[0] // self.share)
        self.kernel(mma, copy_a, box_a, copy_b, box_b, c, in_a, in_b, blocks).launch(
            grid=self.grid(c), block=(THREADS, 1, 1), cluster=(*self.cluster, 1)
        )

    @cute.kernel
    def kernel(self, mma: cute.TiledMma, copy_a: cute.CopyAtom, box_a: cute.Tensor,
               copy_b: cute.CopyAtom, box_b: cute.Tensor, c: cute.Tensor,
               in_a: cute.ComposedLayout, in_b: cute.ComposedLayout,
               blocks: cute.Layout):  # fmt: skip
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        thread, _, _ = cute.arch.thread_idx()
        bx, _, _ = cute.arch.block_idx()
        half = bx % self.share
        rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
        place = blocks.get_flat_coord(rank)

        store = memory.SmemAllocator()
        barriers = store.allocate_array(cutlass.Int64, 2 * self.stages)
        done = store.allocate_array(cutlass.Int64, 2 * self.accumulators)
        free = store.allocate(cutlass.Int64, 8)
        address = store.allocate(cutlass.Int32, 4)
        sa = store.allocate_tensor(self.kind, in_a.outer, 128, in_a.inner)
        sb = store.allocate_tensor(self.kind_b, in_b.outer, 128, in_b.inner)

        tensor_memory = allocator(address, free, self.pair)
        one = pipeline.CooperativeGroup(pipeline.Agent.Thread)
        readers = (blocks.shape[1] + blocks.shape[2] - 1) if cutlass.const_expr(
            cute.size(blocks) > 1) else 1  # fmt: skip
        bytes_of_stage = (
            cute.size_in_bytes(self.kind, cute.slice_(in_a, (None, None, None, 0)))
            + cute.size_in_bytes(self.kind_b, cute.slice_(in_b, (None, None, None, 0)))
        ) * self.share
        producer, consumer = pipeline.PipelineTmaUmma.create(
            num_stages=self.stages, producer_group=one,
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, readers),
            tx_count=bytes_of_stage, barrier_storage=barriers, cta_layout_vmnk=blocks,
        ).make_participants()  # fmt: skip
        filler, drainer = pipeline.PipelineUmmaAsync.create(
            num_stages=self.accumulators, producer_group=one,
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, 128 * self.share),
            barrier_storage=done, cta_layout_vmnk=blocks,
        ).make_participants()  # fmt: skip

        ga = cute.local_tile(box_a, cute.select(self.tile, [0, 2]), (None, None))
        gb = cute.local_tile(box_b, cute.select(self.tile, [1, 2]), (None, None))
        gc = cute.local_tile(c, self.tile[:2], (None, None))
        mine = mma.get_slice(half)
        ta, tb, tc = mine.partition_A(ga), mine.partition_B(gb), mine.partition_C(gc)
        layout_a = cute.make_layout(cute.slice_(blocks, (0, 0, None, 0)).shape)
        layout_b = cute.make_layout(cute.slice_(blocks, (0, None, 0, 0)).shape)
        to_a, from_a = cpasync.tma_partition(
            copy_a, place[2], layout_a, cute.group_modes(sa, 0, 3), cute.group_modes(ta, 0, 3)
        )
        to_b, from_b = cpasync.tma_partition(
            copy_b, place[1], layout_b, cute.group_modes(sb, 0, 3), cute.group_modes(tb, 0, 3)
        )
        shape = cute.append(mma.partition_shape_C(self.tile[:2]), self.accumulators)
        columns = memory.get_num_tmem_alloc_cols(mine.make_fragment_C(shape))
        tensor_memory.allocate(columns)
        tensor_memory.wait_for_alloc()
        base = tensor_memory.retrieve_ptr(self.total)
        totals = cute.make_tensor(base, mma.make_fragment_C(shape).layout)

        if warp == LOAD:
            many_a = many_b = None
            if cutlass.const_expr(cute.size(blocks) > 1):
                many_a = cpasync.create_tma_multicast_mask(blocks, place, 2)
                many_b = cpasync.create_tma_multicast_mask(blocks, place, 1)
            self.load((copy_a, from_a, to_a, many_a), (copy_b, from_b, to_b, many_b), c, producer)
        if warp == MMA:
            fragments = mma.make_fragment_A(sa), mma.make_fragment_B(sb)
            self.multiply(mma, fragments, totals, cute.size(from_a, mode=[2]), c, consumer, filler)
        if warp < MMA:
            self.store(thread, totals, tc, c, drainer)
        cute.arch.sync_threads()
        tensor_memory.relinquish_alloc_permit()
        tensor_memory.free(base)

    @cute.jit
    def load_tile(self, a, b, row, column, producer):
        """``a``, ``b``: a copy atom, tiles in memory, stages, which blocks get a copy."""
        for k in cutlass.range(cute.size(a[1], mode=[2])):
            slot = producer.acquire_and_advance()
            for (copy, tiles, stages, many), tile in ((a, row), (b, column)):
                cute.copy(copy, tiles[(None, tile, k)], stages[(None, slot.index)],
                          tma_bar_ptr=slot.barrier, mcast_mask=many)  # fmt: skip
        return producer

    @cute.jit
    def multiply_tile(self, mma, fragments, total, steps, consumer):
        fa, fb = fragments
        mma.set(tcgen05.Field.ACCUMULATE, False)
        for _ in cutlass.range(steps):
            slot = consumer.wait_and_advance()
            for k in cutlass.range_constexpr(cute.size(fa, mode=[2])):
                at = (None, None, k, slot.index)
                cute.gemm(mma, total, fa[at], fb[at], total)
                mma.set(tcgen05.Field.ACCUMULATE, True)
            slot.release()
        return mma, consumer

    @cute.jit
    def store_tile(self, thread, total, tc):
        shape = (self.tile[0] // self.share, self.tile[1], self.tile[2])
        tile = sm100.compute_epilogue_tile_shape(shape, self.pair, LayoutEnum.ROW_MAJOR, self.out)
        atom = sm100.get_tmem_load_op(
            shape, LayoutEnum.ROW_MAJOR, self.out, self.total, tile, self.pair
        )
        if cutlass.const_expr(self.load_atom is not None):
            atom = cute.make_copy_atom(self.load_atom, self.total)
        flat = total[((None, None), 0, 0)]
        pieces = cute.flat_divide(flat, tile)
        copy = tcgen05.make_tmem_copy(atom, pieces[(None, None, 0, 0)])
        mine = copy.get_slice(thread)
        source = mine.partition_S(pieces)
        target = mine.partition_D(cute.flat_divide(tc[((None, None), 0, 0)], tile))
        source = cute.group_modes(source, 3, cute.rank(source))
        target = cute.group_modes(target, 3, cute.rank(target))
        registers = cute.make_rmem_tensor(target[(None, None, None, 0)].shape, self.total)
        for piece in cutlass.range_constexpr(cute.size(source, mode=[3])):
            cute.copy(copy, source[(None, None, None, piece)], registers)
            rounded = cute.make_rmem_tensor(registers.shape, self.out)
            rounded.store(registers.load().to(self.out))
            cute.autovec_copy(rounded, target[(None, None, None, piece)])
