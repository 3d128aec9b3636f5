"""Checks of *The same in CuTe DSL*."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from phasebit.chapters.cute_dsl import constructs, cute_ptx, ptx_runs, written_ring
from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import NotAnswered, Wrong, judged
from phasebit.exercises.written import clean, compiled, running, written

CAPACITY = 232_448
"""Bytes of shared memory that a block of sm_100 may have: 227 KiB."""


@judged
def slots(answer: Callable[[int, int, int, int], int]) -> str:
    """``answer(rows, columns, depth, pieces)``: how many slots of slices fit beside the pieces.

    A slice is (rows + columns) × depth numbers of bf16, a piece of C rows × 32 numbers of f32;
    1024 bytes are kept for barriers and the address.
    """
    draw = random.Random(260)

    def cases() -> Iterator[Case]:
        yield (128, 256, 64, 2), 4
        for _ in range(60):
            rows, columns = draw.choice((64, 128)), 16 * draw.randint(1, 16)
            depth, pieces = draw.choice((32, 64, 128)), draw.randint(1, 4)
            left = CAPACITY - 1024 - pieces * rows * 32 * 4
            yield (rows, columns, depth, pieces), left // ((rows + columns) * depth * 2)

    def words(rows: int, columns: int, depth: int, pieces: int) -> str:
        return f"a tile of {rows} × {columns}, slices of {depth} and {pieces} pieces"

    return agree(answer, cases(), words, "tiles")


CLASSES = {
    ("threads", "threads"): "PipelineAsync",
    ("copy engine", "threads"): "PipelineTmaAsync",
    ("copy engine", "tensor core"): "PipelineTmaUmma",
    ("threads", "tensor core"): "PipelineAsyncUmma",
    ("tensor core", "threads"): "PipelineUmmaAsync",
}
"""Producer and consumer -> the class of the pipeline."""


@judged
def choose(answer: Callable[[str, str, int], tuple[str, int, int]]) -> str:
    """``answer(producer, consumer, warps)``: the class, and for how many arrivals each side counts.

    Threads on either side are all threads of ``warps`` warps, and each calls commit or release.
    """

    def cases() -> Iterator[Case]:
        for (producer, consumer), name in CLASSES.items():
            for warps in (1, 3, 4, 8):
                full = 32 * warps if producer == "threads" else 1
                lanes = 1 if name == "PipelineTmaAsync" else 32
                empty = lanes * warps if consumer == "threads" else 1
                yield (producer, consumer, warps), (name, full, empty)

    def words(producer: str, consumer: str, warps: int) -> str:
        return f"{producer} to {consumer}, {warps} warp{'s' * (warps > 1)}"

    return agree(answer, cases(), words, "pipelines")


SIGNALS = {
    ("mbarrier.try_wait", "mbarrier.arrive.expect_tx"): "wait, announce",
    ("mbarrier.try_wait",): "wait", ("mbarrier.arrive",): "arrive",
    ("tcgen05.commit",): "tcgen05.commit", (): "nothing",
}  # fmt: skip
"""The instructions of a call -> what the answer calls them."""


@judged
def calls(answer: Callable[[str, str], tuple[str, str, str, str]]) -> str:
    """``answer(producer, consumer)``: what acquire, commit, wait and release become."""

    def cases() -> Iterator[Case]:
        for agents, name in CLASSES.items():
            made = list(constructs.calls(name).values())[:4]
            yield agents, tuple(SIGNALS[tuple(each)] for each in made)

    return agree(answer, cases(), lambda producer, consumer: f"{producer} to {consumer}",
                 "pipelines")  # fmt: skip


@judged
def doubled(answer: str) -> str:
    """``produce`` and ``consume`` in CuTe DSL: compiled now where it is installed, else known."""
    text = written(answer, [f"def {name}(" for name in written_ring.FUNCTIONS], "ring")
    if "..." in text:
        raise NotAnswered
    try:
        whole = written_ring.whole(text)
    except SyntaxError as error:
        raise Wrong(f"this is no Python: {error}") from error
    try:
        ptx = cute_ptx.ptx(whole, written_ring.ENTRY).ptx
    except cute_ptx.NotCompiled as error:
        raise Wrong(
            "CuTe DSL is not installed here, and this text was not compiled beforehand: write it "
            "with the calls of the page, or pip install nvidia-cutlass-dsl"
        ) from error
    except Exception as error:  # whatever a compiler says of a text
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise Wrong(f"CuTe DSL does not compile it: {' '.join(lines[:2])}") from error
    for schedule in ("eager", "late", "random"):
        with running(schedule):
            made = ptx_runs.ring(written_ring.ENTRY, ptx, schedule=schedule)
        clean(made.run, schedule)
        if not made.exact:
            raise Wrong(f"{schedule}: the numbers are wrong")
    return "3 runs, no finding"


HEAD = "struct Pipeline {"
KERNEL = r"""
// Warp 0 writes rows of 32 numbers to the slots; warps 1 and 2 both read them. What is in the slots
// at last belongs to warp 0: behind the tail it writes there without asking.
template <int SLOTS>
__device__ void run(const float* x,         // (jobs, 32)
                    float* twice,           // (jobs, 32), by warp 1
                    float* thrice,          // (jobs, 32), by warp 2
                    float* last, int jobs)  // (SLOTS, 32): what warp 0 left in the slots
{
    __shared__ unsigned long long barriers[2 * SLOTS];
    __shared__ float slots[SLOTS][32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    Pipeline ring(barriers, SLOTS, 32, 64);  // 32 threads produce, 64 consume
    __syncthreads();
    if (warp == 0) {
        State at = {0, 1};  // a producer's
        for (int job = 0; job < jobs; ++job, at.advance(SLOTS)) {
            ring.acquire(at);
            slots[at.index][lane] = x[job * 32 + lane];
            ring.commit(at);
        }
        ring.tail(at);
        for (int slot = 0; slot < SLOTS; ++slot) {
            slots[slot][lane] = -1.0f - slot;
            last[slot * 32 + lane] = slots[slot][lane];
        }
    } else {
        State at = {0, 0};  // a consumer's
        float* out = warp == 1 ? twice : thrice;
        for (int job = 0; job < jobs; ++job, at.advance(SLOTS)) {
            ring.wait(at);
            const int other = 31 - lane;  // a number that another thread has written
            out[job * 32 + other] = slots[at.index][other] * (warp + 1);
            ring.release(at);
        }
    }
}

#define KERNEL(SLOTS)                                                                      \
    extern "C" __global__ void __launch_bounds__(96) ring_##SLOTS(                         \
        const float* x, float* twice, float* thrice, float* last, int jobs) {              \
        run<SLOTS>(x, twice, thrice, last, jobs);                                          \
    }
KERNEL(1)
KERNEL(2)
KERNEL(3)
"""
"""What the reader's pipeline is put into."""


@judged
def pipeline(answer: str) -> str:
    """``State`` and ``Pipeline`` in CUDA, as CuTe DSL has them, for 1, 2 and 3 slots."""
    import numpy as np

    keep = ["struct State {", HEAD, "int index, phase;"]
    module = compiled(written(answer, keep, "pipeline") + KERNEL, "ring_1", "sm_90a")
    count = 0
    for size in (1, 2, 3):
        for jobs in (1, size, 2 * size + 1):
            for schedule in ("late", "random"):
                where = f"{size} slot{'s' * (size > 1)}, {jobs} jobs"
                x = np.random.default_rng().integers(-9, 9, (jobs, 32)).astype(np.float32)
                outs: list[Any] = [np.full_like(x, np.nan), np.full_like(x, np.nan)]
                last = np.full((size, 32), np.nan, np.float32)
                with running(where):
                    run = module[f"ring_{size}"].launch(
                        1, 96, [x, *outs, last, jobs], schedule=schedule,
                        seed=random.randrange(1 << 30), max_steps=20_000,
                    )  # fmt: skip
                clean(run, where)
                left = -1.0 - np.arange(size)[:, None] * np.ones(32)
                if not all(np.array_equal(out, x * n) for out, n in zip(outs, (2, 3), strict=True)):
                    raise Wrong(f"{where}: the numbers are wrong")
                if not np.array_equal(last, left):
                    raise Wrong(f"{where}: what warp 0 left in the slots is gone")
                count += 1
    return f"{count} runs, no finding"
