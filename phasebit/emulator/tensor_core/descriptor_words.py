"""Instruction descriptors in words: what ``python -m phasebit descriptor 0x08200010`` prints."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from phasebit.emulator.tensor_core import scaled_descriptors
from phasebit.emulator.tensor_core.instruction_descriptors import (
    DEPTH,
    RESULTS,
    TYPES,
    InstructionDescriptor,
    InstructionDescriptorError,
    decode,
)
from phasebit.emulator.tensor_core.matrix_descriptors import field
from phasebit.emulator.tensor_core.scaled_descriptors import ELEMENTS, VECTORS

KINDS = (*DEPTH, *VECTORS)
"""Kinds of ``tcgen05.mma``."""

BOTH = (
    (0, 2, "sparsity selector"), (2, 1, "sparse A"), (13, 1, "negate A"), (14, 1, "negate B"),
    (15, 1, "A is M-major"), (16, 1, "B is N-major"),
)  # fmt: skip
"""Low bit, width and name of the fields that all descriptors have."""


def fields(bits: int, kind: str) -> list[tuple[int, int, str, str]]:
    """Low bit, width, name and meaning of each field of a descriptor for this kind."""
    scaled = kind in VECTORS
    narrow = scaled and kind != "mxf8f6f4"
    types = ELEMENTS[kind] if scaled else TYPES[kind]
    found = [(low, width, name, str(field(bits, low, width))) for low, width, name in BOTH]
    for low, width, name, table in (
        (7, 3, "type of A", types), (10, 2 if narrow else 3, "type of B", types),
    ):  # fmt: skip
        found.append((low, width, name, _named(field(bits, low, width), table)))
    found.append((17, 6, "N", f"{field(bits, 17, 6) << 3}"))
    if scaled:
        found += [
            (4, 2, "id of B's scales", str(field(bits, 4, 2))),
            (23, 1, "type of scales", _named(field(bits, 23, 1), {0: "ue4m3", 1: "ue8m0"})),
            (27, 2, "M", str(field(bits, 27, 2) << 7)),
            (29, 2, "id of A's scales", str(field(bits, 29, 2))),
            (31, 1, "K is 96", str(field(bits, 31, 1))),
        ]
    else:
        found += [
            (3, 1, "saturate", str(field(bits, 3, 1))),
            (4, 2, "type of D", _named(field(bits, 4, 2), RESULTS[kind])),
            (24, 5, "M", str(field(bits, 24, 5) << 4)),
            (30, 2, ".ws: most columns to shift", str((0, 8, 16, 32)[field(bits, 30, 2)])),
        ]
    return sorted(found)


def _named(number: int, table: dict[int, str]) -> str:
    return f"{number}: {table.get(number, 'none such')}"


def forms(bits: int, kind: str) -> tuple[list[str], list[str]]:
    """The instructions that take the descriptor, in words, and what the others say of it."""
    takes, refuses = [], []
    sparse = bool(field(bits, 2, 1))
    sp = ".sp, " if sparse else ""
    ways: list[tuple[str, Callable[[], InstructionDescriptor]]] = []
    for group in (1, 2):
        if kind not in VECTORS:
            name = f"{sp}cta_group::{group}"
            ways.append((name, partial(decode, bits, kind, group, sparse=sparse)))
        for per_row in sorted(set(VECTORS.get(kind, {}).values())):
            name = f"{sp}cta_group::{group}, {per_row} scale{'s' * (per_row > 1)} a row"
            ways.append(
                (name, partial(scaled_descriptors.decode, bits, kind, per_row, group, sparse))
            )
    if kind not in VECTORS:
        name = ".ws.sp" if sparse else ".ws"
        ways.append((name, partial(decode, bits, kind, weights=True, sparse=sparse)))
    for name, read in ways:
        try:
            takes.append(f"{name}: {read()}")
        except InstructionDescriptorError as error:
            refuses.append(f"{name}: {str(error).partition(': ')[2]}")
    return takes, refuses


def explain(bits: int, kind: str) -> str:
    """All fields in words, who takes it, or what is wrong with it."""
    lines = [f"tcgen05 instruction descriptor {bits:#010x} of kind::{kind}"]
    for low, width, name, meaning in fields(bits, kind):
        where = f"{low}-{low + width - 1}" if width > 1 else str(low)
        lines.append(f"  bits {where:>5}  {name:<28} {meaning}")
    takes, refuses = forms(bits, kind)
    lines += [f"  {text}" for text in takes]
    if not takes:
        lines += [f"  wrong for {text}" for text in refuses]
    return "\n".join(lines)


def survey(bits: int) -> str:
    """A descriptor of which one does not know the kind: all kinds that take it."""
    found = [explain(bits, kind) for kind in KINDS if forms(bits, kind)[0]]
    if found:
        return "\n".join(found)
    lines = [f"no kind of tcgen05.mma takes the instruction descriptor {bits:#010x}:"]
    lines += [f"  kind::{kind}, {forms(bits, kind)[1][0]}" for kind in KINDS]
    return "\n".join(lines)


__all__ = ["KINDS", "explain", "fields", "forms", "survey"]
