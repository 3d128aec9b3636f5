"""``wgmma`` with a sparse A: every shape and type, and the rounding.

As in :mod:`~proof.warpgroups`, whose programs these are, with metadata that say any two places of
four.

The emulator agrees in every bit with all that an H200 answered.  It taught one thing that the ISA
does not say: rows of B are 64 bytes along k, and with a swizzle of 32 the second half of each lies
the leading distance on.

PTX ISA 9.7.15.6.
"""

from __future__ import annotations

from collections.abc import Iterator

from proof.dice import Dice
from proof.numbers import BYTES, MANNERS
from proof.program import Program
from proof.warpgroups import FLOATS, INTEGERS, Product, program


def product(types: tuple[str, str, str], n: int, dice: Dice, steps: int = 1) -> Product:
    """One shape; where A lies, majors, signs, scale-d and selector are drawn."""
    registers, wide, integer = dice.chance(50), BYTES[types[1]] > 1, types[0] == "s32"
    along = (0, 0)
    if BYTES[types[1]] == 2:
        along = (0 if registers else dice.below(2)), dice.below(2)
    signs = (1, 1) if integer else (dice.choice((1, 1, -1)), dice.choice((1, 1, -1)))
    return Product(
        types, n, registers, along, signs, dice.chance(75), integer and dice.chance(30),
        steps=steps, selector=dice.below(2) if wide else 0,
    )  # fmt: skip


def programs() -> Iterator[Program]:
    """All programs of this module."""
    for types in FLOATS:
        for turn in range(6):
            name = f"wgmma_sparse_round_{'_'.join(types)}_{turn}"
            made = product(types, 8, Dice(name), 4 if turn > 4 else 1)
            yield program(name, made, MANNERS * 2)
    for types in (*FLOATS, *INTEGERS):
        for n in (8, 16, 24, 64, 128, 192, 256):
            name = f"wgmma_sparse_{'_'.join(types)}_n{n}"
            yield program(name, product(types, n, Dice(name)), ("whole", "near"))


__all__ = ["product", "programs"]
