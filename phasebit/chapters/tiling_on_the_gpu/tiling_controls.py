"""Runs in which one thing of a rung is otherwise: meetings, waiting for loads, threads, marks.

What *Tiling on the GPU* leaves open. Rung e with deep tiles meets less often at the barrier: the
deep tiles get more meetings, and the shallow ones fewer, or loads that nobody waits for. Rung e
with a larger square has fewer threads in a block: squares and threads are crossed, with equally
many threads on a multiprocessor. The last rung is deep: it gets more meetings. And of two orders of
multiply-adds one has more operands marked ``.reuse``: both run without any mark.
"""

from __future__ import annotations

import ctypes
import functools
import re
import statistics
import struct
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from phasebit import measure, rounding, toolchain
from phasebit.chapters.tiling_on_the_gpu import ladder
from phasebit.edits import replace_each
from phasebit.instruments import beside_torch, clocks, disassembly, profiler, rested
from phasebit.instruments.beside_torch import Launch
from phasebit.launching.driver import driver

NAME = "tiling_controls"
SIZE, COUNTED = 4096, 2048
"""M, N and K: of what is timed, and of what Nsight Compute counts."""
REST = 0.01
ROUNDS = {"depth": 8, "squares": 5, "tuned": 20}
RESIDENT = (1024, 512)
"""Threads of a multiprocessor at once to which squares are limited."""

_WHY = ("barrier", "long_scoreboard", "short_scoreboard", "mio_throttle", "lg_throttle",
        "math_pipe_throttle", "not_selected", "selected")  # fmt: skip
EXECUTED = "smsp__inst_executed.sum"
METRICS = (
    EXECUTED,
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__m_xbar2l1tex_read_sectors.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "smsp__warps_active.avg.per_cycle_active",
    *(f"smsp__average_warps_issue_stalled_{why}_per_issue_active.ratio" for why in _WHY),
)  # fmt: skip

Edits = tuple[tuple[str, str], ...]

_LOADS = """        for (int i = t; i < BM * BK; i += THREADS)
            a[i / BK][i % BK] = element(g.A, g.M, g.K, g.lda, row0 + i / BK, k0 + i % BK);
        for (int i = t; i < BK * BN; i += THREADS)
            b[i / BN][i % BN] = element(g.B, g.K, g.N, g.ldb, k0 + i / BN, col0 + i % BN);
        __syncthreads();  // the tiles are there
"""
_SUMS = "    float sum[T][T] = {};\n"
_LOOP = "    for (int k0 = 0; k0 < g.K; k0 += BK) {\n"
_TWO_SLOTS: Edits = (
    ("__shared__ float a[BM][BK], b[BK][BN];",
     "__shared__ float both_a[2][BM][BK], both_b[2][BK][BN];"),
    (_LOOP,
     "    for (int k0 = 0, slot = 0; k0 < g.K; k0 += BK, slot ^= 1) {\n"
     "        auto& a = both_a[slot];\n        auto& b = both_b[slot];\n"),
    ("        __syncthreads();  // nobody needs them any more\n", ""),
)  # fmt: skip
_AHEAD: Edits = (
    (_SUMS,
     "    static_assert(BM * BK <= THREADS && BK * BN <= THREADS);\n"
     "    float next_a = 0, next_b = 0;\n"
     "    auto fetch = [&](int k) {\n"
     "        if (t < BM * BK)\n"
     "            next_a = element(g.A, g.M, g.K, g.lda, row0 + t / BK, k + t % BK);\n"
     "        if (t < BK * BN)\n"
     "            next_b = element(g.B, g.K, g.N, g.ldb, k + t / BN, col0 + t % BN);\n"
     "    };\n    fetch(0);\n" + _SUMS),
    (_LOADS,
     "        if (t < BM * BK) a[t / BK][t % BK] = next_a;\n"
     "        if (t < BK * BN) b[t / BN][t % BN] = next_b;\n"
     "        __syncthreads();  // the tiles are there\n"
     "        fetch(k0 + BK);\n"),
)  # fmt: skip
_OTHER_WARPS: Edits = (
    ("for (int i = t; i < BK * BN; i += THREADS)",
     "for (int i = (t + THREADS / 2) % THREADS; i < BK * BN; i += THREADS)"),
)  # fmt: skip


def _meets(steps: int) -> Edits:
    """Two more meetings after so many steps of k, but for the last, where there are two."""
    last = "                for (int j = 0; j < T; ++j) sum[i][j] += left[i] * right[j];\n"
    more = (
        f"            if ((k + 1) % {steps} == 0 && k + 1 < BK) {{\n"
        "                __syncthreads();\n                __syncthreads();\n            }\n"
    )
    return ((last, last + more),)


SHALLOW, DEEP = "8 deep", "32 deep"
_BY_DEPTH = {SHALLOW: ladder.SQUARES[32, 1], DEEP: "deep"}
DEPTH: dict[str, tuple[str, Edits]] = {
    SHALLOW: (SHALLOW, ()),
    DEEP: (DEEP, ()),
    "32 deep, meets every 8": (DEEP, _meets(8)),
    "32 deep, meets every 4": (DEEP, _meets(4)),
    "8 deep, two slots": (SHALLOW, _TWO_SLOTS),
    "8 deep, loads ahead": (SHALLOW, _AHEAD),
    "8 deep, loads ahead, two slots": (SHALLOW, (*_TWO_SLOTS, *_AHEAD)),
    "8 deep, B by other warps": (SHALLOW, _OTHER_WARPS),
}
"""Rung e with 32 × 32 of C for a block and one element for a thread: contender -> which depth it
has, and its edits. ``meets every 8``: as often as tiles 8 deep meet; ``two slots``: one meeting a
tile and not two; ``loads ahead``: a thread loads for the next tile before it multiplies this one;
``B by other warps``: not by those that load A."""


MEETINGS = {
    SHALLOW: 8, DEEP: 2, "32 deep, meets every 8": 8, "32 deep, meets every 4": 16,
    "8 deep, two slots": 4, "8 deep, loads ahead": 8, "8 deep, loads ahead, two slots": 4,
    "8 deep, B by other warps": 8,
}  # fmt: skip
"""Contender -> how often a thread comes to the barrier for 32 of K."""


class Square(NamedTuple):
    """Rung e with a square of a thread and so many threads in a block; 8 deep."""

    each: int
    threads: int

    @property
    def tile(self) -> int:
        """Rows and columns of C of a block."""
        return int(self.each * self.threads**0.5)

    @property
    def name(self) -> str:
        """``"2 × 2, 256 threads"``."""
        return f"{self.each} × {self.each}, {self.threads} threads"

    @property
    def rung(self) -> ladder.Rung:
        """How it is launched."""
        return ladder._square(self.tile, self.each)


SQUARES = {
    square.name: square
    for square in (
        *(Square(each, threads) for each in (1, 2, 4) for threads in (64, 256, 1024)),
        Square(8, 64), Square(8, 256),
    )
}  # fmt: skip
"""Contender -> square and threads; the block's tile follows."""

_MEETS = "            if (k + 1 == BK) {\n"
TUNED: dict[str, tuple[str, Edits]] = {
    "tuned": ("tuned", ()),
    "depth_8": ("depth_8", ()),
    "tuned, meets every 8": ("tuned", (
        (_MEETS, "            if ((k + 1) % 8 == 0 && k + 1 < BK) __syncthreads();\n" + _MEETS),
    )),
}  # fmt: skip
"""The last rung, and with as many meetings as ``depth_8`` has."""
MARKED = ("tuned", "row_by_row")
"""Rungs whose machine code is run with its marks ``.reuse`` and without."""
MARKS, NO_MARKS = "machine code", "no operand marked"

_LIBRARY = """
extern "C" void run(const float* A, const float* B, float* C, int n, int unused, int carveout) {
    const Product g{A, B, C, n, n, n, n, n, n, 1.0f, 0.0f};
    CHECK(cudaFuncSetAttribute(square, cudaFuncAttributePreferredSharedMemoryCarveout, carveout));
    square<<<dim3(blocks(n, BN), blocks(n, BM)), THREADS, unused>>>(g);
    CHECK(cudaGetLastError());
}
// Bytes of shared memory that a block must have beyond its own, so that not more than so many
// blocks lie on a multiprocessor at once; at_once is how many do.
extern "C" int unused_for(int most, int* at_once) {
    int room;
    cudaFuncAttributes own;
    CHECK(cudaDeviceGetAttribute(&room, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    CHECK(cudaFuncGetAttributes(&own, square));
    room -= int(own.sharedSizeBytes);
    CHECK(cudaFuncSetAttribute(square, cudaFuncAttributeMaxDynamicSharedMemorySize, room));
    for (int unused = 0; unused <= room; unused += 256) {
        CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(at_once, square, THREADS, unused));
        if (*at_once <= most) return unused;
    }
    return -1;
}
"""
_TUNED_LIBRARY = """
extern "C" void run(const float* A, const float* B, float* C, int n) {
    launch({A, B, C, n, n, n, n, n, n, 1.0f, 0.0f});
    CHECK(cudaGetLastError());
}
"""


def text(name: str) -> str:
    """A contender's kernel and launch; raises ``ValueError`` where an edit no longer fits."""
    if name in DEPTH:
        depth, changes = DEPTH[name]
        return replace_each(ladder.text(_BY_DEPTH[depth]), changes, "e_square.cu")
    if name in TUNED:
        rung, changes = TUNED[name]
        return replace_each(ladder.text(rung), changes, "j_tuned.cu")
    whole = ladder.text("square")
    return replace_each(whole, SQUARES[name].rung.changes, "e_square.cu")


def build(name: str) -> toolchain.Build:
    """A contender as a library."""
    entry = _TUNED_LIBRARY if name in TUNED else _LIBRARY
    return toolchain.build(text(name) + entry, name=NAME, library=True)


def code(rung: str, marks: bool = True) -> tuple[bytes, str]:
    """The machine code of a rung that may load 16 bytes and need not ask, and its symbol."""
    cubin = _compiled(rung)
    kernel = ladder.VARIANTS[rung].kernel
    symbol = re.search(rb"_Z\d+%bILb1ELb1E\w+" % kernel.encode(), cubin)
    if symbol is None:
        raise LookupError(f"the machine code has no kernel {kernel}<true, true>")
    return cubin if marks else unmarked(cubin, symbol[0].decode()), symbol[0].decode()


@functools.cache
def _compiled(rung: str) -> bytes:
    return disassembly.cubin(ladder.text(rung), "sm_90a", ("-std=c++17", "-O3"))[0]


_REUSE = 0b1111 << 58
"""Bits 122 to 125 of an instruction of 128: whether an operand is kept for the next one."""


def unmarked(cubin: bytes, symbol: str) -> bytes:
    """The same machine code with no operand of that kernel marked ``.reuse``.

    A mark says where an operand comes from and not what it is. Raises ``LookupError`` when there
    is no such kernel.
    """
    (table,) = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<3H", cubin, 58)
    sections = [struct.unpack_from("<2I4Q", cubin, table + i * size) for i in range(count)]
    base = sections[names][4]
    changed = bytearray(cubin)
    for name, _, _, _, begin, length in sections:
        if cubin[base + name : cubin.index(b"\0", base + name)].decode() == f".text.{symbol}":
            for at in range(begin + 8, begin + length, 16):
                (high,) = struct.unpack_from("<Q", cubin, at)
                struct.pack_into("<Q", changed, at, high & ~_REUSE)
            return bytes(changed)
    raise LookupError(f"the machine code has no {symbol}")


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel fails or is
    wrong, :class:`toolchain.ToolMissing` without Nsight Compute.
    """
    facts, version = measure.facts(), profiler.version()
    torch = beside_torch.torch_here(NAME)
    torch.backends.cuda.matmul.allow_tf32 = False
    with ThreadPoolExecutor() as pool:
        codes = [pool.submit(_compiled, rung) for rung in MARKED]
        built = clocks.built(build, (*DEPTH, *SQUARES, *TUNED))
        for each in codes:
            each.result()
    seed = torch.seed()
    given = _Operands(torch, SIZE)
    squares, at_once = given.squares()
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "clock": "CUDA events before and after each launch",
            "order": f"rounds: {', '.join(f'{part} {rounds}' for part, rounds in ROUNDS.items())}; "
            f"each turn: a rest of {REST} s, a launch that is not counted and one that is; the "
            "order drawn anew for each round",
            "mhz": "clock of a multiprocessor, counted for 50 µs right after the timed launch",
            "inputs": f"normal random f32 numbers, {SIZE}³, seed {seed}; no flush",
            "check": "before timing, all of C equal to the last bit to that of tuned, which is "
            "compared on 128 rows by 128 columns with a product in double; C poisoned",
            "squares": "a limit on the threads of a multiprocessor is shared memory that a block "
            "has and does not use; all of them ask for as much shared memory and as little L1 as "
            "there can be, but for those with the usual share",
            "marks": "machine code with the bits for .reuse cleared, loaded as it is",
            "vendor": f"cuBLAS through torch {torch.__version__}, f32 without TF32, by turns with "
            "tuned",
            "counters": f"{version}, one launch each at {COUNTED}³, caches flushed, clocks left "
            "alone",
        },
        "size": SIZE,
        "registers": {
            name: max(use.registers for use in each.resources) for name, each in built.items()
        },
        "at_once": at_once,
        "depth": given.times("depth", {name: given.launch(name) for name in DEPTH}),
        "squares": given.times("squares", squares),
        "tuned": given.times("tuned", given.tuned()),
        "counters": _counted(),
    }


class _Operands:
    """A, B and C on the GPU, and the contenders' launches."""

    def __init__(self, torch: Any, size: int) -> None:
        self._torch, self._size = torch, size
        self.a, self.b, self.c = (torch.randn(size, size, device="cuda") for _ in range(3))
        self._given = beside_torch.pointers((self.a, self.b, self.c))
        self._right: Any = None

    def launch(self, name: str, unused: int = 0, carveout: int = -1) -> Launch:
        """Of the depths and squares, with unused shared memory and a share of it."""
        run = ctypes.CDLL(str(build(name).program)).run
        return lambda: run(*self._given, self._size, unused, carveout)

    def squares(self) -> tuple[dict[str, Launch], dict[str, int]]:
        """Each square as it is, with as much shared memory as can be, and limited; and how many
        blocks of each are on a multiprocessor at once."""
        launches, at_once = {}, {}
        for name, square in SQUARES.items():
            library, found = ctypes.CDLL(str(build(name).program)), ctypes.c_int()
            library.unused_for(1 << 20, ctypes.byref(found))
            most = found.value
            launches[f"{name}, usual share"] = self.launch(name)
            launches[name], at_once[name] = self.launch(name, 0, 100), most
            for resident in RESIDENT:
                blocks = resident // square.threads
                if not 0 < blocks < most:
                    continue
                unused = library.unused_for(blocks, ctypes.byref(found))
                if unused < 0 or found.value != blocks:
                    raise toolchain.CudaError(f"{name} cannot be limited to {blocks} blocks")
                limited = f"{name}, {resident} at once"
                launches[limited], at_once[limited] = self.launch(name, unused, 100), blocks
        return launches, at_once

    def tuned(self) -> dict[str, Launch]:
        """The last rung's contenders, and cuBLAS."""
        launches: dict[str, Launch] = {measure.VENDOR: self._vendor}
        for name in TUNED:
            run = ctypes.CDLL(str(build(name).program)).run
            launches[name] = self._called(run)
        for rung in MARKED:
            for way in (MARKS, NO_MARKS):
                launches[f"{rung}, {way}"] = self._loaded(rung, way == MARKS)
        return launches

    def _vendor(self) -> None:
        self._torch.mm(self.a, self.b, out=self.c)

    def _called(self, run: Callable[..., Any]) -> Launch:
        return lambda: run(*self._given, self._size)

    def _loaded(self, rung: str, marks: bool) -> Launch:
        """A rung's machine code, launched by the driver on the stream that torch uses."""
        cubin, symbol = code(rung, marks)
        n, how = self._size, ladder.VARIANTS[rung]
        product = struct.pack("3Q6i2f", *(each.value or 0 for each in self._given),
                              n, n, n, n, n, n, 1.0, 0.0)  # fmt: skip
        grid = ((n // how.tile) ** 2, 1, 1)
        loaded = driver().load(cubin)
        return driver().prepare(
            loaded, symbol, grid, (*how.block, 1, 1), product, [0], shared=how.shared
        )

    def times(self, part: str, launches: dict[str, Launch]) -> dict[str, dict[str, list[float]]]:
        """Times of contenders whose results are right."""
        matrices, bound = (self.a, self.b, self.c), rounding.product_bound(self._size)
        if self._right is None:
            run = ctypes.CDLL(str(build("tuned").program)).run
            beside_torch.check(self._torch, "tuned", self._called(run), matrices, bound)
            self._right = self.c.clone()
        for name, launch in launches.items():
            if name == measure.VENDOR:
                continue
            self.c.fill_(float("nan"))
            launch()
            if not self._torch.equal(self.c, self._right):
                raise toolchain.CudaError(f"{name}: C is not that of the last rung")
        found = rested.times(self._torch, launches, ROUNDS[part], REST)
        for name, each in found.items():
            print(f"⏱ {part}: {name}, {statistics.median(each['times_us']):.0f} µs", flush=True)
        return found


def _counted() -> dict[str, dict[str, float]]:
    """What the profiler counts of each contender, as it is."""
    found = profiler.count((sys.executable, "-m", __name__), METRICS)
    seen = [counted for name, counted in found if "square" in name]
    return dict(zip((*DEPTH, *SQUARES), seen, strict=True))


def _main() -> None:
    """One launch of each contender, for the profiler."""
    torch = beside_torch.torch_here(NAME)
    given = _Operands(torch, COUNTED)
    for name in (*DEPTH, *SQUARES):
        given.launch(name)()
    torch.cuda.synchronize()


if __name__ == "__main__":
    _main()
