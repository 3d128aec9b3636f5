"""*Four producers, four consumers* and the products that lead to it, timed beside cuBLAS.

For whoever has a GPU that runs ``sm_100a``, as a B200 is: none was at hand when this was written.
Needs torch, for cuBLAS and for the check. C is f32, as tensor memory holds it; cuBLAS writes bf16,
half as many bytes, and the record says so.
"""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from phasebit import files, toolchain
from phasebit.chapters.chain import kernels
from phasebit.instruments import beside_torch

NAME = "chain"
TARGET = "sm_100a"
"""What a GPU must run for this to be measured."""

KERNELS = {
    "one stage": "one_thread_multiplies/tcgen05",
    "a chain": f"chain/{kernels.CHAIN}",
    "two that share B": f"chain/{kernels.MULTICAST}",
    "a pair": f"chain/{kernels.PAIR}",
    "two products of a pair": f"chain/{kernels.TWO_PRODUCTS}",
    "launch control": f"chain/{kernels.LAUNCH_CONTROL}",
}
"""What the record calls a kernel -> its file."""

VENDOR = "cuBLAS"
SHAPES = (4096, 4096, 4096), (8192, 8192, 8192), (8192, 8192, 512)
_ROUNDS, _EACH = 20, 5

# For a library: a launch on device memory, with as many blocks as there are multiprocessors.
_PRODUCT = """
extern "C" void product(const Element* A, const Element* B, float* C, int m, int n, int k) {
    launch({A, B, C, m, n, k, 1 << 20});
    CHECK(cudaGetLastError());
}
"""


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU or one that does not run
    :data:`TARGET`, when torch is missing, or when a kernel fails or is wrong.
    """
    facts = beside_torch.facts_for(NAME, TARGET)
    torch = beside_torch.torch_here(NAME)
    with ThreadPoolExecutor(len(KERNELS)) as pool:
        built = pool.map(build, KERNELS.values())
    libraries = {name: ctypes.CDLL(str(one.program)) for name, one in zip(KERNELS, built,
                                                                          strict=True)}  # fmt: skip
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "clock": "CUDA events before and after each launch",
            "order": f"{_ROUNDS} rounds; in each, every contender in turn, a launch that does not "
            f"count and then {_EACH} that do",
            "inputs": "normal random bf16 numbers, A (M, K) and B (N, K) row-major, f32 sums and "
            "results; no flush between launches",
            "check": "before timing, 128 rows by 128 columns of the result against a product in "
            "double, within (K + K/8 + 4)·2⁻²³·Σ|a·b|",
            "vendor": f"cuBLAS through torch {torch.__version__}, the same operands, bf16 results",
        },
        "products": [_product(torch, libraries, *shape) for shape in SHAPES],
    }


def build(kernel: str) -> toolchain.Build:
    """A kernel as a library, by its file's name."""
    return toolchain.build(
        files.kernel(kernel) + _PRODUCT, name=NAME, target=TARGET, library=True
    )


def _product(torch: Any, libraries: dict[str, ctypes.CDLL], m: int, n: int, k: int) -> Any:
    """One shape: every contender checked, then timed."""
    a, b = (torch.randn(rows, k, device="cuda", dtype=torch.bfloat16) for rows in (m, n))
    c, half = (torch.empty(m, n, device="cuda", dtype=kind)
               for kind in (torch.float32, torch.bfloat16))  # fmt: skip
    pointers = beside_torch.pointers((a, b, c))

    def ours(library: ctypes.CDLL) -> beside_torch.Launch:
        return lambda: library.product(*pointers, m, n, k)

    launches = {name: ours(library) for name, library in libraries.items()}
    for name, launch in launches.items():
        beside_torch.check(torch, name, launch, (a, b.T, c), beside_torch.cut_sums(k))
    launches[VENDOR] = lambda: torch.matmul(a, b.T, out=half)
    found = beside_torch.times(torch, launches, _ROUNDS, _EACH)
    return {"m": m, "n": n, "k": k, "us": found}
