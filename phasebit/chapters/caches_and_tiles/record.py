"""*Caches and tiles*: loop orders and block sizes on this processor, and cachegrind's word.

The product of two square matrices of f32 in the six orders of its loops, and in blocks of many
sizes with two leading dimensions; the simulator's misses beside those of valgrind's cachegrind.
"""

from __future__ import annotations

import itertools
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from phasebit import caches, files, measure, native, nests, openblas, process, toolchain
from phasebit.nests.compiled import AS_WRITTEN, FREELY, NO_EXCHANGE, NO_JAM, NO_VECTORS

NAME = "caches_and_tiles"

ORDER_N, ORDER_REPEATS = 512, 7
BLOCK_N, BLOCK_REPEATS = 1024, 5
LEADING = (1024, 1040)  # floats from row to row: a power of two, and one line more
BLOCKS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024)
WATCHED = (  # n, ld, block
    *((160, 160, 160), (160, 160, 32), (200, 208, 64), (200, 256, 40), (256, 256, 48)),
)
_L1 = (caches.TYPICAL[0],)
_LL = "1048576,16,64"  # bytes, ways, line: cachegrind simulates two levels
_SECONDS = 300.0


def record() -> dict[str, Any]:
    """Measure; returns the record."""
    library = native.load("caches_and_tiles/blocked")
    product = openblas.sgemm()
    a, b, c = (_matrix(BLOCK_N, BLOCK_N, seed) for seed in range(3))
    vendor = _times(lambda: product(a, b, c), BLOCK_REPEATS)
    return {
        "benchmark": NAME,
        **measure.cpu_facts(library.build),
        "protocol": {
            "orders": f"{ORDER_N} × {ORDER_N} f32, one thread, {ORDER_REPEATS} runs after one that "
            "does not count, the orders in turn, for each set of further options",
            "blocks": f"{BLOCK_N} × {BLOCK_N} f32, one thread, {BLOCK_REPEATS} runs after one that "
            "does not count, the sizes in turn",
            "inputs": "normal random numbers; every product is checked against f64",
            "vendor": f"{openblas.version()}, one thread, the same size in the same process",
            "cachegrind": "valgrind --tool=cachegrind with a first level of 32 KiB, 8 ways; a "
            "program that multiplies once less one that does not, compiled with -O1",
        },
        "orders": {
            " ".join(options): _orders(options)
            for options in (FREELY, NO_EXCHANGE, NO_JAM, NO_VECTORS, AS_WRITTEN)
        },
        "blocks": {str(ld): _blocks(library, ld) for ld in LEADING},
        "vendor": vendor,
        "cachegrind": cachegrind(),
    }


def _matrix(rows: int, columns: int, seed: int) -> openblas.Matrix:
    return np.random.default_rng(seed).standard_normal((rows, columns), np.float32)


def _times(work: Callable[[], object], repeats: int) -> list[float]:
    work()
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return seconds


def _orders(options: Sequence[str]) -> dict[str, list[float]]:
    """Seconds of the product in each order of its three loops, compiled with these options."""
    nest = nests.parse("C[i][j] += A[i][k] * B[k][j]", i=ORDER_N, j=ORDER_N, k=ORDER_N)
    built = {}
    for order in itertools.permutations("ijk"):
        built["".join(order)] = program = nests.build(nest.interchange(*order), options)
        if program.check() != "OK":
            raise toolchain.CudaError(f"the product in the order {order} is wrong")
    arrays = next(iter(built.values())).arrays()
    times: dict[str, list[float]] = {name: [] for name in built}
    for program in built.values():
        program.run(arrays)
    for _ in range(ORDER_REPEATS):
        for name, program in built.items():
            times[name] += program.times(arrays, 1, warm=0)
    return times


def _blocks(library: native.Library, ld: int) -> dict[str, list[float]]:
    """Seconds of the product in blocks of each size."""
    a, b = _matrix(BLOCK_N, ld, 0), _matrix(BLOCK_N, ld, 1)
    c = np.zeros((BLOCK_N, ld), np.float32)
    n = BLOCK_N
    exact = a[:, :n].astype(np.float64) @ b[:, :n].astype(np.float64)
    times: dict[str, list[float]] = {str(block): [] for block in BLOCKS}
    for block in BLOCKS:
        c[:] = 0
        library.blocked(n, ld, block, a, b, c)
        if not np.allclose(c[:, :n], exact, rtol=1e-3, atol=1e-2):
            raise toolchain.CudaError(f"the product in blocks of {block} is wrong")
    for _ in range(BLOCK_REPEATS):
        for block in BLOCKS:
            times[str(block)] += library.blocked.times((n, ld, block, a, b, c), 1, warm=0)
    return times


def cachegrind() -> list[list[int]]:
    """[n, ld, block, accesses and misses of cachegrind, those of the simulator] for each case.

    Empty where there is no valgrind.
    """
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        return []
    source = files.kernels() / "caches_and_tiles" / "cachegrind.cpp"
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        program = Path(scratch, "program")
        compiler = toolchain.host_compiler()
        command: list[str | Path] = [
            compiler.path,
            "-std=c++17",
            "-O1",
            f"-I{source.parent}",
            source,
            "-o",
            program,
        ]
        done = process.run(command, timeout=_SECONDS)
        if not done.ok:
            raise toolchain.explain(done.stderr, source.name, compiler.path.name)
        for n, ld, block in WATCHED:
            seen = []
            for times in (0, 1):
                l1 = _L1[0]
                sizes = [f"--D1={l1.bytes},{l1.ways},{l1.line}", f"--LL={_LL}"]
                tool = [valgrind, "--tool=cachegrind", "--cache-sim=yes", *sizes]
                where = f"--cachegrind-out-file={scratch}/out"
                run: list[str | Path] = [*tool, where, program, *map(str, (n, ld, block, times))]
                said = process.run(run, timeout=_SECONDS)
                numbers = re.findall(r"D1? +(?:refs|misses): +([\d,]+)", said.stderr)
                if not said.ok or len(numbers) != 2:
                    raise toolchain.CudaError(f"cachegrind failed: {said.stderr[-500:]}")
                seen.append([int(number.replace(",", "")) for number in numbers])
            theirs = [after - before for before, after in zip(*seen, strict=True)]
            ours = caches.blocked(n, ld, block, _L1)
            found.append([n, ld, block, *theirs, ours.accesses, ours.misses["L1"]])
    return found
