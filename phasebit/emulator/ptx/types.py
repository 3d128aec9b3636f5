"""PTX types and the NumPy types that hold them.

A register is untyped bits: an instruction's type says how to look at them.
A *value* is what one register holds for all threads of a group: an array with
one element a thread, or a NumPy scalar when all threads hold the same.  So a
loop counter costs one scalar addition, not one for each thread.

Source: PTX ISA 5.2.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Value: TypeAlias = Any
"""An array with one element a thread, or a NumPy scalar when all threads agree."""

Array: TypeAlias = NDArray[Any]

Form: TypeAlias = np.dtype[Any]
"""The NumPy type through which an instruction looks at a register."""

SIZE = {
    "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "tf32": 4, "u16x2": 4,
    "s16x2": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "f32x2": 8, "b128": 16, "pred": 1,
    "b1024": 128, "e4m3": 1, "e5m2": 1, "e4m3x2": 2, "e5m2x2": 2, "e2m1x2": 1,
    "e2m3x2": 2, "e3m2x2": 2, "ue8m0x2": 2, "e4m3x4": 4, "e5m2x4": 4, "e2m1x4": 2,
    "e2m3x4": 4, "e3m2x4": 4, "u4": 1, "s4": 1, "b1": 1, "b4": 1, "u2": 1, "s2": 1,
    "e2m1": 1, "e2m3": 1, "e3m2": 1, "ue8m0": 1, "ue4m3": 1,
}  # fmt: skip
"""Bytes a value of each type occupies in a register."""

UNSIGNED: dict[int, np.dtype[Any]] = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}
SIGNED: dict[int, np.dtype[Any]] = {n: np.dtype(f"i{n}") for n in (1, 2, 4, 8)}
FLOAT: dict[str, np.dtype[Any]] = {f"f{8 * n}": np.dtype(f"f{n}") for n in (2, 4, 8)}

BOOL = np.dtype(bool)

WIDE = np.dtype("c16")
"""128 bits. NumPy has no such integer; nothing computes with them, and a complex number is moved
about without a change of its bits."""

INTEGERS = frozenset({"u16", "s16", "u32", "s32", "u64", "s64"})
BITS = frozenset({"b16", "b32", "b64"})


def dtype(kind: str) -> np.dtype[Any]:
    """The NumPy type in which an instruction of this type sees its operands.

    >>> dtype("s32"), dtype("f32"), dtype("bf16"), dtype("pred")
    (dtype('int32'), dtype('float32'), dtype('uint16'), dtype('bool'))
    """
    if kind == "pred":
        return BOOL
    if kind in FLOAT:
        return FLOAT[kind]
    if kind == "b128":
        return WIDE
    if kind[0] == "s" and kind in ("s8", "s16", "s32", "s64"):
        return SIGNED[SIZE[kind]]
    return UNSIGNED[SIZE[kind]]


def widen(kind: str) -> str:
    """The type twice as wide: ``s32`` gives ``s64``."""
    return {"u8": "u16", "s8": "s16", "u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}[kind]
