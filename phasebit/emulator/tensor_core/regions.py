"""Regions of tensor memory: what one operation reads or writes, in stretches of 16 lanes."""

from __future__ import annotations

from dataclasses import dataclass

HALVES = 8
"""Stretches of 16 lanes."""

COPIED, SHIFTED, SOURCE = 1, 2, 3
"""Of ``tcgen05.cp``, of ``shift``, and of a product that reads its A there; other forms are the
shape of a product."""


@dataclass(frozen=True)
class Region:
    """Cells of one block's tensor memory: stretches of 16 lanes, columns."""

    slot: int
    halves: slice
    columns: slice

    @property
    def key(self) -> tuple[int, slice, slice]:
        """The index of its entries in the shadow."""
        return self.slot, self.halves, self.columns

    def __str__(self) -> str:
        stretches = range(*self.halves.indices(HALVES))
        lanes = f"{16 * stretches[0]}-{16 * stretches[-1] + 15}"
        return f"lanes {lanes}, columns {self.columns.start}-{self.columns.stop - 1}"


def overlap(a: Region, b: Region) -> bool:
    """Whether two regions have a cell in common."""
    if a.slot != b.slot or a.columns.start >= b.columns.stop or b.columns.start >= a.columns.stop:
        return False
    if a.halves == b.halves:
        return True
    mine, theirs = (set(range(*r.halves.indices(HALVES))) for r in (a, b))
    return bool(mine & theirs)


def around(a: Region, b: Region) -> Region:
    """The smallest stretch of one slot's lanes and columns in which both lie."""
    if a == b:
        return a
    lanes = [range(*r.halves.indices(HALVES)) for r in (a, b)]
    return Region(
        a.slot,
        slice(min(r[0] for r in lanes), max(r[-1] for r in lanes) + 1),
        slice(min(a.columns.start, b.columns.start), max(a.columns.stop, b.columns.stop)),
    )


__all__ = ["COPIED", "HALVES", "SHIFTED", "SOURCE", "Region", "around", "overlap"]
