"""D = A·B + D as ``tcgen05.mma`` does it: where the elements lie, and the product.

A comes from shared or from tensor memory, B from shared memory, D lives in tensor memory, one
element a column, also one of f16.  Row m of D lies in lane m where M = 128; where M = 64 in
lane m % 16 + 32 (m / 16), the lower or the upper half of each warp's quarter (PTX ISA
9.7.16.10.5).

The arithmetic is :func:`~phasebit.emulator.tensor_core.accumulate` with the numbers published
for Blackwell.  No Blackwell was at hand: that it rounds so is an assumption.  On whole numbers
too small to be rounded the result is exact, whatever the hardware does.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from phasebit.emulator import tensor_core
from phasebit.emulator.formats import decode, encode
from phasebit.emulator.fragments import unpack
from phasebit.emulator.instruction_descriptors import InstructionDescriptor
from phasebit.emulator.numerics import canonical
from phasebit.emulator.types import Array

BYTES = {"f16": 2, "bf16": 2, "tf32": 4}
"""Bytes of an element of A and B where they are not 1."""

BITS = {"e2m3": 6, "e3m2": 6, "e2m1": 4}
"""Narrow elements: 16 of them lie at the beginning of 16 bytes, the rest of which is unused."""

EXACT = {"f32": 1 << 24, "f16": 1 << 11}
"""Whole numbers up to here are exact in the type."""


@functools.cache
def rows(m: int, upper: bool) -> Array:
    """The lanes that hold the rows of D, and of A where it lies in tensor memory."""
    row = np.arange(m)
    return row if m == 128 else row % 16 + row // 16 * 32 + 16 * upper


def elements(raw: Array, kind: str) -> Array:
    """Numbers, f32, from their bits (uint8, uint16 or uint32), exact."""
    if kind == "f16":
        return raw.view(np.float16).astype(np.float32)
    if kind == "bf16":
        return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if kind == "tf32":  # the low 13 bits are not looked at
        return (raw & np.uint32(0xFFFFE000)).view(np.float32)
    if kind in ("u8", "s8"):
        return raw.view(np.int8 if kind == "s8" else np.uint8).astype(np.float32)
    mask = np.uint8((1 << BITS.get(kind, 8)) - 1)
    return decode(kind, raw & mask)


def unpadded(raw: Array, kind: str) -> Array:
    """Codes of 4 or 6 bits, one a byte, from rows of bytes with gaps."""
    slots = raw.reshape(*raw.shape[:-1], -1, 16)
    if BITS[kind] == 4:
        return unpack(np.ascontiguousarray(slots[..., :8]).view(np.uint32), 8).reshape(raw.shape)
    bits = np.unpackbits(np.ascontiguousarray(slots[..., :12]), axis=-1, bitorder="little")
    six = bits.reshape(*bits.shape[:-1], 16, 6)
    codes: Array = (six << np.arange(6, dtype=np.uint8)).sum(axis=-1, dtype=np.uint8)
    return codes.reshape(raw.shape)


def from_tensor_memory(cells: Array, kind: str) -> Array:
    """A (M, k) from its lanes' eight columns (M, 8): elements packed, narrow ones a byte each."""
    per_register = 4 // BYTES.get(kind, 1)
    return elements(unpack(cells, per_register), kind)


@dataclass(frozen=True)
class Form:
    """What a product depends on besides its operands."""

    descriptor: InstructionDescriptor
    scale: int = 0
    """D is first divided by two to this power."""


def multiply(a: Array, b: Array, d: Array | None, form: Form) -> Array:
    """The cells of D (M, N), uint32; ``a`` (M, k) and ``b`` (N, k) are f32, ``d`` the old cells.

    Without ``d`` it counts as zero.
    """
    of = form.descriptor
    if of.negate_a:
        a = -a
    if of.negate_b:
        b = -b
    if of.d == "s32":
        zero = np.zeros((of.m, of.n), np.int32)
        c = zero if d is None else d.view(np.int32)
        return tensor_core.accumulate_s32(a, b.T, c, of.saturate).view(np.uint32)
    if d is None:
        c = np.zeros((of.m, of.n), np.float32)
    elif of.d == "f16":
        c = d.astype(np.uint16).view(np.float16).astype(np.float32)
    else:
        c = d.view(np.float32)
    if form.scale:
        c = np.ldexp(c, -form.scale)
    result = _whole(a, b, c, of.d)
    if result is None:
        wide = [x.astype(np.float64)[None] for x in (a, b.T, c)]
        kind = of.a if of.a in BYTES else "e5m2" if "e5m2" in (of.a, of.b) else "e4m3"
        result = tensor_core.accumulate(
            wide[0], wide[1], wide[2], (kind, kind), of.d, tensor_core.MODELS["blackwell"], of.k
        )[0]
    if of.d == "f16":
        return encode("f16", result).astype(np.uint32)
    cells: Array = canonical(result.astype(np.float32)).view(np.uint32)
    return cells


def _whole(a: Array, b: Array, c: Array, kind: str) -> Array | None:
    """The product in plain f32 where that makes no rounding error: of small whole numbers."""
    largest = float(np.abs(a).max()) * float(np.abs(b).max()) * a.shape[1]
    largest += float(np.abs(c).max())
    if not largest <= EXACT[kind]:  # also for NaN
        return None
    if any((x != np.rint(x)).any() for x in (a, b, c)):
        return None
    result: Array = a @ b.T
    result += c
    result += np.float32(0)  # no -0
    return result


__all__ = ["BITS", "BYTES", "Form", "elements", "from_tensor_memory", "multiply", "rows",
           "unpadded"]  # fmt: skip
