"""PyTorch's product of numbers with block scales, which its CPU has not: for host code's reference.

Operands are float4_e2m1fn_x2, two to a byte, with a scale of float8_e4m3fn for 16 of them, or
float8_e4m3fn with one of float8_e8m0fnu for 32. Scales lie as cuBLAS wants them, tiles of 128 rows
by 4 scales: row r of a tile at byte 16 (r % 32) + 4 (r // 32).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasebit.emulator import formats

BLOCKS = {("float4_e2m1fn_x2", "float8_e4m3fn"): ("e2m1", "e4m3", 16),
          ("float8_e4m3fn", "float8_e8m0fnu"): ("e4m3", "ue8m0", 32),
          ("float4_e2m1fn_x2", "float8_e8m0fnu"): ("e2m1", "ue8m0", 32)}  # fmt: skip
"""The types of operand and scale -> their formats, and how many share a scale."""


def _types(operand: Any, scale: Any) -> tuple[str, str]:
    return str(operand.dtype).removeprefix("torch."), str(scale.dtype).removeprefix("torch.")


def are_blocks(
    a: Any, b: Any, scale_a: Any = None, scale_b: Any = None, *_: Any, **__: Any
) -> bool:
    """Whether these are operands with block scales."""
    if scale_a is None or scale_b is None:
        return False
    return _types(a, scale_a) in BLOCKS and _types(b, scale_b) in BLOCKS


def scales_of(flat: NDArray[Any], rows: int, columns: int) -> NDArray[Any]:
    """The scales [rows, columns] out of the tiles in which they lie."""
    across = -(-columns // 4)
    r, c = np.arange(rows)[:, None], np.arange(columns)[None, :]
    tile = r // 128 * across + c // 4
    found: NDArray[Any] = flat[512 * tile + 16 * (r % 32) + 4 * (r % 128 // 32) + c % 4]
    return found


def _numbers(operand: Any, scale: Any) -> NDArray[Any]:
    """The numbers of an operand [rows, K], each times its scale."""
    import torch

    kind, of_scale, size = BLOCKS[_types(operand, scale)]
    codes = operand.view(torch.uint8).numpy()
    if kind == "e2m1":
        codes = np.stack([codes & 15, codes >> 4], axis=2).reshape(len(codes), -1)
    rows, depth = codes.shape
    flat = scale.contiguous().view(torch.uint8).numpy().ravel()
    factors = formats.decode(of_scale, scales_of(flat, rows, -(-depth // size)))
    numbers = formats.decode(kind, codes).astype(np.float64)
    scaled: NDArray[Any] = numbers * np.repeat(factors.astype(np.float64), size, axis=1)[:, :depth]
    return scaled


def product(
    a: Any, b: Any, scale_a: Any, scale_b: Any, bias: Any = None, scale_result: Any = None,
    out_dtype: Any = None, use_fast_accum: bool = False,
) -> Any:  # fmt: skip
    """`torch._scaled_mm` of a [M, K] and b [K, N], b by columns."""
    import torch

    plain = [one.detach().as_subclass(torch.Tensor) for one in (a, b.t(), scale_a, scale_b)]
    left, right = _numbers(plain[0], plain[2]), _numbers(plain[1], plain[3])
    total = torch.from_numpy((left @ right.T).astype(np.float32))
    if bias is not None:
        total = total + bias.as_subclass(torch.Tensor).to(torch.float32)
    if scale_result is not None:
        total = total * scale_result.as_subclass(torch.Tensor)
    return total.to(out_dtype or torch.bfloat16)
