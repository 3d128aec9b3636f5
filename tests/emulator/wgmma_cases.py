"""Programs of one ``wgmma.mma_async``, for the emulator and for an H200.

Each block copies an image of 32 KiB into shared memory and multiplies the tiles that its
descriptors find there.  The image is random, so a descriptor may point anywhere in it: overlapping
tiles and odd strides are as good as any.  Everything follows from the seed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasebit.emulator.formats import encode
from phasebit.emulator.matrix_descriptors import MatrixDescriptor, places
from phasebit.emulator.matrix_descriptors import encode as descriptor
from phasebit.emulator.swizzle import PATTERN, SPANS

Array = np.ndarray[Any, np.dtype[Any]]

IMAGE = 32768
"""Bytes of shared memory that a block fills."""

BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}

DATA = ("whole", "normal", "wide", "bits")
"""Whole numbers, normal random ones, ones of widely different exponents, any bits at all."""


@dataclass(frozen=True)
class Case:
    """One instruction."""

    types: tuple[str, str, str]
    n: int
    registers: bool = False
    """Whether A comes from registers."""
    along_m: int = 0
    along_n: int = 0
    signs: tuple[int, int] = (1, 1)
    satfinite: bool = False
    crooked: str = ""
    """Tiles that begin in the middle of the swizzle's pattern: with a ``base`` offset, or not."""

    @property
    def k(self) -> int:
        return 32 // BYTES[self.types[1]]

    @property
    def name(self) -> str:
        words = [f"n{self.n}", *self.types, "r" if self.registers else "s"]
        words += [str(self.along_m), str(self.along_n)]
        words += ["n" if s < 0 else "p" for s in self.signs] + ["sat"] * self.satfinite
        words += [self.crooked] * bool(self.crooked)
        return "_".join(words)

    @property
    def accumulators(self) -> int:
        return self.n // (4 if self.types[0] == "f16" else 2)

    @property
    def opcode(self) -> str:
        sat = ".satfinite" if self.satfinite else ""
        shape = f"m64n{self.n}k{self.k}"
        return f"wgmma.mma_async.sync.aligned.{shape}{sat}.{'.'.join(self.types)}"

    @property
    def immediates(self) -> str:
        if self.types[0] == "s32":
            return ""
        text = f", {self.signs[0]}, {self.signs[1]}"
        if BYTES[self.types[1]] == 2:
            text += f", {self.along_n}" if self.registers else f", {self.along_m}, {self.along_n}"
        return text

    def source(self) -> str:
        """The kernel, PTX."""
        count = self.accumulators
        d = "{" + ", ".join(f"%d{i}" for i in range(count)) + "}"
        a = "{%a0, %a1, %a2, %a3}" if self.registers else "%da"
        copy = "\n".join(
            f"    ld.global.v4.u32 {{%r4, %r5, %r6, %r7}}, [%rd1+{i}];\n"
            f"    st.shared.v4.u32 [%r3+{i}], {{%r4, %r5, %r6, %r7}};"
            for i in range(0, IMAGE, 2048)
        )
        load = "\n".join(f"    ld.global.u32 %d{i}, [%rd4+{4 * i}];" for i in range(count))
        store = "\n".join(f"    st.global.u32 [%rd5+{4 * i}], %d{i};" for i in range(count))
        return f"""
.visible .entry {self.name}(.param .u64 image, .param .u64 descriptors, .param .u64 fragments,
                            .param .u64 before, .param .u64 after)
{{
    .reg .b32 %r<16>; .reg .b64 %rd<16>; .reg .b32 %d<{count}>; .reg .b32 %a<4>;
    .reg .b64 %da; .reg .b64 %db; .reg .pred %p;
    .shared .align 1024 .b8 tile[{IMAGE}];
    ld.param.u64 %rd1, [image]; ld.param.u64 %rd2, [descriptors]; ld.param.u64 %rd3, [fragments];
    ld.param.u64 %rd4, [before]; ld.param.u64 %rd5, [after];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
    mul.wide.u32 %rd6, %r2, {IMAGE}; add.s64 %rd1, %rd1, %rd6;
    mul.wide.u32 %rd6, %r1, 16; add.s64 %rd1, %rd1, %rd6;
    mov.u32 %r9, tile; shl.b32 %r8, %r1, 4; add.u32 %r3, %r9, %r8;
{copy}
    mul.wide.u32 %rd6, %r2, 24; add.s64 %rd2, %rd2, %rd6;
    ld.global.u64 %da, [%rd2]; ld.global.u64 %db, [%rd2+8]; ld.global.u32 %r10, [%rd2+16];
    shr.u32 %r9, %r9, 4; cvt.u64.u32 %rd7, %r9; add.s64 %da, %da, %rd7; add.s64 %db, %db, %rd7;
    setp.ne.u32 %p, %r10, 0;
    mad.lo.u32 %r11, %r2, 128, %r1;
    mul.wide.u32 %rd6, %r11, 16; add.s64 %rd3, %rd3, %rd6;
    mul.wide.u32 %rd6, %r11, {4 * count}; add.s64 %rd4, %rd4, %rd6; add.s64 %rd5, %rd5, %rd6;
    ld.global.v4.u32 {{%a0, %a1, %a2, %a3}}, [%rd3];
{load}
    fence.proxy.async;
    bar.sync 0;
    wgmma.fence.sync.aligned;
    {self.opcode} {d}, {a}, %db, %p{self.immediates};
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
{store}
    ret;
}}
"""

    def data(self, blocks: int) -> dict[str, Array]:
        """The arguments of ``blocks`` blocks: their kind of data goes round."""
        random = np.random.default_rng(zlib.crc32(self.name.encode()))
        image, before, fragments = [], [], []
        descriptors = np.zeros((blocks, 3), np.uint64)
        for block in range(blocks):
            what = DATA[block % 4]
            kind_a, kind_b = self.types[1:]
            b = draw(random, kind_b, what, IMAGE // BYTES[kind_b])
            a = draw(random, kind_a, what, IMAGE // BYTES[kind_a])
            # A's half of the image lies below that of B
            image.append(np.concatenate([a.view(np.uint8)[: IMAGE // 2],
                                         b.view(np.uint8)[IMAGE // 2 :]]))  # fmt: skip
            fragments.append(draw(random, kind_a, what, 2048 // BYTES[kind_a]).view(np.uint32))
            size = 2 if self.types[0] == "f16" else 4
            numbers = draw(random, self.types[0], what, 128 * self.accumulators * 4 // size)
            before.append(numbers.view(np.uint32))
            descriptors[block, 0] = place(random, 64, not self.along_m, 0, self.crooked)
            descriptors[block, 1] = place(
                random, self.n, not self.along_n, IMAGE // 2, self.crooked
            )
            descriptors[block, 2] = block // 4 % 3 != 2
        return {
            "image": np.stack(image), "descriptors": descriptors,
            "fragments": np.stack(fragments), "before": np.stack(before),
            "after": np.zeros((blocks, 128 * self.accumulators), np.uint32),
        }  # fmt: skip


def draw(random: np.random.Generator, kind: str, what: str, count: int) -> Array:
    """Random numbers of a type, as its bits."""
    if kind in ("s8", "u8", "s32"):
        if kind == "s32":
            wide = what in ("wide", "bits")
            limit = 1 << 31 if wide else 1 << 20
            return random.integers(-limit, limit, count).astype(np.int32).view(np.uint32)
        return random.integers(0, 256, count).astype(np.uint8)
    storage = {"f32": np.uint32, "tf32": np.uint32, "f16": np.uint16, "bf16": np.uint16}.get(
        kind, np.uint8
    )
    if what == "bits":
        return random.integers(0, 1 << 8 * np.dtype(storage).itemsize, count).astype(storage)
    if what == "whole":
        values = random.integers(-8, 9, count).astype(np.float64)
    else:
        values = random.standard_normal(count)
        if what == "wide":
            reach = {"f32": 30, "tf32": 30, "bf16": 30, "f16": 10, "e5m2": 10, "e4m3": 6}[kind]
            values *= 2.0 ** random.integers(-reach, reach // 2, count)
    if kind == "f32":
        return values.astype(np.float32).view(np.uint32)
    return np.asarray(encode(kind, values, satfinite=True)).astype(storage)


def place(
    random: np.random.Generator, rows: int, k_major: bool, first: int, crooked: str
) -> int:
    """A random descriptor of a tile within half the image that begins at ``first``."""
    half = IMAGE // 2
    while True:
        span = int(random.choice([0, 32, 64, 128]))
        if span:
            start = int(random.integers(half // PATTERN[span])) * PATTERN[span]
            if k_major:
                start += int(random.integers(span // 32)) * 32
            stride = int(random.integers(1, 5)) * PATTERN[span]
            leading = int(random.integers(1, 5)) * PATTERN[span]
        else:
            start = int(random.integers(half // 16)) * 16
            stride = int(random.integers(1, 33)) * 16
            leading = int(random.integers(1, 33)) * 16
        base = 0
        if crooked and span:
            row = int(random.integers(PATTERN[span] // 128))
            start += 128 * row
            base = row if crooked == "base" else 0
        pattern = SPANS[span]
        found = MatrixDescriptor(start, leading, stride, base, pattern)
        width = 1 if k_major else 2
        if int(places(found, rows, 32 // width, width, not k_major).max()) < half:
            return descriptor(first + start, leading, stride, pattern, "wgmma", base)


def cases() -> Iterator[Case]:
    """Every type, every n, every major, A from either place."""
    for n in range(8, 257, 8):
        turn = n // 8
        yield Case(("f32", "f16", "f16"), n, bool(turn % 2), 0, turn // 2 % 2)
        yield Case(("f32", "bf16", "bf16"), n, bool(turn % 3 == 0), 0, turn % 2)
    for n in (8, 40, 64, 256):
        for along_m, along_n in ((0, 0), (1, 0), (0, 1), (1, 1)):
            yield Case(("f16", "f16", "f16"), n, False, along_m, along_n)
            yield Case(("f32", "bf16", "bf16"), n, False, along_m, along_n, (-1, 1))
        for registers in (False, True):
            yield Case(("f32", "tf32", "tf32"), n, registers)
            for a in ("e4m3", "e5m2"):
                for b in ("e4m3", "e5m2"):
                    yield Case(("f32", a, b), n, registers)
            yield Case(("f16", "e4m3", "e5m2"), n, registers, signs=(1, -1))
            yield Case(("f16", "f16", "f16"), n, True, 0, int(registers), (-1, -1))
    for crooked in ("base", "nobase"):
        for along in (0, 1):
            yield Case(("f32", "f16", "f16"), 64, False, along, along, crooked=crooked)
    for n in (8, 24, 64, 112, 256):
        for registers in (False, True):
            for a in ("s8", "u8"):
                for b in ("s8", "u8"):
                    yield Case(("s32", a, b), n, registers)
            yield Case(("s32", "s8", "s8"), n, registers, satfinite=True)


HEAD = ".version 8.4\n.target sm_90a\n.address_size 64\n"


def module(some: list[Case]) -> str:
    """One PTX module with all kernels."""
    return HEAD + "".join(case.source() for case in some)


def unique() -> list[Case]:
    return list(dict.fromkeys(cases()))
