"""Types of PTX: how many bytes each has in a register, and as what NumPy sees it."""

from __future__ import annotations

import re

import numpy as np
import pytest

from phasebit.emulator.ptx import types

BITS = {"e4m3": 8, "e5m2": 8, "e2m3": 8, "e3m2": 8, "ue8m0": 8, "ue4m3": 8, "e2m1": 4, "f16": 16,
        "bf16": 16, "u16": 16, "s16": 16, "f32": 32, "tf32": 32, "pred": 8}  # fmt: skip
"""Of an element in a register: 6-bit numbers stand in bytes, those of 4 bits in half of one."""


@pytest.mark.parametrize("kind", types.SIZE)
def test_5_2_bytes_in_a_register(kind: str) -> None:
    name, count = re.fullmatch(r"(\w+?)(?:x(\d))?", kind).groups()  # type: ignore[union-attr]
    plain = re.fullmatch(r"[bsuf](\d+)", name)
    bits = BITS.get(name) or int(plain[1])  # type: ignore[index]
    assert types.SIZE[kind] == -(-bits * int(count or 1) // 8)


@pytest.mark.parametrize(("kind", "form"), [
    ("pred", "?"), ("f16", "f2"), ("f32", "f4"), ("f64", "f8"), ("s8", "i1"), ("s16", "i2"),
    ("s32", "i4"), ("s64", "i8"), ("u8", "u1"), ("u16", "u2"), ("u32", "u4"), ("u64", "u8"),
    ("b8", "u1"), ("b16", "u2"), ("b32", "u4"), ("b64", "u8"), ("b128", "c16"), ("bf16", "u2"),
    ("f16x2", "u4"), ("bf16x2", "u4"), ("tf32", "u4"), ("e4m3x2", "u2"), ("e2m1x2", "u1"),
    ("e2m1x4", "u2"), ("e5m2x4", "u4"), ("f32x2", "u8"), ("u16x2", "u4"), ("s16x2", "u4"),
])  # fmt: skip
def test_the_numpy_type_of_an_operand(kind: str, form: str) -> None:
    assert types.dtype(kind) == np.dtype(form)
