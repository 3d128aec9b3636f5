"""Checks of *Tensor cores without Hopper*, and its kernels on the emulator."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from phasebit import files
from phasebit.edits import replace_once
from phasebit.emulator import Schedule
from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import NotAnswered, Wrong, judged

if TYPE_CHECKING:
    from phasebit.emulator import Run

Shape = tuple[int, int, int]

_PLACE = """\
__device__ int place(int row, int chunk) { return row * 64 + (chunk ^ row % 8) * 8; }
"""

_LOADED = """\
__global__ void __launch_bounds__(32) product(const __half* A, const __half* B, float* C) {
    __shared__ alignas(128) __half a[16 * 64], b[@ * 64];
    const int lane = threadIdx.x;
    for (int i = lane; i < 16 * 64; i += 32) a[place(i / 64, i % 64 / 8) + i % 8] = A[i];
    for (int i = lane; i < @ * 64; i += 32) b[place(i / 64, i % 64 / 8) + i % 8] = B[i];
    __syncwarp();
"""
"""How a warp brings A and B into shared memory; @: rows of B's tile there."""

PRODUCT = f"""\
// A warp multiplies: C (16, 64) = A (16, 64) · B (64, 64), f16 into f32, all by rows.
#include "ptx.cuh"

// Where chunk `chunk` of row `row` begins, in a tile with rows of 64 elements.
{_PLACE}
{_LOADED.replace('@', '64')}    float c[8][4] = {{}};  // the sums of eight pieces of 16 × 8
    // yours: steps of 16 along K, ptx::ldmatrix_x4, ptx::ldmatrix_x4_trans, ptx::mma_16x8x16
}}
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
    from phasebit.launching import launch

    extra = "".join(", int" for _ in arguments)
    module = launch.compile(
        '#include "tensor_cores/ring_alone.cuh"\n#include "tensor_cores/naive.cuh"\n'
        "using In = __half;\nusing Out = float;\n"
        f"template __global__ void {kernel}(Gemm<In, Out>{extra});\n",
        arch,
    )
    (name,) = module.kernels
    return _played(module, name, shape, grid, block, shared, arguments, schedule)


def _played(
    module: Any, name: str, shape: Shape, grid: int | Sequence[int], block: int, shared: int,
    arguments: Sequence[int], schedule: Schedule, accesses: bool = False,
) -> tuple[Run, bool]:  # fmt: skip
    """Run a kernel of a module that takes a ``Gemm`` first; and whether the product is exact."""
    import numpy as np

    m, n, k = shape
    draw, memory = np.random.default_rng(14), module.memory
    matrices = [draw.integers(-4, 5, size).astype(np.float32) for size in ((m, k), (k, n))]
    addresses = []
    for matrix, called in zip(matrices, "AB", strict=True):
        halves = matrix.astype(np.float16)  # exact: whole and small
        allocation = memory.allocate(halves.nbytes, called)
        memory.bytes(allocation)[:] = halves.view(np.uint8).ravel()
        addresses.append(allocation.address)
    result = memory.allocate(4 * m * n, "C")
    memory.bytes(result)[:] = 0xFF  # NaN
    fields = [*((called, "u8") for called in "ABC"),
              *((called, "i4") for called in ("M", "N", "K", "lda", "ldb", "ldc")),
              ("alpha", "f4"), ("beta", "f4")]  # fmt: skip
    product = np.array((*addresses, result.address, m, n, k, k, n, n, 1, 0), fields)[()]
    run = module[name].launch(
        grid, block, [product, *arguments], shared=shared, schedule=schedule, accesses=accesses
    )
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
def load_b(code: str) -> str:
    """``code``: CUDA C++ that fills B's fragments of two steps from a tile of B by columns.

    It defines ``void load_b(unsigned (&b)[2][2], const __half* tile, int step)``. A warp
    multiplies with it: exact on whole numbers, no findings, no conflicts, one load a call.
    """
    if not isinstance(code, str):
        raise Wrong("give the CUDA code as a string")
    if not code.strip() or "...;" in code:
        raise NotAnswered
    counters = _multiplied(_BY_COLUMNS.replace("@", code), 8, by_columns=True)
    loads = counters.get("smsp__sass_inst_executed_op_ldsm.sum", 0) - 4  # those of A
    if loads != 2:
        raise Wrong(f"the product is right, but two calls execute {loads} ldmatrix; 2 will do")
    return f"3 products, {loads} ldmatrix for four steps of B, no conflict"


_BY_COLUMNS = f"""\
#include "ptx.cuh"
{_PLACE}@
{_LOADED.replace('@', '8')}    float c[4] = {{}};
    for (int step = 0; step < 4; ++step) {{
        unsigned f[4], g[2][2];
        ptx::ldmatrix_x4(f[0], f[1], f[2], f[3], a + place(lane % 16, 2 * step + lane / 16));
        if (step % 2 == 0) load_b(g, b, step);
        ptx::mma_16x8x16(c, f, g[step % 2], __half());
    }}
    for (int i = 0; i < 4; ++i) C[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = c[i];
}}
"""


@judged
def loop(code: str) -> str:
    """``code``: the ring's loop, in CUDA C++, with one set of fragments.

    It stands in the kernel of ``gemm.cuh``, with two slots and with four: exact on whole numbers,
    no findings, and the copies of a tile are started while an earlier one is being multiplied.
    """
    if not isinstance(code, str):
        raise Wrong("give the CUDA code as a string")
    if not code.strip() or "...;" in code:
        raise NotAnswered
    from phasebit import toolchain
    from phasebit.emulator import EmulatorError
    from phasebit.launching import launch

    tiles = 5
    try:
        module = launch.compile(_with_loop(code))
        for name in module.kernels:
            slots = int(re.search(r"Li64ELi64ELi64ELi32ELi32EELi(\d)", name)[1])  # type: ignore[index]
            for schedule in ("late", "eager", "random"):
                run, right = _played(
                    module, name, (64, 64, 64 * tiles), 1, 128, slots * 16384, [1], schedule, True
                )
                if not right:
                    raise Wrong(f"with {slots} slots the product is wrong")
                if run.findings:
                    raise Wrong(f"with {slots} slots: {run.findings[0].message}")
                _started_early(run, slots, tiles)
    except (toolchain.CudaError, EmulatorError) as error:
        raise Wrong(str(error)) from error
    return "2 and 4 slots, three schedules"


def _with_loop(code: str) -> str:
    """``gemm.cuh`` with another loop; thread 0 stores into its part of C when a tile is filled."""
    text = (files.kernels() / "tensor_cores/gemm.cuh").read_text(encoding="utf-8")
    text = text[: text.index("// What the address, length")].replace("#pragma once\n", "")
    text = replace_once(text, "    wait();\n    load(0, 0);\n", "    wait();\n")
    before, _, rest = text.partition("    int full = 0")
    text = before + code + rest[rest.index("    // The last copies") :]
    text = replace_once(
        text, "        if (part < PARTS - 1) return;\n",
        "        if (part < PARTS - 1) return;\n"
        "        if (threadIdx.x == 0) *static_cast<volatile Out*>(g.C) = slot;\n",
    )  # fmt: skip
    made = "".join(
        f"template __global__ void gemm<Tiling<64, 64, 64, 32, 32>, {slots}, 16, __half, float>"
        "(Gemm<__half, float>, int);\n" for slots in (2, 4)
    )  # fmt: skip
    return text + made


def _started_early(run: Run, slots: int, tiles: int) -> None:
    """:class:`Wrong` where a tile's copies are started after the loads of the tile before."""
    loads, filled = 0, 1 - slots  # fragments loaded by warp 0; tiles started in the loop
    for access in run.accesses:
        if access.warp:
            continue
        if access.space == "shared":
            loads += 1
        elif access.size == 4:
            filled += 1
            if 0 < filled <= tiles and loads >= 16 * filled:  # 4 steps of 4 loads a tile
                raise Wrong(
                    "the product is right, but the copies start when the tile is multiplied: "
                    "they run beside nothing"
                )
    if filled < tiles:
        raise Wrong(f"the product is right, but {filled} of {tiles} tiles are started in the loop")


@judged
def warp_product(answer: str) -> str:
    """The product of one warp: exact on whole numbers, no findings, no conflicts, no load twice."""
    if not isinstance(answer, str):
        raise Wrong("give the whole text of the kernel, as a string")
    if answer.strip() == PRODUCT.strip():
        raise Wrong("the kernel computes nothing yet")
    wavefronts = _multiplied(answer, 64).get(_WAVEFRONTS, 0)
    if wavefronts > LOADS:
        raise Wrong(f"the product is right, but it takes {wavefronts} wavefronts; {LOADS} will do")
    return f"3 products, {wavefronts} wavefronts, no conflict"


_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"


def _multiplied(text: str, columns: int, *, by_columns: bool = False) -> Mapping[str, int]:
    """The counters of ``product``, C (16, columns) = A (16, 64) · B, when it is right.

    Three schedules, whole numbers drawn anew; :class:`Wrong` where it is not exact, has findings,
    loads nothing from shared memory, or has bank conflicts in its loads.
    """
    import numpy as np

    from phasebit import toolchain
    from phasebit.emulator import EmulatorError
    from phasebit.launching import launch

    draw = np.random.default_rng()
    try:
        kernel = launch.compile(text)["product"]
        for schedule in ("late", "eager", "random"):
            a, b = (draw.integers(-4, 5, size).astype(np.float16)
                    for size in ((16, 64), (64, columns)))  # fmt: skip
            c = np.full((16, columns), np.nan, np.float32)
            given = np.ascontiguousarray(b.T) if by_columns else b
            run = kernel.launch(1, 32, [a, given, c], schedule=schedule, device="emulator")
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
    if not run.counters.get(_WAVEFRONTS, 0):
        raise Wrong("the product is right, but nothing is loaded from shared memory")
    if conflicts := run.counters.get(_CONFLICTS, 0):
        raise Wrong(f"the product is right, but the loads have {conflicts} bank conflicts")
    return run.counters


def wave_traffic(concurrent: int, rows: int, cols: int, bm: int, bn: int, height: int) -> int:
    """Rows of A and columns of B that the first ``concurrent`` blocks need, each counted once."""
    blocks = [rasterise(number, rows, cols, height) for number in range(concurrent)]
    return bm * len({row for row, _ in blocks}) + bn * len({col for _, col in blocks})
