"""Matrices in the registers of whole warps, and what they are in memory."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import numpy as np

from phasebit.emulator.errors import Fault
from phasebit.emulator.machine.accesses import Accesses
from phasebit.emulator.machine.group import Group
from phasebit.emulator.numbers.formats import decode, encode
from phasebit.emulator.numbers.fragments import Fragment, pack, unpack
from phasebit.emulator.numbers.numerics import canonical
from phasebit.emulator.ptx.types import Array, Value

PER_REGISTER = {"f16": 2, "bf16": 2, "tf32": 1, "e4m3": 4, "e5m2": 4, "f64": 1,
                "s8": 4, "u8": 4, "s4": 8, "u4": 8, "b1": 32}  # fmt: skip
"""Elements of A and B in one register: of 32 bits, of 64 for f64."""


@functools.cache
def sizes(shape: str) -> tuple[int, int, int]:
    """The numbers in the name of a shape.

    >>> sizes("m16n8k16")
    (16, 8, 16)
    """
    m, n, k = re.findall(r"[0-9]+", shape)
    return int(m), int(n), int(k)


# -- the warps of a group --------------------------------------------------------


def whole_warps(g: Group, name: str) -> int:
    """How many warps the group has.  Raises :class:`Fault` when one of them is not complete."""
    warp = g.batch.warp_of[g.lanes]
    if g.n % 32 or (warp[::32] != warp[31::32]).any():
        raise Fault(
            "{} needs all 32 threads of the warp, but here are {}: make the block a multiple of "
            "32 threads and let none of them return before",
            name, g.batch.describe(g.lanes),
        )
    return g.n // 32


def gathered(g: Group, registers: Sequence[Value], name: str) -> Array:
    """The registers of an operand as one array [warps, 32, registers]."""
    warps = whole_warps(g, name)
    return np.stack([g.spread(r) for r in registers], axis=1).reshape(warps, 32, -1)


def scattered(registers: Array) -> tuple[Array, ...]:
    """The values of result registers, from an array [warps, 32, registers]."""
    flat = registers.reshape(-1, registers.shape[2])
    return tuple(np.ascontiguousarray(flat[:, j]) for j in range(flat.shape[1]))


# -- from registers to a matrix and back -------------------------------------------


def matrix(registers: Array, fragment: Fragment, kind: str) -> Array:
    """The matrix [warps, rows, columns] that the registers [warps, 32, r] make up.

    Its elements are float64, or integers for an integer type: exact in either case.
    Raises :class:`Fault` when there are too few or too many registers.
    """
    elements = numbers(registers, kind)
    if elements.shape[2] != fragment.elements:
        raise Fault(
            "a {}×{} matrix of {} is {} elements a thread, but the registers given hold {}",
            fragment.shape[0], fragment.shape[1], kind, fragment.elements, elements.shape[2],
        )
    whole = fragment.collect(elements)
    return whole.astype(np.float64) if whole.dtype.kind == "f" else whole


def numbers(registers: Array, kind: str) -> Array:
    """The elements that registers hold, [warps, 32, elements]."""
    if kind == "f64":
        return registers
    if kind == "f32":
        return registers.view(np.float32)
    if kind == "s32":
        return registers.view(np.int32)
    elements = unpack(registers, PER_REGISTER[kind])
    if kind in ("u8", "u4", "b1"):
        return elements
    if kind == "s8":
        return elements.view(np.int8)
    if kind == "s4":
        return (elements.view(np.int8) ^ 8) - np.int8(8)
    return decode(kind, elements)


def fragments(whole: Array, fragment: Fragment, kind: str) -> Array:
    """The registers [warps, 32, r] of a result, from its matrix [warps, rows, columns]."""
    elements = fragment.spread(whole)
    if kind == "f64":
        return elements
    if kind == "s32":
        return elements.view(np.uint32)
    if kind == "f32":  # the values are exact in f32; only NaNs have something to lose
        single: Array = canonical(elements.astype(np.float32)).view(np.uint32)
        return single
    return pack(encode(kind, elements))


# -- in memory --------------------------------------------------------------------


def transposed(rows: Array, width: int) -> Array:
    """Square matrices of ``width``-byte elements, rows and columns exchanged.

    ``rows`` is uint32 [..., rows, words]; so is the result.
    """
    elements = np.ascontiguousarray(rows).view(f"u{width}")
    return np.ascontiguousarray(np.swapaxes(elements, -1, -2)).view(np.uint32)


@functools.lru_cache(maxsize=1024)
def accesses(steps: tuple[int, ...], width: int, request: int, access: int, space: str) -> Accesses:
    """What observers are told: elements of ``width`` bytes at ``steps`` from each lane's first.

    Traffic is counted in requests of ``request`` bytes.  Kept, for an observer may plan by object.
    """
    requests = tuple((step, request) for step in steps[:: request // width])
    return Accesses(steps, width, requests, access, "weak", "cta", space)
