# mypy: ignore-errors
"""Matrix products for Hopper in CuTe DSL, written from its documented API.

C = A·Bᵀ.  A warp of the first warp group asks the copy engine for tiles (``PipelineTmaAsync``);
the others multiply, and bring C from registers to memory: through shared memory and the copy
engine, or directly with a look at the edges.
"""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
import cutlass.memory as memory
import cutlass.pipeline as pipeline
import cutlass.utils.hopper_helpers as sm90
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warpgroup
from cutlass.tensor_utils import LayoutEnum

GROUP = 128


class Gemm:
    """One tile of C per block."""

    def __init__(self, kind, out, tile, stages=3, groups=(1, 1), cluster=(1, 1), a_major="k",
                 b_major="k", store="boxes", registers=True):  # fmt: skip
        self.kind, self.out, self.tile, self.stages = kind, out, tile, stages
        self.groups, self.cluster, self.store, self.registers = groups, cluster, store, registers
        self.majors = a_major, b_major
        self.total = cutlass.Int32 if kind is cutlass.Int8 else cutlass.Float32
        self.kind_b, self.consumers = kind, groups[0] * groups[1]
        self.threads = GROUP * (1 + self.consumers)
        self.notes = None

    @cute.jit
    def __call__(self, a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
        layouts = [LayoutEnum.ROW_MAJOR if m == "k" else LayoutEnum.COL_MAJOR for m in self.majors]
        major = {"k": OperandMajorMode.K, "mn": OperandMajorMode.MN}
        mma = sm90.make_trivial_tiled_mma(
            self.kind, self.kind, major[self.majors[0]], major[self.majors[1]], self.total,
            (*self.groups, 1), (64, self.tile[1] // self.groups[1]),
        )  # fmt: skip
        in_a = sm90.make_smem_layout_a(layouts[0], self.tile, self.kind, self.stages)
        in_b = sm90.make_smem_layout_b(layouts[1], self.tile, self.kind, self.stages)
        in_c = sm90.make_smem_layout_epi(self.out, LayoutEnum.ROW_MAJOR, self.tile[:2], 1)
        many = [cpasync.CopyBulkTensorTileG2SMulticastOp() if n > 1 else
                cpasync.CopyBulkTensorTileG2SOp() for n in self.cluster]  # fmt: skip
        copy_a, box_a = cpasync.make_tiled_tma_atom(
            many[1], a, cute.slice_(in_a, (None, None, 0)), (self.tile[0], self.tile[2]),
            num_multicast=self.cluster[1],
        )  # fmt: skip
        copy_b, box_b = cpasync.make_tiled_tma_atom(
            many[0], b, cute.slice_(in_b, (None, None, 0)), (self.tile[1], self.tile[2]),
            num_multicast=self.cluster[0],
        )  # fmt: skip
        copy_c, box_c = cpasync.make_tiled_tma_atom(
            cpasync.CopyBulkTensorTileS2GOp(), c, cute.slice_(in_c, (None, None, 0)),
            self.tile[:2],
        )  # fmt: skip
        self.notes.box(copy_a, in_a.inner, self.kind, self.cluster[1])
        self.notes.box(copy_b, in_b.inner, self.kind, self.cluster[0])
        self.notes.box(copy_c, in_c.inner, self.out)
        self.notes.shared = 4096 + cute.size_in_bytes(self.kind, in_a) + cute.size_in_bytes(
            self.kind, in_b) + cute.size_in_bytes(self.out, in_c)  # fmt: skip
        grid = cute.round_up(
            (cute.ceil_div(c.shape[0], self.tile[0]), cute.ceil_div(c.shape[1], self.tile[1]), 1),
            (*self.cluster, 1),
        )
        self.kernel(mma, copy_a, box_a, copy_b, box_b, copy_c, box_c, c, in_a, in_b, in_c).launch(
            grid=grid, block=(self.threads, 1, 1), cluster=(*self.cluster, 1)
        )

    @cute.kernel
    def kernel(self, mma: cute.TiledMma, copy_a: cute.CopyAtom, box_a: cute.Tensor,
               copy_b: cute.CopyAtom, box_b: cute.Tensor, copy_c: cute.CopyAtom,
               box_c: cute.Tensor, c: cute.Tensor, in_a: cute.ComposedLayout,
               in_b: cute.ComposedLayout, in_c: cute.ComposedLayout):  # fmt: skip
        thread, _, _ = cute.arch.thread_idx()
        row, column, _ = cute.arch.block_idx()
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        blocks = cute.make_layout((1, *self.cluster, 1))
        rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
        place = blocks.get_flat_coord(rank)

        store = memory.SmemAllocator()
        barriers = store.allocate_array(cutlass.Int64, 2 * self.stages)
        sa = store.allocate_tensor(self.kind, in_a.outer, 1024, in_a.inner)
        sb = store.allocate_tensor(self.kind, in_b.outer, 1024, in_b.inner)
        sc = store.allocate_tensor(self.out, in_c.outer, 1024, in_c.inner)

        readers = self.cluster[0] + self.cluster[1] - 1
        size = cute.size_in_bytes(self.kind, cute.slice_(in_a, (None, None, 0)))
        size += cute.size_in_bytes(self.kind, cute.slice_(in_b, (None, None, 0)))
        producer, consumer = pipeline.PipelineTmaAsync.create(
            num_stages=self.stages,
            producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
            consumer_group=pipeline.CooperativeGroup(
                pipeline.Agent.Thread, readers * self.consumers * GROUP // 32),
            tx_count=size, barrier_storage=barriers, cta_layout_vmnk=blocks,
        ).make_participants()  # fmt: skip

        ga = cute.local_tile(box_a, (self.tile[0], self.tile[2]), (row, None))
        gb = cute.local_tile(box_b, (self.tile[1], self.tile[2]), (column, None))
        to_a, from_a = cpasync.tma_partition(
            copy_a, place[2], cute.make_layout(self.cluster[1]), cute.group_modes(sa, 0, 2),
            cute.group_modes(ga, 0, 2),
        )  # fmt: skip
        to_b, from_b = cpasync.tma_partition(
            copy_b, place[1], cute.make_layout(self.cluster[0]), cute.group_modes(sb, 0, 2),
            cute.group_modes(gb, 0, 2),
        )  # fmt: skip
        steps = cute.size(from_a, mode=[1])

        if warp < 4:
            if cutlass.const_expr(self.registers):
                cute.arch.setmaxregister_decrease(40)
            if warp == 0:
                many_a = cpasync.create_tma_multicast_mask(
                    blocks, place, 2) if cutlass.const_expr(self.cluster[1] > 1) else None
                many_b = cpasync.create_tma_multicast_mask(
                    blocks, place, 1) if cutlass.const_expr(self.cluster[0] > 1) else None
                for k in cutlass.range(steps):
                    slot = producer.acquire_and_advance()
                    cute.copy(copy_a, from_a[(None, k)], to_a[(None, slot.index)],
                              tma_bar_ptr=slot.barrier, mcast_mask=many_a)  # fmt: skip
                    cute.copy(copy_b, from_b[(None, k)], to_b[(None, slot.index)],
                              tma_bar_ptr=slot.barrier, mcast_mask=many_b)  # fmt: skip
                producer.tail()
        else:
            if cutlass.const_expr(self.registers):
                cute.arch.setmaxregister_increase(232)
            self.multiply(mma, thread - GROUP, sa, sb, sc, consumer, steps, copy_c, box_c, c)

    @cute.jit
    def multiply(self, mma, thread, sa, sb, sc, consumer, steps, copy_c, box_c, c):
        row, column, _ = cute.arch.block_idx()
        mine = mma.get_slice(thread)
        fa = mma.make_fragment_A(mine.partition_A(sa))
        fb = mma.make_fragment_B(mine.partition_B(sb))
        total = cute.make_rmem_tensor(mine.partition_shape_C(self.tile[:2]), self.total)
        mma.set(warpgroup.Field.ACCUMULATE, False)
        before = consumer.clone()
        for step in cutlass.range(steps):
            slot = consumer.wait_and_advance()
            warpgroup.fence()
            for k in cutlass.range_constexpr(cute.size(fa, mode=[2])):
                at = (None, None, k, slot.index)
                cute.gemm(mma, total, fa[at], fb[at], total)
                mma.set(warpgroup.Field.ACCUMULATE, True)
            warpgroup.commit_group()
            warpgroup.wait_group(1)
            if step > 0:  # one multiplication is always under way
                before.release()
                before.advance()
        warpgroup.wait_group(0)
        before.release()

        rounded = cute.make_rmem_tensor(total.shape, self.out)
        rounded.store(total.load().to(self.out))
        if cutlass.const_expr(self.store == "boxes"):
            atom = sm90.get_smem_store_op(LayoutEnum.ROW_MAJOR, self.out, self.total)
            copy = cute.make_tiled_copy_C(atom, mma)
            part = copy.get_slice(thread)
            target = part.partition_D(sc[(None, None, 0)])
            cute.copy(copy, part.retile(rounded), target)
            cute.arch.fence_proxy("async.shared", space="cta")
            cute.arch.barrier(barrier_id=1, number_of_threads=GROUP * self.consumers)
            gc = cute.local_tile(box_c, self.tile[:2], (row, column))
            from_c, to_c = cpasync.tma_partition(
                copy_c, 0, cute.make_layout(1), cute.group_modes(sc, 0, 2),
                cute.group_modes(gc, 0, 2),
            )  # fmt: skip
            if thread // 32 == 0:
                cute.copy(copy_c, from_c[(None, 0)], to_c)
                cute.arch.cp_async_bulk_commit_group()
                cute.arch.cp_async_bulk_wait_group(0, read=True)
        else:
            places = cute.local_tile(cute.make_identity_tensor(c.shape), self.tile[:2],
                                     (row, column))  # fmt: skip
            where = mine.partition_C(places)
            target = mine.partition_C(cute.local_tile(c, self.tile[:2], (row, column)))
            for i in cutlass.range_constexpr(cute.size(rounded)):
                if cute.elem_less(where[i], c.shape):
                    target[i] = rounded[i]
