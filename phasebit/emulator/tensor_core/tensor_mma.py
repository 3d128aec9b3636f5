"""D = A·B + D as ``tcgen05.mma`` does it: where the elements lie, and the product.

A comes from shared or from tensor memory, B from shared memory, D lives in tensor memory, one
element a column, also one of f16.  Row m of D lies in lane m where M = 128; where M = 64 in
lane m % 16 + 32 (m / 16), the lower or the upper half of each warp's quarter (PTX ISA
9.7.16.10.5).

The arithmetic is ``tensor_core.arithmetic.accumulate`` with the numbers published
for Blackwell.  No Blackwell was at hand: that it rounds so is an assumption.  On whole numbers
too small to be rounded the result is exact, whatever the hardware does.  Of a sparse A the stored
elements are summed, as many at once as dense ones, as ``mma.sp`` does on an H200: assumed, too.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from phasebit.emulator.numbers.formats import decode, encode
from phasebit.emulator.numbers.fragments import unpack
from phasebit.emulator.numbers.numerics import canonical
from phasebit.emulator.numbers.sparse import expand, met
from phasebit.emulator.numbers.sub_byte import (
    WIDTH,
    containers_to_codes,
    packed_to_codes,
    slots_to_codes,
)
from phasebit.emulator.ptx.types import Array
from phasebit.emulator.tensor_core import arithmetic as tensor_core
from phasebit.emulator.tensor_core.instruction_descriptors import InstructionDescriptor

BYTES = {"f16": 2, "bf16": 2, "tf32": 4}
"""Bytes of an element of A and B where they are not 1."""

LEAST = {"f32": -149, "f16": -24}
"""The exponent of the smallest number of the type."""

EXACT = {"f32": 1 << 24, "f16": 1 << 11}
"""Whole numbers up to here are exact in the type."""

ALONE = 1 << 18
"""Multiplications of a product for which OpenBLAS wakes no other thread."""


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
    return decode(kind, raw)


def from_shared_memory(raw: Array, of: InstructionDescriptor, kind: str) -> Array:
    """Numbers, f32 [rows, k], from what :func:`row_length` elements or bytes of each row hold."""
    if kind in WIDTH:
        codes = packed_to_codes if of.packed else slots_to_codes
        raw = codes(raw, WIDTH[kind])
    return elements(raw, kind)


def row_length(of: InstructionDescriptor, which: str) -> int:
    """How many elements along k, or bytes where an element has not one, a row of A or B has."""
    k = of.dense_k if which == "A" else of.k
    return k // 2 if of.packed else k


def from_tensor_memory(cells: Array, of: InstructionDescriptor) -> Array:
    """A (M, k), f32, from its lanes' eight columns (M, 8); of a sparse A the stored half."""
    kind = of.a
    if of.packed:
        return elements(unpack(cells, 8), kind)
    raw = unpack(cells, 4 // BYTES.get(kind, 1))
    return elements(containers_to_codes(raw, WIDTH[kind]) if kind in WIDTH else raw, kind)


@dataclass(frozen=True)
class Form:
    """What a product depends on besides its operands."""

    descriptor: InstructionDescriptor
    scale: int = 0
    """D is first divided by two to this power."""


def multiply(
    a: Array, b: Array, d: Array | None, form: Form, along: Array | None = None
) -> Array:
    """The cells of D (M, N), uint32; ``a`` (M, k) and ``b`` (N, k) are f32, ``d`` the old cells.

    Without ``d`` it counts as zero.  ``along``: of a sparse A the columns that are stored,
    (M, k / 2).
    """
    of = form.descriptor
    if of.negate_a:
        a = -a
    if of.negate_b:
        b = -b
    if of.d == "s32":
        zero = np.zeros((of.m, of.n), np.int32)
        c = zero if d is None else d.view(np.int32)
        whole = filled(a, along, of.k)
        return tensor_core.accumulate_s32(whole, b.T, c, of.saturate).view(np.uint32)
    if d is None:
        c = np.zeros((of.m, of.n), np.float32)
    elif of.d == "f16":
        c = d.astype(np.uint16).view(np.float16).astype(np.float32)
    else:
        c = d.view(np.float32)
    if form.scale:
        c = np.ldexp(c, -form.scale)
    result = exact(filled(a, along, of.k), b, c, of.d)
    if result is None:
        wide = [x.astype(np.float64)[None] for x in (a, b.T, c)]
        right = wide[1] if along is None else met(wide[1], along[None])
        kind = of.a if of.a in BYTES else "e5m2" if "e5m2" in (of.a, of.b) else "e4m3"
        result = tensor_core.accumulate(
            wide[0], right, wide[2], (kind, kind), of.d, tensor_core.MODELS["blackwell"],
            a.shape[1],
        )[0]  # fmt: skip
    if of.d == "f16":
        return encode("f16", result).astype(np.uint32)
    cells: Array = canonical(result.astype(np.float32)).view(np.uint32)
    return cells


def filled(a: Array, along: Array | None, k: int) -> Array:
    """A with its zeros (M, k); ``along`` as for :func:`multiply`."""
    return a if along is None else expand(a[None], along[None], k)[0]


def exact(a: Array, b: Array, c: Array, kind: str) -> Array | None:
    """A·Bᵀ + C, f32, where that makes no rounding error in any order; else None.

    So it is where all terms, counted in the last bit that any of them has, are whole numbers that
    the type holds: below 2**24 for f32.  Then the tensor core cuts nothing off either.
    """
    largest = float(np.abs(a).max()) * float(np.abs(b).max()) * a.shape[1]
    largest += float(np.abs(c).max())
    if not largest <= EXACT[kind]:  # also for NaN
        return None
    unit = min(_unit(a) + _unit(b), _unit(c))
    if largest > np.ldexp(EXACT[kind], unit) or unit < LEAST[kind]:
        return None
    result = _product(a, b)
    result += c
    result += np.float32(0)  # no -0
    return result


def _product(a: Array, b: Array) -> Array:
    """A·Bᵀ, f32, of so many rows at a time that one thread makes it.

    Where other processes keep the cores busy, threads find each other late: products of
    128 × 256 × 16 were seen to take a hundred times as long.
    """
    found = np.empty((len(a), len(b)), np.float32)
    rows = max(1, ALONE // (len(b) * b.shape[1]))
    for first in range(0, len(a), rows):
        np.matmul(a[first : first + rows], b.T, out=found[first : first + rows])
    return found


def _unit(x: Array) -> int:
    """The exponent of the lowest bit that is set in any of these finite numbers; at most 0."""
    if (x == np.rint(x)).all():
        return 0
    mantissa, exponent = np.frexp(x[x != 0].astype(np.float64))
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 54
    return min(int((exponent + lowest).min()), 0)


__all__ = [
    "BYTES", "Form", "exact", "filled", "from_shared_memory", "from_tensor_memory", "multiply",
    "row_length", "rows",
]  # fmt: skip
