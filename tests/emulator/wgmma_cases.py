"""Programs of one ``wgmma.mma_async``, for the emulator and for an H200.

As in :mod:`proof.warpgroups`, whose products these are, random descriptors point
into an image of random numbers. Here they are arguments, so that a test can find the tiles too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from proof.dice import Dice
from proof.numbers import BYTES, draw, packed
from proof.warpgroups import COLUMNS, IMAGE, Product, place

Array = np.ndarray[Any, np.dtype[Any]]

DATA = ("whole", "near", "wide", "far")
"""The manners in which the numbers of four neighbouring blocks are drawn."""


class Case(Product):
    """One instruction; whether D is added to (scale-d) comes with the data of a block."""

    @property
    def name(self) -> str:
        words = [f"n{self.n}", *self.types, "r" if self.registers else "s"]
        words += map(str, self.along)
        words += ["n" if s < 0 else "p" for s in self.signs] + ["sat"] * self.satfinite
        words += [self.crooked] * bool(self.crooked)
        return "_".join(words)

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
        """The arguments of ``blocks`` blocks: their manner of drawing goes round."""
        dice = Dice(self.name)
        of_d, of_a, of_b = self.types
        image, before, fragments = [], [], []
        descriptors = np.zeros((blocks, 3), np.uint64)
        for block in range(blocks):
            manner = DATA[block % 4]
            halves = [bits(kind, IMAGE // 2, manner, dice, 1) for kind in (of_a, of_b)]
            image.append(np.concatenate(halves))
            fragments.append(bits(of_a, 2048, manner, dice, 4))
            before.append(bits(of_d, 512 * self.accumulators, manner, dice, 4, of_a))
            for i, (rows, along) in enumerate(zip((64, self.n), self.along, strict=True)):
                first = i * IMAGE // 2
                descriptors[block, i] = place(dice, rows, not along, first, self.crooked)
            descriptors[block, 2] = block // 4 % 3 != 2
        return {
            "image": np.stack(image), "descriptors": descriptors,
            "fragments": np.stack(fragments), "before": np.stack(before),
            "after": np.zeros((blocks, 128 * self.accumulators), np.uint32),
        }  # fmt: skip


def bits(kind: str, size: int, manner: str, dice: Dice, word: int, of: str = "") -> Array:
    """``size`` bytes of numbers, in words of ``word`` bytes; ``of`` as in :func:`draw`."""
    numbers = draw(kind, size // BYTES[kind], manner, dice, of)
    return packed(kind, numbers, word).astype(f"u{word}")


def _cases() -> Iterator[Case]:
    for n in COLUMNS:
        turn = n // 8
        yield Case(("f32", "f16", "f16"), n, bool(turn % 2), (0, turn // 2 % 2))
        yield Case(("f32", "bf16", "bf16"), n, bool(turn % 3 == 0), (0, turn % 2))
    for n in (8, 40, 64, 256):
        for along in ((0, 0), (1, 0), (0, 1), (1, 1)):
            yield Case(("f16", "f16", "f16"), n, False, along)
            yield Case(("f32", "bf16", "bf16"), n, False, along, (-1, 1))
        for registers in (False, True):
            yield Case(("f32", "tf32", "tf32"), n, registers)
            for a in ("e4m3", "e5m2"):
                for b in ("e4m3", "e5m2"):
                    yield Case(("f32", a, b), n, registers)
            yield Case(("f16", "e4m3", "e5m2"), n, registers, signs=(1, -1))
            yield Case(("f16", "f16", "f16"), n, True, (0, int(registers)), (-1, -1))
    for crooked in ("base", "nobase"):
        for both in ((0, 0), (1, 1)):
            yield Case(("f32", "f16", "f16"), 64, False, both, crooked=crooked)
    for n in (8, 24, 64, 112, 256):
        for registers in (False, True):
            for a in ("s8", "u8"):
                for b in ("s8", "u8"):
                    yield Case(("s32", a, b), n, registers)
            yield Case(("s32", "s8", "s8"), n, registers, satfinite=True)


HEAD = ".version 8.4\n.target sm_90a\n.address_size 64\n"


CASES = tuple(dict.fromkeys(_cases()))
"""Every type, every n, every major, A from either place."""
