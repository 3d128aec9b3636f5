"""Clocks that units of a multiprocessor need for a step of a tile: documented rates, arithmetic.

Zadouri et al. (FlashAttention-4) give, for each multiprocessor of a B200 and clock, 8192
operations of the tensor core in bf16, 128 bytes of shared memory and 16 exponentials; the CUDA
C++ Programming Guide gives 128 f32 additions or multiply-adds, and four warps that each issue an
instruction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from phasebit.chapters.attention_again import softmax_code

if TYPE_CHECKING:
    from phasebit.measure import Table

TENSOR, SHARED, SPECIAL, FMA, ISSUE = 8192, 128, 16, 128, 4
"""A clock: operations, bytes, exponentials, threads' f32 operations, warps' instructions."""

ROWS, PIECE, LANES = 128, 32, 32
WARPS = ROWS // LANES
TURNS = WARPS * (ROWS // PIECE)
"""Of a loop over pieces for a tile: four warps, four pieces each."""


def step(share: int, depth: int = 128, registers: bool = False) -> dict[str, float]:
    """Clocks that each unit is busy for one step: 128 queries, 128 keys.

    ``share``: of eight exponentials, how many a polynomial makes; the loops of the softmax are
    those that were compiled (:mod:`softmax_code`), with ``registers`` of the kernel that keeps a
    row there. Loads from tensor memory are left out: we know no document that says how fast they
    are.
    """
    if registers:
        loops, turns = [_kept("a row in registers", share)["row"]], WARPS
    else:
        found = _loops(share)
        loops, turns = [found["largest"], found["weights"]], TURNS

    def count(*opcodes: str) -> int:
        return turns * sum(loop.get(opcode, 0) for loop in loops for opcode in opcodes)

    return {
        "tensor core": 2 * 2 * ROWS * ROWS * depth / TENSOR,
        "special units": count("MUFU") * LANES / SPECIAL,
        "issue": turns * sum(sum(loop.values()) for loop in loops) / ISSUE,
        "FMA units": (count("FFMA", "FADD", "FMUL") + 2 * count("FFMA2", "FADD2")) * LANES / FMA,
        "shared memory": 2 * (2 * ROWS + ROWS) * depth / SHARED,
    }


def rescaled(depth: int = 128) -> float:
    """Clocks of issue that rescaling O of one tile takes, at most once a step."""
    return (ROWS // LANES) * (depth // PIECE) * sum(_loops(0)["rescale"].values()) / ISSUE


def _loops(share: int) -> dict[str, dict[str, int]]:
    return _kept("of eight exponentials by polynomial", share)


def _kept(which: str, share: int) -> dict[str, dict[str, int]]:
    loops: dict[str, dict[str, int]] = softmax_code.read()[which][str(share)]["loops"]
    return loops


def kept_in_registers() -> Table:
    """What the last two kernels ask of units, by the share of the polynomial; a head of 128."""
    from phasebit.measure import Table

    units = "special units", "issue", "FMA units"
    heads = (head for unit in units for head in (f"{unit}, d", "e"))
    rows = (
        (str(share), *(f"{step(share, registers=kept)[unit]:.0f}"
                       for unit in units for kept in (False, True)))
        for share in softmax_code.EVEN
    )  # fmt: skip
    return Table(
        ("of eight by polynomial", *heads), tuple(rows),
        "clocks of a step, head of 128, kernels d and e: documented rates, counted instructions",
    )


KINDS = {
    "additions and multiplications of f32": ("FADD", "FFMA", "FMUL", "FADD2", "FFMA2"),
    "exponentials": ("MUFU",),
    "maxima": ("FMNMX", "FMNMX3"),
    "rounding to bf16": ("F2FP",),
    "whole numbers": ("IMAD", "VIADD", "LEA", "SHF", "LOP3"),
    "to and from tensor memory": ("LDTM", "STTM"),
}
"""What an instruction of the softmax does -> its opcodes."""


def issued(share: int, registers: bool) -> dict[str, int]:
    """Instructions that a warp of the softmax issues in a step, by what they do."""
    if registers:
        loops, turns = [_kept("a row in registers", share)["row"]], 1
    else:
        found = _loops(share)
        loops, turns = [found["largest"], found["weights"]], ROWS // PIECE
    counted = {
        kind: turns * sum(loop.get(opcode, 0) for loop in loops for opcode in opcodes)
        for kind, opcodes in KINDS.items()
    }
    rest = turns * sum(sum(loop.values()) for loop in loops) - sum(counted.values())
    return {**counted, "waits, jumps and others": rest}


def where_fewer(share: int) -> Table:
    """Which instructions of the softmax the last kernel saves."""
    from phasebit.measure import Table

    before, after = (issued(share, registers) for registers in (False, True))
    before["all"], after["all"] = sum(before.values()), sum(after.values())
    rows = [(kind, before[kind], after[kind], before[kind] - after[kind]) for kind in before]
    return Table(
        ("instructions of a warp in a step", "d", "e", "fewer"),
        tuple((kind, *map(str, numbers)) for kind, *numbers in rows),
        f"counted in the machine code; head of 128, {share} of eight by polynomial",
    )
