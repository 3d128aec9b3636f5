"""What keeps neighbours in the order together: blocks that share, or not, on two ways to begin.

One kernel, that of the chapter in a loop over numbers, with two tables: where a block's part of C
lies, and where it reads A and B. Only the second table and the grid change. A block reads what its
part needs; or always one of four tiles, which the L2 cache holds, so that nobody misses; or rows
and columns that no other block of its wave reads; or it shares these with one neighbour. And
numbers are dealt to multiprocessors as they become free, or each multiprocessor has its own numbers
from the start: then nobody begins late who was not late before.

In half of the runs odd numbers wait for a while before they read; where each multiprocessor has its
own numbers, only the first of them. Who shares with a neighbour that is ahead, and hits what it
fetched, can catch up.
"""

from __future__ import annotations

import ctypes
import random
import statistics
import time
from collections.abc import Sequence
from typing import Any

from phasebit import files, measure, toolchain
from phasebit.chapters.block_order import orders
from phasebit.chapters.block_order.block_order_times import TILE
from phasebit.edits import replace_each
from phasebit.instruments import beside_torch, programs

NAME = "block_order_neighbours"
DEPTH = 4096
LAUNCHES = 3
"""Launches of a run, after one that does not count."""
HOLD = 5000
"""Nanoseconds that a block of an odd number waits in half of the runs."""
DISTANCES = (1, 2, 16, 64)
"""Between numbers whose lags are kept."""
OWN, FOUR, APART, PAIRS = (
    "what its part needs", "one of four tiles", "its own rows and columns", "shared by two",
)  # fmt: skip
DEALT, FIXED = "dealt as they become free", "fixed"

_STAMP = """
struct Stamp {
    long long begin, start, end;  // ns; it starts when it has waited
    long long unit;
};
struct Control {
    const Part* reads;  // where each number reads A and B, in tiles
    int numbers, held;  // held: ns that an odd number waits, if it is its block's first
    Stamp* stamps;
};
__device__ inline long long now() {
    long long ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
}
"""
_EDITS = (
    ("constexpr int ORDER_SLOTS = 3;", "constexpr int ORDER_SLOTS = 3;" + _STAMP),
    ("in_order(Gemm<In, Out> g, const Part* order) {",
     "in_order(Gemm<In, Out> g, const Part* order, Control control) {"),
    ("const Part* order, int parts,\n", "const Part* order, Control control, int parts,\n"),
    ("BYTES, stream>>>(g, order);", "BYTES, stream>>>(g, order, control);"),
    ("    const Part part = order[blockIdx.x];\n"
     "    const int m0 = part.row * T::BM, n0 = part.col * T::BN;\n",
     "    for (int number = blockIdx.x; number < control.numbers; number += gridDim.x) {\n"
     "    Stamp stamp{};\n"
     "    if (threadIdx.x == 0) {\n"
     "        unsigned unit;\n"
     "        asm volatile(\"mov.u32 %0, %smid;\" : \"=r\"(unit));\n"
     "        stamp.unit = unit;\n"
     "        stamp.begin = now();\n"
     "        const bool waits = number % 2 && number < gridDim.x;\n"
     "        const long long until = stamp.begin + (waits ? control.held : 0);\n"
     "        for (int turn = 0; turn < 100000 && now() < until; ++turn) __nanosleep(100);\n"
     "        stamp.start = now();\n"
     "    }\n"
     "    __syncthreads();\n"
     "    const Part part = order[number], from = control.reads[number];\n"
     "    const int m0 = part.row * T::BM, n0 = part.col * T::BN;\n"),
    ("a(g.A, g.M, g.K, g.lda, m0, 0);", "a(g.A, g.M, g.K, g.lda, from.row * T::BM, 0);"),
    ("b(g.B, g.K, g.N, g.ldb, 0, n0);", "b(g.B, g.K, g.N, g.ldb, 0, from.col * T::BN);"),
    ("    sum.store(g, m0 + wm, n0 + wn);\n}",
     "    sum.store(g, m0 + wm, n0 + wn);\n"
     "    __syncthreads();\n"
     "    if (threadIdx.x == 0) {\n"
     "        stamp.end = now();\n"
     "        control.stamps[number] = stamp;\n"
     "    }\n"
     "    }\n}"),
)  # fmt: skip
_LIBRARY = """
using In = __nv_bfloat16;
extern "C" void run(const In* A, const In* B, float* C, int M, int N, int K, const Part* order,
                    const Part* reads, int parts, int blocks, int held, Stamp* stamps,
                    cudaStream_t stream) {
    const Gemm<In, float> g{A, B, C, M, N, K, K, N, N, 1.0f, 0.0f};
    launch_in_order<OrderTile, 16>(g, order, Control{reads, parts, held, stamps}, blocks, stream);
}
"""


def source() -> str:
    """The kernel with two tables and stamps, as the source of a library."""
    header = (files.kernels() / "block_order" / "order.cuh").read_text(encoding="utf-8")
    return (
        replace_each(header, _EDITS, "block_order/order.cuh").replace("#pragma once\n", "")
        + _LIBRARY
    )


def reads(order: orders.Order, running: int) -> dict[str, orders.Order]:
    """Where the block of each number reads: rows and columns, in tiles. ``running`` are a wave.

    >>> reads([(0, 0), (1, 0), (2, 0), (3, 0)], 4)["shared by two"]
    [(0, 0), (0, 0), (1, 1), (1, 1)]
    """
    places = [number % running for number in range(len(order))]
    return {
        OWN: list(order),
        FOUR: [(row % 2, column % 2) for row, column in order],
        APART: [(place, place) for place in places],
        PAIRS: [(place // 2, place // 2) for place in places],
    }


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` where there is none, no torch, or when a result is wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    run = ctypes.CDLL(str(toolchain.build(source(), name=NAME, library=True).program)).run
    units = programs.multiprocessors()
    shape = (units * TILE[0], units * TILE[1], DEPTH)
    bench = _Bench(torch, run, shape, units)
    runs: list[dict[str, Any]] = []
    for name, order in bench.orders.items():
        for what in reads(order, units) if name == "super-rows of 16" else (OWN,):
            bench.check(order, what)
            for way in (DEALT, FIXED):
                for held in (0, HOLD):
                    runs.append({"order": name, "reads": what, "numbers": way, "held_ns": held})
    found: list[list[dict[str, Any]]] = [[] for _ in runs]
    turns, draw = list(range(len(runs))), random.Random(7)
    for _ in range(LAUNCHES):
        draw.shuffle(turns)
        for turn in turns:
            found[turn].append(bench.stamped(**runs[turn]))
    kept = [{**one, **_medians(each)} for one, each in zip(runs, found, strict=True)]
    for each in kept:
        said = {key: round(value, 4) for key, value in each.items() if isinstance(value, float)}
        print(f"⏱ {each['order']}, {each['reads']}, {each['numbers']}, {each['held_ns']}: {said}")
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "stamps": f"%globaltimer when a block begins with a number, when it has waited, and "
            f"when it ends; {LAUNCHES} rounds, the runs in a new random order in each; a turn is "
            "60 ms of rest, a launch that does not count and one that does; medians over rounds",
            "lag": "of two numbers of one wave that lie so far apart in the order: the time "
            "between their beginnings, and between their ends, over a block's time; the median",
            "reads": f"where the block of a number reads A and B: {OWN}; {FOUR}, by row and column "
            f"modulo 2; {APART}, by the number modulo the multiprocessors; {PAIRS} neighbours",
            "numbers": f"{DEALT}: a block for each number; {FIXED}: a block for each "
            "multiprocessor, which goes through its numbers in a loop",
            "held_ns": "an odd number that is its block's first waits for so long before it reads; "
            "kept: how far it is behind the number before it when both have started, and when both "
            "end; and the latter by waves",
            "inputs": f"normal random numbers, seed {torch.seed()}",
            "check": "before timing, one launch for each table: 24 tiles of the result against "
            "torch in f32; all of it poisoned before",
            "vendor": "none: one table is compared with another",
        },
        "multiprocessors": units,
        "shape": list(shape),
        "runs": kept,
    }


class _Bench:
    """Matrices, tables and the library on the GPU."""

    def __init__(self, torch: Any, run: Any, shape: tuple[int, int, int], units: int) -> None:
        m, n, k = self.shape = shape
        self._torch, self._run, self._units = torch, run, units
        self._a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
        self._b = torch.randn(k, n, device="cuda", dtype=torch.bfloat16)
        self._c = torch.empty(m, n, device="cuda")
        rows, columns = m // TILE[0], n // TILE[1]
        self.orders = {
            "super-rows of 16": orders.super_rows(rows, columns, 16),
            "drawn by lot": orders.shuffled(rows, columns),
        }
        self._tables: dict[tuple[str, str], tuple[Any, Any]] = {}
        self._stamps = torch.zeros(rows * columns, 4, dtype=torch.int64, device="cuda")

    def check(self, order: orders.Order, what: str) -> None:
        """Some tiles of a result. Raises :class:`toolchain.CudaError` where one is wrong."""
        torch, (high, wide) = self._torch, TILE
        taken = reads(order, self._units)[what]
        name = next(each for each, one in self.orders.items() if one is order)
        self._c.fill_(float("nan"))
        self._launch(name, what, len(order), 0)
        torch.cuda.synchronize()
        if bool(self._c.isnan().any()):
            raise toolchain.CudaError(f"{name}, {what}: some of C was not computed")
        for number in random.Random(3).sample(range(len(order)), 24):
            (row, column), (up, left) = order[number], taken[number]
            got = self._c[row * high : (row + 1) * high, column * wide : (column + 1) * wide]
            a = self._a[up * high : (up + 1) * high].float()
            b = self._b[:, left * wide : (left + 1) * wide].float()
            # sums of about √K; torch may round f32 to tf32 nowhere: its default is exact f32
            if float((got - a @ b).abs().max()) > 2e-2:
                raise toolchain.CudaError(f"{name}, {what}: tile {number} is wrong")

    def stamped(self, order: str, reads: str, numbers: str, held_ns: int) -> dict[str, Any]:
        """What :func:`told` says of one launch, after one that does not count."""
        count = len(self.orders[order])
        blocks = count if numbers == DEALT else self._units
        time.sleep(0.06)
        for _ in range(2):
            self._launch(order, reads, blocks, held_ns)
        self._torch.cuda.synchronize()
        return told(self._stamps.cpu().numpy(), self._units)

    def _launch(self, order: str, what: str, blocks: int, held: int) -> None:
        torch, parts = self._torch, self.orders[order]
        if (order, what) not in self._tables:
            both = (parts, reads(parts, self._units)[what])
            own, other = (torch.tensor(t, dtype=torch.int32, device="cuda") for t in both)
            self._tables[order, what] = own, other
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        arrays = beside_torch.pointers((self._a, self._b, self._c))
        tables = beside_torch.pointers(self._tables[order, what])
        (stamps,) = beside_torch.pointers((self._stamps,))
        self._run(*arrays, *self.shape, *tables, len(parts), blocks, held, stamps, stream)


def told(stamps: Any, running: int) -> dict[str, Any]:
    """What the stamps of one launch say; rows are numbers, of begin, start, end in ns, and place.

    ``spread``: of the times of blocks, half of the middle two thirds over the median. ``begin_D``
    and ``end_D``: lags of numbers D apart. ``waves``: the lag of neighbours at the beginning, in
    waves 1, 2, 4, 8 and so on, and the last. ``behind`` and ``behind_end``: how far, in ns, odd
    numbers are behind those before them when both have started, and when both end; the latter by
    waves, too. ``same_place``: the share of numbers whose multiprocessor was that of the number a
    wave before.
    """
    import numpy as np

    origin = stamps[:, 0].min()  # the clock's own numbers are too large for a double
    begin, start, end = ((stamps[:, i] - origin).astype(np.float64) for i in range(3))
    place = stamps[:, 3]
    took = end - start
    usual = float(np.median(took))
    low, high = np.quantile(took, [1 / 6, 5 / 6])
    numbers = np.arange(len(begin))
    found: dict[str, Any] = {
        "launch_us": float(end.max() - begin.min()) / 1e3,
        "block_us": usual / 1e3,
        "spread": float(high - low) / 2 / usual,
    }
    whole = float(np.median(end - begin))
    for apart in (each for each in DISTANCES if each < running):
        first = numbers[numbers % running + apart < running]
        first = first[first + apart < len(begin)]
        for name, at in (("begin", begin), ("end", end)):
            lag = np.abs(at[first + apart] - at[first])
            found[f"{name}_{apart}"] = float(np.median(lag)) / whole
    count = len(begin) // running
    kept = sorted({*(2**i for i in range(20) if 2**i < count), count - 1})
    steps = np.abs(np.diff(begin[: count * running].reshape(count, running), axis=1))
    found["waves"] = {str(wave): float(np.median(steps[wave])) / whole for wave in kept}
    even = numbers[(numbers % 2 == 0) & (numbers % running + 1 < running)]
    even = even[even + 1 < len(begin)]
    found["behind"] = float(np.median(start[even + 1] - start[even]))
    late = end[even + 1] - end[even]
    found["behind_end"] = float(np.median(late))
    found["behind_waves"] = {
        str(wave): float(np.median(late[even // running == wave])) for wave in (0, *kept)
    }
    found["same_place"] = float(np.mean(place[running:] == place[:-running]))
    return found


def dealt(running: int, waves: int, drift: float, seed: int = 1) -> Any:
    """Stamps, as :func:`told` wants them, of blocks that share nothing and know nothing.

    Each takes a time drawn with a standard deviation of ``drift``, as a share of a block's time,
    here 100 µs; numbers are dealt to multiprocessors as they become free.
    """
    import heapq

    import numpy as np

    draw = random.Random(seed)
    free = [(0.0, place) for place in range(running)]
    rows = []
    for _ in range(running * waves):
        begin, place = heapq.heappop(free)
        end = begin + max(0.5, draw.gauss(1, drift)) * 1e5
        heapq.heappush(free, (end, place))
        rows.append((begin, begin, end, place))
    return np.array(rows)


def _medians(each: Sequence[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in each[0].items():
        if isinstance(value, dict):
            found[key] = _medians([one[key] for one in each])
        else:
            found[key] = float(statistics.median(one[key] for one in each))
    return found
