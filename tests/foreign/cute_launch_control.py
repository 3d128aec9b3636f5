# mypy: ignore-errors
"""Blocks for Blackwell in CuTe DSL that take over the work of those not started yet.

The first block of each cluster has a warp that asks (``ClcDynamicPersistentTileScheduler``); the
answer comes to all blocks of the cluster (``PipelineClcFetchAsync``), whose four warps each do
their part of the tile.
"""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
import cutlass.memory as memory
import cutlass.pipeline as pipeline
import cutlass.utils as utils

WORKERS, ANSWER = 128, 16


class Taking:
    """out += a, of shape (tiles along x, along y, ``WORKERS``); each tile must be done once."""

    threads = WORKERS + 32

    def __init__(self, cluster=(1, 1), swizzle=1):
        self.cluster, self.swizzle = cluster, swizzle
        self.grid = None

    @cute.jit
    def __call__(self, a: cute.Tensor, out: cute.Tensor):
        plan = utils.ClcDynamicPersistentTileSchedulerParams(
            (*a.shape[:2], 1), (*self.cluster, 1), self.swizzle
        )
        self.grid = utils.ClcDynamicPersistentTileScheduler.get_grid_shape(plan)
        self.kernel(plan, a, out).launch(
            grid=self.grid, block=(self.threads, 1, 1), cluster=(*self.cluster, 1)
        )

    @cute.kernel
    def kernel(self, plan: utils.ClcDynamicPersistentTileSchedulerParams, a: cute.Tensor,
               out: cute.Tensor):  # fmt: skip
        thread, _, _ = cute.arch.thread_idx()
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
        store = memory.SmemAllocator()
        barriers = store.allocate_array(cutlass.Int64, 2)
        answer = store.allocate_array(cutlass.Int32, 4, byte_alignment=16)
        blocks = cute.make_layout((1, *self.cluster, 1))
        group, agent = pipeline.CooperativeGroup, pipeline.Agent.Thread
        ring = pipeline.PipelineClcFetchAsync.create(
            num_stages=1, producer_group=group(agent),
            consumer_group=group(agent, WORKERS * cute.size(blocks) + 32), tx_count=ANSWER,
            barrier_storage=barriers, cta_layout_vmnk=blocks,
        )  # fmt: skip
        scheduler = utils.ClcDynamicPersistentTileScheduler.create(
            plan, cute.arch.block_idx(), cute.arch.grid_dim(), answer
        )
        work = scheduler.initial_work_tile_info()
        asked = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, 1)
        told = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, 1)
        if warp == WORKERS // 32:
            if rank == 0:
                while work.is_valid_tile:
                    ring.producer_acquire(asked)
                    scheduler.advance_to_next_work(ring.producer_get_barrier(asked))
                    asked.advance()
                    ring.consumer_wait(told)
                    work = scheduler.get_current_work()
                    ring.consumer_release(told)
                    told.advance()
                ring.producer_tail(asked)
        else:
            while work.is_valid_tile:
                x, y, _ = work.tile_idx
                out[x, y, thread] = out[x, y, thread] + a[x, y, thread]
                ring.consumer_wait(told)
                work = scheduler.get_current_work()
                ring.consumer_release(told)
                told.advance()
        if cutlass.const_expr(cute.size(blocks) > 1):
            cute.arch.cluster_arrive()
            cute.arch.cluster_wait()
