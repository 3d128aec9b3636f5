"""Instruction descriptors of products with block scales (PTX ISA 9.7.16.4.2, tables 43 and 44).

Beside shape and types they say of which type the scales are, and in which byte of each word of
tensor memory the first scale of a row stands, its *scale factor id*.

    >>> print(decode(0x08840480, "mxf4", 2))
    kind::mxf4: D f32 (128 × 16) = A e2m1, K-major · B e2m1, K-major; k = 64; scales ue8m0, ids 0, 0
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as field_of

from phasebit.emulator.tensor_core.instruction_descriptors import (
    TYPES,
    InstructionDescriptor,
    InstructionDescriptorError,
    check_n_major,
    check_sparsity,
)
from phasebit.emulator.tensor_core.matrix_descriptors import field

K = {"mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}
"""Elements along k that one instruction takes, by kind; with a sparse A twice as many, and each
scale is for twice as many."""

ELEMENTS = {"mxf8f6f4": TYPES["f8f6f4"], "mxf4": {1: "e2m1"}, "mxf4nvf4": {1: "e2m1"}}
"""The types of A and B by kind and number."""

SCALES = {1: ("ue8m0",), 2: ("ue8m0",), 4: ("ue8m0", "ue4m3")}
"""Scales of a row -> the types that they may have."""

VECTORS = {
    "mxf8f6f4": {"": 1, "scale_vec::1X": 1, "block32": 1},
    "mxf4": {"": 2, "scale_vec::2X": 2, "block32": 2},
    "mxf4nvf4": {"scale_vec::2X": 2, "block32": 2, "scale_vec::4X": 4, "block16": 4},
}
"""By kind: the modifier, or none -> how many scales a row has in one instruction."""

IDS = {1: (0, 1, 2, 3), 2: (0, 2), 4: (0,)}
"""Scales of a row -> the byte of a word in which the first can stand."""


@dataclass(frozen=True)
class ScaledDescriptor(InstructionDescriptor):
    """What the 32 bits say to a product with block scales."""

    scale: str = "ue8m0"
    """The type of the scales."""
    a_id: int = 0
    """Of the scales of A: the byte of a word in which a row's first one stands."""
    b_id: int = 0
    per_row: int = 1
    """Scales of a row of A, and of a column of B, in one instruction."""
    reserved: bool = field_of(default=False, compare=False)
    """Whether bit 12 is set where the PTX ISA wants 0, and nothing follows from it."""

    @property
    def dense_k(self) -> int:
        return K[self.kind]

    @property
    def packed(self) -> bool:
        return self.kind != "mxf8f6f4"

    def __str__(self) -> str:
        return f"{super().__str__()}; scales {self.scale}, ids {self.a_id}, {self.b_id}"


def decode(
    bits: int, kind: str, per_row: int, group: int = 1, sparse: bool = False
) -> ScaledDescriptor:
    """Read the descriptor of a product of this kind with ``per_row`` scales a row.

    ``group``: how many blocks multiply together.  ``sparse``: of ``.sp``.  Bit 12, which the PTX
    ISA has as 0 for 4-bit kinds, is the version of the sparsity to CUTLASS's primitives, which set
    it for dense products, too: there it is noted as ``reserved`` and says nothing.  Raises
    ``tensor_core.instruction_descriptors.InstructionDescriptorError`` for one that the
    instruction cannot take.
    """
    bits = int(bits)

    def wrong(why: str) -> InstructionDescriptorError:
        return InstructionDescriptorError(f"instruction descriptor {bits:#010x}: {why}")

    narrow = kind != "mxf8f6f4"
    check_sparsity(bits, sparse, 1, wrong)
    if field(bits, 4, 2) and not field(bits, 23, 1) and not narrow:
        raise wrong(
            f"bits 4-5 are {field(bits, 4, 2)} and bit 23 is 0: this looks like a descriptor of "
            "kind::f8f6f4; with block scales bits 4-5 are the id of B's scales, D is f32, and "
            "bit 23 is 1 for ue8m0"
        )
    for low, width in ((3, 1), (6, 1), (24, 3)):
        if field(bits, low, width):
            raise wrong(f"bits {low}-{low + width - 1} must be 0")
    if field(bits, 31, 1):
        raise wrong(
            "bit 31 asks for K = 96, which only sm_103a has, and the emulator has not: where its "
            "scales lie the PTX ISA shows in figures only" if narrow else "bit 31 must be 0"
        )
    chosen = []
    for what, low, width in (("A", 7, 3), ("B", 10, 2 if narrow else 3)):
        number = field(bits, low, width)
        if number not in ELEMENTS[kind]:
            known = ", ".join(f"{n} {name}" for n, name in ELEMENTS[kind].items())
            raise wrong(f"type {number} of {what} is none of kind::{kind}, which has: {known}")
        chosen.append(ELEMENTS[kind][number])
    if narrow and sparse and field(bits, 12, 1):
        raise wrong("bit 12 must be 0: the type of B has two bits here")
    scale = "ue8m0" if field(bits, 23, 1) else "ue4m3"
    if scale not in SCALES[per_row] or (scale == "ue4m3" and kind != "mxf4nvf4"):
        raise wrong(
            f"bit 23 says scales of {scale}; kind::{kind} with {per_row} a row takes ue8m0, "
            "bit 23 = 1"
        )
    ids = field(bits, 29, 2), field(bits, 4, 2)
    for what, place, number in (("A", "29-30", ids[0]), ("B", "4-5", ids[1])):
        if number not in IDS[per_row]:
            raise wrong(
                f"the scale factor id of {what}, bits {place}, is {number}; with {per_row} scales "
                f"a row it is {' or '.join(map(str, IDS[per_row]))}, the byte of the first"
            )
    m, n = field(bits, 27, 2) << 7, field(bits, 17, 6) << 3
    allowed = (128,) if group == 1 else (256,) if sparse else (128, 256)
    if m not in allowed:
        known = " or ".join(map(str, allowed))
        raise wrong(f"M = {m}, bits 27-28 times 128; with block scales it is {known}")
    step = 8 * group
    if not step <= n <= 256 or n % step:
        raise wrong(f"N = {n}; with block scales it is a multiple of {step} up to 256")
    major = bool(field(bits, 15, 1)), bool(field(bits, 16, 1))
    for name, of, mn in (("A", chosen[0], major[0]), ("B", chosen[1], major[1])):
        if mn and kind != "mxf8f6f4":
            raise wrong(
                f"bit {15 if name == 'A' else 16} says that {name} of {of} is "
                f"{'M' if name == 'A' else 'N'}-major; kind::{kind} transposes neither operand, "
                "clear it (PTX ISA 9.7.16.10.1, the table Transpose and Negate operation)"
            )
    if major[1]:
        check_n_major(n, group, wrong)
    return ScaledDescriptor(
        kind, m, n, chosen[0], chosen[1], "f32", bool(field(bits, 13, 1)),
        bool(field(bits, 14, 1)), *major, False, sparse, 0, scale, *ids, per_row,
        narrow and bool(field(bits, 12, 1)),
    )  # fmt: skip


def encode(
    kind: str, n: int, a: str, b: str, scale: str = "ue8m0", *, m: int = 128, a_id: int = 0,
    b_id: int = 0, negate_a: bool = False, negate_b: bool = False, mn_major_a: bool = False,
    mn_major_b: bool = False, sparse: bool = False,
) -> int:  # fmt: skip
    """The 32 bits; the reverse of :func:`decode`."""

    def number(name: str) -> int:
        return next(k for k, v in ELEMENTS[kind].items() if v == name)

    return (
        sparse << 2 | b_id << 4 | number(a) << 7 | number(b) << 10 | negate_a << 13 | negate_b << 14
        | mn_major_a << 15 | mn_major_b << 16 | n >> 3 << 17 | (scale == "ue8m0") << 23
        | m >> 7 << 27 | a_id << 29
    )  # fmt: skip


__all__ = ["ELEMENTS", "IDS", "SCALES", "VECTORS", "K", "ScaledDescriptor", "decode", "encode"]
