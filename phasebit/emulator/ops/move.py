"""Moving bits (PTX ISA 9.7.9.1): mov; addresses in clusters (9.7.9.22, 9.7.9.23)."""

from __future__ import annotations

import numpy as np

from phasebit.emulator.machine.group import Group
from phasebit.emulator.ptx.operands import misfit
from phasebit.emulator.ptx.placement import RANK_SHIFT, SHARED_BASE
from phasebit.emulator.ptx.syntax import Instruction, Vector
from phasebit.emulator.ptx.table import Selected, Traits, effect, value
from phasebit.emulator.ptx.types import WIDE, Value


def check_two(instruction: Instruction, chosen: Selected) -> None:
    """Vectors count as one operand here, too; they have two elements, or four."""
    if len(instruction.operands) != 2:
        raise misfit(instruction, "mov needs a result and a source")
    if any(isinstance(x, Vector) and len(x.items) not in (2, 4) for x in instruction.operands):
        raise misfit(instruction, "mov packs and unpacks 2 registers or 4")


@value("mov", "x -> x", None, section="9.7.9.1",
       traits=Traits(written="move", untyped=True, check=check_two))  # fmt: skip
def mov(a: Value) -> Value:
    """mov: a register, a constant, an address, a special register; packs and unpacks vectors."""
    return a


def wide(low: Value, high: Value) -> Value:
    """128 bits from two halves: ``mov.b128 %q, {%low, %high}``."""
    both = np.stack(np.broadcast_arrays(low, high), axis=-1).astype(np.uint64)
    return both.view(WIDE)[..., 0][()]


def half_of(a: Value, place: int) -> Value:
    """One half of 128 bits: ``mov.b128 {%low, %high}, %q``."""
    halves = np.ascontiguousarray(a).reshape(-1, 1).view(np.uint64)[:, place]
    return np.ascontiguousarray(halves) if isinstance(a, np.ndarray) else halves[0]


@effect("mapa", "x u32 -> x", {"u32", "u64"}, section="9.7.9.22")
def mapa(g: Group, a: Value, rank: Value, *, space: str = "generic") -> Value:
    """mapa: the address of the same variable in another block of the cluster.

    Bits 24 and up of a shared address are the rank of its block.
    """
    offset = a & a.dtype.type((1 << RANK_SHIFT) - 1)
    mapped = offset | (rank.astype(a.dtype) << a.dtype.type(RANK_SHIFT))
    return mapped if space == "shared" else mapped | np.uint64(SHARED_BASE)


@effect("getctarank", "x -> u32", {"u32", "u64"}, section="9.7.9.23")
def getctarank(g: Group, a: Value, *, space: str = "generic") -> Value:
    """getctarank: the rank in the cluster of the block that a shared address belongs to."""
    return ((a & a.dtype.type(0xFFFFFFFF)) >> a.dtype.type(RANK_SHIFT)).astype(np.uint32)
