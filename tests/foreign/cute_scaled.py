# mypy: ignore-errors
"""Block-scaled products for Blackwell in CuTe DSL, written from its documented API.

C = (A·scales of A)·(B·scales of B)ᵀ.  The scales come by the copy engine too, and go on from shared
to tensor memory by ``tcgen05.cp``, which the tensor core runs in order with its multiplications.
"""

from __future__ import annotations

import re

import cutlass
import cutlass.cute as cute
import cutlass.memory as memory
import cutlass.pipeline as pipeline
import cutlass.utils.blackwell_helpers as sm100
import cutlass.utils.blockscaled_layout as scaled
import numpy as np
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, tcgen05
from cutlass.tensor_utils import LayoutEnum

from phasebit.emulator import TensorMap
from tests.foreign.cute_roles import LOAD, MMA, THREADS, allocator
from tests.foreign.cute_tools import Notes, compiled, fake, launch
from tests.foreign.scaled_numbers import PIECE, operand

STAGE = (None, None, None, 0)


class Scaled:
    """One tile of C per block, or per pair of blocks.

    ``vector`` elements along K share a scale of type ``scale``.
    """

    threads = THREADS

    def __init__(self, kind, scale, vector, tile, stages=2, pair=False, cluster=(1, 1),
                 kind_b=None):  # fmt: skip
        self.kind, self.kind_b, self.scale, self.vector = kind, kind_b or kind, scale, vector
        self.tile, self.stages = tile, stages
        self.pair, self.share, self.cluster = pair, 2 if pair else 1, cluster
        self.notes = None

    def multiplier(self, group, tile):
        k = OperandMajorMode.K
        return sm100.make_blockscaled_trivial_tiled_mma(
            self.kind, self.kind_b, k, k, self.scale, self.vector, group, tile
        )

    @cute.jit
    def __call__(self, a: cute.Tensor, b: cute.Tensor, scales_a: cute.Tensor,
                 scales_b: cute.Tensor, c: cute.Tensor):  # fmt: skip
        pair = tcgen05.CtaGroup.TWO if self.pair else tcgen05.CtaGroup.ONE
        mma = self.multiplier(pair, self.tile[:2])
        # each block of a pair holds the scales of all of B's rows
        whole = (self.tile[0] // self.share, cute.round_up(self.tile[1], 128))
        mma_b = self.multiplier(tcgen05.CtaGroup.ONE, whole)
        tile_b = (*whole, self.tile[2])
        in_a = sm100.make_smem_layout_a(mma, self.tile, self.kind, self.stages)
        in_b = sm100.make_smem_layout_b(mma, self.tile, self.kind_b, self.stages)
        in_sa = scaled.make_smem_layout_sfa(mma, self.tile, self.vector, self.stages)
        in_sb = scaled.make_smem_layout_sfb(mma, self.tile, self.vector, self.stages)
        atom = scaled.BlockScaledBasicChunk(self.vector).layout
        scales_a = cute.make_tensor(scales_a.iterator, cute.tile_to_shape(atom, a.shape, (2, 1)))
        scales_b = cute.make_tensor(scales_b.iterator, cute.tile_to_shape(atom, b.shape, (2, 1)))

        cluster = (*self.cluster, 1)
        blocks = cute.tiled_divide(cute.make_layout(cluster), (mma.thr_id.shape,))
        blocks_b = cute.tiled_divide(cute.make_layout(cluster), (mma_b.thr_id.shape,))
        op_a = sm100.cluster_shape_to_tma_atom_A(cluster, mma.thr_id)
        op_b = sm100.cluster_shape_to_tma_atom_B(cluster, mma.thr_id)
        op_sb = sm100.cluster_shape_to_tma_atom_SFB(cluster, mma.thr_id)
        for_a, for_b = cute.nvgpu.make_tiled_tma_atom_A, cute.nvgpu.make_tiled_tma_atom_B
        copies = (
            for_a(op_a, a, cute.slice_(in_a, STAGE), self.tile, mma, blocks.shape),
            for_b(op_b, b, cute.slice_(in_b, STAGE), self.tile, mma, blocks.shape),
            for_a(op_a, scales_a, cute.slice_(in_sa, STAGE), self.tile, mma, blocks.shape,
                  internal_type=cutlass.Int16),
            for_b(op_sb, scales_b, cute.slice_(in_sb, STAGE), tile_b, mma_b, blocks_b.shape,
                  internal_type=cutlass.Int16),
        )  # fmt: skip
        self.notes.shared = 4096
        self.notes.bytes = 0
        for kind, layout in ((self.kind, in_a), (self.kind_b, in_b), (self.scale, in_sa),
                             (self.scale, in_sb)):  # fmt: skip
            self.notes.shared += cute.size_in_bytes(kind, layout)
            self.notes.bytes += cute.size_in_bytes(kind, cute.slice_(layout, STAGE)) * self.share
        self.notes.boxes += [
            re.search(r'tma_gbasis = <"(.*?)">', str(copy._trait.value.type))[1]
            for copy, _ in copies
        ]
        tile = self.tile[0] // self.share, self.tile[1]
        grid = (cute.ceil_div(c.shape[0], tile[0]), cute.ceil_div(c.shape[1], tile[1]), 1)
        self.kernel(
            mma, mma_b, *copies[0], *copies[1], *copies[2], *copies[3], c, in_a, in_b, in_sa, in_sb,
            blocks, blocks_b,
        ).launch(grid=grid, block=(THREADS, 1, 1), cluster=cluster)  # fmt: skip

    @cute.kernel
    def kernel(self, mma: cute.TiledMma, mma_b: cute.TiledMma,
               copy_a: cute.CopyAtom, box_a: cute.Tensor, copy_b: cute.CopyAtom, box_b: cute.Tensor,
               copy_sa: cute.CopyAtom, box_sa: cute.Tensor, copy_sb: cute.CopyAtom,
               box_sb: cute.Tensor, c: cute.Tensor, in_a: cute.ComposedLayout,
               in_b: cute.ComposedLayout, in_sa: cute.Layout, in_sb: cute.Layout,
               blocks: cute.Layout, blocks_b: cute.Layout):  # fmt: skip
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        thread, _, _ = cute.arch.thread_idx()
        bx, column, _ = cute.arch.block_idx()
        row, half = bx // self.share, bx % self.share
        rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
        place, place_b = blocks.get_flat_coord(rank), blocks_b.get_flat_coord(rank)

        store = memory.SmemAllocator()
        barriers = store.allocate_array(cutlass.Int64, 2 * self.stages)
        done = store.allocate_array(cutlass.Int64, 2)
        free = store.allocate(cutlass.Int64, 8)
        address = store.allocate(cutlass.Int32, 4)
        sa = store.allocate_tensor(self.kind, in_a.outer, 1024, in_a.inner)
        sb = store.allocate_tensor(self.kind_b, in_b.outer, 1024, in_b.inner)
        ssa = store.allocate_tensor(self.scale, in_sa, 1024)
        ssb = store.allocate_tensor(self.scale, in_sb, 1024)

        tensor_memory = allocator(address, free, self.pair)
        one = pipeline.CooperativeGroup(pipeline.Agent.Thread)
        readers = self.cluster[0] // self.share + self.cluster[1] - 1
        producer, consumer = pipeline.PipelineTmaUmma.create(
            num_stages=self.stages, producer_group=one,
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, readers),
            tx_count=self.notes.bytes, barrier_storage=barriers, cta_layout_vmnk=blocks,
        ).make_participants()  # fmt: skip
        filler, drainer = pipeline.PipelineUmmaAsync.create(
            num_stages=1, producer_group=one,
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, 128 * self.share),
            barrier_storage=done, cta_layout_vmnk=blocks,
        ).make_participants()  # fmt: skip

        rows, columns = cute.select(self.tile, [0, 2]), cute.select(self.tile, [1, 2])
        mine, mine_b = mma.get_slice(half), mma_b.get_slice(half)
        whole = (cute.round_up(self.tile[1], 128), self.tile[2])
        every = (None, None)
        ta = mine.partition_A(cute.local_tile(box_a, rows, every))
        tb = mine.partition_B(cute.local_tile(box_b, columns, every))
        tsa = mine.partition_A(cute.local_tile(box_sa, rows, every))
        tsb = mine_b.partition_B(cute.local_tile(box_sb, whole, every))
        tc = mine.partition_C(cute.local_tile(c, self.tile[:2], every))
        along = cute.make_layout(cute.slice_(blocks, (0, 0, None, 0)).shape)
        down = cute.make_layout(cute.slice_(blocks, (0, None, 0, 0)).shape)
        down_b = cute.make_layout(cute.slice_(blocks_b, (0, None, 0, 0)).shape)
        moves = []
        for copy, at, layout, shared, tiles in (
            (copy_a, place[2], along, sa, ta), (copy_b, place[1], down, sb, tb),
            (copy_sa, place[2], along, ssa, tsa), (copy_sb, place_b[1], down_b, ssb, tsb),
        ):  # fmt: skip
            to, source = cpasync.tma_partition(
                copy, at, layout, cute.group_modes(shared, 0, 3), cute.group_modes(tiles, 0, 3)
            )
            moves.append((copy, cute.filter_zeros(source), cute.filter_zeros(to)))
        steps = cute.size(moves[0][1], mode=[2])

        tensor_memory.allocate(512)
        tensor_memory.wait_for_alloc()
        base = tensor_memory.retrieve_ptr(cutlass.Float32)
        total = cute.make_tensor(
            base, mma.make_fragment_C(mma.partition_shape_C(self.tile[:2])).layout
        )

        if warp == LOAD:
            masks = [None] * 4
            if cutlass.const_expr(cute.size(blocks) > 1):
                many_a = cpasync.create_tma_multicast_mask(blocks, place, 2)
                many_b = cpasync.create_tma_multicast_mask(blocks, place, 1)
                many_sb = cpasync.create_tma_multicast_mask(blocks_b, place_b, 1)
                masks = [many_a, many_b, many_a, many_sb]
            for k in cutlass.range(steps):
                slot = producer.acquire_and_advance()
                self.ask(moves, (row, column, row, column), masks, k, slot)
            producer.tail()

        if warp == MMA:  # noqa: SIM102
            if half == 0:
                self.multiply(mma, sa, sb, ssa, ssb, in_sa, in_sb, total, steps, consumer, filler)

        if warp < MMA:
            self.drain(thread, total, tc[(None, None, None, row, column)], drainer)
        cute.arch.sync_threads()
        tensor_memory.relinquish_alloc_permit()
        tensor_memory.free(base)

    @cute.jit
    def ask(self, moves, places, masks, k, slot):
        for (copy, source, to), tile, mask in zip(moves, places, masks, strict=True):
            cute.copy(copy, source[(None, tile, k)], to[(None, slot.index)],
                      tma_bar_ptr=slot.barrier, mcast_mask=mask)  # fmt: skip

    @cute.jit
    def bring(self, moves, slot):
        for copy, source, to in moves:
            cute.copy(copy, source[(None, None, None, None, slot.index)], to)

    @cute.jit
    def multiply(self, mma, sa, sb, ssa, ssb, in_sa, in_sb, total, steps, consumer, filler):
        fa, fb = mma.make_fragment_A(sa), mma.make_fragment_B(sb)
        one_a, one_b = cute.slice_(in_sa, STAGE), cute.slice_(in_sb, STAGE)
        behind = tcgen05.find_tmem_tensor_col_offset(total)
        of_a = cute.make_tensor(
            cute.recast_ptr(total.iterator + behind, dtype=self.scale),
            scaled.make_tmem_layout_sfa(mma, self.tile, self.vector, one_a),
        )
        behind += tcgen05.find_tmem_tensor_col_offset(of_a)
        of_b = cute.make_tensor(
            cute.recast_ptr(total.iterator + behind, dtype=self.scale),
            scaled.make_tmem_layout_sfb(mma, self.tile, self.vector, one_b),
        )
        group = tcgen05.CtaGroup.TWO if self.pair else tcgen05.CtaGroup.ONE
        atom = cute.make_copy_atom(tcgen05.Cp4x32x128bOp(group), self.scale)
        moves = []
        for shared, there in ((ssa, of_a), (ssb, of_b)):
            to = cute.filter_zeros(there)
            copy = tcgen05.make_s2t_copy(atom, to)
            thread = copy.get_slice(0)
            source = thread.partition_S(cute.filter_zeros(shared))
            moves.append((copy, tcgen05.get_s2t_smem_desc_tensor(copy, source),
                          thread.partition_D(to)))  # fmt: skip
        out = filler.acquire_and_advance()
        mma.set(tcgen05.Field.ACCUMULATE, False)
        for _ in cutlass.range(steps):
            slot = consumer.wait_and_advance()
            self.bring(moves, slot)
            for k in cutlass.range_constexpr(cute.size(fa, mode=[2])):
                mma.set(tcgen05.Field.SFA, of_a[(None, None, k)].iterator)
                mma.set(tcgen05.Field.SFB, of_b[(None, None, k)].iterator)
                at = (None, None, k, slot.index)
                cute.gemm(mma, total, fa[at], fb[at], total)
                mma.set(tcgen05.Field.ACCUMULATE, True)
            slot.release()
        out.commit()

    @cute.jit
    def drain(self, thread, total, tc, drainer):
        shape = (self.tile[0] // self.share, self.tile[1], self.tile[2])
        kind = cutlass.Float32
        tile = sm100.compute_epilogue_tile_shape(shape, self.pair, LayoutEnum.ROW_MAJOR, kind)
        atom = sm100.get_tmem_load_op(shape, LayoutEnum.ROW_MAJOR, kind, kind, tile, self.pair)
        pieces = cute.flat_divide(total[((None, None), 0, 0)], tile)
        copy = tcgen05.make_tmem_copy(atom, pieces[(None, None, 0, 0)])
        mine = copy.get_slice(thread)
        source = mine.partition_S(pieces)
        target = mine.partition_D(cute.flat_divide(tc[((None, None), 0, 0)], tile))
        source = cute.group_modes(source, 3, cute.rank(source))
        target = cute.group_modes(target, 3, cute.rank(target))
        registers = cute.make_rmem_tensor(target[(None, None, None, 0)].shape, kind)
        ready = drainer.wait_and_advance()
        for piece in cutlass.range_constexpr(cute.size(source, mode=[3])):
            cute.copy(copy, source[(None, None, None, piece)], registers)
            cute.autovec_copy(registers, target[(None, None, None, piece)])
        ready.release()


NAMES = {cutlass.Float4E2M1FN: "e2m1", cutlass.Float8E4M3FN: "e4m3", cutlass.Float8E5M2: "e5m2",
         cutlass.Float8E8M0FNU: "ue8m0"}  # fmt: skip


def extents(basis, copies):
    """Of a box, of which each of ``copies`` blocks asks for a part, along the outermost."""
    numbers = [int(n) for n in re.findall(r"\d+", basis.split("):(")[0].replace("2,4,32", "256"))]
    for i in reversed(range(len(numbers))):
        part = np.gcd(numbers[i], copies)
        numbers[i], copies = int(numbers[i] // part), copies // part
    return numbers


def map_of_scales(basis, pieces, copies):
    """The scales as numbers of 16 bits: within a piece, then the pieces, in the box's order."""
    rest, steps = pieces.shape[:2]
    along = {"0": (rest, PIECE * steps), "1": (steps, PIECE)}  # rows, vectors
    sides = [along[mode] for mode in re.findall(r"1@1@(\d)[,)]", basis)[-2:]]
    return TensorMap(
        pieces, extents(basis, copies), data_type="u16", dims=(PIECE // 2, *(n for n, _ in sides)),
        strides=[stride for _, stride in sides],
    )  # fmt: skip


class ScaledProduct:
    """The kernel for one shape (m, n, k), and its check."""

    def __init__(self, gemm, shape):
        self.gemm, self.shape, (m, n, k) = gemm, shape, shape
        gemm.notes, v = Notes(), gemm.vector
        self.kernel = compiled(gemm, [
            fake(gemm.kind, (m, k)), fake(gemm.kind_b, (n, k)), fake(gemm.scale, (m, k // v)),
            fake(gemm.scale, (n, k // v)), fake(cutlass.Float32, (m, n)),
        ], "sm_100a")  # fmt: skip

    def check(self, how, check=True):
        gemm, (m, n, k) = self.gemm, self.shape
        down, along = gemm.cluster
        sides = ((gemm.kind, m, along, along), (gemm.kind_b, n, down // gemm.share, down))
        maps, maps_of_scales, values = [], [], []
        boxes = gemm.notes.boxes
        for side, (kind, rows, copies, copies_of_scales) in enumerate(sides):
            codes, pieces, numbers = operand(
                NAMES[kind], NAMES[gemm.scale], rows, k, gemm.vector
            )
            box = extents(boxes[side], copies)
            narrow = kind is cutlass.Float4E2M1FN
            maps.append(TensorMap(
                codes, box, data_type="b4x16" if narrow else None, dims=(k, rows),
                strides=(codes.shape[1],), swizzle="128B",
            ))  # fmt: skip
            maps_of_scales.append(map_of_scales(boxes[2 + side], pieces, copies_of_scales))
            values.append(numbers)
        c = np.full((m, n), np.nan, np.float32)
        grid = (-(-m // (gemm.tile[0] // gemm.share)), -(-n // gemm.tile[1]))
        launch(self.kernel, grid, THREADS, [*maps, *maps_of_scales, c], how,
               shared=gemm.notes.shared, check=check,
               cluster=(*gemm.cluster, 1) if gemm.cluster != (1, 1) else None)  # fmt: skip
        assert np.array_equal(c, (values[0] @ values[1].T).astype(np.float32))
