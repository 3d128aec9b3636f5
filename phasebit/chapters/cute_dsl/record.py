"""``gemm.py`` of *The same in CuTe DSL*, timed: the PTX that was kept, beside cuBLAS.

For whoever has a GPU that runs ``sm_100a``, as a B200 is: none was at hand when this was written.
CuTe DSL is not needed. Where torch is installed, cuBLAS stands beside it; C is f32, and cuBLAS's
bf16, as in the record of *Four producers, four consumers*.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from phasebit import measure, toolchain
from phasebit.chapters.cute_dsl import cute_ptx, ptx_runs

NAME = "cute_dsl"
TARGET = cute_ptx.TARGET
"""What a GPU must run for this to be measured."""

SHAPES = (4096, 4096, 4096), (8192, 8192, 8192), (8192, 8192, 512)
_COUNT, _ROUNDS, _EACH = 50, 10, 5


def checked(device: str) -> bool:
    """Whether whole numbers on a ragged shape, whose sums are exact, come out right.

    ``device``: ``"gpu"``, or ``"emulator"`` to rehearse.
    """
    draw = np.random.default_rng(26)
    a, b = (draw.integers(-4, 5, (rows, 200)).astype(np.float64) for rows in (300, 260))
    made = ptx_runs.product(_gemm(), a, b, workers=2)
    made.run(device=device)
    return np.array_equal(made.c, a @ b.T)


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU, or one that does not run
    :data:`TARGET`, or when the kernel is wrong.
    """
    from phasebit.instruments import beside_torch, programs

    facts = beside_torch.facts_for(NAME, TARGET)
    if not checked("gpu"):
        raise toolchain.CudaError("gemm.py is wrong on whole numbers, 300 × 260 × 200")
    products, blocks = [], programs.multiprocessors()
    for m, n, k in SHAPES:
        draw = np.random.default_rng(k)
        a, b = (draw.standard_normal((rows, k), np.float32) for rows in (m, n))
        made = ptx_runs.product(_gemm(), a, b, workers=blocks)
        products.append({"m": m, "n": n, "k": k, "us": {"gemm.py": made.times(_COUNT)}})
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "clock": f"events around each of {_COUNT} launches, some before that do not count",
            "inputs": "normal random bf16 numbers, A (M, K) and B (N, K) row-major; f32 sums and "
            "results; no flush between launches; as many blocks as multiprocessors",
            "check": "before timing, whole numbers on a ragged shape, every element",
            "compiled by": cute_ptx.record()[0]["package"],
            "vendor": _vendor(products),
        },
        "products": products,
    }


def _gemm() -> str:
    return cute_ptx.kept(cute_ptx.source(cute_ptx.GEMM))


def _vendor(products: list[dict[str, Any]]) -> str:
    """Adds cuBLAS's times of the same shapes; what the record says of them."""
    from phasebit.instruments import beside_torch

    try:
        torch = beside_torch.torch_here(NAME)
    except toolchain.CudaError as error:
        return f"nothing: {error}"
    for each in products:
        a, b = (torch.randn(each[rows], each["k"], device="cuda", dtype=torch.bfloat16)
                for rows in ("m", "n"))  # fmt: skip
        cublas: dict[str, beside_torch.Launch] = {"cuBLAS": partial(torch.matmul, a, b.T)}
        each["us"] |= beside_torch.times(torch, cublas, _ROUNDS, _EACH)
    return (
        f"cuBLAS through torch {torch.__version__}, bf16 results, timed afterwards: "
        f"{_ROUNDS} rounds, in each a launch that does not count and then {_EACH} that do"
    )


table = measure.product_rates
"""What the page shows of a record: rates, ours and cuBLAS's."""
