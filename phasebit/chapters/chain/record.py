"""*Four producers, four consumers* and the products that lead to it, timed beside cuBLAS.

For whoever has a GPU that runs ``sm_100a``, as a B200 is: none was at hand when this was written.
Needs torch, for cuBLAS and for the check. C is f32, as tensor memory holds it; cuBLAS writes bf16,
half as many bytes, and so do the kernels whose name says it.
"""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from phasebit import files, measure, toolchain
from phasebit.chapters.chain import kernels
from phasebit.instruments import beside_torch

NAME = "chain"
TARGET = "sm_100a"
"""What a GPU must run for this to be measured."""

KERNELS = {
    "one stage": "one_thread_multiplies/tcgen05",
    "a ring": f"chain/{kernels.RING}",
    "roles": f"chain/{kernels.ROLES}",
    "pieces": f"chain/{kernels.PIECES}",
    "one box": f"chain/{kernels.ONE_BOX}",
    "a chain": f"chain/{kernels.CHAIN}",
    "two that share B": f"chain/{kernels.MULTICAST}",
    "a pair": f"chain/{kernels.PAIR}",
    "two products of a pair": f"chain/{kernels.TWO_PRODUCTS}",
    "launch control": f"chain/{kernels.LAUNCH_CONTROL}",
    "launch control, pairs": f"chain/{kernels.PAIR_CONTROL}",
}
"""What the record calls a kernel -> its file."""

IN_BF16 = ("a chain", "a pair", "two products of a pair", "launch control, pairs")
"""Those of which it times a second build, whose C is bf16."""

VENDOR = "cuBLAS"
SHAPES = (4096, 4096, 4096), (8192, 8192, 8192), (8192, 8192, 512)
_ROUNDS, _EACH = 20, 5

# For a library: a launch on device memory, with as many blocks as there are multiprocessors.
_PRODUCT = """
extern "C" void product(const Element* A, const Element* B, Out* C, int m, int n, int k) {
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
    builds = {name: (file, False) for name, file in KERNELS.items()}
    builds |= {f"{name}, C in bf16": (KERNELS[name], True) for name in IN_BF16}
    with ThreadPoolExecutor(len(builds)) as pool:
        built = pool.map(lambda each: build(*each), builds.values())
    libraries = {name: ctypes.CDLL(str(one.program)) for name, one in zip(builds, built,
                                                                          strict=True)}  # fmt: skip
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "clock": "CUDA events before and after each launch",
            "order": f"{_ROUNDS} rounds; in each, every contender in turn, a launch that does not "
            f"count and then {_EACH} that do",
            "inputs": "normal random bf16 numbers, A (M, K) and B (N, K) row-major, f32 sums; "
            "results f32 where the name does not say bf16; no flush between launches",
            "check": "before timing, 128 rows by 128 columns of the result against a product in "
            "double, within (K + K/8 + 4)·2⁻²³·Σ|a·b|, and 2⁻⁸ of a result in bf16",
            "vendor": f"cuBLAS through torch {torch.__version__}, the same operands, bf16 results",
        },
        "products": [_product(torch, libraries, *shape) for shape in SHAPES],
    }


table = measure.product_rates
"""What the page shows of a record: rates, ours and cuBLAS's."""


def build(kernel: str, half: bool = False) -> toolchain.Build:
    """A kernel as a library, by its file's name; ``half``: with C in bf16."""
    return toolchain.build(
        files.kernel(kernel) + _PRODUCT, name=NAME, target=TARGET, library=True,
        options=["-DC_BF16"] * half,
    )  # fmt: skip


def _product(torch: Any, libraries: dict[str, ctypes.CDLL], m: int, n: int, k: int) -> Any:
    """One shape: every contender checked, then timed."""
    a, b = (torch.randn(rows, k, device="cuda", dtype=torch.bfloat16) for rows in (m, n))
    whole, half = (torch.empty(m, n, device="cuda", dtype=kind)
                   for kind in (torch.float32, torch.bfloat16))  # fmt: skip

    def ours(library: ctypes.CDLL, c: Any) -> beside_torch.Launch:
        pointers = beside_torch.pointers((a, b, c))
        return lambda: library.product(*pointers, m, n, k)

    launches = {}
    for name, library in libraries.items():
        c, stored = (half, 2.0**-8) if name.endswith("bf16") else (whole, 0.0)
        launches[name] = ours(library, c)
        beside_torch.check(
            torch, name, launches[name], (a, b.T, c), beside_torch.cut_sums(k), stored
        )
    launches[VENDOR] = lambda: torch.matmul(a, b.T, out=half)
    found = beside_torch.times(torch, launches, _ROUNDS, _EACH)
    return {"m": m, "n": n, "k": k, "us": found}
