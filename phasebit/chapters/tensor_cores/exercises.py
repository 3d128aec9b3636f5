"""Checks of *Tensor cores without Hopper*, and its kernels on the emulator."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from phasebit.emulator import Schedule
from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import Wrong, judged

if TYPE_CHECKING:
    from phasebit.emulator import Run

Shape = tuple[int, int, int]

PRODUCT = """\
// A warp multiplies: C (16, 64) = A (16, 64) · B (64, 64), f16 into f32, all by rows.
#include "ptx.cuh"

// Where chunk `chunk` of row `row` begins, in a tile with rows of 64 elements.
__device__ int place(int row, int chunk) { return row * 64 + (chunk ^ row % 8) * 8; }

__global__ void __launch_bounds__(32) product(const __half* A, const __half* B, float* C) {
    __shared__ alignas(128) __half a[16 * 64], b[64 * 64];
    const int lane = threadIdx.x;
    for (int i = lane; i < 16 * 64; i += 32) a[place(i / 64, i % 64 / 8) + i % 8] = A[i];
    for (int i = lane; i < 64 * 64; i += 32) b[place(i / 64, i % 64 / 8) + i % 8] = B[i];
    __syncwarp();
    float c[8][4] = {};  // the sums of eight pieces of 16 × 8
    // yours: steps of 16 along K, ptx::ldmatrix_x4, ptx::ldmatrix_x4_trans, ptx::mma_16x8x16
}
"""
"""What the reader's product of one warp begins with."""

LOADS = 4 * (1 + 4) * 4
"""Wavefronts of the product's shared loads at best: steps, x4 loads of A and B, four each."""


def rasterise(number: int, rows: int, cols: int, height: int) -> tuple[int, int]:
    """Row and column of block ``number``, as in ``gemm.cuh``: super-rows, column by column.

    >>> [rasterise(n, rows=3, cols=2, height=2) for n in range(6)]
    [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]
    """
    first = number // (height * cols) * height
    tall = min(rows - first, height)
    within = number % (height * cols)
    return first + within % tall, within // tall


def emulate(
    kernel: str, shape: Shape, grid: int | Sequence[int], block: int, *, shared: int = 0,
    arguments: Sequence[int] = (), schedule: Schedule = "late", arch: str | None = None,
) -> tuple[Run, bool]:  # fmt: skip
    """Run an instance of a kernel of *Tensor cores without Hopper*, f16 into f32, on whole numbers.

    ``kernel`` is what stands between ``void`` and the parameters, ``shape`` M, N and K;
    ``arguments`` follow the matrices. Returns the run and whether the product is exact.
    """
    import numpy as np

    from phasebit.launching import launch

    extra = "".join(", int" for _ in arguments)
    module = launch.compile(
        '#include "tensor_cores/ring_alone.cuh"\n#include "tensor_cores/naive.cuh"\n'
        "using In = __half;\nusing Out = float;\n"
        f"template __global__ void {kernel}(Gemm<In, Out>{extra});\n",
        arch,
    )
    m, n, k = shape
    draw, memory = np.random.default_rng(14), module.memory
    matrices = [draw.integers(-4, 5, size).astype(np.float32) for size in ((m, k), (k, n))]
    addresses = []
    for name, matrix in zip("AB", matrices, strict=True):
        halves = matrix.astype(np.float16)  # exact: whole and small
        allocation = memory.allocate(halves.nbytes, name)
        memory.bytes(allocation)[:] = halves.view(np.uint8).ravel()
        addresses.append(allocation.address)
    result = memory.allocate(4 * m * n, "C")
    memory.bytes(result)[:] = 0xFF  # NaN
    fields = [*((name, "u8") for name in "ABC"),
              *((name, "i4") for name in ("M", "N", "K", "lda", "ldb", "ldc")),
              ("alpha", "f4"), ("beta", "f4")]  # fmt: skip
    product = np.array((*addresses, result.address, m, n, k, k, n, n, 1, 0), fields)[()]
    (name,) = module.kernels
    run = module[name].launch(grid, block, [product, *arguments], shared=shared, schedule=schedule)
    got = memory.bytes(result).view(np.float32).reshape(m, n)
    return run, bool(np.array_equal(got, matrices[0] @ matrices[1]))


@judged
def lane_of(answer: Callable[[int, int], tuple[int, int]]) -> str:
    """``answer(row, column)`` of C (16, 8): the lane that holds it, and the number 0 to 3."""
    from phasebit.emulator import fragments

    held = fragments.accumulator(16, 8)
    where = {
        (int(held.row[lane, i]), int(held.column[lane, i])): (lane, i)
        for lane in range(32)
        for i in range(4)
    }
    cases: list[Case] = list(where.items())
    random.Random(14).shuffle(cases)
    return agree(answer, cases, lambda row, col: f"row {row}, column {col}", "elements")


@judged
def warp_product(answer: str) -> str:
    """The product of one warp: exact on whole numbers, no findings, no conflicts, no load twice."""
    import numpy as np

    from phasebit import toolchain
    from phasebit.emulator import EmulatorError
    from phasebit.launching import launch

    if not isinstance(answer, str):
        raise Wrong("give the whole text of the kernel, as a string")
    if answer.strip() == PRODUCT.strip():
        raise Wrong("the kernel computes nothing yet")
    draw = np.random.default_rng()
    try:
        kernel = launch.compile(answer)["product"]
        for schedule in ("late", "eager", "random"):
            a, b = (draw.integers(-4, 5, size).astype(np.float16) for size in ((16, 64), (64, 64)))
            c = np.full((16, 64), np.nan, np.float32)
            run = kernel.launch(1, 32, [a, b, c], schedule=schedule, device="emulator")
            wrong = c != a.astype(np.float32) @ b.astype(np.float32)
            if wrong.any():
                row, column = (int(each[0]) for each in np.nonzero(wrong))
                raise Wrong(
                    f"{wrong.sum()} of {c.size} elements are wrong, the first is ({row}, {column})"
                )
            if run.findings:
                raise Wrong(f"the product is right, but: {run.findings[0].message}")
    except (toolchain.CudaError, EmulatorError) as error:
        raise Wrong(str(error)) from error
    pipe = "l1tex__data_{}_mem_shared_op_ld.sum"
    conflicts = run.counters.get(pipe.format("bank_conflicts_pipe_lsu"), 0)
    wavefronts = run.counters.get(pipe.format("pipe_lsu_wavefronts"), 0)
    if not wavefronts:
        raise Wrong("the product is right, but nothing is loaded from shared memory")
    if conflicts:
        raise Wrong(f"the product is right, but the loads have {conflicts} bank conflicts")
    if wavefronts > LOADS:
        raise Wrong(f"the product is right, but it takes {wavefronts} wavefronts; {LOADS} will do")
    return f"3 products, {wavefronts} wavefronts, no conflict"


@judged
def slots(answer: Callable[[int, int, int, int], int]) -> str:
    """``answer(bm, bn, bk, kib)``: how many slots of 16-bit tiles fit in so much shared memory."""
    draw = random.Random(15)

    def cases() -> Iterator[Case]:
        yield (128, 256, 64, 227), 4
        yield (128, 256, 64, 163), 3
        for _ in range(60):
            bm, bn = draw.choice((32, 64, 128, 256)), draw.choice((64, 128, 256))
            bk, kib = draw.choice((16, 32, 64)), draw.choice((48, 64, 99, 100, 163, 227))
            yield (bm, bn, bk, kib), kib * 1024 // ((bm + bn) * bk * 2)

    def words(bm: int, bn: int, bk: int, kib: int) -> str:
        return f"tiles of {bm} × {bk} and {bk} × {bn} in {kib} KiB"

    return agree(answer, cases(), words, "sizes")


@judged
def best_height(answer: Callable[[int, int, int, int, int], int]) -> str:
    """``answer(concurrent, rows, cols, bm, bn)``: the height of super-rows with the least traffic.

    Traffic is what the first ``concurrent`` blocks of a grid of rows × cols read in one step
    along K when each tile is read once: bm for each row of blocks, bn for each column. Of heights
    that are equally good, the least.
    """
    draw = random.Random(16)

    def cases() -> Iterator[Case]:
        yield (132, 64, 32, 128, 256), _best(132, 64, 32, 128, 256)
        for _ in range(40):
            rows, cols = draw.randint(2, 40), draw.randint(2, 40)
            bm, bn = draw.choice((64, 128, 256)), draw.choice((64, 128, 256))
            given = (draw.randint(2, min(200, rows * cols)), rows, cols, bm, bn)
            yield given, _best(*given)

    def words(concurrent: int, rows: int, cols: int, bm: int, bn: int) -> str:
        return f"{concurrent} of {rows} × {cols} blocks of {bm} × {bn}"

    return agree(answer, cases(), words, "grids")


def _best(concurrent: int, rows: int, cols: int, bm: int, bn: int) -> int:
    def traffic(height: int) -> int:
        return wave_traffic(concurrent, rows, cols, bm, bn, height)

    return min(range(1, rows + 1), key=traffic)


def wave_traffic(concurrent: int, rows: int, cols: int, bm: int, bn: int, height: int) -> int:
    """Rows of A and columns of B that the first ``concurrent`` blocks need, each counted once."""
    blocks = [rasterise(number, rows, cols, height) for number in range(concurrent)]
    return bm * len({row for row, _ in blocks}) + bn * len({col for _, col in blocks})
