"""Caches and TLBs that count: which accesses of a loop nest find their data near.

The simulator is C++ (``include/watch.h`` of the kernels), so that the real loop nests can be looked
at, not toys. A loop nest is a template there: it runs on plain arrays, timed, and on watched ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasebit import native


@dataclass(frozen=True)
class Level:
    """One cache or TLB, with least-recently-used replacement.

    Raises ``ValueError`` for a line that is no power of two, and for sizes below one.
    """

    name: str  # "L1", "TLB"
    line: int  # bytes; of a TLB: of a page
    sets: int
    ways: int
    chain: str = "cache"  # levels of one chain follow each other: "cache" or "tlb"

    def __post_init__(self) -> None:
        if self.line < 1 or self.line & (self.line - 1):
            raise ValueError(f"{self.name}: a line of {self.line} bytes is no power of two")
        if self.sets < 1 or self.ways < 1:
            raise ValueError(f"{self.name}: give at least one set and one way")

    @property
    def bytes(self) -> int:
        """What it holds, or what it covers."""
        return self.line * self.sets * self.ways


def cache(name: str, size: int, ways: int, line: int = 64) -> Level:
    """A cache of ``size`` bytes; ``ways`` 0 makes it fully associative.

    Raises ``ValueError`` when the size is no whole number of sets.
    """
    lines, rest = divmod(size, line)
    ways = ways or lines
    if rest or lines % ways:
        raise ValueError(f"{name}: {size} bytes are no whole number of sets of {ways} × {line}")
    return Level(name, line, lines // ways, ways)


def tlb(name: str, entries: int, ways: int = 0, page: int = 4096) -> Level:
    """A TLB with ``entries`` pages; ``ways`` 0 makes it fully associative."""
    ways = ways or entries
    if entries % ways:
        raise ValueError(f"{name}: {entries} entries are no whole number of sets of {ways}")
    return Level(name, page, entries // ways, ways, "tlb")


TLB = (tlb("TLB", 64, 4), tlb("L2 TLB", 1536, 12))
"""Entries for data and pages of 4 KiB: Intel's Skylake, a processor whose maker tells them.
Source: Intel 64 and IA-32 Architectures Optimization Reference Manual, section on Skylake."""

TYPICAL = (cache("L1", 32 << 10, 8), cache("L2", 1 << 20, 16), *TLB)
"""Skylake's caches for one core: the same in every run of the book, whatever machine runs it."""


@dataclass(frozen=True)
class Counts:
    """What one run of a loop nest asked, and of whom."""

    accesses: int
    misses: dict[str, int]  # name of the level -> accesses that it could not serve

    def rate(self, name: str) -> float:
        """Misses of a level for each access of the nest."""
        return self.misses[name] / self.accesses if self.accesses else 0.0


def table(levels: Sequence[Level]) -> NDArray[np.int64]:
    """Levels as ``watch.h`` takes them, (count, 4): chain, bytes of a line, sets, ways.

    Raises ``ValueError`` for two levels of one name, and for a chain that is interrupted.
    """
    names = [level.name for level in levels]
    if len(set(names)) < len(names):
        raise ValueError(f"two levels have one name: {', '.join(names)}")
    chains = [level.chain for level in levels]
    order = list(dict.fromkeys(chains))
    if chains != sorted(chains, key=order.index):
        raise ValueError("the levels of one chain must follow each other, the nearest first")
    rows = [(order.index(each.chain), each.line, each.sets, each.ways) for each in levels]
    return np.array(rows, np.int64).reshape(-1, 4)


def read_counts(levels: Sequence[Level], counts: NDArray[np.int64]) -> Counts:
    """The counts that ``watch.h`` reports, (1 + levels), with the levels' names."""
    names = (level.name for level in levels)
    return Counts(int(counts[0]), dict(zip(names, map(int, counts[1:]), strict=True)))


def trace(addresses: ArrayLike, levels: Sequence[Level] = TYPICAL) -> Counts:
    """Look up a list of byte addresses, one after the other, in empty caches."""
    given = np.ascontiguousarray(addresses, np.uint64).reshape(-1)
    counts = np.zeros(1 + len(levels), np.int64)
    rows = table(levels)
    native.load("caches_and_tiles/trace").trace(given.size, given, len(levels), rows, counts)
    return read_counts(levels, counts)


def blocked(
    n: int,
    ld: int,
    block: int,
    levels: Sequence[Level] = TYPICAL,
    *,
    columns: int = 0,
    starts: Sequence[int] = (),
) -> Counts:
    """Watch the product of two (n, n) matrices of f32, ``ld`` elements from row to row, in blocks.

    A block of B has ``block`` rows and as many columns, or ``columns``. ``starts`` are the bytes at
    which A, B and C lie; else they lie one behind the other, each at the start of a page. Raises
    ``ValueError`` for a block below one, or an ``ld`` below ``n``.
    """
    columns = columns or block
    if block < 1 or columns < 1 or ld < n:
        raise ValueError(
            f"n {n}, ld {ld}, block {block} × {columns}: give a block of 1 or more, and ld ≥ n"
        )
    matrices = [np.zeros(n * ld, np.float32) for _ in range(3)]
    pages = -(-n * ld * 4 // 4096) * 4096
    at = np.array(starts if len(starts) else [0, pages, 2 * pages], np.int64)
    if at.shape != (3,):
        raise ValueError(f"starts {list(starts)}: give three, of A, B and C")
    counts = np.zeros(1 + len(levels), np.int64)
    library = native.load("caches_and_tiles/blocked")
    library.watched(n, ld, block, columns, *matrices, at, len(levels), table(levels), counts)
    return read_counts(levels, counts)


# How a block competes with itself


def crowding(level: Level, rows: int, columns: int, ld: int, size: int = 4) -> NDArray[np.int64]:
    """How many lines of a block each set of a cache is asked to hold, (sets,).

    The block has ``rows`` × ``columns`` elements of ``size`` bytes, ``ld`` elements from row to
    row, and starts at the beginning of a line. A set with more lines than ways cannot keep them.
    """
    starts = np.arange(rows, dtype=np.int64) * ld * size
    first, last = starts // level.line, (starts + columns * size - 1) // level.line
    lines = [np.arange(a, b + 1) for a, b in zip(first, last, strict=True)]
    return np.bincount(np.unique(np.concatenate(lines)) % level.sets, minlength=level.sets)


def largest_block(level: Level, ld: int, most: int, spare: int = 2, size: int = 4) -> int:
    """The largest square block, at most ``most``, that leaves ``spare`` ways of each set free.

    What is spared is for the other two matrices, which pass by: a way each. Source: the idea of
    Lam, Rothberg and Wolf, 1991, for a cache with ways. Raises ``ValueError`` when not even a
    block of one element leaves so much.
    """
    if level.ways <= spare:
        raise ValueError(f"{level.name} has {level.ways} ways: {spare} cannot be spared")
    block = 1
    while block < most and crowding(level, block + 1, block + 1, ld, size).max() <= (
        level.ways - spare
    ):
        block += 1
    return block


def best_rectangle(level: Level, n: int, ld: int, spare: int = 2, size: int = 4) -> tuple[int, int]:
    """Rows and columns, at most ``n``, of the block of any shape that the cache keeps best.

    Each row of a block is walked with one element of A, and each round of the block's columns with
    a row of C: for each multiply-add 1 / columns and, line by line, in proportion to 1 / rows.
    Among the shapes that leave ``spare`` ways of each set free the sum of both is least. Columns
    are whole lines. Raises ``ValueError`` when not even one row of one line fits.
    """
    line = level.line // size
    found = []
    for columns in range(line, n + 1, line):
        rows = 0
        while rows < n and crowding(level, rows + 1, columns, ld, size).max() <= level.ways - spare:
            rows += 1
        if rows:
            found.append((1 / rows + 1 / columns, rows, columns))
    if not found:
        raise ValueError(f"{level.name}: no block of whole lines leaves {spare} ways of a set free")
    return min(found)[1:]


def kept(walk: Sequence[int], level: Level, of: int) -> list[tuple[bool, tuple[int, ...]]]:
    """What set ``of`` of a cache holds after each address of a walk: (missed, lines).

    The lines are those of the addresses, the one used last first. Addresses of other sets are left
    out.
    """
    lines: list[int] = []
    found = []
    for address in walk:
        line = address // level.line
        if line % level.sets != of:
            continue
        missed = line not in lines
        lines = [line, *(each for each in lines if each != line)][: level.ways]
        found.append((missed, tuple(lines)))
    return found
