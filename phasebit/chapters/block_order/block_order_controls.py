"""When blocks begin and end, and what the GPU draws: controls of *The order of blocks*.

A copy of the kernel writes down, for each block, when it begins and ends and how many began before
it. From this come two things that the model of the L2 cache assumes: that blocks begin in the order
of their numbers, and that those of a wave which share rows of A or columns of B run in lockstep.
Apart from this each order runs alone for long, while the driver says what the GPU draws.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Sequence
from typing import Any

from phasebit import files, measure, toolchain
from phasebit.chapters.block_order import orders
from phasebit.chapters.block_order.block_order_times import SHAPES, TILE, compared
from phasebit.edits import replace_each
from phasebit.instruments import beside_torch, programs
from phasebit.instruments.beside_torch import Launch

NAME = "block_order_controls"
LAUNCHES = 5
"""Launches with stamps, after one that does not count."""
LONG, SAMPLES = 0.8, 6
"""Seconds that an order runs before the driver is asked, and how often it is asked."""

_STAMP = """
struct Stamp {
    unsigned long long begin, end;  // ns
    unsigned before, pad;           // blocks that began before this one
};
__device__ Stamp* STAMPS;
__device__ unsigned BEGUN;
__device__ inline unsigned long long now() {
    unsigned long long ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
}
"""
_EDITS = (
    ("constexpr int ORDER_SLOTS = 3;", "constexpr int ORDER_SLOTS = 3;" + _STAMP),
    ("    const Part part = order[blockIdx.x];\n",
     "    if (threadIdx.x == 0) {\n"
     "        STAMPS[blockIdx.x].before = atomicAdd(&BEGUN, 1);\n"
     "        STAMPS[blockIdx.x].begin = now();\n"
     "    }\n"
     "    const Part part = order[blockIdx.x];\n"),
    ("    sum.store(g, m0 + wm, n0 + wn);\n}",
     "    sum.store(g, m0 + wm, n0 + wn);\n"
     "    __syncthreads();\n"
     "    if (threadIdx.x == 0) STAMPS[blockIdx.x].end = now();\n}"),
)  # fmt: skip
_LIBRARY = """
using In = __nv_bfloat16;
extern "C" void run(const In* A, const In* B, float* C, int M, int N, int K, const Part* order,
                    int parts, Stamp* stamps, cudaStream_t stream) {
    const unsigned none = 0;
    CHECK(cudaMemcpyToSymbolAsync(STAMPS, &stamps, sizeof stamps, 0, cudaMemcpyHostToDevice,
                                  stream));
    CHECK(cudaMemcpyToSymbolAsync(BEGUN, &none, sizeof none, 0, cudaMemcpyHostToDevice, stream));
    const Gemm<In, float> g{A, B, C, M, N, K, K, N, N, 1.0f, 0.0f};
    launch_in_order<OrderTile, 16>(g, order, parts, stream);
}
"""


def stamped() -> str:
    """The kernel with stamps, as the source of a library."""
    header = (files.kernels() / "block_order" / "order.cuh").read_text(encoding="utf-8")
    return replace_each(header, _EDITS, "block_order/order.cuh") + _LIBRARY


def record() -> dict[str, Any]:
    """Measure on this machine's GPU; raises :class:`toolchain.CudaError` where there is none."""
    facts = measure.facts()
    torch = beside_torch.torch_here("block_order")
    run = ctypes.CDLL(str(toolchain.build(stamped(), name="blocks_stamped", library=True).program))
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "stamps": f"%globaltimer at the beginning and the end of each block, and an atomic "
            f"count of those that began; {LAUNCHES} launches, after one that does not count, "
            "each after 60 ms of rest; the medians of all launches are kept",
            "lag": "of two blocks of one wave that share rows of A, or columns of B, and are the "
            "nearest in the order that do: the time between their beginnings over a block's time",
            "watts": f"each order alone, its launches queued for {LONG} s; then the driver is "
            f"asked {SAMPLES} times for power.draw.instant and clocks.sm while they run; by turns, "
            "two rounds; as long at rest as at work before",
            "inputs": f"normal random numbers, drawn anew for each shape, seed {torch.seed()}",
            "vendor": "none: the orders are compared with each other",
        },
        "multiprocessors": programs.multiprocessors(),
        "power_limit_w": programs.sensor("power.limit"),
        "shapes": [_measured(torch, run, shape, shape == SHAPES[-1]) for shape in SHAPES],
    }


def _measured(
    torch: Any, run: ctypes.CDLL, shape: tuple[int, int, int], watts: bool
) -> dict[str, Any]:
    """Of each order what :func:`told` says; ``watts``: and what the GPU draws."""
    m, n, k = shape
    a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(k, n, device="cuda", dtype=torch.bfloat16)
    c = torch.empty(m, n, device="cuda")
    arrays = beside_torch.pointers((a, b, c))
    units = programs.multiprocessors()
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    launches: dict[str, Launch] = {}
    found: dict[str, dict[str, Any]] = {}
    for name, order in compared(m // TILE[0], n // TILE[1]).items():
        table = torch.tensor(order, dtype=torch.int32, device="cuda")
        stamps = torch.zeros(len(order), 3, dtype=torch.int64, device="cuda")

        def launch(table: Any = table, stamps: Any = stamps, count: int = len(order)) -> None:
            own = beside_torch.pointers((table, stamps))
            run.run(*arrays, m, n, k, own[0], count, own[1], stream)

        if not launches:
            beside_torch.check(torch, name, launch, (a, b, c), beside_torch.cut_sums(k))
        launches[name] = launch
        each = []
        for number in range(LAUNCHES + 1):
            time.sleep(0.06)
            launch()
            torch.cuda.synchronize()
            if number:
                rows = stamps.cpu().tolist()
                began = [(begin, end, before & 0xFFFFFFFF) for begin, end, before in rows]
                each.append(told(order, began, units))
        found[name] = {key: statistics.median(one[key] for one in each) for key in each[0]}
        print(f"⏱ {shape}, {name}: {found[name]}", flush=True)
    for _ in range(2 if watts else 0):
        for name, alone in launches.items():
            for key, values in _power(torch, alone).items():
                found[name].setdefault(key, []).extend(values)
    return {"shape": list(shape), "orders": found}


def _power(torch: Any, launch: Launch) -> dict[str, list[float]]:
    """Watts and clock of the GPU while an order runs alone."""
    time.sleep(LONG)
    begin = time.monotonic()
    launch()
    torch.cuda.synchronize()
    each = max(1e-3, time.monotonic() - begin)
    for _ in range(int(2 * LONG / each)):
        launch()
    time.sleep(LONG)
    found: dict[str, list[float]] = {"watts": [], "mhz": []}
    for _ in range(SAMPLES):
        found["watts"].append(programs.sensor("power.draw.instant"))
        found["mhz"].append(programs.sensor("clocks.sm"))
    torch.cuda.synchronize()
    return found


Began = tuple[int, int, int]
"""When a block began and ended, in ns, and how many blocks began before it."""


def told(order: orders.Order, stamps: Sequence[Began], running: int) -> dict[str, float]:
    """What the stamps of one launch say: of the order of beginnings, and of lags.

    ``displaced``: how many places a block began, at most, from that of its number; ``block_us``:
    how long a block takes; ``lag_a`` and ``lag_b``: the median lag of blocks that share rows of A,
    and columns of B. ``running`` blocks are a wave.
    """
    lasts = statistics.median(end - begin for begin, end, _ in stamps)
    displaced = max(abs(before - number) for number, (_, _, before) in enumerate(stamps))
    lags: dict[str, list[float]] = {"lag_a": [], "lag_b": []}
    nearest: dict[tuple[str, int, int], int] = {}
    for number, (row, column) in enumerate(order):
        for which, side in (("lag_a", row), ("lag_b", column)):
            key = which, side, number // running
            if key in nearest:
                apart = abs(stamps[number][0] - stamps[nearest[key]][0])
                lags[which].append(apart / lasts)
            nearest[key] = number
    return {
        "displaced": displaced, "block_us": lasts / 1000,
        **{which: statistics.median(each) if each else 0.0 for which, each in lags.items()},
    }  # fmt: skip
