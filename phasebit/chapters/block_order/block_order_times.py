"""``block_order/order.cuh`` on the GPU: one product, its blocks in several orders, and cuBLAS."""

from __future__ import annotations

import ctypes
import statistics
import tempfile
from pathlib import Path
from typing import Any

from phasebit import toolchain
from phasebit.chapters.block_order import orders
from phasebit.instruments import beside_torch, profiler, rested
from phasebit.instruments.beside_torch import Launch

VENDOR = "cuBLAS"
TILE = (128, 256)
"""Rows and columns of C that a block computes, and that an order counts in."""
SHAPES = ((8192, 8192, 8192), (16384, 16384, 4096), (8192, 65536, 4096))
HEIGHTS = (2, 4, 8, 16, 32)
ROUNDS, REST = 15, 0.06
"""Turns of each order, and seconds of rest before each."""
RESTLESS_ROUNDS = 4
"""Turns, of three launches and in one order, when there is no rest."""
SUSTAINED, LAUNCHES = 0.8, 12
"""Seconds that a contender runs alone, and the launches after them that are timed."""

LOOKUPS, HIT = (
    "lts__t_sectors_srcunit_tex_op_read.sum",
    "lts__t_sectors_srcunit_tex_op_read_lookup_hit.sum",
)
"""Sectors that multiprocessors read and the L2 cache looked up, and those that it had."""
ASKED = "l1tex__m_xbar2l1tex_read_sectors.sum"
"""Sectors that came to the multiprocessors."""
FABRIC = "lts__t_sectors_srcunit_ltcfabric.sum"
"""Sectors that one part of the L2 cache looked up for the other."""
FABRIC_HIT = "lts__t_sectors_srcunit_ltcfabric_lookup_hit.sum"
DRAM, DRAM_WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
COUNTERS = (LOOKUPS, HIT, ASKED, FABRIC, FABRIC_HIT, DRAM, DRAM_WRITTEN)

_HEADER = """
#include "block_order/order.cuh"
using In = __nv_bfloat16;
"""
_LIBRARY = (
    _HEADER
    + """
extern "C" void run(const In* A, const In* B, float* C, int M, int N, int K, const Part* order,
                    int parts, cudaStream_t stream) {
    const Gemm<In, float> g{A, B, C, M, N, K, K, N, N, 1.0f, 0.0f};
    launch_in_order<OrderTile, 16>(g, order, parts, stream);
}
"""
)
_COUNTED = (
    _HEADER
    + """
#include <vector>
int main(int argc, char** argv) {  // M N K, then files of rows and columns
    const int M = atoi(argv[1]), N = atoi(argv[2]), K = atoi(argv[3]);
    In *A, *B;
    float* C;
    CHECK(cudaMalloc(&A, size_t(M) * K * 2));
    CHECK(cudaMalloc(&B, size_t(K) * N * 2));
    CHECK(cudaMalloc(&C, size_t(M) * N * 4));
    CHECK(cudaMemset(A, 0, size_t(M) * K * 2));
    CHECK(cudaMemset(B, 0, size_t(K) * N * 2));
    for (int i = 4; i < argc; ++i) {
        std::vector<Part> order;
        FILE* file = fopen(argv[i], "r");
        for (Part part; file && fscanf(file, "%d %d", &part.row, &part.col) == 2;)
            order.push_back(part);
        if (order.empty()) return fprintf(stderr, "%s holds no order\\n", argv[i]), 1;
        fclose(file);
        Part* table;
        CHECK(cudaMalloc(&table, order.size() * sizeof(Part)));
        CHECK(cudaMemcpy(table, order.data(), order.size() * sizeof(Part),
                         cudaMemcpyHostToDevice));
        const Gemm<In, float> g{A, B, C, M, N, K, K, N, N, 1.0f, 0.0f};
        launch_in_order<OrderTile, 16>(g, table, int(order.size()));
        CHECK(cudaDeviceSynchronize());
    }
}
"""
)


def compared(rows: int, columns: int) -> dict[str, orders.Order]:
    """The orders that are compared, by name, for a C of so many tiles."""
    return {
        "row by row": orders.rows_first(rows, columns),
        **{
            f"super-rows of {height}": orders.super_rows(rows, columns, height)
            for height in HEIGHTS
        },
        "column by column": orders.super_rows(rows, columns, rows),
        "Hilbert": orders.hilbert(rows, columns),
        "drawn by lot": orders.shuffled(rows, columns),
    }


def library() -> toolchain.Build:
    """The kernel as a function."""
    return toolchain.build(_LIBRARY, name="block_orders", library=True)


def program() -> toolchain.Build:
    """One launch for each order, to be counted."""
    return toolchain.build(_COUNTED, name="block_orders_counted")


def measured(torch: Any, shape: tuple[int, int, int]) -> dict[str, Any]:
    """Times and counters of a product in all orders, and cuBLAS's times."""
    m, n, k = shape
    a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(k, n, device="cuda", dtype=torch.bfloat16)
    c = torch.empty(m, n, device="cuda")
    run = ctypes.CDLL(str(library().program)).run
    arrays = beside_torch.pointers((a, b, c))
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    tables = compared(m // TILE[0], n // TILE[1])

    def launcher(order: orders.Order) -> Launch:
        table = torch.tensor(order, dtype=torch.int32, device="cuda")

        def launch() -> None:
            (entries,) = beside_torch.pointers((table,))  # and so the table stays
            run(*arrays, m, n, k, entries, len(order), stream)

        return launch

    launches: dict[str, Launch] = {name: launcher(order) for name, order in tables.items()}
    launches[VENDOR] = lambda: torch.mm(a, b, out_dtype=torch.float32, out=c)
    for name, launch in launches.items():
        beside_torch.check(torch, name, launch, (a, b, c), beside_torch.cut_sums(k))
    times = rested.times(torch, launches, ROUNDS, REST)
    rows = []
    for name, counts in zip(tables, count(shape, list(tables.values())), strict=True):
        rows.append({"order": name, **times[name], **counts})
        missed, gigabytes = counts[LOOKUPS] - counts[HIT], counts[DRAM] * 1e-9
        print(
            f"⏱ {shape}, {name}: {missed / counts[ASKED]:.1%} missed, {gigabytes:.2f} GB,",
            _said(times[name]),
        )
    restless = rested.times(torch, launches, RESTLESS_ROUNDS, 0, each=3, drawn=False)
    alone = rested.sustained(torch, launches, SUSTAINED, LAUNCHES)
    for name in launches:
        print(
            f"⏱ {shape}, {name}: {_said(times[name])}; without rest {_said(restless[name])};",
            f"sustained {_said(alone[name])}",
        )
    return {
        "shape": list(shape), "rows": rows, "vendor": times[VENDOR],
        "without_rest": restless, "sustained": alone,
    }  # fmt: skip


def _said(times: dict[str, list[float]]) -> str:
    medians = {name: statistics.median(each) for name, each in times.items()}
    return f"{medians['times_us']:.0f} µs, {medians['mhz']:.0f} MHz"


def count(shape: tuple[int, int, int], tables: list[orders.Order]) -> list[dict[str, float]]:
    """Nsight Compute's counters of one launch for each order."""
    with tempfile.TemporaryDirectory() as scratch:
        paths = []
        for number, order in enumerate(tables):
            path = Path(scratch, f"{number}.txt")
            path.write_text("\n".join(f"{row} {column}" for row, column in order))
            paths.append(path)
        command: list[str | Path] = [program().program, *map(str, shape), *paths]
        counted = profiler.count(command, COUNTERS)
    if len(counted) != len(tables):
        raise toolchain.CudaError(f"ncu saw {len(counted)} launches of {len(tables)}")
    return [counts for _, counts in counted]
