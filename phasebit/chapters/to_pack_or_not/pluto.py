"""The orders of loops that Pluto finds for the nests of *To pack or not to pack*.

Pluto is a compiler from C to C: https://github.com/bondhugula/pluto. It was given each nest as
:func:`written` has it, with :data:`OPTIONS`; of what it prints, the last schedule is kept here. It
also unrolls and jams, which these orders leave out. The convolutions are not among them: there it
takes sums of variables for loops, and what such loops touch is no box.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from phasebit import measure
from phasebit.chapters.to_pack_or_not import view
from phasebit.nests import build, misses, packing
from phasebit.nests.examples import EXAMPLES
from phasebit.nests.loops import Level, Nest

VERSION = "0.12.0-33-gdc46216"
OPTIONS = ("--tile", "--noparallel")

RUNS = 20
"""How often a nest is run here; the fastest counts, which a busy machine disturbs least."""

ORDERS = {
    "contraction": "i/32, j/32, k/32, i, k, l, j",
    "product ijk": "i/32, j/32, k/32, i, k, j",
    "product jki": "j/32, i/32, k/32, i, k, j",
    "product, rows of 512": "i/32, j/32, k/32, i, k, j",
    "AᵀB": "i/32, j/32, k/32, i, k, j",
    "ABᵀ": "i/32, j/32, k/32, i, j, k",
    "AᵀBᵀ": "i/32, j/32, k/32, i, j, k",
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


def beside_packing(recorded: dict[str, Any]) -> measure.Table:
    """Cycles of misses: the nests as written and in Pluto's order, packed and not.

    Prints what the simulator says of one nest, for which the estimate is too high.
    """
    rows, tiled_nests = [], nests()
    for name, tiled in tiled_nests.items():
        plain = EXAMPLES[name]
        packed, both = (packing.analyse(nest, whole=True).chosen for nest in (plain, tiled))
        cycles = misses.estimate(plain).cycles
        shares = [misses.estimate(nest).cycles / cycles for nest in (packed, tiled, both)]
        rows.append((name, ORDERS[name], *(f"{share:.2f}" for share in shares),
                     view.packed_arrays(both)))  # fmt: skip
    name = "batched, interleaved"
    simulated = recorded["nests"][name]["simulated"]["none"]
    seen = view.watched(tiled_nests[name]).cycles / simulated
    print(f"{name}, Pluto's loops, simulated: {seen:.2f}")
    heading = ("", "Pluto's loops", "packed", "Pluto's", "Pluto's, packed", "packs")
    about = f"cycles of misses, estimated, of the nest as written: 1; Pluto {VERSION}"
    return measure.Table(heading, tuple(rows), about)


def here(recorded: dict[str, Any], *names: str) -> None:
    """Print how long nests take here, as written and in Pluto's order, packed and not."""
    options, tiled_nests = recorded["modes"]["any order"].split(), nests()
    for name in names:
        plain, tiled = EXAMPLES[name], tiled_nests[name]
        arrays = build(plain).arrays()
        packed, both = (packing.analyse(nest, whole=True).chosen for nest in (plain, tiled))
        took = [1000 * min(build(nest, options).times(arrays, RUNS))
                for nest in (plain, packed, tiled, both)]  # fmt: skip
        print("⏱ {}, ms here: {:.1f} as written, {:.1f} packed; {:.1f} in Pluto's order, {:.1f} "
              "packed in it".format(name, *took))  # fmt: skip
