"""``mma.sync`` on numbers that show the rounding: dense, sparse, and Volta's shape.

Each warp draws its numbers in a manner of its own.  Equal means equal in every bit.

PTX ISA 9.7.14.5, 9.7.14.6.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from proof.dice import Dice, Words
from proof.matrices import MMA
from proof.numbers import BYTES, MANNERS, draw, packed
from proof.program import Program, Writer

THREADS, BLOCKS = 64, 8

DENSE = [m for m in MMA if m[1].partition(".")[0] in ("f16", "f32")]

SPARSE = [
    *((f"m16n8k{k}", f"{d}.{a}.{a}.{d}", (2 if d == "f16" else 4, n, n, 2 if d == "f16" else 4))
      for d, a, depth in (("f32", "f16", 16), ("f16", "f16", 16), ("f32", "bf16", 16),
                          ("f32", "tf32", 8))
      for k, n in ((depth, 2), (2 * depth, 4))),
    *(("m16n8k64", f"f32.{a}.{b}.f32", (4, 4, 4, 4))
      for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
    *((f"m16n8k{k}", f"s32.{a}.{b}.s32", (4, n, n, 4))
      for k, n in ((32, 2), (64, 4)) for a in ("s8", "u8") for b in ("s8", "u8")),
]  # fmt: skip
"""Shape, types of D A B C, registers of them."""

PAIRS = np.array([0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110], np.uint64)
"""Which two of four neighbours are stored."""
HALVES = np.array([0b0100, 0b1110], np.uint64)
"""Which of two neighbours in tf32."""


def program(name: str, opcode: str, kinds: str, counts: tuple[int, ...], sparse: str = "") -> (
    Program
):  # fmt: skip
    """One multiplication by each warp; ``sparse``: the metadata's selector."""
    w = Writer()
    groups = [[w.input("b32") for _ in range(n)] for n in counts[1:]]
    extra = f", {w.input('b32')}, {sparse}" if sparse else ""
    d = [w.reg("b32") for _ in range(counts[0])]
    operands = ["{" + ", ".join(g) + "}" for g in (d, *groups)]
    w.put(f"{opcode} {', '.join(operands)}{extra};")
    for r in d:
        w.output("b32", r)
    fill = functools.partial(_fill, kinds=kinds, counts=counts, sparse=bool(sparse))
    return Program(
        name, w.entry(name, THREADS * BLOCKS), tuple(w.inputs), tuple(w.outputs), (opcode,),
        "matrix", BLOCKS, THREADS, fill=fill,
    )  # fmt: skip


def _fill(
    lanes: int, dice: Dice, kinds: str, counts: tuple[int, ...], sparse: bool
) -> list[Words]:
    _, of_a, of_b, of_c = kinds.split(".")
    warps = []
    for warp in range(lanes // 32):
        manner = MANNERS[warp % len(MANNERS)]
        rows = []
        for kind, n in zip((of_a, of_b, of_c), counts[1:], strict=True):
            numbers = draw(kind, n * 32 * 4 // BYTES[kind], manner, dice,
                           of_a if kind is of_c and kind in ("f32", "f16") else "")  # fmt: skip
            rows.append(packed(kind, numbers, 4).reshape(n, 32))
        if sparse:
            table = HALVES if of_a == "tf32" else PAIRS
            nibbles = table[dice.words(8 * 32) % np.uint64(len(table))].reshape(8, 32)
            bits = np.zeros(32, np.uint64)
            for i in range(8):
                bits |= nibbles[i] << np.uint64(4 * i)
            rows.append(bits[None])
        warps.append(np.concatenate(rows))
    return list(np.concatenate(warps, axis=1))


def selectors(shape: str, of_a: str) -> int:
    """How many selectors the metadata of a shape knows."""
    k = int(shape.partition("k")[2])
    chunks = k // {"tf32": 2}.get(of_a, 4)
    return 4 // (chunks // 4)


def programs() -> Iterator[Program]:
    """All programs of this module."""
    for shape, kinds, counts in DENSE:
        for turn in range(3):
            name = f"sum_{shape}_{kinds.replace('.', '_')}_{turn}"
            yield program(name, f"mma.sync.aligned.{shape}.row.col.{kinds}", kinds, counts)
    for shape, kinds, counts in SPARSE:
        for turn in range(2):
            name = f"sum_sparse_{shape}_{kinds.replace('.', '_')}_{turn}"
            of_a = kinds.split(".")[1]
            selector = turn % selectors(shape, of_a)
            opcode = f"mma.sp::ordered_metadata.sync.aligned.{shape}.row.col.{kinds}"
            yield program(name, opcode, kinds, counts, f"0x{selector:x}")
    for a in ("row", "col"):
        for b in ("row", "col"):
            for d in ("f32", "f16"):
                kinds = f"{d}.f16.f16.{d}"
                n = 8 if d == "f32" else 4
                yield program(f"sum_volta_{a}_{b}_{d}", f"mma.sync.aligned.m8n8k4.{a}.{b}.{kinds}",
                              kinds, (n, 2, 2, n))  # fmt: skip


__all__ = ["programs"]
