"""Checks of *Threads, warps, blocks, multiprocessors*."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from phasebit import occupancy
from phasebit.emulator import EmulatorError, traffic
from phasebit.exercises.judge import NotAnswered, Wrong, ask, judged, same, shown, whole
from phasebit.launching.launch import Kernel
from phasebit.launching.launch import compile as compile_ptx
from phasebit.toolchain import CompileError

REVERSE = """\
// y[i] = x[n - 1 - i]; launched with blocks of 16 × 12 threads
extern "C" __global__ void reverse(const float* x, float* y, int n) {
    // yours
}
"""

ACROSS, DOWN = 16, 12  # threads of a block of the first exercise
_LOADS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
_STORES = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_"


def _compiled(answer: str, name: str) -> Kernel:
    """The kernel of that name in a reader's source."""
    if not isinstance(answer, str):
        raise Wrong("give CUDA source, as a string")
    try:
        return compile_ptx(answer, "sm_75")[name]
    except (CompileError, EmulatorError) as error:
        raise Wrong(str(error).splitlines()[0]) from error


@judged
def reverse(answer: str) -> str:
    """A kernel that writes ``n`` floats in reverse order, in blocks of 16 × 12 threads.

    Neighbouring lanes must write neighbouring words: each sector of ``y`` is stored to once.
    """
    kernel = _compiled(answer, "reverse")
    draw = np.random.default_rng()
    threads = ACROSS * DOWN
    sizes = (threads, 3 * threads, 1, 100, threads + 1, 1000)
    for n in sizes:
        x = draw.normal(size=n).astype(np.float32)
        y = np.full(n + 64, np.nan, np.float32)
        try:
            run = kernel.launch(-(-n // threads), (ACROSS, DOWN), [x, y, n])
        except EmulatorError as error:
            raise Wrong(f"for {n} floats: {str(error).splitlines()[0]}") from error
        if np.isnan(y).all():
            raise NotAnswered
        if not np.array_equal(y[:n], x[::-1]):
            bad = int(np.argmax(y[:n] != x[::-1]))
            raise Wrong(f"for {n} floats y[{bad}] is not x[{n - 1 - bad}]")
        if not np.isnan(y[n:]).all():
            raise Wrong(f"for {n} floats it writes behind the end of y")
        least = -(-4 * n // traffic.SECTOR)
        if run.counters[_STORES] > least:
            raise Wrong(
                f"for {n} floats it is right, and its stores ask for {run.counters[_STORES]} "
                f"sectors, {least} hold them all: which threads are neighbours in a warp?"
            )
    return f"{len(sizes)} arrays, each sector stored to once"


@judged
def structures(answer: Callable[[int, int], tuple[int, int]]) -> str:
    """``answer(fields, wanted)``: sectors that a warp asks for, in two layouts.

    Each of 32 lanes reads the first ``wanted`` of a particle's ``fields`` f32 numbers, one load
    for each. First with the particles one after the other, then with one array for each field.
    Arrays begin at multiples of 256 bytes.
    """
    cases = [(fields, wanted) for fields in range(1, 17) for wanted in range(1, fields + 1)]
    for fields, wanted in cases:
        apart = sum(
            len({4 * (fields * lane + field) // traffic.SECTOR for lane in range(32)})
            for field in range(wanted)
        )
        together = wanted * len({4 * lane // traffic.SECTOR for lane in range(32)})
        got = ask(answer, fields, wanted)
        if not same(got, (apart, together)):
            raise Wrong(
                f"for {wanted} of {fields} fields it is {(apart, together)}, you say {shown(got)}"
            )
    return f"{len(cases)} structures"


@judged
def most_shared(answer: Callable[[int, int, int, int], int]) -> str:
    """``answer(capability, blocks, threads, registers)``: shared bytes a block may have at most.

    So many that ``blocks`` blocks are still resident together; -1 where they never are.
    """
    draw = random.Random(40)
    cases = [(90, 2, 256, 32), (90, 32, 64, 32), (75, 4, 256, 64), (80, 2, 1024, 64)]
    for _ in range(150):
        threads = 32 * draw.randint(1, 32)
        cases.append(
            (draw.choice((75, 80, 90, 100)), draw.randint(1, 33), threads, draw.randint(16, 128))
        )
    for capability, blocks, threads, registers in cases:
        got = ask(answer, capability, blocks, threads, registers)
        where = f"{blocks} blocks of {threads} threads, {registers} registers, sm_{capability}"
        if not whole(got) or got < -1:
            raise Wrong(f"for {where} it gives {shown(got)}: give a number of bytes, or -1")
        own = occupancy.limits(capability)
        fit = [
            occupancy.occupancy(own, registers, shared, threads).blocks >= blocks
            for shared in (0, max(got, 0), got + 1)
        ]
        if got < 0 and fit[0]:
            raise Wrong(f"{where} fit, at least without shared memory")
        if got >= 0 and not fit[1]:
            raise Wrong(f"{where} do not fit with {got} bytes each")
        if got >= 0 and fit[2]:
            raise Wrong(f"{where} fit with {got + 1} bytes each too")
    return f"{len(cases)} kernels"


@judged
def swizzle(answer: Callable[[int, int], int]) -> str:
    """``answer(row, column)``: the word of a tile of 1024 words that holds that element.

    Every row and every column of the 32 × 32 elements must be free of bank conflicts.
    """
    words = np.zeros((32, 32), np.int64)
    for row in range(32):
        for column in range(32):
            got = ask(answer, row, column)
            if not whole(got) or not 0 <= got < 1024:
                raise Wrong(f"({row}, {column}) goes to {shown(got)}: give a word from 0 to 1023")
            words[row, column] = got
    if len(np.unique(words)) < 1024:
        raise Wrong("two elements go to the same word")
    for name, lines in (("row", words), ("column", words.T)):
        for number, line in enumerate(lines):
            passes, lost = traffic.bank_passes(4 * line, 4)
            if lost:
                raise Wrong(f"{name} {number} takes {passes} wavefronts")
    return "32 rows and 32 columns, one wavefront each"


PLANES = """\
// x (n, 3): red, green, blue, red, …   y (3, n): all red, all green, all blue
extern "C" __global__ void planes(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (int c = 0; c < 3; ++c) y[c * n + i] = x[3 * i + c];
}
"""
"""Three loads of 12 sectors for each warp, where three of 4 would do."""

PIXELS = 128  # threads a block, and pixels that a block has to do


@judged
def planes(answer: str) -> str:
    """A kernel like :data:`PLANES`, in blocks of 128 threads, that loads each sector once.

    Fresh random pixels in several numbers, checked bit by bit on the emulator; no race and no
    bank conflict.
    """
    kernel = _compiled(answer, "planes")
    draw = np.random.default_rng()
    sizes = (128, 256, 300, 1, 131, 640)
    for n in sizes:
        x = draw.normal(size=(n, 3)).astype(np.float32)
        y = np.full(3 * n + 64, np.nan, np.float32)
        try:
            run = kernel.launch(-(-n // PIXELS), PIXELS, [x, y, n])
        except EmulatorError as error:
            raise Wrong(f"for {n} pixels: {str(error).splitlines()[0]}") from error
        if not np.array_equal(y[: 3 * n].reshape(3, n), x.T):
            raise Wrong(f"for {n} pixels the planes are wrong")
        if not np.isnan(y[3 * n :]).all():
            raise Wrong(f"for {n} pixels it writes behind the end of y")
        if run.findings:
            raise Wrong(f"for {n} pixels: {str(run.findings[0]).splitlines()[0]}")
        least = -(-4 * 3 * n // traffic.SECTOR)
        if run.counters[_LOADS] > least:
            raise Wrong(
                f"for {n} pixels it asks for {run.counters[_LOADS]} sectors, {least} hold them all"
            )
        conflicts = sum(run.counters.get(f"{_CONFLICTS}{op}.sum", 0) for op in ("ld", "st"))
        if conflicts:
            raise Wrong(f"for {n} pixels there are {conflicts} bank conflicts")
    return f"{len(sizes)} images, each sector loaded once, no bank conflict"
