"""The orders of loops that Pluto finds for the nests of *To pack or not to pack*.

Pluto is a compiler from C to C: https://github.com/bondhugula/pluto. It was given each nest as
:func:`written` has it, with :data:`OPTIONS`; of what it prints, the last schedule is kept here. It
also unrolls and jams, which these orders leave out. The convolutions are not among them: there it
takes sums of variables for loops, and what such loops touch is no box.
"""

from __future__ import annotations

from dataclasses import replace

from phasebit.nests.examples import EXAMPLES
from phasebit.nests.loops import Level, Nest

VERSION = "0.12.0-33-gdc46216"
OPTIONS = ("--tile", "--noparallel")

ORDERS = {
    "contraction": "i/32, j/32, k/32, i, k, l, j",
    "product ijk": "i/32, j/32, k/32, i, k, j",
    "product jki": "j/32, i/32, k/32, i, k, j",
    "product, rows of 512": "i/32, j/32, k/32, i, k, j",
    "AᵀB": "i/32, j/32, k/32, i, k, j",
    "ABᵀ": "i/32, j/32, k/32, i, j, k",
    "half of syr2k, AᵀBᵀ": "i/32, j/32, k/32, i, j, k",
    "matrix × vector, transposed": "i/32, j/32, j, i",
    "batched": "n/32, i/32, j/32, k/32, n, i, k, j",
    "batched, interleaved": "n/32, i/32, j/32, k/32, n, i, k, j",
    "tensor × matrix": "i/32, j/32, r/32, k/32, i, j, k, r",
    "MTTKRP": "i/32, r/32, j/32, i, j, k, r",
}
"""Nest -> its loops, outermost first, as Pluto prints them: ``i/32`` goes over blocks of 32."""


def written(nest: Nest) -> str:
    """A nest without blocks as C for Pluto, between its two pragmas."""
    extents = dict(nest.extents)
    arrays = [
        f"float {each.array}{''.join(f'[{size}]' for size in nest.shape(each.array))};"
        for each in nest.references
    ]
    names = [level.variable for level in nest.order]
    loops = [f"for ({name} = 0; {name} < {extents[name]}; {name}++)" for name in names]
    product = " * ".join(map(str, nest.factors))
    body = [f"int {', '.join(names)};", "#pragma scop", *loops,
            f"{nest.target} = {nest.target} + {product};", "#pragma endscop"]  # fmt: skip
    return "\n".join([*arrays, "int main(void) {", *body, "return 0;", "}"]) + "\n"


def ordered(nest: Nest, order: str) -> Nest:
    """A nest with its loops as a schedule of Pluto's has them.

    Raises ``ValueError`` for a schedule that is no order of the nest's loops.
    """
    levels = []
    for loop in order.split(", "):
        name, _, step = loop.partition("/")
        levels.append(Level(name, int(step or 1)))
    return replace(nest, order=tuple(levels))


def nests() -> dict[str, Nest]:
    """The nests of the chapter in the orders of Pluto."""
    return {name: ordered(EXAMPLES[name], order) for name, order in ORDERS.items()}
