"""Tensor copies of numbers of 4 and 6 bits (PTX ISA 5.5.1.1, restrictions in 9.7.9.27.1.1).

Global memory holds them packed.  A copy to shared memory keeps that (``b4x16``), or makes slots
of 16 bytes (``b4x16_p64``, ``b6x16_p32``), see ``numbers.sub_byte``; the rest of a
slot is not written by anybody and holds anything.  A copy to global memory takes 6 bits from the
lower end of each byte and packs them (``b6p2x16``).

So a copy is one of bytes, with the slots made on the way.  The mbarrier counts the bytes of the
numbers, without the gaps: so CUTLASS and Triton's compiler expect it.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from phasebit.emulator.copy_engine.tensor_copy import Rows
from phasebit.emulator.copy_engine.tensormap import WIDE, Descriptor
from phasebit.emulator.machine.device_memory import POISON
from phasebit.emulator.numbers.sub_byte import codes_to_packed, containers_to_codes, packed_to_slots
from phasebit.emulator.ptx.types import Array

GAP = POISON & 0xFF


@functools.lru_cache(maxsize=256)
def in_global(d: Descriptor) -> Descriptor:
    """The same tensor as bytes: what lies in global memory."""
    dims, box = (
        (values[0] * d.bits // 8, *values[1:]) for values in (d.dims, d.box)
    )
    return dataclasses.replace(d, data_type="u8", dims=dims, box=box)


@functools.lru_cache(maxsize=256)
def in_shared(d: Descriptor) -> Descriptor:
    """The same box as bytes: what lies in shared memory."""
    inner = d.box[0] if d.data_type in WIDE else d.box[0] * d.bits // 8
    return dataclasses.replace(d, data_type="u8", box=(inner, *d.box[1:]))


def problem(d: Descriptor, first: int, direction: str) -> str:
    """Which restriction a copy of such numbers breaks; empty if none.

    ``first``: the innermost coordinate.  ``direction``: load, store or reduce.
    """
    if direction == "reduce":
        return f"cp.reduce does not take elements of {d.data_type}"
    if direction == "store" and d.data_type == "b4x16_p64":
        return "elements of b4x16_p64 cannot be copied from shared to global memory"
    if direction == "load" and d.data_type in WIDE and d.swizzle == "128B_ATOM_64B":
        return f"{d.data_type} with swizzle 128B_ATOM_64B is for copies to global memory only"
    step = 128 if d.data_type in WIDE else 2
    if first % step:
        return f"the first coordinate is {first}; with {d.data_type} it is a multiple of {step}"
    return ""


class Slots:
    """Rows of packed numbers in global memory, which shared memory holds in slots."""

    space = "global"

    def __init__(self, rows: Rows, width: int) -> None:
        self.rows = rows
        self.width = width

    def read(self) -> Array:
        data = self.rows.read().reshape(self.rows.rows, -1)
        return packed_to_slots(data, self.width, GAP).ravel()

    def write(self, data: Array) -> None:
        codes = containers_to_codes(data, self.width)
        self.rows.write(codes_to_packed(np.ascontiguousarray(codes), self.width))

    def words(self, shift: int) -> Array:
        return self.rows.words(shift)


__all__ = ["Slots", "in_global", "in_shared", "problem"]
