"""What ``print_latex`` and ``print_latex_tv`` print, read: the numbers in the cells."""

from __future__ import annotations

import re
from typing import TypeVar


def grid(text: str) -> list[list[int]]:
    """The offsets that ``print_latex`` draws, a list for each row.

    Raises ``ValueError`` where a cell is missing.
    """
    found = {(int(r), int(c)): int(n)
             for r, c, n in re.findall(r"at \((\d+),(\d+)\) \{(\d+)\};", text)}  # fmt: skip
    return _rows(found)


def holders(text: str) -> list[list[tuple[int, int]]]:
    """Thread and value of each cell that ``print_latex_tv`` draws, a list for each row.

    Raises ``ValueError`` where a cell is missing.
    """
    cells = re.findall(r"at \((\d+),(\d+)\) \{\\shortstack\{T(\d+) \\\\ V(\d+)\}\}", text)
    return _rows({(int(r), int(c)): (int(t), int(v)) for r, c, t, v in cells})


Cell = TypeVar("Cell")


def _rows(found: dict[tuple[int, int], Cell]) -> list[list[Cell]]:
    rows, columns = (max(place[i] for place in found) + 1 for i in (0, 1)) if found else (0, 0)
    if not found or len(found) != rows * columns:
        raise ValueError(f"{len(found)} cells do not make {rows} rows of {columns}")
    return [[found[row, column] for column in range(columns)] for row in range(rows)]
