# mypy: ignore-errors
"""y = 2 x through two slots, by participants: the frame of an exercise, and its solution."""

import cutlass
import cutlass.cute as cute
import cutlass.memory as memory
import cutlass.pipeline as pipeline

F32 = cutlass.Float32
SLOTS = 2
WARP = pipeline.CooperativeGroup(pipeline.Agent.Thread, 32)


@cute.jit
def produce(x, slots, lane, writer):
    for job in cutlass.range(x.shape[0], unroll=1):
        slot = writer.acquire_and_advance()
        slots[lane, slot.index] = x[job, lane]
        slot.commit()
    writer.tail()


@cute.jit
def consume(y, slots, lane, reader):
    for job in cutlass.range(y.shape[0], unroll=1):
        slot = reader.wait_and_advance()
        y[job, lane] = 2 * slots[31 - lane, slot.index]
        slot.release()


@cute.kernel
def doubled_kernel(x: cute.Tensor, y: cute.Tensor):
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    lane = cute.arch.lane_idx()
    shared = memory.SmemAllocator()
    barriers = shared.allocate_array(cutlass.Int64, 2 * SLOTS)
    slots = shared.allocate_tensor(F32, cute.make_layout((32, SLOTS)), 128)
    writer, reader = pipeline.PipelineAsync.create(
        num_stages=SLOTS, producer_group=WARP, consumer_group=WARP, barrier_storage=barriers
    ).make_participants()
    if warp == 0:
        produce(x, slots, lane, writer)
    if warp == 1:
        consume(y, slots, lane, reader)


@cute.jit
def doubled(x: cute.Tensor, y: cute.Tensor):
    """y = 2 x, each row from right to left; both (rows, 32)."""
    doubled_kernel(x, y).launch(grid=(1, 1, 1), block=(64, 1, 1))
