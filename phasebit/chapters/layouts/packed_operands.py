"""``kernels/layouts/packing.cuh`` on the GPU: A in place, A packed first, and cuBLAS, by turns."""

from __future__ import annotations

import ctypes
import statistics
from typing import Any

from phasebit import toolchain
from phasebit.instruments import beside_torch, profiler, rested
from phasebit.instruments.beside_torch import Launch

STRIDED, COPY, PACKED = "strided", "copy", "copy and packed"
VENDOR, VENDOR_DENSE = "cuBLAS", "cuBLAS, A dense"
"""cuBLAS asked for the same product; and for one whose A lies dense already."""

ROWS, DEPTH = 16384, 1024
"""Rows of all A together, and K: 64 MiB of A, whatever the batch is."""
INTERLEAVED = (1, 2, 4, 8, 16)
"""Products whose elements lie side by side; there are as many in the batch."""
COLUMNS = (128, 256, 512, 1024, 2048)
"""N: each column of 128 of C reads A once more."""
COUNTED_COLUMNS = 1024

ALONE = {
    "row-major": (DEPTH, 1),
    "rows 64 KiB apart": (16384, 1),
    "rows 2 MiB apart": (524288, 1),
    "column-major": (1, 2048),
}
"""One product of 2048 × 2048 × 1024: what its A is called, and the strides of m and k."""
ALONE_ROWS = ALONE_COLUMNS = 2048

ROUNDS, REST = 15, 0.01
"""Turns of each contender, and seconds of rest before each."""

ASKED = "l1tex__m_xbar2l1tex_read_sectors.sum"
"""Sectors that came to the multiprocessors: what the emulator counts, less what L1 had."""
LOOKUPS, DRAM = "lts__t_sectors_srcunit_tex_op_read.sum", "dram__bytes_read.sum"
COUNTERS = (ASKED, LOOKUPS, DRAM, "dram__bytes_write.sum")

_LIBRARY = """
#include "layouts/packing.cuh"
extern "C" void run(int what, const float* A, const float* B, float* C, int M, int N, int K,
                    int batch, long long sm, long long sk, long long sb, float* packed,
                    cudaStream_t stream) {
    const Batch p{A, B, C, M, N, K, batch, size_t(sm), size_t(sk), size_t(sb)};
    if (what > 0) launch_pack(p, packed, stream);
    if (what != 1) launch_product(p, what ? packed : nullptr, stream);
}
"""
_COUNTED = """
#include "layouts/packing.cuh"
int main(int argc, char** argv) {  // M N K of each product, and how many are interleaved
    const int M = atoi(argv[1]), N = atoi(argv[2]), K = atoi(argv[3]), s = atoi(argv[4]);
    const size_t a = size_t(s) * M * K, b = size_t(s) * K * N, c = size_t(s) * M * N;
    float *A, *B, *C, *packed;
    Batch p{nullptr, nullptr, nullptr, M, N, K, s, size_t(K) * s, size_t(s), 1};
    CHECK(cudaMalloc(&A, a * 4));
    CHECK(cudaMalloc(&B, b * 4));
    CHECK(cudaMalloc(&C, c * 4));
    CHECK(cudaMalloc(&packed, packed_size(p) * 4));
    CHECK(cudaMemset(A, 0, a * 4));
    CHECK(cudaMemset(B, 0, b * 4));
    p.A = A, p.B = B, p.C = C;
    launch_product(p, nullptr);
    launch_pack(p, packed);
    launch_product(p, packed);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}
"""


def library() -> toolchain.Build:
    """The kernels as a function."""
    return toolchain.build(_LIBRARY, name="packed_operands", library=True)


def program() -> toolchain.Build:
    """The three launches that are counted: in place, the copy, packed."""
    return toolchain.build(_COUNTED, name="packed_operands_counted")


def interleaved(torch: Any, together: int, columns: int) -> dict[str, Any]:
    """A (M, K, batch): neighbours in memory belong to different products of ``together``."""
    m = ROWS // together
    a = torch.randn(m, DEPTH, together, device="cuda").permute(2, 0, 1)
    return {"interleaved": together, **_times(torch, a, columns)}


def alone(torch: Any, name: str) -> dict[str, Any]:
    """One product; A with the strides of :data:`ALONE`."""
    sm, sk = ALONE[name]
    whole = torch.randn(max(ALONE_ROWS * sm, DEPTH * sk), device="cuda")
    a = whole.as_strided((1, ALONE_ROWS, DEPTH), (0, sm, sk))
    return {"name": name, **_times(torch, a, ALONE_COLUMNS)}


def counted(together: int) -> dict[str, Any]:
    """Nsight Compute's counters of the three launches, for ``together`` interleaved products."""
    sizes = (ROWS // together, COUNTED_COLUMNS, DEPTH, together)
    found = profiler.count([program().program, *map(str, sizes)], COUNTERS)
    names = (STRIDED, COPY, "packed")
    if len(found) != len(names):
        raise toolchain.CudaError(f"ncu saw {len(found)} launches of {len(names)}")
    counts = {name: values for name, (_, values) in zip(names, found, strict=True)}
    sectors = {name: round(values[ASKED] * 1e-6) for name, values in counts.items()}
    print(f"⏱ {together} interleaved: million sectors {sectors}")
    return {"interleaved": together, "shape": list(sizes[:3]), **counts}


def _times(torch: Any, a: Any, n: int) -> dict[str, Any]:
    """Times of products with ``a`` (batch, M, K), whatever its strides."""
    batch, m, k = a.shape
    b = torch.randn(batch, k, n, device="cuda")
    c = torch.empty(batch, m, n, device="cuda")
    dense = a.contiguous().clone()
    packed = torch.empty(batch * -(-m // 128) * 128 * -(-k // 16) * 16, device="cuda")
    run = ctypes.CDLL(str(library().program)).run
    strides = [ctypes.c_longlong(a.stride(i)) for i in (1, 2, 0)]
    *arrays, tiles = beside_torch.pointers((a, b, c, packed))
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

    def launcher(what: int) -> Launch:
        return lambda: run(what, *arrays, m, n, k, batch, *strides, tiles, stream)

    launches: dict[str, Launch] = {
        STRIDED: launcher(0),
        PACKED: launcher(2),
        VENDOR: lambda: torch.matmul(a, b, out=c),
        VENDOR_DENSE: lambda: torch.matmul(dense, b, out=c),
    }
    bound = beside_torch.cut_sums(k)
    for name, launch in launches.items():
        packed.fill_(float("nan"))
        for each in {0, batch - 1}:
            beside_torch.check(torch, name, launch, (a[each], b[each], c[each]), bound)
    launches[COPY] = launcher(1)
    times = rested.times(torch, launches, ROUNDS, REST)
    medians = {name: statistics.median(each["times_us"]) for name, each in times.items()}
    said = ", ".join(f"{name} {median:.0f} µs" for name, median in medians.items())
    slowest = min(min(each["mhz"]) for each in times.values())
    print(f"⏱ A with strides {a.stride()}, N = {n}: {said}; {slowest:.0f} MHz at least")
    return {"shape": [m, n, k], "batch": batch, "strides": list(a.stride()), "times": times}
