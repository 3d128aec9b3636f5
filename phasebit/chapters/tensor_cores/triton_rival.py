"""The rival of *Tensor cores without Hopper*: Triton, kept from Hopper's own instructions.

Triton reads ``DISABLE_MMA_V3`` when it compiles; with it set it multiplies by ``mma.sync``, as it
does for sm_80. :func:`compiled_for` says what it really used. Imported only where Triton is.
"""

from __future__ import annotations

import itertools
import os
from typing import Any

os.environ["DISABLE_MMA_V3"] = "1"

import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]

from phasebit.emulator.capabilities import limits


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def product(  # type: ignore[no-untyped-def]
    A, B, C, M, N, K, lda, ldb, ldc,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SUPER: tl.constexpr,
):  # fmt: skip
    """C (M, N) = A (M, K) · B (K, N), row-major, for K a multiple of BK."""
    number = tl.program_id(0)
    rows, cols = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = number // (SUPER * cols) * SUPER
    height = min(rows - first, SUPER)
    within = number % (SUPER * cols)
    m = (first + within % height) * BM + tl.arange(0, BM)
    n = within // height * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    # Rows and columns outside wrap around; the store leaves them out.
    a = A + (m % M)[:, None] * lda + k[None, :]
    b = B + k[:, None] * ldb + (n % N)[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        total = tl.dot(tl.load(a), tl.load(b), total)
        a += BK
        b += BK * ldb
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(C + m[:, None] * ldc + n[None, :], total, mask=inside)


BLOCKS = ((128, 256, 32), (256, 128, 32), (128, 256, 64), (256, 128, 64), (128, 128, 32),
          (128, 128, 64), (64, 256, 64))  # fmt: skip


def configurations() -> list[dict[str, int]]:
    """Block tiles, stages, warps and super-rows to choose from."""
    found = []
    for (bm, bn, bk), stages, warps in itertools.product(BLOCKS, (3, 4, 5), (4, 8)):
        fits = stages * (bm + bn) * bk * 2 <= limits(90).block_shared
        if fits and bm * bn // warps <= 64 * 64:  # more would not fit a thread's registers
            found.append(
                {"BM": bm, "BN": bn, "BK": bk, "SUPER": 8,
                 "num_stages": stages, "num_warps": warps}
            )  # fmt: skip
    return found


def launch(a: Any, b: Any, c: Any, configuration: dict[str, int]) -> Any:
    """Launch on torch tensors; returns the compiled kernel."""
    (m, k), n = a.shape, b.shape[1]
    blocks = -(-m // configuration["BM"]) * -(-n // configuration["BN"])
    return product[(blocks,)](
        a, b, c, m, n, k, a.stride(0), b.stride(0), c.stride(0), **configuration
    )


def compiled_for(kernel: Any) -> str:
    """The matrix instruction in a compiled kernel's PTX: ``"mma.sync"`` or ``"wgmma"``."""
    ptx = kernel.asm["ptx"]
    return "wgmma" if "wgmma" in ptx else "mma.sync" if "mma.sync" in ptx else "none"
