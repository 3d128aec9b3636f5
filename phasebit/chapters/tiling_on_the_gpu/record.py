"""*Tiling on the GPU*: the f32 ladder beside cuBLAS, and what Nsight Compute counts of each rung.

Needs torch, whose f32 product is cuBLAS's with TF32 off, and ncu. What the emulator predicts of
the counters is computed where the chapter is executed (``ladder``).
"""

from __future__ import annotations

import ctypes
import statistics
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from phasebit import measure, rounding, toolchain
from phasebit.chapters.tiling_on_the_gpu import ladder, tiling_controls
from phasebit.instruments import beside_torch, profiler, rested

NAME = "tiling_on_the_gpu"
FURTHER = (tiling_controls.NAME,)
"""Records that are saved beside this one."""

VENDOR = "cuBLAS"
SIZES = (4096, 2048, 1024)
SLOW = ("naive", "coalesced", "shared_tile")
ROUNDS, SLOW_ROUNDS, EACH, REST = 10, 2, 3, 0.01
"""Turns of each contender, and of each slow one; timed launches of a turn; seconds of rest before
it."""
COUNTED = 4096
RAGGED = ((4096, 4096, 4096), (4095, 4092, 4100), (4095, 4093, 4097))
"""Whole tiles; rows that begin at multiples of 16 bytes; rows that begin anywhere."""

METRICS = (*ladder.METRICS, "dram__bytes_read.sum", "smsp__inst_executed.sum")

_MAIN = """
int main() {{
    const int n = {size};
    float *A, *B, *C;
    CHECK(cudaMalloc(&A, size_t(n) * n * 4));
    CHECK(cudaMalloc(&B, size_t(n) * n * 4));
    CHECK(cudaMalloc(&C, size_t(n) * n * 4));
    CHECK(cudaMemset(A, 0, size_t(n) * n * 4));
    CHECK(cudaMemset(B, 0, size_t(n) * n * 4));
    const Product g{{A, B, C, n, n, n, n, n, n, 1.0f, 0.0f}};
    {launches}
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}}
"""


def sources() -> tuple[str, str]:
    """The library of all rungs, and the program that launches each once to be counted."""
    entries = "".join(
        f'extern "C" void {name}(const float* A, const float* B, float* C, int M, int N, int K) {{'
        f" {name}_rung::launch({{A, B, C, M, N, K, K, N, N, 1.0f, 0.0f}}); }}\n"
        for name in ladder.VARIANTS
    )
    launches = "\n    ".join(f"{name}_rung::launch(g);" for name in ladder.VARIANTS)
    every = ladder.source()
    return every + entries, every + _MAIN.format(size=COUNTED, launches=launches)


def build() -> tuple[toolchain.Build, toolchain.Build]:
    """Both of :func:`sources`, compiled side by side: each takes the compiler a minute."""
    library, counted = sources()
    with ThreadPoolExecutor() as pool:
        one = pool.submit(toolchain.build, library, name=NAME, library=True)
        other = pool.submit(toolchain.build, counted, name=NAME)
        return one.result(), other.result()


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU, torch or ncu, or when a rung is wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here("tiling_on_the_gpu")
    measure.save(tiling_controls.record())
    shared, counted = build()
    library = ctypes.CDLL(str(shared.program))
    turns = {str(size): _products(torch, library, (size,) * 3) for size in SIZES}
    ragged = [(shape, _products(torch, library, shape, ("tuned",))) for shape in RAGGED]
    products = {size: _only(found, "times_us") for size, found in turns.items()}
    for name, times in products[str(SIZES[0])].items():
        vendor = statistics.median(products[str(SIZES[0])][VENDOR])
        median = statistics.median(times)
        flop = measure.matmul_flop(*(SIZES[0],) * 3)
        rate = measure.tflops(flop, median * 1e-6)
        print(f"⏱ {SIZES[0]}: {name}, {rate:.1f} TFLOP/s, {vendor / median:.3f} of cuBLAS")
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "clock": "CUDA events before and after each launch",
            "order": f"the rungs and cuBLAS by turns, in a new random order in each of {ROUNDS} "
            f"rounds; each turn: a rest of {REST} s, a launch that is not counted and {EACH} that "
            f"are; {', '.join(SLOW)} apart from the others and {SLOW_ROUNDS} rounds",
            "mhz": "clock of a multiprocessor, counted for 50 µs right after each timed launch",
            "inputs": "normal random f32 numbers, row-major, alpha 1, beta 0; the caches are not "
            "flushed: at 4096 inputs and result are larger than the L2 cache",
            "check": "before timing, 128 rows by 128 columns of the result against a product in "
            "double, within γ·Σ|a·b|",
            "vendor": f"cuBLAS through torch {torch.__version__}, f32, TF32 off",
            "counters": f"{profiler.version()}, one launch of each rung at {COUNTED}, caches "
            "flushed before each, clocks left alone",
        },
        "registers": {use.kernel: use.registers for use in shared.resources},
        "products": products,
        "mhz": {size: _only(found, "mhz") for size, found in turns.items()},
        "ragged": [
            {"shape": list(shape), **{key: _only(found, key) for key in ("times_us", "mhz")}}
            for shape, found in ragged
        ],
        "counters": dict(
            zip(
                ladder.VARIANTS,
                (row for _, row in profiler.count([counted.program], METRICS)),
                strict=True,
            )
        ),
    }


Turns = dict[str, dict[str, list[float]]]
"""Contender -> ``times_us`` of its launches, and ``mhz`` after each."""


def _only(found: Turns, key: str) -> dict[str, list[float]]:
    return {name: each[key] for name, each in found.items()}


def _products(
    torch: Any,
    library: ctypes.CDLL,
    shape: tuple[int, int, int],
    names: tuple[str, ...] = tuple(ladder.VARIANTS),
) -> Turns:
    """Times of the rungs and of cuBLAS."""
    m, n, k = shape
    a, b = torch.randn(m, k, device="cuda"), torch.randn(k, n, device="cuda")
    matrices = (a, b, torch.empty(m, n, device="cuda"))
    torch.backends.cuda.matmul.allow_tf32 = False

    def ours(name: str) -> beside_torch.Launch:
        return lambda: library[name](*beside_torch.pointers(matrices), m, n, k)

    launches = {name: ours(name) for name in names}
    launches[VENDOR] = lambda: torch.mm(a, b, out=matrices[2])
    bound = rounding.product_bound(k)
    for name, launch in launches.items():
        beside_torch.check(torch, name, launch, matrices, bound)
    slow = {name: launch for name, launch in launches.items() if name in SLOW}
    fast = {name: launch for name, launch in launches.items() if name not in SLOW}
    return rested.times(torch, slow, SLOW_ROUNDS, REST, each=EACH) | rested.times(
        torch, fast, ROUNDS, REST, each=EACH
    )
