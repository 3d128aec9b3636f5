"""Instruction descriptors: 32 bits that tell ``tcgen05.mma`` shape and types (PTX ISA 9.7.16.4.2).

    >>> print(decode(0x08200010, "f16"))
    kind::f16: D f32 (128 × 128) = A f16, K-major · B f16, K-major; k = 16
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from phasebit.emulator.tensor_core.matrix_descriptors import field

DEPTH = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32}
"""Elements along k that one instruction takes, by kind; with a sparse A twice as many."""

SELECTED = ("f16", "tf32")
"""Kinds whose metadata fill one column: a sparsity selector says which of two."""

TYPES = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"},
    "i8": {0: "u8", 1: "s8"},
}
"""The types of A and B by kind and number."""

RESULTS = {
    "f16": {0: "f16", 1: "f32"}, "tf32": {1: "f32"}, "f8f6f4": {0: "f16", 1: "f32"},
    "i8": {2: "s32"},
}  # fmt: skip
"""The types of D by kind and number."""


class InstructionDescriptorError(ValueError):
    """A descriptor that ``tcgen05.mma`` cannot take; says what is wrong with it."""


@dataclass(frozen=True)
class InstructionDescriptor:
    """What the 32 bits say to an instruction of this kind."""

    kind: str
    m: int
    n: int
    a: str
    b: str
    d: str
    negate_a: bool
    negate_b: bool
    mn_major_a: bool
    mn_major_b: bool
    saturate: bool
    sparse: bool = False
    """Whether half of A is left out."""
    selector: int = 0
    """Of a sparse A: which of two columns of tensor memory has its metadata."""

    @property
    def dense_k(self) -> int:
        """Elements along k that A has where it lies."""
        return DEPTH[self.kind]

    @property
    def k(self) -> int:
        """Elements along k."""
        return self.dense_k * (2 if self.sparse else 1)

    @property
    def packed(self) -> bool:
        """Whether two elements of A, and of B, share a byte."""
        return False

    def __str__(self) -> str:
        def operand(name: str, kind: str, negate: bool, mn: bool, major: str) -> str:
            return f"{'-' * negate}{name} {kind}, {major if mn else 'K'}-major"

        a = operand("A", self.a, self.negate_a, self.mn_major_a, "M")
        b = operand("B", self.b, self.negate_b, self.mn_major_b, "N")
        end = ", saturated" if self.saturate else ""
        sparse = f", A sparse, selector {self.selector}" if self.sparse else ""
        return (
            f"kind::{self.kind}: D {self.d} ({self.m} × {self.n}) = {a} · {b}; k = {self.k}{end}"
            f"{sparse}"
        )


def decode(
    bits: int, kind: str, group: int = 1, weights: bool = False, sparse: bool = False
) -> InstructionDescriptor:
    """Read the descriptor of a ``tcgen05.mma`` of this kind and ``cta_group``.

    ``weights``: of ``tcgen05.mma.ws``, whose bits 30-31 are for the zero-column mask.  ``sparse``:
    of ``tcgen05.mma.sp``.

    Raises :class:`InstructionDescriptorError` for one that it cannot take.
    """
    bits = int(bits)

    def wrong(why: str) -> InstructionDescriptorError:
        return InstructionDescriptorError(f"instruction descriptor {bits:#010x}: {why}")

    check_sparsity(bits, sparse, 2 if kind in SELECTED else 1, wrong)
    for low, width in ((6, 1), (23, 1), (29, 1 if weights else 3)):
        if field(bits, low, width):
            raise wrong(f"bits {low}-{low + width - 1} must be 0")
    chosen = []
    for what, low, width, table in (
        ("D", 4, 2, RESULTS), ("A", 7, 3, TYPES), ("B", 10, 3, TYPES),
    ):  # fmt: skip
        number = field(bits, low, width)
        if number not in table[kind]:
            known = ", ".join(f"{k} {v}" for k, v in table[kind].items())
            raise wrong(f"type {number} of {what} is none of kind::{kind}, which has: {known}")
        chosen.append(table[kind][number])
    m, n = field(bits, 24, 5) << 4, field(bits, 17, 6) << 3
    if weights and (m not in (32, 64, 128) or n not in (64, 128, 256)[: 2 if sparse else 3]):
        many = "64 or 128" if sparse else "64, 128 or 256"
        raise wrong(f"M = {m}, N = {n}; with .ws M is 32, 64 or 128, and N is {many}")
    if not weights and m not in (64 * group, 128 * group):
        raise wrong(f"M = {m}; with cta_group::{group} it is {64 * group} or {128 * group}")
    step = 16 if kind == "i8" and n > 32 else 8
    if group == 2:
        step = 32 if kind == "i8" else 16
    if not 8 <= n <= 256 or n % step:
        raise wrong(f"N = {n}; with M = {m} it is a multiple of {step} up to 256")
    found = InstructionDescriptor(
        kind, m, n, chosen[1], chosen[2], chosen[0], bool(field(bits, 13, 1)),
        bool(field(bits, 14, 1)), bool(field(bits, 15, 1)), bool(field(bits, 16, 1)),
        bool(field(bits, 3, 1)), sparse, field(bits, 0, 2),
    )  # fmt: skip
    if found.saturate and kind != "i8":
        raise wrong("bit 3, saturation, is for kind::i8 only")
    if kind == "i8" and (found.negate_a or found.negate_b):
        raise wrong("bits 13 and 14, negation, are not for kind::i8")
    if found.mn_major_b and chosen[2] not in ("f16", "bf16", "tf32"):
        check_n_major(n, group, wrong)
    return found


def check_n_major(
    n: int, group: int, wrong: Callable[[str], InstructionDescriptorError]
) -> None:
    """N of an N-major B of 8 bits: PTX ISA 9.7.16.10.1, the second table.

    Of 4 and 6 bits 16 numbers lie in a slot of 16 bytes, so N is no other there.
    """
    if n % (16 * group):
        raise wrong(f"N = {n}; with an N-major B of 8 bits or fewer it is a multiple of "
                    f"{16 * group}")  # fmt: skip


def check_sparsity(
    bits: int, sparse: bool, selectors: int, wrong: Callable[[str], InstructionDescriptorError]
) -> None:
    """Bits 0-2: does the descriptor say of A what the instruction does?

    Of the selectors that two bits can say CUTLASS and JAX give 0 and 1, for two columns.
    """
    if field(bits, 2, 1) and not sparse:
        raise wrong("bit 2 asks for a sparse A, which this instruction has not; .sp has it")
    if sparse and not field(bits, 2, 1):
        raise wrong("bit 2 says that A is dense, and this is .sp: set it")
    selector = field(bits, 0, 2)
    if not sparse and selector:
        raise wrong("bits 0-1 must be 0")
    if selector >= selectors:
        raise wrong(
            f"bits 0-1 are {selector}; the sparsity selector is 0"
            + (" or 1 here, one of two columns" if selectors == 2 else
               " here, for the metadata fill both columns")
        )  # fmt: skip


def encode(
    kind: str, m: int, n: int, a: str, b: str, d: str, *, mn_major_a: bool = False,
    mn_major_b: bool = False, negate_a: bool = False, negate_b: bool = False,
    saturate: bool = False, sparse: bool = False, selector: int = 0,
) -> int:  # fmt: skip
    """The 32 bits; the reverse of :func:`decode`."""

    def number(table: dict[int, str], name: str) -> int:
        return next(k for k, v in table.items() if v == name)

    return (
        selector | sparse << 2 | saturate << 3 | number(RESULTS[kind], d) << 4
        | number(TYPES[kind], a) << 7 | number(TYPES[kind], b) << 10 | negate_a << 13
        | negate_b << 14 | mn_major_a << 15 | mn_major_b << 16 | n >> 3 << 17 | m >> 4 << 24
    )  # fmt: skip


__all__ = [
    "DEPTH", "SELECTED", "InstructionDescriptor", "InstructionDescriptorError", "check_sparsity",
    "decode", "encode",
]  # fmt: skip
