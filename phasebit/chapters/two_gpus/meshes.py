"""A matrix on a mesh of GPUs: who holds which part of it, and what an all-gather brings to each.

The GPUs of a mesh stand in rows and columns; a place is (down, across), from 0. Each of these two
axes either divides the rows or the columns of the matrix among its GPUs, or gives every GPU a copy,
or leaves the matrix to the GPUs at one number of the axis: its offset.

    >>> parts = held((8, 4), (2, 1), ("rows", "copies"))
    >>> parts[1, 0]
    Part(rows=range(4, 8), columns=range(0, 4))
"""

from __future__ import annotations

import itertools
from typing import Literal, NamedTuple

Along = Literal["rows", "columns", "copies"] | int
"""What an axis of the mesh does: divides one of the matrix's, or copies; a number: the offset."""
Place = tuple[int, int]


class Part(NamedTuple):
    """What a GPU holds."""

    rows: range
    columns: range

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return len(self.rows) * len(self.columns)


NOTHING = Part(range(0), range(0))


def cut(whole: range, parts: int, number: int) -> range:
    """Part ``number`` of so many equal ones; where they cannot be equal the last have less.

    >>> [cut(range(10), 4, number) for number in range(4)]
    [range(0, 3), range(3, 6), range(6, 9), range(9, 10)]
    """
    each = -(-len(whole) // parts)
    return whole[number * each : (number + 1) * each]


def held(
    shape: tuple[int, int], mesh: tuple[int, int], along: tuple[Along, Along]
) -> dict[Place, Part]:
    """What each GPU holds of a matrix of ``shape``; ``along``: what each axis of ``mesh`` does.

    Where both axes divide the same one of the matrix, the second divides the parts of the first.
    Raises ``ValueError`` for an offset beyond its axis, or anything that is less than 1.
    """
    if min(*shape, *mesh) < 1:
        raise ValueError(f"a matrix of {shape} on a mesh of {mesh}: give numbers of at least 1")
    for does, count in zip(along, mesh, strict=True):
        if isinstance(does, int) and not 0 <= does < count:
            raise ValueError(f"offset {does} of an axis of {count} GPUs: give 0 to {count - 1}")
    found = {}
    for place in itertools.product(range(mesh[0]), range(mesh[1])):
        rows, columns = range(shape[0]), range(shape[1])
        here = True
        for does, count, at in zip(along, mesh, place, strict=True):
            if does == "rows":
                rows = cut(rows, count, at)
            elif does == "columns":
                columns = cut(columns, count, at)
            elif does != "copies":
                here = here and does == at
        found[place] = Part(rows, columns) if here and rows and columns else NOTHING
    return found


def brought(parts: dict[Place, Part], axis: int) -> dict[Place, int]:
    """How many numbers an all-gather along an axis of the mesh brings to each GPU.

    Afterwards all GPUs of a line along that axis have what any of them had. Two parts are the same
    or have nothing in common.

    >>> brought(held((8, 4), (2, 1), ("rows", "copies")), axis=0)
    {(0, 0): 16, (1, 0): 16}
    """
    lines: dict[int, set[Part]] = {}
    for place, part in parts.items():
        lines.setdefault(place[1 - axis], set()).add(part)
    return {
        place: sum(each.size for each in lines[place[1 - axis]]) - part.size
        for place, part in parts.items()
    }
