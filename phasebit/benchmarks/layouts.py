"""Chapter 10: packed operands beside strided ones, and the order of blocks beside the L2 cache.

Both beside the vendor's library, in the same process and by turns. Needs torch and ncu.
"""

from __future__ import annotations

import ctypes
import statistics
import tempfile
from pathlib import Path
from typing import Any

from phasebit import block_order, measure, toolchain
from phasebit.benchmarks import beside_torch, profiler, programs
from phasebit.benchmarks.beside_torch import Launch

NAME = "10_layouts"

VENDOR = "cuBLAS"
STRIDED, COPY, PACKED = "strided", "copy", "copy and packed"

SIZE, BATCH = 1024, 16
"""M and K of the batched products, and how many there are."""
COLUMNS = (128, 256, 512, 1024, 2048)
"""N: each column of 128 of C reads A once more."""
LEADING = (0, 1024, 16384, 262144)
"""Floats that lie unused between two rows of A, in the second comparison."""

TILE = (128, 256)
"""Rows and columns of C that a block computes, and that an order counts in."""
SHAPES = ((8192, 8192, 8192), (16384, 16384, 4096))

_PACKING = """
#include "10_packing.cuh"
extern "C" void run(int what, const float* A, const float* B, float* C, int M, int N, int K,
                    int batch, long long sm, long long sk, long long sb, float* packed,
                    cudaStream_t stream) {
    const Batch p{A, B, C, M, N, K, batch, size_t(sm), size_t(sk), size_t(sb)};
    if (what > 0) launch_pack(p, packed, stream);
    if (what != 1) launch_product(p, what ? packed : nullptr, stream);
}
"""
_ORDER = """
#include "10_order.cuh"
using In = __nv_bfloat16;
"""
_ORDER_LIBRARY = (
    _ORDER
    + """
extern "C" void run(const In* A, const In* B, float* C, int M, int N, int K, const Part* order,
                    int parts, cudaStream_t stream) {
    const Gemm<In, float> g{A, B, C, M, N, K, K, N, N, 1.0f, 0.0f};
    launch_in_order<OrderTile, 16>(g, order, parts, stream);
}
"""
)
_ORDER_PROGRAM = (
    _ORDER
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
_HIT, _LOOKUPS = "lts__t_sectors_srcunit_tex_lookup_hit.sum", "lts__t_sectors_srcunit_tex.sum"
_DRAM = "dram__bytes_read.sum"


def orders(rows: int, columns: int) -> dict[str, block_order.Order]:
    """The orders that are compared, by name."""
    heights = (2, 4, 8, 16, 32)
    return {
        "row by row": block_order.rows_first(rows, columns),
        **{
            f"super-rows of {height}": block_order.super_rows(rows, columns, height)
            for height in heights
        },
        "Hilbert": block_order.hilbert(rows, columns),
        "drawn by lot": block_order.shuffled(rows, columns),
    }


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU, torch or ncu, or when a kernel
    fails or is wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here(10)
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "clock": "CUDA events before and after each launch",
            "order": "the contenders by turns, some launches each, the first of them not counted",
            "inputs": "normal random numbers, drawn once; no flush of the caches",
            "check": "before timing, 128 rows by 128 columns of a result against a product in "
            "double, within (K + K/8 + 4)·2⁻²³·Σ|a·b|",
            "vendor": f"cuBLAS through torch {torch.__version__}: matmul, which copies an operand "
            "itself where cuBLAS cannot read it; f32 without TF32 for the packing, bf16 for the "
            "order of blocks",
            "counters": "Nsight Compute, caches flushed before each launch, clocks left alone",
        },
        "multiprocessors": programs.multiprocessors(),
        "l2_bytes": int(torch.cuda.get_device_properties(0).L2_cache_size),
        "interleaved": [_interleaved(torch, n) for n in COLUMNS],
        "leading": [_leading(torch, gap) for gap in LEADING],
        "orders": [_orders(torch, shape) for shape in SHAPES],
    }


def libraries() -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """The packing kernels and the ordered one, as functions."""
    options = ["-shared", "-Xcompiler", "-fPIC"]
    packing = toolchain.build(_PACKING, name=f"{NAME}_packing", options=options)
    order = toolchain.build(_ORDER_LIBRARY, name=f"{NAME}_order", options=options)
    return ctypes.CDLL(str(packing.program)), ctypes.CDLL(str(order.program))


def _packing(torch: Any, a: Any, n: int) -> dict[str, Any]:
    """Times of products with ``a`` (batch, M, K), whatever its strides."""
    batch, m, k = a.shape
    b = torch.randn(batch, k, n, device="cuda")
    c = torch.empty(batch, m, n, device="cuda")
    packed = torch.empty(batch * -(-m // 128) * 128 * -(-k // 16) * 16, device="cuda")
    run = libraries()[0].run
    strides = [ctypes.c_longlong(a.stride(i)) for i in (1, 2, 0)]
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

    def launcher(what: int) -> Launch:
        *matrices, room = beside_torch.pointers((a, b, c, packed))
        return lambda: run(what, *matrices, m, n, k, batch, *strides, room, stream)

    launches: dict[str, Launch] = {
        STRIDED: launcher(0),
        PACKED: launcher(2),
        VENDOR: lambda: torch.matmul(a, b, out=c),
    }
    bound = beside_torch.cut_sums(k)
    for name, launch in launches.items():
        c.fill_(float("nan"))
        for each in (0, batch - 1):
            beside_torch.check(torch, name, launch, (a[each], b[each], c[each]), bound)
    launches[COPY] = launcher(1)
    times = beside_torch.times(torch, launches, rounds=5, each=4)
    said = ", ".join(f"{name} {statistics.median(each):.0f} µs" for name, each in times.items())
    print(f"⏱ A with strides {a.stride()}, N = {n}: {said}")
    return {"shape": [m, n, k], "batch": batch, "strides": list(a.stride()), "times_us": times}


def _interleaved(torch: Any, n: int) -> dict[str, Any]:
    """A (M, K, batch): neighbours in memory belong to different products."""
    return _packing(torch, torch.randn(SIZE, SIZE, BATCH, device="cuda").permute(2, 0, 1), n)


def _leading(torch: Any, gap: int) -> dict[str, Any]:
    """A (1, M, K), row-major, rows ``gap`` floats apart."""
    whole = torch.randn(2 * SIZE, SIZE + gap, device="cuda")
    return _packing(torch, whole[None, :, :SIZE], 2 * SIZE)


def _orders(torch: Any, shape: tuple[int, int, int]) -> dict[str, Any]:
    m, n, k = shape
    a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(k, n, device="cuda", dtype=torch.bfloat16)
    c = torch.empty(m, n, device="cuda")
    run = libraries()[1].run
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    tables = orders(m // TILE[0], n // TILE[1])

    def launcher(order: block_order.Order) -> Launch:
        table = torch.tensor(order, dtype=torch.int32, device="cuda")

        def launch() -> None:
            *matrices, entries = beside_torch.pointers((a, b, c, table))
            run(*matrices, m, n, k, entries, len(order), stream)

        return launch

    launches: dict[str, Launch] = {name: launcher(order) for name, order in tables.items()}
    for name, launch in launches.items():
        beside_torch.check(torch, name, launch, (a, b, c), beside_torch.cut_sums(k))
    launches[VENDOR] = lambda: torch.mm(a, b, out_dtype=torch.float32, out=c)
    times = beside_torch.times(torch, launches, rounds=4, each=3)
    counted = _count(shape, list(tables.values()))
    rows = []
    for name, row in zip(tables, counted, strict=True):
        rows.append({"order": name, "times_us": times[name], **row})
        hits, megabytes = row[_HIT] / row[_LOOKUPS], row[_DRAM] * 1e-6
        print(
            f"⏱ {shape}, {name}: L2 {hits:.1%}, {megabytes:.0f} MB, "
            f"{statistics.median(times[name]):.0f} µs"
        )
    print(f"⏱ {VENDOR}: {statistics.median(times[VENDOR]):.0f} µs")
    return {"shape": list(shape), "rows": rows, "vendor_us": times[VENDOR]}


def _count(
    shape: tuple[int, int, int], tables: list[block_order.Order]
) -> list[dict[str, float]]:
    """Nsight Compute's counters of one launch for each order."""
    program = toolchain.build(_ORDER_PROGRAM, name=f"{NAME}_counted").program
    with tempfile.TemporaryDirectory() as scratch:
        paths = []
        for number, order in enumerate(tables):
            path = Path(scratch, f"{number}.txt")
            path.write_text("\n".join(f"{row} {column}" for row, column in order))
            paths.append(path)
        command: list[str | Path] = [program, *map(str, shape), *paths]
        counted = profiler.count(command, (_HIT, _LOOKUPS, _DRAM))
    if len(counted) != len(tables):
        raise toolchain.CudaError(f"ncu saw {len(counted)} launches of {len(tables)}")
    return [counts for _, counts in counted]
