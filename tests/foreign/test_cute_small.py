# mypy: ignore-errors
"""Small kernels of CuTe DSL: element by element, sums of rows, a transpose through the copy engine.

CuTe DSL is not among the book's requirements: without it these tests are skipped.  Install it
with ``pip install nvidia-cutlass-dsl``; it needs no GPU.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cutlass", reason="nvidia-cutlass-dsl is not installed: NOT asked")

import cutlass
import cutlass.cute as cute
import cutlass.memory as memory
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.runtime import make_fake_compact_tensor

from tests.foreign.cute_tools import Notes, compiled, fake, launch, tensor_map

pytestmark = pytest.mark.foreign

F32, THREADS = cutlass.Float32, 128
SCHEDULES = [("eager", 0), ("late", 0), ("random", 1)]
TARGETS = ["sm_80", "sm_90a", "sm_100a"]


class Axpy:
    """c = 2 a + b, each thread 4 rows of 4 neighbours."""

    @cute.jit
    def __call__(self, a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
        self.kernel(a, b, c).launch(grid=(8, 1, 1), block=(THREADS, 1, 1))

    @cute.kernel
    def kernel(self, a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
        thread, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        copy = cute.make_tiled_copy_tv(
            cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), F32),
            cute.make_layout((4, 32), stride=(32, 1)), cute.make_layout((4, 4), stride=(4, 1)),
        )  # fmt: skip
        mine = copy.get_slice(thread)
        in_a, in_b, in_c = (
            mine.partition_S(cute.local_tile(x, (16, 128), (block, 0))) for x in (a, b, c)
        )
        x, y = cute.make_rmem_tensor_like(in_a), cute.make_rmem_tensor_like(in_b)
        cute.copy(copy, in_a, x)
        cute.copy(copy, in_b, y)
        y.store(x.load() * 2.0 + y.load())
        cute.copy(copy, y, in_c)


class Rows:
    """The sum of each row, by shuffles and shared memory."""

    @cute.jit
    def __call__(self, a: cute.Tensor, out: cute.Tensor):
        self.kernel(a, out).launch(grid=(a.shape[0], 1, 1), block=(THREADS, 1, 1))

    @cute.kernel
    def kernel(self, a: cute.Tensor, out: cute.Tensor):
        thread, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        total = F32(0.0)
        for i in cutlass.range(thread, a.shape[1], THREADS):
            total += a[row, i]
        total = cute.arch.warp_reduction(total, lambda x, y: x + y)
        parts = memory.SmemAllocator().allocate_tensor(F32, cute.make_layout(4), 16)
        if thread % 32 == 0:
            parts[thread // 32] = total
        cute.arch.sync_threads()
        if thread == 0:
            out[row] = parts[0] + parts[1] + parts[2] + parts[3]


class Turn:
    """A transpose: tiles come by the copy engine and leave by threads."""

    def __init__(self):
        self.notes = Notes()

    @cute.jit
    def __call__(self, a: cute.Tensor, out: cute.Tensor):
        layout = cute.make_layout((32, 64), stride=(64, 1))
        load = cpasync.CopyBulkTensorTileG2SOp()
        copy, box = cpasync.make_tiled_tma_atom(load, a, layout, (32, 64))
        self.notes.box(copy, "S<0,4,3>", F32)
        grid = (cute.ceil_div(a.shape[0], 32), cute.ceil_div(a.shape[1], 64), 1)
        self.kernel(copy, box, out, layout).launch(grid=grid, block=(THREADS, 1, 1))

    @cute.kernel
    def kernel(self, copy: cute.CopyAtom, box: cute.Tensor, out: cute.Tensor,
               layout: cute.Layout):  # fmt: skip
        thread, _, _ = cute.arch.thread_idx()
        x, y, _ = cute.arch.block_idx()
        store = memory.SmemAllocator()
        tile = store.allocate_tensor(F32, layout, 128)
        full = store.allocate_array(cutlass.Int64, 1)
        if thread == 0:
            cute.arch.mbarrier_init(full, 1)
            cute.arch.mbarrier_init_fence()
        cute.arch.sync_threads()
        part = cute.local_tile(box, (32, 64), (x, y))
        to, source = cpasync.tma_partition(copy, 0, cute.make_layout(1),
                                           cute.group_modes(tile, 0, 2),
                                           cute.group_modes(part, 0, 2))  # fmt: skip
        if thread // 32 == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(full, 32 * 64 * 4)
            cute.copy(copy, source, to, tma_bar_ptr=full)
        cute.arch.mbarrier_wait(full, 0)
        for i in cutlass.range(thread, 32 * 64, THREADS):
            row, column = x * 32 + i % 32, y * 64 + i // 32
            if cute.elem_less((column, row), out.shape):
                out[column, row] = tile[i % 32, i // 32]


@pytest.mark.parametrize("target", TARGETS)
def test_element_by_element(target):
    a, b = np.random.default_rng().random((2, 128, 128), np.float32)
    c = np.zeros_like(a)
    kernel = compiled(Axpy(), [fake(F32, (128, 128))] * 3, target)
    launch(kernel, 8, THREADS, [a, b, c], ("late", 0), shared=0)
    assert np.array_equal(c, 2 * a + b)


@pytest.mark.parametrize("how", SCHEDULES, ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_sums_of_rows(target, how):
    a = np.random.default_rng().integers(-9, 10, (6, 1000)).astype(np.float32)
    out = np.full(6, np.nan, np.float32)
    sums = make_fake_compact_tensor(F32, (6,), assumed_align=16)
    kernel = compiled(Rows(), [fake(F32, (6, 1000)), sums], target)
    launch(kernel, 6, THREADS, [a, out], how, shared=16)
    assert np.array_equal(out, a.sum(axis=1))


@pytest.mark.parametrize("how", SCHEDULES, ids=str)
@pytest.mark.parametrize("target", TARGETS[1:])
def test_transposed(target, how):
    turn = Turn()
    a = np.random.default_rng().random((100, 200), np.float32)
    out = np.full((200, 100), np.nan, np.float32)
    kernel = compiled(turn, [fake(F32, (100, 200)), fake(F32, (200, 100))], target)
    box = tensor_map(turn.notes.boxes[0], a, (100, 200), "row")
    launch(kernel, (4, 4), THREADS, [box, out], how, shared=32 * 64 * 4 + 128)
    assert np.array_equal(out, a.T)
