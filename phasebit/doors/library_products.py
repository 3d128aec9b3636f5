"""The products of cuBLAS that Triton carries for its tutorials, by PyTorch on the CPU.

`triton._C.libtriton.nvidia.cublas.CublasLt` looks for the vendor's library, which needs a GPU. Here
are its calls: all operands lie with K along their rows, so the second is transposed.
"""

from __future__ import annotations

from typing import Any

from phasebit.doors import scaled_products


class Products:
    """What stands in for `CublasLt`; `workspace` is not used."""

    def __init__(self, workspace: Any) -> None:
        pass

    def matmul(self, a: Any, b: Any, c: Any) -> None:
        """c [M, N] = a [M, K] times b [N, K] transposed."""
        c.copy_(a.float() @ b.float().T)

    def gemm(self, a: Any, b: Any, c: Any, d: Any, alpha: float, beta: float) -> None:
        """d [M, N] = alpha a b^T + beta c."""
        d.copy_(alpha * (a.float() @ b.float().T) + beta * c.float())

    def block_scaled_matmul_mxfp8(self, a: Any, b: Any, c: Any, scale_a: Any, scale_b: Any) -> None:
        """`matmul` of float8_e4m3fn, 32 with a scale of float8_e8m0fnu."""
        _scaled(a, b, c, scale_a, scale_b, "float8_e4m3fn", "float8_e8m0fnu")

    def block_scaled_matmul_nvfp4(self, a: Any, b: Any, c: Any, scale_a: Any, scale_b: Any) -> None:
        """`matmul` of e2m1, two to a byte, 16 with a scale of float8_e4m3fn."""
        _scaled(a, b, c, scale_a, scale_b, "float4_e2m1fn_x2", "float8_e4m3fn")


def _scaled(
    a: Any, b: Any, c: Any, scale_a: Any, scale_b: Any, operand: str, scale: str
) -> None:  # fmt: skip
    import torch

    left, right = (each.view(getattr(torch, operand)) for each in (a, b))
    of_a, of_b = (each.view(getattr(torch, scale)) for each in (scale_a, scale_b))
    c.copy_(scaled_products.product(left, right.t(), of_a, of_b, out_dtype=c.dtype))
