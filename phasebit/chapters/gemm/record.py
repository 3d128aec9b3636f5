"""*The anatomy of a fast GEMM*: every rung beside OpenBLAS, and what its parts cost.

All times are the processor's, of the one thread that computes: other work on the machine
disturbs them less than the time on the wall. What is compared takes turns.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from phasebit import files, measure, native, openblas, process, toolchain
from phasebit.chapters.gemm import cpu_ladder as gemm

NAME = "gemm"

GOAL = 0.9
"""Of OpenBLAS's rate, for the best rung, at each of :data:`SIZES`."""

SIZES = (1024, 2048)
REPEATS = {1024: 21, 2048: 11}
SLOW = ("naive", "interchanged", "tiled", "packed")
SLOW_REPEATS = {1024: 3, 2048: 2}
VENDOR = "OpenBLAS"
BEST = "prefetch"

SWEEP = (128, 200, 256, 384, 500, 512, 768, 1000, 1023, 1024, 1280, 1536, 2048)
PACKING = (256, 512, 1024, 2048, 4096)
DEPTHS, WIDTHS, BLOCK_N, BLOCK_REPEATS = (128, 256, 512, 1024), (128, 256, 512, 1024, 2048), 1024, 7

TILES = (
    *((14, 1), (30, 1), (31, 1), (4, 2), (6, 2), (8, 2), (12, 2), (14, 2), (15, 2), (16, 2)),
    *((6, 3), (9, 3), (10, 3), (4, 4), (6, 4), (7, 4)),
)
CHAINS = (1, 2, 4, 6, 8, 10, 12, 16, 24)  # sums that are added to at the same time
NEAR = gemm.Block(mc=4088, kc=64, nc=96)  # a block of B of 24 KiB, in L1: the control of rung d
CONTROL_N = (1000, 1024)
THREAD_N, THREAD_REPEATS = (1024, 2048), 9

TILE_DEPTH, TILE_WIDTH, TILE_ROUNDS, TILE_CALLS = 512, 512, 10, 8
PEAK_STEPS = 10_000  # as long as a call of a micro-kernel

_INSIDE = "    Vector sum[MR][kVectors] = {};\n"
_BY_ROWS = (
    "        for (int64_t r = 0; r < MR; r++)\n            for (int64_t p = 0; p < kc; p++) to"
)
_BY_COLUMNS = (
    "        for (int64_t p = 0; p < kc; p++)\n            for (int64_t r = 0; r < MR; r++) to"
)
VARIANTS: dict[str, tuple[tuple[str, str], ...]] = {
    "as it is": (),
    "B not prefetched": ((r"\n.*__builtin_prefetch\(b [^;]*;", ""),),
    "C not prefetched": ((r"\n *for \(int64_t r = 0; r < std::min<.*\n.*\n.*\n *}", ""),),
    "small pages": ((r"\n *madvise\([^;]*;", ""),),
    "new memory in each call": (
        (
            r"    float\* const panels_a",
            "    LargeBuffer buffer_a, buffer_b;\n    float* const panels_a",
        ),
    ),
    "A packed row by row": ((re.escape(_BY_COLUMNS), _BY_ROWS),),
    "C prefetched inside the micro-kernel": (
        (
            re.escape(_INSIDE),
            "    for (int i = 0; i < MR; i++) __builtin_prefetch(c + i * ldc, 1);\n" + _INSIDE,
        ),
    ),
}
"""The best rung with one thing otherwise: what is exchanged in its text."""


def record() -> dict[str, Any]:
    """Measure; prints the ratios to OpenBLAS, and returns the record."""
    kernel = native.load(f"gemm/{gemm.RUNGS['registers']}")
    block = gemm.default_block()
    names = [*gemm.RUNGS]
    products: dict[str, openblas.Product] = {name: gemm.rung(name) for name in names}
    products[VENDOR] = openblas.sgemm()
    for name, product in products.items():
        _right(name, product)
    ladder = {str(n): _ladder(n, products) for n in SIZES}
    for n, times in ladder.items():
        ratio = _ratio(times[VENDOR], times[BEST])
        verdict = "met" if ratio >= GOAL else "MISSED"
        print(f"⏱ {n}³: {ratio:.3f} of {VENDOR} on one thread; the goal of {GOAL} is {verdict}")
    variants = {name: _variant(name) for name in VARIANTS}
    changed = {name: gemm.rung(BEST, block, library) for name, (library, _) in variants.items()}
    rates, tiles = _tiles()
    return {
        "benchmark": NAME,
        **measure.cpu_facts(kernel.build),
        "protocol": {
            "time": "the processor's, of the thread that computes; what is compared takes turns, "
            "after one run of each that does not count; a call from Python is part of the time",
            "inputs": "normal random numbers, f32; every product is checked against f64 first",
            "vendor": f"{openblas.version()}, one thread, in the same process",
            "peak": "operations a second of multiply-adds on 24 sums that stay in registers (12 on "
            "narrower vectors), in turn with the tiles",
            "tiles": f"a panel of A, {TILE_DEPTH} long, times a block of B {TILE_WIDTH} wide, "
            "many times, by the clock on the wall; stack: the instructions of the inner loop that "
            "use the stack",
            "chains": "as the peak, with fewer sums, in turns",
            "controls": "rungs a and d, and d with a block of B that L1 holds; 1000 rows are no "
            "power of two apart",
            "threads": "by the clock on the wall, in turns, in another random order each",
        },
        "tile": [kernel.tile_rows(), kernel.tile_columns()],
        "block": [block.mc, block.kc, block.nc],
        "peak": rates,
        "ladder": ladder,
        "sweep": {
            str(n): _alternate(_calls(n, {k: products[k] for k in (BEST, VENDOR)}), _repeats(n))
            for n in SWEEP
        },
        "packing": {str(n): _packing(n, products["registers"]) for n in PACKING},
        "blocks": _blocks(block),
        "tiles": tiles,
        "variants": {str(n): _alternate(_calls(n, changed), REPEATS[n]) for n in SIZES},
        "stack": {name: stack for name, (_, stack) in variants.items()},
        "chains": _chains(),
        "controls": {str(n): _controls(n) for n in CONTROL_N},
        "threads": {str(n): _threads(n) for n in THREAD_N},
    }


def _right(name: str, product: openblas.Product) -> None:
    said = gemm.verify(product)
    if said != "OK":
        raise toolchain.CudaError(f"the product {name!r} is not timed, because it is {said}")


def _ratio(vendor: Sequence[float], ours: Sequence[float]) -> float:
    """How much of the vendor's rate is reached, from the medians."""
    return measure.summary(vendor).median / measure.summary(ours).median


def _matrices(n: int) -> tuple[openblas.Matrix, openblas.Matrix, openblas.Matrix]:
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal((n, n), np.float32) for _ in "ab")
    return a, b, np.zeros((n, n), np.float32)


def _calls(n: int, products: Mapping[str, openblas.Product]) -> dict[str, Callable[[], object]]:
    """Each product of the same two matrices, (n, n), to call without arguments."""
    a, b, c = _matrices(n)
    return {name: lambda p=product: p(a, b, c) for name, product in products.items()}  # type: ignore[misc]


def _alternate(
    calls: Mapping[str, Callable[[], object]],
    repeats: int,
    fewer: Mapping[str, int] | None = None,
    clock: Callable[[], int] = time.thread_time_ns,
    shuffled: random.Random | None = None,
) -> dict[str, list[float]]:
    """Seconds of each call, in turns; those in ``fewer`` have fewer turns.

    ``clock`` counts nanoseconds: of the processor, unless another is given. With ``shuffled``
    each turn has an order of its own.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    for turn in range(-1, repeats):
        if shuffled:
            shuffled.shuffle(order)
        for name in order:
            most = (fewer or {}).get(name, repeats)
            if turn >= most or (turn < 0 and most < repeats):
                continue
            begin = clock()
            calls[name]()
            seconds = (clock() - begin) * 1e-9
            if turn >= 0:
                times[name].append(seconds)
    return times


def _ladder(n: int, products: Mapping[str, openblas.Product]) -> dict[str, list[float]]:
    return _alternate(_calls(n, products), REPEATS[n], dict.fromkeys(SLOW, SLOW_REPEATS[n]))


def _repeats(n: int) -> int:
    """Enough runs for about half a second at 10¹¹ operations a second, from 7 to 60."""
    return max(5, min(60, int(0.5e11 / measure.matmul_flop(n, n, n))))


def _packing(n: int, product: openblas.Product) -> dict[str, list[float]]:
    """The whole product of rung "registers", and its packing alone."""
    a, b, c = _matrices(n)
    pack = gemm.packing()
    calls = {"whole": lambda: product(a, b, c), "packing": lambda: pack(a, b)}
    return _alternate(calls, _repeats(n))


def _blocks(model: gemm.Block) -> dict[str, list[float]]:
    """``"KC NC"`` -> times, of the best rung, for the model's block and a grid of others."""
    grid = {(kc, nc) for kc in DEPTHS for nc in WIDTHS} | {(model.kc, model.nc)}
    products = {
        f"{kc} {nc}": gemm.rung(BEST, gemm.Block(model.mc, kc, nc)) for kc, nc in sorted(grid)
    }
    return _alternate(_calls(BLOCK_N, products), BLOCK_REPEATS)


def _tiles() -> tuple[list[float], dict[str, dict[str, Any]]]:
    """Operations a second of the bare multiply-adds, and of micro-kernels beside them.

    The second is ``"ROWS VECTORS"`` -> operations, seconds, and instructions that use the stack.
    """
    rng = np.random.default_rng(8)
    works: dict[str, tuple[native.Function, Sequence[Any]]] = {}
    found: dict[str, dict[str, Any]] = {}
    for rows, vectors in TILES:
        library = native.load("gemm/tile", options=[f"-DROWS={rows}", f"-DVECTORS={vectors}"])
        columns = library.tile_columns()
        panels = max(1, TILE_WIDTH // columns)
        a = rng.standard_normal((TILE_DEPTH, rows), np.float32)
        b = rng.standard_normal((panels, TILE_DEPTH, columns), np.float32)
        c = np.zeros((rows, panels * columns), np.float32)
        library.panels(panels, TILE_DEPTH, a, b, c)
        exact = np.einsum("pr,npc->rnc", a.astype(np.float64), b).reshape(c.shape)
        if not np.allclose(c, exact, rtol=1e-3, atol=1e-3):
            raise toolchain.CudaError(f"the micro-kernel of {rows} × {vectors} vectors is wrong")

        name = f"{rows} {vectors}"
        works[name] = library.panels, (panels, TILE_DEPTH, a, b, c)
        flop = measure.matmul_flop(rows, panels * columns, TILE_DEPTH)
        found[name] = {"flop": flop, "stack": stack(library), "seconds": []}
    peak, rates, to = native.load("gemm/peak").multiply_adds, [], np.zeros(16, np.float32)
    flop = peak(PEAK_STEPS, to)
    for _ in range(TILE_ROUNDS):
        rates += [flop / seconds for seconds in peak.times((PEAK_STEPS, to), TILE_CALLS, warm=3)]
        for name, (work, given) in works.items():
            # Each call by itself, after some that bring its panels near: the least counts.
            found[name]["seconds"] += work.times(given, TILE_CALLS, warm=3)
    return rates, found


def _chains() -> dict[str, list[float]]:
    """How many sums -> operations a second of multiply-adds on so many."""
    to = np.zeros(16, np.float32)
    works = {
        str(sums): native.load("gemm/peak", options=[f"-DSUMS={sums}"]).multiply_adds
        for sums in CHAINS
    }
    rates: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(TILE_ROUNDS):
        for name, work in works.items():
            flop = work(PEAK_STEPS, to)
            rates[name] += [flop / each for each in work.times((PEAK_STEPS, to), TILE_CALLS)]
    return rates


def _controls(n: int) -> dict[str, list[float]]:
    products = {
        "naive": gemm.rung("naive"),
        "packed": gemm.rung("packed"),
        "packed, a block in L1": gemm.rung("packed", NEAR),
        "registers": gemm.rung("registers"),
    }
    return _alternate(_calls(n, products), SLOW_REPEATS[1024])


def _threads(n: int) -> dict[str, list[float]]:
    """``"THREADS LOOP"`` -> seconds on the wall, for each loop of rung e that can be divided."""
    counts = sorted({1, 2, 4, 8} & set(range(1, (os.cpu_count() or 1) + 1)))
    products = {
        f"{count} {loop}": gemm.threaded(loop, count) for count in counts for loop in gemm.LOOPS
    }
    for name, product in products.items():
        _right(name, product)
    return _alternate(
        _calls(n, products), THREAD_REPEATS, clock=time.perf_counter_ns, shuffled=random.Random(n)
    )


def _variant(name: str) -> tuple[native.Library, int | None]:
    """The best rung with one thing otherwise: (compiled and verified, see :func:`stack`)."""
    text = gemm.source(BEST)
    for header in ("gemm/panels.h", "gemm/gemm.h"):  # their text, so that it can be exchanged, too
        there = (files.kernels() / header).read_text(encoding="utf-8")
        text = text.replace(f'#include "{header}"', there.replace("#pragma once\n", ""))
    for old, new in VARIANTS[name]:
        text, count = re.subn(old, new.replace("\\", r"\\"), text)
        if not count:
            raise toolchain.CudaError(f"the variant {name!r} finds nothing to exchange: {old}")
    library = native.compile(text, name=f"{name}.cpp")
    _right(name, gemm.rung(BEST, gemm.Block(28, 64, 64), library))
    return library, stack(library)


def stack(library: native.Library) -> int | None:
    """How many instructions of the micro-kernel's inner loop read or write the stack.

    The inner loop is the innermost one with the most multiply-adds. ``None`` where the machine
    has no objdump, or the processor is not of the x86 kind.
    """
    tool = shutil.which("objdump")
    if tool is None or not library.build.flags:
        return None
    command = [tool, "-d", "--no-show-raw-insn", str(library.build.library)]
    listing = process.run(command, timeout=60).stdout
    found = re.search(r"<\w*micro\w*>:\n(.*?)(?:\n\n|\Z)", listing, re.DOTALL)
    if found is None or "fmadd" not in found[1]:
        return None
    lines = [
        (int(line.partition(":")[0], 16), line)
        for line in found[1].splitlines()
        if re.match(r" *[0-9a-f]+:", line)
    ]
    best: list[str] = []
    for at, line in lines:
        jump = re.search(r"\tj\w+ +([0-9a-f]+)", line)
        if jump and int(jump[1], 16) <= at:
            loop = [each for there, each in lines if int(jump[1], 16) <= there <= at]
            if _multiply_adds(loop) > _multiply_adds(best):
                best = loop
    return sum("(%rsp" in line for line in best)


def _multiply_adds(lines: Sequence[str]) -> int:
    return sum("fmadd" in line for line in lines)
