"""Checks of *Layouts*, and the warp tile of *Tiling on the GPU* as the emulator sees it run."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from tensor_layouts import Layout, Swizzle, compose

from phasebit import files, measure, toolchain
from phasebit.chapters.layouts import packed_tables
from phasebit.chapters.layouts import view as layouts
from phasebit.chapters.layouts.layouts_interleaved import ANEW, COPY, PACKED
from phasebit.emulator import EmulatorError, fragments
from phasebit.exercises.judge import NotAnswered, Wrong, ask, judged, shown, whole
from phasebit.launching.launch import compile as compile_cuda

CHUNK = 16
"""Bytes that a lane of a swizzled tile moves."""


def holders(kernel: str, instance: str) -> Any:
    """Which thread of a block stores each element of C: an array (128, 128).

    ``kernel`` is a rung of *Tiling on the GPU*, ``instance`` what stands between ``void`` and its
    parameters. It is run on the emulator, one block with K = 8, and every store is looked at.
    """
    text = files.kernel(kernel) + f"template __global__ void {instance}(Product);\n"
    module = compile_cuda("#define OWN_MAIN\n" + text, "sm_75")
    name = next(each for each in module.kernels if "ILb1E" in each)
    size = {"A": 128 * 8, "B": 8 * 128, "C": 128 * 128}
    room = [module.memory.allocate(4 * floats, array) for array, floats in size.items()]
    for allocation in room:
        module.memory.bytes(allocation)[:] = 0
    fields = [*((array, "u8") for array in size),
              *((size, "i4") for size in ("M", "N", "K", "lda", "ldb", "ldc")),
              ("alpha", "f4"), ("beta", "f4")]  # fmt: skip
    product = np.array((*(each.address for each in room), 128, 128, 8, 8, 128, 128, 1, 0), fields)
    run = module[name].launch(1, 256, [product[()]], accesses=True)
    found = np.full(128 * 128, -1)
    for access in run.accesses:
        if access.space == "global" and access.op == "store":
            for lane in access.lanes:
                first = int(access.addresses[lane]) // 4
                found[first : first + access.size // 4] = access.warp * 32 + lane
    return found.reshape(128, 128)


def transposed_through(layout: Any) -> str:
    """How many addresses of chapter *Threads and memory*'s padded transpose a layout names.

    ``layout``: (row, column) of its tile of 32 × 32 floats to an offset in floats. The kernel is
    run on the emulator; every lane of every store and load in shared memory is looked at.
    """
    kernel = files.kernels() / "threads_and_memory/transpose.cu"
    matrix, out = np.ones((32, 32), np.float32), np.zeros((32, 32), np.float32)
    run = compile_cuda(kernel, "sm_75")["padded"].launch(
        1, (32, 8), [matrix, out, 32, 32], accesses=True
    )
    agree, every = 0, 0
    seen: dict[tuple[str, int], int] = {}
    for access in (each for each in run.accesses if each.space == "shared"):
        number = seen[access.op, access.warp] = seen.get((access.op, access.warp), -1) + 1
        line = access.warp + 8 * number  # each of the 8 warps takes every eighth row, or column
        for lane in range(32):
            at = (line, lane) if access.op == "store" else (lane, line)
            agree += bool(access.addresses[lane] == 4 * layout(*at))
            every += 1
    return f"{agree:,} of {every:,} addresses as the layout says"


def _layout(given: Any, shape: tuple[int, ...]) -> list[int]:
    """All offsets of an answer, in the order of its coordinates; column after column."""
    try:
        table = layouts.table(given) if len(shape) == 2 else None
        extent = (len(table), len(table[0])) if table else (len(given),)
        values = [int(given(i)) for i in range(len(given))]
    except Exception as error:
        raise Wrong(f"{shown(given)} is no layout of {shape}: {error}") from error
    if extent != shape:
        raise Wrong(f"{shown(given)} has the extent {extent}: it should be {shape}")
    return values


@judged
def packed(answer: Callable[[int, int, int, int], Any]) -> str:
    """``answer(rows, cols, tile_rows, tile_cols)``: a matrix stored tile after tile.

    Tiles follow each other row by row, and so do the elements of each; sizes are whole tiles.
    """
    draw = random.Random(101)
    for _ in range(30):
        high, wide, down, across = (draw.randint(1, 5) for _ in range(4))
        rows, cols = high * down, wide * across
        got = _layout(ask(answer, rows, cols, high, wide), (rows, cols))
        for i, offset in enumerate(got):
            row, col = i % rows, i // rows
            tile = row // high * across + col // wide
            right = tile * high * wide + row % high * wide + col % wide
            if offset != right:
                raise Wrong(
                    f"for {rows} × {cols} in tiles of {high} × {wide} element ({row}, {col}) is "
                    f"at {right}, not {offset}"
                )
    return "30 matrices, every element"


@judged
def held(answer: Callable[[], Any]) -> str:
    """``answer()``: B of ``mma.sync``, 16 × 8, as (lane, value) to ``row + 16 · column``."""
    got = _layout(ask(answer), (32, 4))
    table = fragments.operand_b(8, 16, 2)
    for i, offset in enumerate(got):
        value, lane = divmod(i, 32)
        right = int(table.row[lane, value]) + 16 * int(table.column[lane, value])
        if offset != right:
            raise Wrong(
                f"value {value} of lane {lane} is row {right % 16} of column {right // 16}, at "
                f"{right}, not {offset}"
            )
    return "128 elements, as the emulator has them"


@judged
def swizzle(answer: Callable[[int], tuple[int, int, int]]) -> str:
    """``answer(row_bytes)``: bits, base and shift of a swizzle of byte offsets.

    Rows of 32 to 1024 bytes, a power of two. No chunk may leave its row. One wavefront each
    for any eight rows from a multiple of eight on, at any chunk of 16 bytes; and for any whole
    line of 128 bytes.
    """
    for row_bytes in (32, 64, 128, 256, 512, 1024):
        got = ask(answer, row_bytes)
        if (
            not isinstance(got, (tuple, list))
            or len(got) != 3
            or not all(whole(each) and each >= 0 for each in got)
        ):
            raise Wrong(f"for rows of {row_bytes} bytes give three whole numbers, not {shown(got)}")
        bits, base, shift = map(int, got)
        problem = why_not(bits, base, shift, row_bytes)
        if problem:
            raise Wrong(f"for rows of {row_bytes} bytes: {problem}")
    return "rows of 32 to 1024 bytes, every chunk of 64 rows"


def why_not(bits: int, base: int, shift: int, row_bytes: int) -> str:
    """What is wrong with a swizzle for a tile of 64 rows, or nothing; see :func:`swizzle`."""
    chunks = row_bytes // CHUNK
    try:
        places = layouts.table(
            compose(Swizzle(bits, base, shift), Layout((64, chunks), (row_bytes, CHUNK)))
        )
    except Exception as error:
        return f"Swizzle({bits}, {base}, {shift}) is none: {error}"
    every = {place for line in places for place in line}
    if len(every) != 64 * chunks or max(every) >= 64 * row_bytes:
        return "two chunks have one place, or one leaves the tile"
    if any(place // row_bytes != row for row, line in enumerate(places) for place in line):
        return "a chunk leaves its row"
    if any(place % CHUNK for place in every):
        return "a chunk no longer begins at a multiple of 16 bytes"
    for first in range(0, 64, 8):
        for chunk in range(chunks):
            column = [places[row][chunk] for row in range(first, first + 8)]
            waves = layouts.wavefronts(column, CHUNK)
            if waves > 1:
                return f"chunk {chunk} of rows {first} to {first + 7} takes {waves} wavefronts"
    in_order = [place for line in places for place in line]
    for line in range(0, len(in_order), 8):
        waves = layouts.wavefronts(in_order[line : line + 8], CHUNK)
        if waves > 1:
            return f"eight neighbours, from chunk {line} on, take {waves} wavefronts"
    return ""


@judged
def pays(answer: Callable[[float, float, float], int]) -> str:
    """``answer(in_place, from_tiles, copy)``: from how many products on packing A once pays.

    Times in µs, of one product and of the copy. The least number with which the copy and all
    products from tiles take less than all products in place; 0 where no number does.
    """
    took_all = packed_tables.interleaved(measure.read("layouts_interleaved"))
    cases = {f"{s} interleaved, N = {n}": (took[ANEW], took[PACKED] - took[COPY], took[COPY])
             for (s, n), took in took_all.items()}  # fmt: skip
    draw = random.Random(10)
    for even in range(1, 20):  # products with which it breaks even
        place, gain = draw.randint(50, 90), draw.randint(1, 9)
        cases[f"invented times, {even}"] = (float(place), float(place - gain), float(gain * even))
    cases |= {"tiles as slow as in place": (50.0, 50.0, 10.0), "slower": (50.0, 60.0, 10.0)}
    told: dict[str, int] = {}
    for name, (in_place, from_tiles, copy) in cases.items():
        given = ask(answer, in_place, from_tiles, copy)
        each = in_place - from_tiles
        right = int(copy // each) + 1 if each > 0 else 0
        if not whole(given) or given != right:
            raise Wrong(
                f"{name}: in place {in_place:.1f} µs, from tiles {from_tiles:.1f}, copy {copy:.1f}:"
                f" {f'it pays from {right} products on' if right else 'it never pays'}, "
                f"not {shown(given)}"
            )
        told[name] = right
    dense = [told[f"1 interleaved, N = {n}"] for s, n in took_all if s == 1]
    never = [name for name in list(told)[: len(took_all)] if not told[name]]
    return (
        f"{len(took_all)} measured cases: a dense A from {min(dense)} to {max(dense)} products on; "
        f"never: {'; '.join(never)}"
    )


_GLOBAL = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum"
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"


def _ran(code: str, name: str, threads: tuple[int, int], arrays: list[Any]) -> Any:
    """The module of a reader's CUDA code, and a run of one block of its kernel ``name``."""
    if not isinstance(code, str):
        raise Wrong("give the CUDA code as a text")
    if not code.strip() or "// ..." in code:
        raise NotAnswered
    try:
        module = compile_cuda(f"{code}\n", "sm_75")
    except toolchain.CudaError as error:
        raise Wrong(f"it does not compile: {str(error).splitlines()[0]}") from error
    if name not in module.kernels:
        raise Wrong(f'no kernel is called {name}: leave extern "C" before it')
    try:
        run = module[name].launch(1, threads, arrays, accesses=True)
    except EmulatorError as error:
        raise Wrong(f"it stops: {str(error).splitlines()[0]}") from error
    if run.findings:
        raise Wrong(str(run.findings[0]))
    return module, run


def _whole_and_free(run: Any, least: int, what: str) -> None:
    """Whether loads and stores ask for ``least`` sectors each, and meet no bank conflict."""
    for op, word in (("ld", "loads"), ("st", "stores")):
        if (sectors := run.counters.get(_GLOBAL.format(op), 0)) > least:
            raise Wrong(f"it is right, but its {word} ask for {sectors} sectors of global memory: "
                        f"{least} hold {what}")  # fmt: skip
        if conflicts := run.counters.get(_CONFLICTS.format(op), 0):
            raise Wrong(f"it is right, with {conflicts} bank conflicts of its {word}")


@judged
def no_gap(code: str) -> str:
    """``code``: a kernel ``transpose(const float* in, float* out)``, ``extern "C"``.

    One block of 32 × 8 threads transposes 32 × 32 floats through shared memory: 4096 bytes of it
    and no more, no bank conflict, and whole sectors on both sides. It is run on the emulator.
    """
    matrix = np.random.default_rng().standard_normal((32, 32), np.float32)
    out = np.full((32, 32), np.nan, np.float32)
    module, run = _ran(code, "transpose", (32, 8), [matrix, out])
    bad = out != matrix.T
    if bad.any():
        row, col = (int(each[0]) for each in np.nonzero(bad))
        raise Wrong(f"{int(bad.sum())} elements are wrong, the first is ({row}, {col})")
    if not any(access.space == "shared" for access in run.accesses):
        raise Wrong("it is right, and goes past shared memory: copy through a tile there")
    held = sum(map(int, re.findall(r"\.shared [^;]*\[(\d+)\];", module.ptx)))
    if held > 4096:
        raise Wrong(f"it is right, with {held} bytes of shared memory: the tile has 4096")
    _whole_and_free(run, 128, "the matrix")
    return "1024 elements, 4096 bytes, no conflict"


@judged
def taken_apart(code: str) -> str:
    """``code``: a kernel ``pack(const float* in, float* out)``, ``extern "C"``.

    One block of 256 threads packs four interleaved matrices of 64 × 16 floats: element (m, k) of
    matrix z goes from ``64 m + 4 k + z`` to ``1024 z + 64 k + m``. Whole sectors on both sides, no
    bank conflict. It is run on the emulator.
    """
    together = np.random.default_rng().standard_normal((64, 16, 4), np.float32)
    out = np.full((4, 16, 64), np.nan, np.float32)
    _, run = _ran(code, "pack", (256, 1), [together, out])
    bad = out != together.transpose(2, 1, 0)
    if bad.any():
        z, k, m = (int(each[0]) for each in np.nonzero(bad))
        raise Wrong(f"{int(bad.sum())} elements are wrong, the first is ({m}, {k}) of matrix {z}")
    _whole_and_free(run, 512, "the matrices")
    return "4096 elements, whole sectors, no conflict"
