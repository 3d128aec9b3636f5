"""Boxes of tensors: every rank, type and swizzle, over every edge, in every direction.

The tensor is the memory of the program's inputs, full of random bits, or that of its answers,
filled from the inputs first.  Shared memory holds 0x5a wherever no copy has written, so a byte
too many shows as well as one too few.

PTX ISA 5.5 (tensors), 9.7.9.27.1 (cp.async.bulk.tensor), 9.7.9.28 (tensormap.replace).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from phasebit.emulator.copy_engine.tensormap import BITS, FLOATS, TYPES, Descriptor
from proof.copies import (
    COUNTED,
    begin,
    blank,
    elements,
    finish,
    meet,
    room_of,
    show,
    wait,
)
from proof.dice import Dice
from proof.program import Program, Writer
from proof.values import SIZE

THREADS = 128
ROW = 8 * THREADS
"""Bytes of one word of every thread."""
MOST = 24 * ROW
"""Bytes of a tensor."""
PLACES = (0, 0, 128, 256, 512, 896, 1024)
"""Where in shared memory a box begins."""

PLAIN = TYPES[:13]
"""Element types of sm_90; the others are packed, and came with sm_100."""
SWIZZLES = {"none": 256, "32B": 32, "64B": 64, "128B": 128}

ADDED = ("u32", "s32", "u64", "f16", "bf16", "f32", "f32.ftz", "f64", "tf32", "tf32.ftz")
ORDERED = ("u32", "s32", "u64", "s64", "f16", "bf16")
REDUCTIONS = [
    *(("add", t) for t in ADDED), *((op, t) for op in ("min", "max") for t in ORDERED),
    *((op, t) for op in ("and", "or", "xor") for t in ("u32", "s32", "u64")),
    ("inc", "u32"), ("dec", "u32"),
]  # fmt: skip


def size_of(kind: str) -> int:
    """Bytes of an element."""
    return BITS.get(kind, 32) // 8


def strides_of(
    dice: Dice, dims: list[int], each: int, unit: int, gaps: int
) -> tuple[int, ...] | None:
    """Bytes between indices of all dimensions but the innermost; ``None`` if there are too many.

    ``each``: bytes between innermost indices. Strides are multiples of ``unit`` bytes, with less
    than ``gaps`` units unused.
    """
    strides = []
    below = -(-dims[0] * each // unit) * unit
    for extent in dims[1:]:
        below += unit * dice.below(gaps)
        strides.append(below)
        below *= extent
    return tuple(strides) if below <= MOST else None


def fill_of(dice: Dice, kind: str) -> str:
    """What stands in a box outside of the tensor."""
    return "nan" if kind in FLOATS and dice.chance(50) else "zeros"


def draw(
    dice: Dice, kind: str, rank: int, swizzle: str, inside: bool = False
) -> tuple[Descriptor, tuple[int, ...]]:
    """A tensor with a box of at most 4 KiB, and coordinates in or around it.

    The innermost coordinate is a multiple of 16 bytes; with ``inside`` none is negative.
    """
    size = size_of(kind)
    while True:
        unit = 16 // size
        most = min(SWIZZLES[swizzle] if swizzle != "none" else 256 * size, 2048, 256 * size)
        box = [unit * dice.between(1, most // 16)]
        room = 4096 // (box[0] * size)
        for _ in range(rank - 1):
            box.append(dice.between(1, max(1, min(16, room))))
            room = max(1, room // box[-1])
        steps = [dice.choice((1, 1, 1, 1, 2))]
        steps += [dice.choice((1, 1, 1, 2, 3, 8)) for _ in range(rank - 1)]
        dims = [dice.between(1, 2 * b + 1) for b in box]
        strides = strides_of(dice, dims, size, 16, 3)
        if strides is not None:
            break
    at = [dice.between(-b, n + 1) for b, n in zip(box, dims, strict=True)]
    if inside or dice.chance(30):
        at = [dice.below(n) for n in dims]
    at[0] -= at[0] % unit
    fill = fill_of(dice, kind)
    promotion = dice.choice(("none", "64B", "128B", "256B"))
    made = Descriptor(kind, 0, tuple(dims), strides, tuple(box), tuple(steps), "none",
                      swizzle, promotion, fill)  # fmt: skip
    made.check()
    return made, tuple(at)


def window(dice: Dice, kind: str, rank: int, swizzle: str, inside: bool = False) -> tuple[
    Descriptor, tuple[int, ...], tuple[int, ...]
]:  # fmt: skip
    """A tensor of images, coordinates of a pixel in its window, and a place in the filter.

    With ``inside`` the window does not reach over the images' edges: what a store needs.
    """
    size, space = size_of(kind), rank - 2
    while True:
        unit = 16 // size
        most = min(SWIZZLES[swizzle] if swizzle != "none" else 256, 256 * size)
        channels, pixels = unit * dice.between(1, most // 16), dice.between(1, 24)
        dims = [dice.between(1, 2 * channels)]
        dims += [dice.between(2, 7) for _ in range(space)] + [dice.between(1, 3)]
        lower = tuple(dice.between(0 if inside else -2, 1) for _ in range(space))
        upper = tuple(dice.between(-2, 0 if inside else 1) for _ in range(space))
        steps = (1, *(dice.choice((1, 1, 2)) for _ in range(space)), 1)
        strides = strides_of(dice, dims, size, 16, 2)
        extents = [n + h - low for n, h, low in zip(dims[1:], upper, lower, strict=False)]
        if strides is not None and min(extents) > 0:
            break
    spatial = zip(extents, lower, steps[1:], strict=False)
    at = [unit * dice.between(0 if inside else -1, (dims[0] - 1) // unit)]
    at += [low + step * dice.below(-(-n // step)) for n, low, step in spatial]
    at.append(dice.below(dims[-1]))
    fill = fill_of(dice, kind)
    made = Descriptor(kind, 0, tuple(dims), strides, (channels, pixels), steps, "none",
                      swizzle, "none", fill, "im2col", lower, upper)  # fmt: skip
    made.check()
    return made, tuple(at), tuple(dice.below(4) for _ in range(space))


def interleaved(dice: Dice, kind: str, rank: int) -> tuple[Descriptor, tuple[int, ...]]:
    """A tensor whose channels lie in slices of 16 or 32 bytes: width first, slices last but one."""
    size, slice_ = size_of(kind), dice.choice((16, 32))
    while True:
        unit = 16 // size
        box = [unit * dice.between(1, max(1, 16 // unit))]
        box += [dice.between(1, 4) for _ in range(rank - 1)]
        box[-2] = dice.between(1, 3 * slice_ // size)
        dims = [dice.between(1, 2 * b) for b in box]
        strides = strides_of(dice, dims, slice_, 32, 2)
        if strides is not None:
            break
    at = [dice.between(-b, n + 1) for b, n in zip(box, dims, strict=True)]
    at[-2] = dice.between(-1, 3)
    if dice.chance(50):
        at = [dice.below(n) for n in dims]
        at[-2] = dice.below(2)
    fill = fill_of(dice, kind)
    steps = [1, *(dice.choice((1, 1, 1, 2)) for _ in range(rank - 1))]
    made = Descriptor(kind, 0, tuple(dims), strides, tuple(box), tuple(steps),
                      f"{slice_}B", dice.choice(list(SWIZZLES)), "none", fill)  # fmt: skip
    made.check()
    return made, tuple(at)


def coordinates(w: Writer, at: tuple[int, ...]) -> str:
    """Registers that hold the coordinates, in braces."""
    names = []
    for c in at:
        names.append(w.reg("b32"))
        w.put(f"mov.s32 {names[-1]}, {c};")
    return "{" + ", ".join(names) + "}"


def filter_place(w: Writer, offsets: tuple[int, ...]) -> str:
    """The same for the offsets of im2col, 16 bits each."""
    names = []
    for x in offsets:
        names.append(w.reg("b16"))
        w.put(f"mov.u16 {names[-1]}, {x};")
    return "{" + ", ".join(names) + "}"


def rows(size: int) -> int:
    """Words of each thread that make so many bytes."""
    return -(-size // ROW)


def load(
    name: str, d: Descriptor, at: tuple[int, ...], offset: int, space: str,
    offsets: tuple[int, ...] = (), fetched: bool = False, slack: int = 128,
) -> Program:  # fmt: skip
    """A box to shared memory; all of the room is shown, and ``slack`` bytes after the box."""
    w = Writer()
    w.inputs += ["b64"] * rows(_extent(d))
    room = rows(offset + d.plain().footprint + slack) * ROW
    begin(w, room)
    blank(w, room, THREADS)
    tensor = w.map("inputs", d)
    where = coordinates(w, at)
    meet(w, 1)
    mode = ".im2col" if offsets else ".tile"
    opcode = f"cp.async.bulk.tensor.{d.rank}d.{space}.global{mode}.{COUNTED}"
    opcodes = [opcode]
    more = f", {filter_place(w, offsets)}" if offsets else ""
    if fetched:
        opcodes.append(f"cp.async.bulk.prefetch.tensor.{d.rank}d.L2.global{mode}")
        w.put(f"@%first {opcodes[-1]} [{tensor}, {where}]{more};")
    w.put(
        f"@%first mbarrier.arrive.expect_tx.shared.b64 _, [%full], {d.nbytes};",
        f"@%first {opcode} [%room+{offset}], [{tensor}, {where}], [%full]{more};",
    )
    w.output("pred", wait(w))
    show(w, room, THREADS)
    return finish(w, name, "tensor", opcodes, THREADS)


def _extent(d: Descriptor) -> int:
    """Bytes from the first element of the tensor to the last, with the rest of its 16 bytes."""
    inner = -(-d.dims[0] * d.plain().bits // 128) * 16
    return inner + sum((n - 1) * s for n, s in zip(d.dims[1:], d.strides, strict=True))


def store(name: str, d: Descriptor, at: tuple[int, ...], offset: int, op: str = "") -> Program:
    """A box from shared memory into the tensor, or combined with it."""
    w = Writer()
    whole, room = rows(_extent(d)), rows(offset + d.plain().footprint + 128) * ROW
    before = [w.input("b64") for _ in range(whole)]
    words = [w.input("b64") for _ in range(room // ROW)]
    begin(w, room)
    w.put(*(f"st.global.b64 [%out+{ROW * i}], {x};" for i, x in enumerate(before)))
    room_of(w, words, THREADS)
    tensor = w.map("outputs", d)
    where = coordinates(w, at)
    meet(w, 1)
    mode = "im2col_no_offs" if d.mode == "im2col" else "tile"
    head = f"cp.reduce.async.bulk.tensor.{d.rank}d" if op else f"cp.async.bulk.tensor.{d.rank}d"
    opcode = f"{head}.global.shared::cta{f'.{op}' if op else ''}.{mode}.bulk_group"
    w.put(f"@%first {opcode} [{tensor}, {where}], [%room+{offset}];",
          "@%first cp.async.bulk.commit_group;", "@%first cp.async.bulk.wait_group 0;")  # fmt: skip
    w.outputs += ["b64"] * whole
    kind = d.data_type if d.data_type in SIZE else "f32"
    fill = functools.partial(elements, kind=kind, rows=len(w.inputs))
    return finish(w, name, "tensor", [opcode], THREADS, fill=fill if op else None)


def multicast(name: str, blocks: int, im2col: bool) -> Program:
    """Each block copies its box to the blocks of a mask."""
    dice, w = Dice(name + "/text"), Writer()
    kind, swizzle = dice.choice(("u8", "f16", "f32")), dice.choice(list(SWIZZLES))
    offsets: tuple[int, ...] = ()
    while True:
        if im2col:
            d, at, offsets = window(dice, kind, 4, swizzle)
        else:
            d, at = draw(dice, kind, dice.between(1, 3), swizzle)
        if d.footprint <= ROW:
            break
    w.inputs += ["b64"] * rows(_extent(d))
    room = ROW * blocks
    begin(w, room)
    blank(w, room, THREADS)
    tensor = w.map("inputs", d)
    masks = [dice.between(1, (1 << blocks) - 1) for _ in range(blocks)]
    expected = [d.nbytes * sum(m >> r & 1 for m in masks) for r in range(blocks)]
    bytes_, mask, there, mine = (w.reg(k) for k in ("b32", "b16", "b32", "pred"))
    w.put(f"mov.u32 {bytes_}, {expected[0]}; mov.u16 {mask}, {masks[0]};")
    for rank in range(1, blocks):
        w.put(f"setp.eq.u32 {mine}, %rank, {rank}; @{mine} mov.u32 {bytes_}, {expected[rank]};",
              f"@{mine} mov.u16 {mask}, {masks[rank]};")  # fmt: skip
    w.put(f"mad.lo.u32 {there}, %rank, {ROW}, %room;",
          f"@%first mbarrier.arrive.expect_tx.shared.b64 _, [%full], {bytes_};")  # fmt: skip
    where = coordinates(w, at)
    meet(w, blocks)
    mode = "im2col" if im2col else "tile"
    opcode = (f"cp.async.bulk.tensor.{d.rank}d.shared::cluster.global.{mode}.{COUNTED}"
              ".multicast::cluster")  # fmt: skip
    more = f" {filter_place(w, offsets)}," if offsets else ""
    w.put(f"@%first {opcode} [{there}], [{tensor}, {where}], [%full],{more} {mask};")
    w.output("pred", wait(w))
    show(w, room, THREADS)
    meet(w, blocks)
    return finish(w, name, "tensor", [opcode], THREADS, blocks)


NUMBERS = {name: i for i, name in enumerate(
    ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32.ftz", "f64", "bf16", "tf32",
     "tf32.ftz")
)}  # fmt: skip
"""Element types as ``tensormap.replace`` numbers them (PTX ISA 9.7.9.28)."""


def replaced(name: str) -> Program:
    """A tensor map that the kernel makes of another one, field by field, and copies by."""
    dice, w = Dice(name + "/text"), Writer()
    rank = dice.between(1, 5)
    kind = dice.choice(PLAIN)
    new, at = draw(dice, kind, rank, dice.choice(list(SWIZZLES)))
    # an H200 goes on rounding to tf32 when elemtype of such a map is replaced by f32.ftz
    same = [t for t in PLAIN if size_of(t) == size_of(kind) and not t.startswith("tf32")]
    old, _ = draw(dice, dice.choice(same), rank, "none")
    w.inputs += ["b64"] * (rows(_extent(new)) + 1)
    room = rows(new.footprint + 128) * ROW
    begin(w, room)
    blank(w, room, THREADS)
    tensor = w.map("inputs", old)
    where = coordinates(w, at)
    shift = 16 * dice.below(8)
    copy, mine, word, back, map_ = (w.reg(k) for k in ("b64", "b32", "b32", "b64", "b64"))
    w.put(".shared .align 128 .b8 edited[128]; .reg .b32 %edited; .reg .pred %warp;",
          "mov.u32 %edited, edited; setp.lt.u32 %warp, %t, 32; @!%warp bra COPIED;",
          f"mad.wide.u32 {copy}, %t, 4, {tensor}; mad.lo.u32 {mine}, %t, 4, %edited;",
          f"ld.b32 {word}, [{copy}]; st.shared.b32 [{mine}], {word}; bar.warp.sync 0xffffffff;",
          f"mul.wide.u32 {back}, %i, 8; sub.s64 {back}, %in, {back}; add.s64 {back}, {back},"
          f" {shift};")  # fmt: skip
    edits = [("global_address", "", "b64", back), ("rank", "", "b32", str(rank - 1)),
             ("elemtype", "", "b32", str(NUMBERS[kind])), ("interleave_layout", "", "b32", "0"),
             ("swizzle_mode", "", "b32", str(list(SWIZZLES).index(new.swizzle))),
             ("fill_mode", "", "b32", str(int(new.oob_fill == "nan")))]  # fmt: skip
    for field, values in (("box_dim", new.box), ("global_dim", new.dims),
                          ("global_stride", new.strides),
                          ("element_stride", new.element_strides)):  # fmt: skip
        bits = "b64" if field == "global_stride" else "b32"
        edits += [(field, f" {i},", bits, str(x)) for i, x in enumerate(values)]
    opcodes = []
    for field, ordinal, bits, value in edits:
        opcode = f"tensormap.replace.tile.{field}.shared::cta.b1024.{bits}"
        held = value
        if bits == "b64" and value != back:
            held = w.reg("b64")
            w.put(f"mov.b64 {held}, {value};")
        elif field in ("box_dim", "global_dim", "element_stride"):
            held = w.reg("b32")
            w.put(f"mov.b32 {held}, {value};")
        w.put(f"@%first {opcode} [%edited],{ordinal} {held};")
        opcodes.append(opcode)
    opcodes.append("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync"
                   ".aligned")  # fmt: skip
    w.put(f"mov.u64 {map_}, {name}_map;", "bar.warp.sync 0xffffffff;",
          f"{opcodes[-1]} [{map_}], [%edited], 128;",
          f"fence.proxy.tensormap::generic.acquire.gpu [{map_}], 128;", "COPIED:")  # fmt: skip
    meet(w, 1)
    opcode = f"cp.async.bulk.tensor.{rank}d.shared::cta.global.tile.{COUNTED}"
    w.put(
        f"@%first mbarrier.arrive.expect_tx.shared.b64 _, [%full], {new.nbytes};",
        f"@%first {opcode} [%room], [{map_}, {where}], [%full];",
    )
    w.output("pred", wait(w))
    show(w, room, THREADS)
    outside = f".global .align 128 .b8 {name}_map[128];\n"
    return finish(w, name, "tensor", [*opcodes, opcode], THREADS, outside=outside)


def programs() -> Iterator[Program]:
    """All programs of this module."""
    for turn in range(8):
        for kind in PLAIN:
            name = f"tensor_load_{kind.replace('.', '_')}_{turn}"
            dice = Dice(name)
            d, at = draw(dice, kind, turn % 5 + 1, list(SWIZZLES)[dice.below(4)])
            space = f"shared::{dice.choice(('cta', 'cluster'))}"
            yield load(name, d, at, dice.choice(PLACES), space, fetched=dice.chance(20))
    for turn in range(4):
        for kind in PLAIN:
            name = f"tensor_store_{kind.replace('.', '_')}_{turn}"
            dice = Dice(name)
            swizzle = list(SWIZZLES)[dice.below(4)]
            d, at = draw(dice, kind, turn + dice.between(1, 2), swizzle, True)
            yield store(name, d, at, dice.choice(PLACES))
    for turn in range(3):
        for op, kind in REDUCTIONS:
            name = f"tensor_{op}_{kind.replace('.', '_')}_{turn}"
            dice = Dice(name)
            d, at = draw(dice, kind, dice.between(1, 5), list(SWIZZLES)[dice.below(4)], True)
            yield store(name, d, at, dice.choice(PLACES), op)
    for turn in range(10):
        for kind in ("u8", "f16", "bf16", "f32", "u64", "tf32"):
            name = f"tensor_window_{kind}_{turn}"
            dice = Dice(name)
            window_, at, offsets = window(dice, kind, turn % 3 + 3, list(SWIZZLES)[dice.below(4)])
            space = f"shared::{dice.choice(('cta', 'cluster'))}"
            yield load(name, window_, at, dice.choice(PLACES), space, offsets)
    for turn in range(12):
        for kind in ("u8", "f16", "f32"):
            name = f"tensor_window_store_{kind}_{turn}"
            dice = Dice(name)
            swizzle = list(SWIZZLES)[dice.below(4)]
            window_, at, _ = window(dice, kind, turn % 3 + 3, swizzle, True)
            yield store(name, window_, at, dice.choice(PLACES))
    for turn in range(8):
        for blocks in (2, 4):
            for im2col in (False, True):
                yield multicast(f"tensor_multicast_{blocks}_{int(im2col)}_{turn}", blocks, im2col)
    for turn in range(12):
        for kind in ("u8", "f16", "f32", "u64"):
            name = f"tensor_interleaved_{kind}_{turn}"
            dice = Dice(name)
            d, at = interleaved(dice, kind, turn % 3 + 3)
            yield load(name, d, at, dice.choice(PLACES), "shared::cta")
    for turn in range(24):
        yield replaced(f"tensor_replace_{turn}")


__all__ = ["programs"]
