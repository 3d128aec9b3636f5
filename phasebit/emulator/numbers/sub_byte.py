"""Numbers of 4 and 6 bits in bytes: where tensor cores and the copy engine want them.

=========================  ===========================================================
packed                     two of 4 bits in a byte, the first in the low half; 6-bit
                           numbers one after another, four in three bytes
slots                      16 numbers, packed, at the beginning of 16 bytes; the other
                           8 (of 4 bits) or 4 bytes (of 6 bits) are not looked at
containers                 a number a byte: 4 bits in bits 2-5, 6 bits in bits 0-5
=========================  ===========================================================

Packed is what ``kind::mxf4`` reads in shared and in tensor memory, and what global memory holds.
Slots are what ``kind::f8f6f4`` and ``mxf8f6f4`` read in shared memory; tensor copies make them
(``b4x16_p64``, ``b6x16_p32``).  Containers are what these read in tensor memory;
``tcgen05.cp.b8x16`` makes them out of slots.

Sources: PTX ISA 5.5.1, 9.7.16.9.1, 9.7.16.10.4.  Its figures were not at hand.  That 4 bits stand
in the middle of their byte is what CUTLASS does for the same unit of sm_120 (``fp4_shift_A``).
"""

from __future__ import annotations

import numpy as np

from phasebit.emulator.ptx.types import Array

WIDTH = {"e2m1": 4, "e2m3": 6, "e3m2": 6}
"""Bits of a number, of the types with fewer than eight."""

SLOT = 16
"""Numbers in a slot, and its bytes."""

CONTAINER = {4: 2, 6: 0}
"""Bits of a number -> the lowest of its bits in a container."""


def packed_to_codes(data: Array, width: int) -> Array:
    """One code a byte, [..., n * 8 // width], from packed bytes, uint8 [..., n].

    >>> packed_to_codes(np.array([0x21, 0x43], np.uint8), 4)
    array([1, 2, 3, 4], dtype=uint8)
    """
    shape = (*data.shape[:-1], data.shape[-1] * 8 // width)
    if width == 4:
        return np.stack([data & 15, data >> 4], axis=-1).reshape(shape)
    bits = np.unpackbits(np.ascontiguousarray(data), axis=-1, bitorder="little")
    groups = bits.reshape(*shape, width)
    found: Array = (groups << np.arange(width, dtype=np.uint8)).sum(axis=-1, dtype=np.uint8)
    return found


def codes_to_packed(codes: Array, width: int) -> Array:
    """The reverse of :func:`packed_to_codes`; the last extent is a multiple of eight."""
    bits = codes[..., None] >> np.arange(width, dtype=np.uint8) & 1
    return np.packbits(bits.reshape(*codes.shape[:-1], -1), axis=-1, bitorder="little")


def slots_to_codes(data: Array, width: int) -> Array:
    """One code a byte from bytes in slots, uint8 [..., 16 n]; same shape."""
    slots = data.reshape(*data.shape[:-1], -1, SLOT)
    return packed_to_codes(slots[..., : 2 * width], width).reshape(data.shape)


def in_slots(places: Array, width: int) -> Array:
    """Of the bytes of slots, given by their places [..., 16 n], those that are looked at."""
    slots = places.reshape(*places.shape[:-1], -1, SLOT)
    return slots[..., : 2 * width]


def packed_to_slots(data: Array, width: int, gap: int) -> Array:
    """Packed bytes with what makes them slots after each 16 numbers: bytes of value ``gap``."""
    groups = data.reshape(*data.shape[:-1], -1, 2 * width)
    slots = np.full((*groups.shape[:-1], SLOT), gap, np.uint8)
    slots[..., : 2 * width] = groups
    return slots.reshape(*data.shape[:-1], -1)


def containers_to_codes(data: Array, width: int) -> Array:
    """One code a byte from containers."""
    found: Array = data >> np.uint8(CONTAINER[width]) & np.uint8((1 << width) - 1)
    return found


def codes_to_containers(codes: Array, width: int) -> Array:
    """The reverse of :func:`containers_to_codes`."""
    found: Array = codes << np.uint8(CONTAINER[width])
    return found


__all__ = ["CONTAINER", "SLOT", "WIDTH", "codes_to_containers", "codes_to_packed",
           "containers_to_codes", "in_slots", "packed_to_codes", "packed_to_slots",
           "slots_to_codes"]  # fmt: skip
