"""``wgmma``: every shape and type, tiles wherever a descriptor may find them, and the rounding.

Each block fills 32 KiB of shared memory with numbers and multiplies the tiles that its
descriptors find there: A in the lower half or in registers, B in the upper.  The memory is
filled everywhere, so a descriptor may point anywhere: overlapping tiles and odd strides are as
good as any.

*Layouts* are proved with each shape: whole numbers, where a wrong element shows in any sum, and
ordinary ones.  *Rounding* is proved with the narrowest shape and many blocks, one for each manner
of :mod:`~proof.numbers`.

PTX ISA 9.7.15.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from phasebit.emulator.numbers.sparse import DIFFERENT, HALVES
from phasebit.emulator.numbers.swizzle import PATTERN, SPANS
from phasebit.emulator.tensor_core.matrix_descriptors import MatrixDescriptor, places
from phasebit.emulator.tensor_core.matrix_descriptors import encode as descriptor
from proof.dice import Dice, Words
from proof.numbers import BYTES, MANNERS, draw, packed
from proof.program import Program, Writer

IMAGE = 32768
"""Bytes of shared memory that a block fills."""
THREADS = 128

FLOATS = [
    ("f32", "f16", "f16"), ("f16", "f16", "f16"), ("f32", "bf16", "bf16"), ("f32", "tf32", "tf32"),
    *((d, a, b) for d in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
]  # fmt: skip
INTEGERS = [("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")]
COLUMNS = range(8, 257, 8)
WHOLE_COLUMNS = (8, 16, 24, *range(32, 257, 16))
"""Shapes of integers."""


@dataclass(frozen=True)
class Product:
    """What one program multiplies."""

    types: tuple[str, str, str]
    n: int
    registers: bool = False
    """Whether A comes from registers."""
    along: tuple[int, int] = (0, 0)
    """Whether A lies along M, B along N."""
    signs: tuple[int, int] = (1, 1)
    keep: bool = True
    """scale-d: whether D is added to."""
    satfinite: bool = False
    crooked: str = ""
    """Tiles that begin in the middle of the swizzle's pattern: with a ``base`` offset, or not."""
    steps: int = 1
    """Multiplications, one after the other into the same accumulators."""
    selector: int = -1
    """Where A is sparse: which threads give its metadata."""

    @property
    def sparse(self) -> bool:
        return self.selector >= 0

    @property
    def k(self) -> int:
        return (64 if self.sparse else 32) // BYTES[self.types[1]]

    @property
    def accumulators(self) -> int:
        """Registers of D in each thread."""
        return self.n // (4 if self.types[0] == "f16" else 2)

    @property
    def opcode(self) -> str:
        sat = ".satfinite" if self.satfinite else ""
        shape = f"m64n{self.n}k{self.k}"
        sp = ".sp" if self.sparse else ""
        return f"wgmma.mma_async{sp}.sync.aligned.{shape}{sat}.{'.'.join(self.types)}"

    @property
    def immediates(self) -> str:
        if self.types[0] == "s32":
            return ""
        text = f", {self.signs[0]}, {self.signs[1]}"
        if BYTES[self.types[1]] == 2:
            text += "".join(f", {x}" for x in self.along[self.registers :])
        return text


def program(name: str, product: Product, manners: tuple[str, ...]) -> Program:
    """One block for each manner."""
    dice, w = Dice(name + "/text"), Writer()
    image = [w.input("b64") for _ in range(IMAGE // 8 // THREADS)]
    fragments = [w.input("b32") for _ in range(4 * product.steps)] if product.registers else []
    held = [w.input("b32") for _ in range(product.accumulators)]
    extra = f", {w.input('b32')}, {product.selector}" if product.sparse else ""
    w.put(
        f".shared .align 1024 .b8 tile[{IMAGE}]; .reg .b32 %tile, %mine; .reg .b64 %start;",
        ".reg .pred %keep; mov.u32 %tile, tile; mov.u32 %mine, %tid.x;",
        "shl.b32 %mine, %mine, 3; add.u32 %mine, %mine, %tile; shr.u32 %tile, %tile, 4;",
        f"cvt.u64.u32 %start, %tile; setp.ne.u32 %keep, {int(product.keep)}, 0;",
    )
    w.put(*(f"st.shared.b64 [%mine+{8 * THREADS * i}], {x};" for i, x in enumerate(image)))
    lines = []
    for step in range(product.steps):
        a, b = w.reg("b64"), w.reg("b64")
        deep = 64 if product.sparse else 32
        for r, rows, along, first, depth in (
            (a, 64, product.along[0], 0, 32), (b, product.n, product.along[1], IMAGE // 2, deep),
        ):  # fmt: skip
            where = place(dice, rows, not along, first, product.crooked, depth)
            w.put(f"add.s64 {r}, %start, {where};")
        mine = fragments[4 * step : 4 * step + 4]
        left = "{" + ", ".join(mine) + "}" if product.registers else a
        d = "{" + ", ".join(held) + "}"
        lines.append(f"{product.opcode} {d}, {left}, {b}{extra}, %keep{product.immediates};")
    w.put("fence.proxy.async; bar.sync 0;", "wgmma.fence.sync.aligned;", *lines)
    w.put("wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;")
    for r in held:
        w.output("b32", r)
    fill = functools.partial(
        _fill, product=product, manners=manners, rows=(len(image), len(fragments), len(held))
    )
    return Program(
        name, w.entry(name, len(manners) * THREADS), tuple(w.inputs), tuple(w.outputs),
        (product.opcode,), "wgmma", len(manners), THREADS, fill=fill,
    )  # fmt: skip


def _fill(
    lanes: int, dice: Dice, product: Product, manners: tuple[str, ...], rows: tuple[int, int, int]
) -> list[Words]:
    """Memory, fragments of A and accumulators of each block, after its manner."""
    of_d, of_a, of_b = product.types
    blocks = []
    for manner in manners:
        half = rows[0] * THREADS * 8 // 2
        a, b = (packed(kind, draw(kind, half // BYTES[kind], manner, dice), 8)
                for kind in (of_a, of_b))  # fmt: skip
        image = np.concatenate([a, b]).reshape(rows[0], THREADS)
        count = rows[1] * THREADS * 4 // BYTES[of_a]
        fragments = packed(of_a, draw(of_a, count, manner, dice), 4).reshape(rows[1], THREADS)
        count = rows[2] * THREADS * 4 // BYTES[of_d]
        held = packed(of_d, draw(of_d, count, manner, dice, of_a), 4).reshape(rows[2], THREADS)
        rest = [metadata(of_a, THREADS, dice)] if product.sparse else []
        blocks.append(np.concatenate([image, fragments, held, *rest]))
    return list(np.concatenate(blocks, axis=1))


def metadata(of_a: str, threads: int, dice: Dice) -> Words:
    """A word of metadata for each thread, [1, threads]: any two places that differ."""
    table = np.array(HALVES if of_a == "tf32" else DIFFERENT, np.uint64)
    nibbles = table[dice.words(8 * threads) % np.uint64(len(table))].reshape(8, threads)
    shifts = np.arange(0, 32, 4, dtype=np.uint64)
    words: Words = (nibbles << shifts[:, None]).sum(axis=0, dtype=np.uint64)[None]
    return words


def place(
    dice: Dice, rows: int, k_major: bool, first: int, crooked: str, depth: int = 32
) -> int:
    """A random descriptor of a tile within the half of the image that begins at ``first``.

    ``depth``: its bytes along k.
    """
    half = IMAGE // 2
    while True:
        span = dice.choice((0, 32, 64, 128)[bool(crooked) :])
        base = 0
        if span:
            start = dice.below(half // PATTERN[span]) * PATTERN[span]
            if k_major:
                start += dice.below(max(1, span // depth)) * 32
            stride = dice.between(1, 4) * PATTERN[span]
            leading = dice.between(1, 4) * PATTERN[span]
            if crooked:
                row = dice.below(max(1, PATTERN[span] // 128))
                start += 128 * row
                base = row if crooked == "base" else 0
        else:
            start = dice.below(half // 128) * 16
            stride, leading = (dice.between(1, 40) * 16 for _ in range(2))
        found = MatrixDescriptor(start, leading, stride, base, SPANS[span])
        width = 1 if k_major else 2
        where = places(found, rows, depth // width, width, not k_major)
        if int(where.min()) >= 0 and int(where.max()) < half:
            return descriptor(first + start, leading, stride, SPANS[span], "wgmma", base)


def _majors(types: tuple[str, str, str], registers: bool, dice: Dice) -> tuple[int, int]:
    if BYTES[types[1]] != 2:
        return 0, 0
    return (0 if registers else dice.below(2)), dice.below(2)


def layouts() -> Iterator[Program]:
    """Every shape with every type; majors, signs and scale-d drawn."""
    for types in (*FLOATS, *INTEGERS):
        for n in COLUMNS if types[0] != "s32" else WHOLE_COLUMNS:
            name = f"wgmma_{'_'.join(types)}_n{n}"
            dice = Dice(name)
            registers = dice.chance(50)
            integer = types[0] == "s32"
            signs = (1, 1) if integer else (dice.choice((1, 1, -1)), dice.choice((1, 1, -1)))
            made = Product(
                types, n, registers, _majors(types, registers, dice), signs, dice.chance(75),
                integer and dice.chance(30),
            )  # fmt: skip
            yield program(name, made, ("whole", "near"))


def majors() -> Iterator[Program]:
    """Both majors of both operands, and tiles that begin inside of the swizzle's pattern."""
    for types in (("f16", "f16", "f16"), ("f32", "bf16", "bf16")):
        for turn in range(16):
            along = (turn & 1, turn >> 1 & 1)
            name = f"wgmma_major_{types[1]}_{turn}"
            n = Dice(name).choice(list(COLUMNS))
            yield program(name, Product(types, n, False, along), ("whole", "near"))
    for crooked in ("base", "nobase"):
        for mn in (0, 1):
            for turn in range(4):
                made = Product(("f32", "f16", "f16"), 16 * turn + 16, False, (mn, mn),
                               crooked=crooked)  # fmt: skip
                yield program(f"wgmma_{crooked}_{mn}_{turn}", made, ("whole", "near"))


def rounding() -> Iterator[Program]:
    """Every type with every manner; chains of four, where a sum becomes an addend."""
    for types in FLOATS:
        for turn in range(6):
            name = f"wgmma_round_{'_'.join(types)}_{turn}"
            dice = Dice(name)
            registers = turn % 2 == 1
            made = Product(
                types, 8, registers, _majors(types, registers, dice), keep=turn != 4,
                steps=4 if turn > 4 else 1,
            )  # fmt: skip
            yield program(name, made, MANNERS * 2)


def programs() -> Iterator[Program]:
    """All programs of this module."""
    yield from rounding()
    yield from layouts()
    yield from majors()
