"""A plan: which kernel of the chapter makes a product, in which tiles, with how many slots.

A kernel is built for a plan, as a text: its file with other constants.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from phasebit import files
from phasebit.chapters.every_shape.shapes import Shape
from phasebit.edits import function as function

SMALL, EARLY, WEIGHTS, FEW, PAIRS, STREAM, ANY, PING_PONG, SPLIT_K, BY_WARPS = KERNELS = (
    "a_small_tiles", "b_next_launch", "c_weights_once", "d_few_rows", "e_pairs", "f_stream_k",
    "g_any", "h_ping_pong", "i_split_k", "j_by_warps",
)  # fmt: skip
"""The chapter's kernels, in the order of its ladder."""

DEPTH = 64
"""Of a slot along K: 128 bytes of a row."""
SHARED = 227 * 1024
"""Bytes of shared memory that a block can have."""


def source(kernel: str) -> str:
    """The text of one of :data:`KERNELS`."""
    return files.kernel(f"every_shape/{kernel}")


def header(name: str) -> str:
    """The text of one of the chapter's headers."""
    return (files.kernels() / f"every_shape/{name}.cuh").read_text("utf-8")


def with_constants(text: str, **constants: int | str) -> str:
    """A kernel's text with other constants; ``ValueError`` for one that it does not have."""
    for name, value in constants.items():
        text, found = re.subn(rf"\b{name} = \w+", f"{name} = {value}", text, count=1)
        if not found:
            raise ValueError(f"the kernel has no constant {name}")
    return text


@dataclass(frozen=True)
class Plan:
    """A kernel and its constants."""

    kernel: str
    groups: int
    """Products of 64 rows that the tile is made of: of a warp group each, or all of one."""
    bn: int
    """Columns of the tile."""
    slots: int
    pair: int = 1
    """Blocks that share B: 1, 2 or 4."""
    super: int = 8
    """Rows of tiles that are walked together."""
    waves: int = 0
    """Of stream-K: waves that are cut, the last among them."""
    boxes: int = 2
    """Of C, that a warp has."""
    split: int = 1
    """Blocks of a cluster that each make a part of K of one tile."""
    tail: int = 0
    """Steps whose left columns are finished first, and leave under the others' products."""
    early: bool = True
    """Whether a launch may begin before the one before it has ended."""
    later: bool = True
    """Whether C leaves under the next tile's products, where blocks stay."""
    across: str = ""
    """Of which operands the transpose is given: "A", "B" or "AB"; where blocks stay."""

    def __str__(self) -> str:
        tile = f"{self.rows // self.pair} × {self.bn}"
        of = {1: "", 2: "pairs of ", 4: "fours of "}[self.pair]
        words = [f"{of}{tile}", f"{self.slots} slots"]
        if self.swapped:
            words.append("exchanged")
        if self.kernel == WEIGHTS:
            words.append("weights once")
        if self.split > 1:
            words.append(f"K by {self.split}")
        if self.kernel == BY_WARPS:
            words.append(f"by warps in parts of {self.tail}" if self.tail else "by warps")
        if self.kernel == PING_PONG:
            words.append("ping-pong")
        elif self.stays:
            words.append("blocks stay")
        if self.waves:
            words.append(f"stream-K over {self.waves} wave{'s' * (self.waves > 1)}")
        if self.super != 8:
            words.append(f"{self.super} rows together")
        if self.boxes != 2:
            words.append(f"{self.boxes} boxes")
        if not self.later:
            words.append("C at once")
        if not self.begins_early:
            words.append("no early launch")
        words += [f"{each}ᵀ given" for each in self.across]
        return ", ".join(words)

    @property
    def short(self) -> str:
        """The name that tables print: cluster, tile / slots, schedule, way out, split, the rest.

        What is usual is left out: a block alone, C under the next tile's products, no cut, an
        early launch, 8 rows of tiles together. Pairs, fours and plans with a cut always stay.
        """
        of = {1: "", 2: "pairs ", 4: "fours "}[self.pair]
        words = [f"{of}{self.rows // self.pair} × {self.bn} / {self.slots}"]
        if self.kernel == PING_PONG:
            words.append("ping-pong")
        elif self.stays and self.pair == 1 and not self.waves:
            words.append("stays")
        if not self.later:
            words.append("at once")
        if self.boxes != 2:
            words.append(f"{self.boxes} boxes")
        if self.waves:
            words.append(f"cut {self.waves}")
        if self.split > 1:
            words.append("halves")
        if self.swapped:
            words.append("exchanged")
        if self.kernel == WEIGHTS:
            words.append("weights once")
        if self.kernel == BY_WARPS:
            words.append(f"parts of {self.tail}" if self.tail else "by warps")
        if self.super != 8:
            words.append(f"{self.super} rows")
        if not self.begins_early:
            words.append("not early")
        words += [f"{each}ᵀ given" for each in self.across]
        return ", ".join(words)

    @property
    def swapped(self) -> bool:
        """Whether Cᵀ = B · Aᵀ is made: rows of the tile are columns of C."""
        return self.kernel == FEW

    @property
    def begins_early(self) -> bool:
        """Whether a launch may begin before the one before it has ended."""
        return self.early and self.kernel != SMALL

    @property
    def stays(self) -> bool:
        """Whether a block makes tile after tile."""
        return self.kernel in (PAIRS, STREAM, PING_PONG)

    @property
    def rows(self) -> int:
        """Of the tile; of a pair those of both blocks."""
        return 64 * self.groups * self.pair

    @property
    def slot(self) -> int:
        """Bytes of a slot, in one block."""
        return 2 * DEPTH * (64 * self.groups + self.bn)

    @cached_property
    def text(self) -> str:
        """The kernel's text, with this plan's constants."""
        rows = "HALVES" if self.kernel == PING_PONG else "GROUPS"
        constants: dict[str, int | str] = {rows: self.groups, "BN": self.bn, "SLOTS": self.slots}
        if self.stays:
            constants |= {"PAIR": self.pair, "SUPER": self.super, "BOXES": self.boxes}
        if self.kernel in (PAIRS, STREAM):
            constants["LATER"] = str(self.later).lower()
        if self.kernel in (STREAM, PING_PONG):
            constants["WAVES"] = self.waves
        if self.kernel == SPLIT_K:
            constants["SPLIT"] = self.split
        if self.kernel == BY_WARPS:
            constants["TAIL"] = self.tail
        if self.kernel != SMALL:
            constants["EARLY"] = str(self.early).lower()
        given = "".join(f"#define ACROSS_{each} 1\n" for each in self.across)
        return given + with_constants(source(self.kernel), **constants)

    def grid(self, shape: Shape) -> tuple[int, int]:
        """Rows and columns of tiles."""
        m, n, _ = shape
        if self.swapped:
            m, n = n, m
        return -(-m // self.rows), -(-n // self.bn)

    def tiles(self, shape: Shape) -> int:
        """Tiles of C; a pair's count as one."""
        rows, columns = self.grid(shape)
        return rows * columns

    def steps(self, shape: Shape) -> int:
        """Slots that a tile takes along K."""
        return -(-shape.k // DEPTH)


def passage(kernel: str, first: str, behind: str) -> str:
    """Lines of a kernel: from the one that begins with ``first`` up to ``behind``, without it."""
    text = source(kernel)
    begin = text.index(first)
    return text[begin : text.index(behind, begin)].rstrip()
