"""cp.async.bulk.tensor (PTX ISA 9.7.9.27.1): boxes of tensors, copied by the copy engine."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from phasebit.emulator.copy_engine.bulk_copies import Reduced
from phasebit.emulator.copy_engine.copy_observer import BulkCopyObserver
from phasebit.emulator.copy_engine.sub_byte_copy import Slots, in_global, in_shared
from phasebit.emulator.copy_engine.sub_byte_copy import problem as narrow_problem
from phasebit.emulator.copy_engine.tensor_copy import LINE, PIECE, Box, Rows, column, rows_at
from phasebit.emulator.copy_engine.tensor_copy import tile as tile_of
from phasebit.emulator.copy_engine.tensormap import PACKED, SIZE, WIDE, Descriptor, decode, problem
from phasebit.emulator.machine.group import Group
from phasebit.emulator.ops.bulk import (
    OPERATIONS,
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
from phasebit.emulator.ptx.placement import LOCAL_BASE, SHARED_BASE, WINDOW_SHIFT, align_up
from phasebit.emulator.ptx.table import effect
from phasebit.emulator.ptx.types import Value

REDUCED = {
    "add": {"u32", "s32", "u64", "f16", "bf16", "f32", "f32.ftz", "f64", "tf32", "tf32.ftz"},
    **{op: {"u32", "s32", "u64", "s64", "f16", "bf16"} for op in ("min", "max")},
    **{op: {"u32", "s32", "u64"} for op in ("and", "or", "xor")},
    **{op: {"u32"} for op in ("inc", "dec")},
}
"""Element types that an H200 reduces; with others the kernel ends with an illegal instruction."""

ALIGNMENT = 128
"""Of a box in shared memory, in bytes (CUDA C++ Programming Guide, tensor memory access)."""

FORM: list[dict[str, tuple[str, Any]]] = [
    {f"{n}d": ("rank", n) for n in range(1, 6)},
    {"tile": ("mode", "tile"), "tile::gather4": ("mode", "gather4")},
    {"cta_group::1": ("group", 1), "cta_group::2": ("group", 2)},
]
STORE: list[dict[str, tuple[str, Any]]] = [
    FORM[0], {"tile": ("mode", "tile"), "tile::scatter4": ("mode", "scatter4")}
]  # fmt: skip
TILE: dict[str, tuple[str, Any]] = {"tile": ("mode", "tile")}
FOUR = 4
"""Rows of ``.tile::gather4`` and ``.tile::scatter4``."""
LOAD = "cp.async.bulk.tensor.shared::{}.global.mbarrier::complete_tx::bytes"
Tensor = tuple[Value, tuple[Value, ...]]
"""An operand ``[map, {c0, c1 …}]``."""


def _flat(tensor: Tensor, *more: Value | None) -> list[Value | None]:
    """The map's address and the coordinates as operands like others."""
    return [tensor[0], *tensor[1], *more]


def descriptor(
    g: Group, address: int, rank: int, access: int, mode: str = "tile"
) -> Descriptor:
    """The tensor map at a generic address, which must be of that rank.

    For ``gather4`` and ``scatter4`` its box is the four rows that are copied.
    """
    if address >> WINDOW_SHIFT == SHARED_BASE >> WINDOW_SHIFT:
        raise fault(
            g,
            "the tensor map lies in shared memory; it must be a parameter, or "
            "in global or constant memory",
        )
    if address >> WINDOW_SHIFT == LOCAL_BASE >> WINDOW_SHIFT:
        raise fault(
            g,
            "the tensor map lies in local memory, a copy of the thread's own, which the copy "
            "engine cannot read: declare the parameter const __grid_constant__ CUtensorMap",
        )
    if address % 64:
        raise fault(g, f"the tensor map at {address:#x} is no multiple of 64")
    kind = np.uint64
    where = int(g.spread(g.generic_index(kind(address), kind(0), SIZE, 0, 64, access))[0])
    d = decode(g.memory.u1[where : where + SIZE].tobytes())
    if d is None:
        raise fault(
            g,
            f"there is no tensor map at {address:#x}: pass a pb.TensorMap, or the result of "
            "cuTensorMapEncodeTiled, as a const __grid_constant__ parameter",
        )
    if why := problem(d):
        raise fault(g, why)
    for told in g.batch.machine.told[BulkCopyObserver.reads_map]:
        told(g, where, access)
    if d.rank != rank:
        raise fault(g, f"the tensor map has {d.rank} dimensions, not {rank}")
    return d.plain() if mode == "tile" else _four_rows(g, d, mode)


def _four_rows(g: Group, d: Descriptor, mode: str) -> Descriptor:
    """The same tensor with a box of four rows, wherever they lie (PTX ISA 5.5.3.4)."""
    which = f".tile::{mode}"
    if d.rank != 2:
        raise fault(g, f"{which} takes a tensor of 2 dimensions, and this one has {d.rank}")
    if d.mode == "tile" and d.box[1] != 1:
        raise fault(
            g,
            f"{which} copies four rows, each a box of its own, so the tensor map's box has 1 row, "
            f"not {d.box[1]}",
        )
    return dataclasses.replace(d, box=(d.box[0], FOUR), element_strides=(1, 1))


def tile(
    g: Group, d: Descriptor, at: list[int], offsets: tuple[int, ...] | None = None,
    direction: str = "load",
) -> Rows | Slots:  # fmt: skip
    """A box of a tensor, whose inside must lie in one allocation; with offsets: of im2col.

    With more coordinates than the tensor has dimensions these are a column and four rows.

    An H200 ends the kernel with an illegal instruction where rows of the box begin in the middle
    of 16 bytes, and where a store begins at a negative coordinate (so the CUDA C++ Programming
    Guide too, tensor memory access).
    """
    if direction != "load" and min(at) < 0:
        raise fault(
            g,
            f"a store's box may reach over the end of the tensor, but it begins at {tuple(at)}: "
            "no coordinate may be negative",
        )
    if d.data_type in PACKED:
        if why := narrow_problem(d, at[0], direction):
            raise fault(g, why)
        rows = rows_of(g, in_global(d), [at[0] * d.bits // 8, *at[1:]], offsets, False)
        return Slots(rows, d.bits) if d.data_type in WIDE else rows
    if at[0] * d.bits // 8 % PIECE:
        raise fault(
            g,
            f"the box begins at element {at[0]} of the innermost dimension, byte "
            f"{at[0] * d.bits // 8}; this must be a multiple of {PIECE} bytes",
        )
    return rows_of(g, d, at, offsets, direction != "load")


def rows_of(
    g: Group, d: Descriptor, at: list[int], offsets: tuple[int, ...] | None, writes: bool
) -> Rows:
    """The rows of a box, all within one allocation."""
    wanted = "tile" if offsets is None else "im2col"
    if d.mode != wanted:
        raise fault(g, f"the tensor map was made for {d.mode}, the instruction is {wanted}")
    if len(at) > d.rank:
        made = rows_at(g.memory, d, at[0], at[1:], writes)
    elif offsets is None:
        made = tile_of(g.memory, d, tuple(at), writes)
    else:
        limit = {3: 1 << 16, 4: 1 << 8, 5: 1 << 5}[d.rank]
        if max(offsets) >= limit:
            raise fault(
                g,
                f"the im2col offsets are {offsets}; with {d.rank} dimensions each is below {limit}",
            )
        made = column(g.memory, d, tuple(at), offsets, writes)
    if len(made.begins):
        low, high = int(made.begins.min()), int(made.begins.max()) + made.length
        owner = g.memory.find(low)
        if owner is None or high > owner.start + owner.size:
            raise fault(
                g,
                f"the box at {tuple(at)} reaches outside of the tensor's memory: do dims "
                f"{d.dims} and strides {d.strides} of the tensor map fit the allocation? It "
                f"is {g.memory.near(low if owner is None else high - 1)}"
                if owner is None
                else f"the box at {tuple(at)} reaches {high - owner.start - owner.size} bytes past "
                f"the end of {owner.name or 'its array'} ({owner.size} bytes): do dims "
                f"{d.dims} and strides {d.strides} of the tensor map fit?",
            )
    return made


def box(g: Group, address: int, d: Descriptor, access: int) -> Box:
    """The tile in shared memory."""
    elements = ""
    if d.data_type in PACKED:
        d, elements = in_shared(d), d.data_type
    if address % ALIGNMENT:
        raise fault(g, f"the shared address {address:#x} is no multiple of {ALIGNMENT} bytes")
    kind = np.uint32 if address < 1 << 32 else np.uint64
    room = d.nbytes if d.swizzle == "none" else align_up(d.footprint, LINE)
    where = g.shared_index(kind(address), kind(0), room, 0, ALIGNMENT, access)
    return Box(g.memory, int(g.spread(where)[0]), d, elements)


@effect(f"{LOAD.format('cta')} {LOAD.format('cluster')}", "a t a u64", section="9.7.9.27.1.2",
        optional=1, options=FORM)  # fmt: skip
def tensor_load(
    g: Group, target: Value, tensor: Tensor, barrier: Value, policy: Value = None, *, rank: int,
    mode: str = "tile", group: int = 1,
) -> None:  # fmt: skip
    """cp.async.bulk.tensor from global to shared memory; what lies outside becomes zero or NaN.

    The barrier counts the bytes of the whole box.  With cta_group::2 it may be that of the other
    block of the pair.
    """
    access = access_of(g)
    for one, (where, *at, to, bar) in each(g, *_flat(tensor, target, barrier)):
        d = descriptor(one, where, rank, access, mode)
        there, site = box(one, to, d, access), site_of(one, bar)
        same_block(one, there, site, group)
        begin(one, tile(one, d, at), there, d.nbytes, access, site)


@effect(f"{LOAD.format('cluster')}.multicast::cluster", "a t a u16 u64",
        section="9.7.9.27.1.2", optional=1, options=FORM)  # fmt: skip
def tensor_multicast(
    g: Group, target: Value, tensor: Tensor, barrier: Value, mask: Value, policy: Value = None,
    *, rank: int, mode: str = "tile", group: int = 1,
) -> None:  # fmt: skip
    """cp.async.bulk.tensor.multicast: to the same place in each block of a mask.

    With cta_group::2 the barriers that count are all in even, or all in odd blocks.
    """
    access = access_of(g)
    for one, (where, *at, to, bar, bits) in each(g, *_flat(tensor, target, barrier, mask)):
        d = descriptor(one, where, rank, access, mode)
        source = tile(one, d, at)
        for block in ranks(one, bits):
            there = box(one, at_rank(to, block), d, access)
            site = site_of(one, at_rank(bar, counting(bar, block, group)))
            begin(one, source, there, d.nbytes, access, site)


@effect("cp.async.bulk.tensor.global.shared::cta.bulk_group", "t a u64", section="9.7.9.27.1.2",
        optional=1, options=STORE)  # fmt: skip
def tensor_store(
    g: Group, tensor: Tensor, address: Value, policy: Value = None, *, rank: int,
    mode: str = "tile",
) -> None:  # fmt: skip
    """cp.async.bulk.tensor from shared to global memory; nothing is written outside."""
    access = access_of(g)
    for one, (where, *at, origin) in each(g, *_flat(tensor, address), same=True):
        d = descriptor(one, where, rank, access, mode)
        there = tile(one, d, at, direction="store")
        begin(one, box(one, origin, d, access), there, d.nbytes, access, None)


@effect("cp.reduce.async.bulk.tensor.global.shared::cta.bulk_group", "t a u64",
        section="9.7.9.27.1.3", optional=1, options=[FORM[0], TILE, *OPERATIONS])  # fmt: skip
def tensor_reduce(
    g: Group, tensor: Tensor, address: Value, policy: Value = None, *, rank: int, op: str,
    mode: str = "tile",
) -> None:  # fmt: skip
    """cp.reduce.async.bulk.tensor: combine a tile into the tensor, by the type of its map."""
    access = access_of(g)
    for one, (where, *at, origin) in each(g, *_flat(tensor, address)):
        d = descriptor(one, where, rank, access)
        into = reduced(one, d, tile(one, d, at, direction="reduce"), op)
        begin(one, box(one, origin, d, access), into, d.nbytes, access, None)


def reduced(g: Group, d: Descriptor, there: Rows | Slots, op: str) -> Reduced:
    """A box that is combined with what comes, by the type of its map."""
    if d.data_type not in PACKED and d.data_type not in REDUCED[op]:
        raise fault(g, f"the copy engine has no .{op} of {d.data_type}")
    return Reduced(there, op, d.data_type)


@effect("cp.async.bulk.prefetch.tensor.L2.global", "t u64", section="9.7.9.27.1.4", optional=1,
        options=FORM[:2])  # fmt: skip
def tensor_prefetch(
    g: Group, tensor: Tensor, policy: Value = None, *, rank: int, mode: str = "tile"
) -> None:
    """cp.async.bulk.prefetch.tensor: a hint to the L2 cache; the map is checked."""
    access = access_of(g)
    for one, (where, *at) in each(g, *_flat(tensor)):
        tile(one, descriptor(one, where, rank, access, mode), at)


# -- im2col ---------------------------------------------------------------------------


@effect(f"{LOAD.format('cta')}.im2col {LOAD.format('cluster')}.im2col", "a t a *u16 u64",
        section="9.7.9.27.1.2", optional=1, options=[FORM[0], FORM[2]])  # fmt: skip
def im2col_load(
    g: Group, target: Value, tensor: Tensor, barrier: Value, offsets: tuple[Value, ...],
    policy: Value = None, *, rank: int, group: int = 1,
) -> None:  # fmt: skip
    """cp.async.bulk.tensor.im2col: the pixels under one place of a filter, to shared memory."""
    access = access_of(g)
    for one, (where, *rest) in each(g, *_flat(tensor, target, barrier, *offsets)):
        at, (to, bar), away = rest[:rank], rest[rank : rank + 2], tuple(rest[rank + 2 :])
        d = descriptor(one, where, rank, access)
        there, site = box(one, to, d, access), site_of(one, bar)
        same_block(one, there, site, group)
        begin(one, tile(one, d, at, away), there, d.nbytes, access, site)


@effect(f"{LOAD.format('cluster')}.im2col.multicast::cluster", "a t a *u16 u16 u64",
        section="9.7.9.27.1.2", optional=1, options=[FORM[0], FORM[2]])  # fmt: skip
def im2col_multicast(
    g: Group, target: Value, tensor: Tensor, barrier: Value, offsets: tuple[Value, ...],
    mask: Value, policy: Value = None, *, rank: int, group: int = 1,
) -> None:  # fmt: skip
    """cp.async.bulk.tensor.im2col.multicast: to the same place in each block of a mask."""
    access = access_of(g)
    for one, (where, *rest) in each(g, *_flat(tensor, target, barrier, mask, *offsets)):
        at, (to, bar, bits), away = rest[:rank], rest[rank : rank + 3], tuple(rest[rank + 3 :])
        d = descriptor(one, where, rank, access)
        source = tile(one, d, at, away)
        for block in ranks(one, bits):
            there = box(one, at_rank(to, block), d, access)
            site = site_of(one, at_rank(bar, counting(bar, block, group)))
            begin(one, source, there, d.nbytes, access, site)


@effect("cp.async.bulk.tensor.global.shared::cta.bulk_group.im2col_no_offs", "t a u64",
        section="9.7.9.27.1.2", optional=1, options=FORM[:1])  # fmt: skip
def im2col_store(
    g: Group, tensor: Tensor, address: Value, policy: Value = None, *, rank: int
) -> None:
    """cp.async.bulk.tensor.im2col_no_offs: pixels from shared memory to the tensor.

    A window that reaches over an edge is an illegal instruction.  [seen on an H200]
    """
    access = access_of(g)
    for one, (where, *at, origin) in each(g, *_flat(tensor, address), same=True):
        d = descriptor(one, where, rank, access)
        there = _window(one, d, at, "store")
        begin(one, box(one, origin, d, access), there, d.nbytes, access, None)


@effect("cp.reduce.async.bulk.tensor.global.shared::cta.bulk_group.im2col_no_offs", "t a u64",
        section="9.7.9.27.1.3", optional=1, options=[FORM[0], *OPERATIONS])  # fmt: skip
def im2col_reduce(
    g: Group, tensor: Tensor, address: Value, policy: Value = None, *, rank: int, op: str
) -> None:
    """cp.reduce.async.bulk.tensor.im2col_no_offs: combine pixels into the tensor."""
    access = access_of(g)
    for one, (where, *at, origin) in each(g, *_flat(tensor, address)):
        d = descriptor(one, where, rank, access)
        into = reduced(one, d, _window(one, d, at, "reduce"), op)
        begin(one, box(one, origin, d, access), into, d.nbytes, access, None)


def _window(g: Group, d: Descriptor, at: list[int], direction: str) -> Rows | Slots:
    """The pixels of a window that are written."""
    if d.mode == "im2col" and (min(d.lower) < 0 or max(d.upper) > 0):
        raise fault(
            g,
            f"a store's window must lie within the images, but its corners are {d.lower} and "
            f"{d.upper}: no lower one may be negative, no upper one positive",
        )
    return tile(g, d, at, (0,) * (d.rank - 2), direction)


@effect("cp.async.bulk.prefetch.tensor.L2.global.im2col", "t *u16 u64", section="9.7.9.27.1.4",
        optional=1, options=FORM[:1])  # fmt: skip
def im2col_prefetch(
    g: Group, tensor: Tensor, offsets: tuple[Value, ...], policy: Value = None, *, rank: int
) -> None:
    """cp.async.bulk.prefetch.tensor.im2col: a hint to the L2 cache; the map is checked."""
    access = access_of(g)
    for one, (where, *rest) in each(g, *_flat(tensor, *offsets)):
        at, away = rest[:rank], tuple(rest[rank:])
        tile(one, descriptor(one, where, rank, access), at, away)
