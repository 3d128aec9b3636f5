"""tile::gather4 and tile::scatter4 (PTX ISA 5.5.3): four rows of a matrix, each from its own place.

The coordinates are a column and four rows.  In shared memory the rows lie one below the other as
those of a box.  A row outside of the matrix is filled as the map says, or not written.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from phasebit.emulator.ops.bulk import (
    access_of,
    at_rank,
    begin,
    counting,
    each,
    fault,
    ranks,
    same_block,
    site_of,
)
from phasebit.emulator.ops.bulk_tensor import FORM, LOAD, Tensor, box, descriptor, flat, inside
from phasebit.emulator.table import effect
from phasebit.emulator.tensor_copy import PIECE, Rows, four_rows
from phasebit.emulator.tensormap import PACKED, Descriptor
from phasebit.emulator.types import Value

if TYPE_CHECKING:
    from phasebit.emulator.group import Group

FOUR = 4
OPTIONS = [{"2d": ("rank", 2)}, FORM[2]]


def matrix(g: Group, address: int, rank: int, access: int) -> Descriptor:
    """The tensor map, for boxes of four rows."""
    d = descriptor(g, address, rank, access)
    if d.mode != "tile" or d.unit or d.data_type in PACKED:
        raise fault(g, "four rows are taken of a plain matrix: tile mode, no interleave, and no "
                    "elements narrower than a byte")  # fmt: skip
    return dataclasses.replace(d, box=(d.box[0], FOUR), element_strides=(1, 1))


def rows(g: Group, d: Descriptor, at: list[int], writes: bool = False) -> Rows:
    """The four rows, all within one allocation."""
    column, *wanted = at
    if len(wanted) != FOUR:
        raise fault(g, f"the coordinates are a column and four rows, not {len(at)} numbers")
    if column * d.bits // 8 % PIECE:
        raise fault(g, f"the rows begin at element {column}, byte {column * d.bits // 8}; this "
                    f"must be a multiple of {PIECE} bytes")  # fmt: skip
    if writes and min(at) < 0:
        raise fault(g, f"rows are written at {tuple(at)}: no coordinate may be negative")
    return inside(g, d, at, four_rows(g.memory, d, column, tuple(wanted), writes))


@effect(f"{LOAD.format('cta')}.tile::gather4 {LOAD.format('cluster')}.tile::gather4", "a t a u64",
        section="9.7.9.27.1.2", optional=1, options=OPTIONS)  # fmt: skip
def gather(
    g: Group, target: Value, tensor: Tensor, barrier: Value, policy: Value = None, *, rank: int,
    group: int = 1,
) -> None:  # fmt: skip
    """cp.async.bulk.tensor.tile::gather4: four rows from global to shared memory."""
    access = access_of(g)
    for one, (where, *at, to, bar) in each(g, *flat(tensor, target, barrier)):
        d = matrix(one, where, rank, access)
        there, site = box(one, to, d, access), site_of(one, bar)
        same_block(one, there, site, group)
        begin(one, rows(one, d, at), there, d.nbytes, access, site)


@effect(f"{LOAD.format('cluster')}.tile::gather4.multicast::cluster", "a t a u16 u64",
        section="9.7.9.27.1.2", optional=1, options=OPTIONS)  # fmt: skip
def gather_multicast(
    g: Group, target: Value, tensor: Tensor, barrier: Value, mask: Value, policy: Value = None,
    *, rank: int, group: int = 1,
) -> None:  # fmt: skip
    """cp.async.bulk.tensor.tile::gather4.multicast: to the same place in each block of a mask."""
    access = access_of(g)
    for one, (where, *at, to, bar, bits) in each(g, *flat(tensor, target, barrier, mask)):
        d = matrix(one, where, rank, access)
        source = rows(one, d, at)
        for block in ranks(one, bits):
            there = box(one, at_rank(to, block), d, access)
            site = site_of(one, at_rank(bar, counting(bar, block, group)))
            begin(one, source, there, d.nbytes, access, site)


@effect("cp.async.bulk.tensor.global.shared::cta.bulk_group.tile::scatter4", "t a u64",
        section="9.7.9.27.1.2", optional=1, options=OPTIONS[:1])  # fmt: skip
def scatter(
    g: Group, tensor: Tensor, address: Value, policy: Value = None, *, rank: int
) -> None:
    """cp.async.bulk.tensor.tile::scatter4: four rows from shared to global memory."""
    access = access_of(g)
    for one, (where, *at, origin) in each(g, *flat(tensor, address)):
        d = matrix(one, where, rank, access)
        there = rows(one, d, at, writes=True)
        begin(one, box(one, origin, d, access), there, d.nbytes, access, None)


@effect("cp.async.bulk.prefetch.tensor.L2.global.tile::gather4", "t u64",
        section="9.7.9.27.1.4", optional=1, options=OPTIONS[:1])  # fmt: skip
def gather_prefetch(g: Group, tensor: Tensor, policy: Value = None, *, rank: int) -> None:
    """cp.async.bulk.prefetch.tensor.tile::gather4: a hint to the L2 cache; the map is checked."""
    access = access_of(g)
    for one, (where, *at) in each(g, *flat(tensor)):
        rows(one, matrix(one, where, rank, access), at)
