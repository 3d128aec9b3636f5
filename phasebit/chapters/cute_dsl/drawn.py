"""What ``print_latex`` and ``print_latex_tv`` print, read, and drawn without LaTeX."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from phasebit.draw import Picture


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


SIDE = 26
"""Of a cell, in pixels."""


def picture(text: str, title: str) -> Picture:
    """The cells of a drawing in their shades or colours, and the numbers along its sides.

    Raises ``ValueError`` where a cell is missing.
    """
    from phasebit.draw import Picture
    from phasebit.letters import width, wrap
    from phasebit.palette import FONT, TEXT
    from phasebit.two_widths import NARROW

    pairs = "\\shortstack" in text
    cells = [[f"T{t} V{v}" for t, v in row] for row in holders(text)] if pairs else [
        [str(n) for n in row] for row in grid(text)]  # fmt: skip
    fills: dict[tuple[int, int], str] = {}
    for shade, row, column in re.findall(r"fill= black!(\d+) \] at \((\d+),(\d+)\)", text):
        fills[int(row), int(column)] = f"fill:{TEXT};fill-opacity:{int(shade) / 200:g}"
    colour = r"rgb,255:red,(\d+);green,(\d+);blue,(\d+)\}\] \(([\d.-]+),([\d.-]+)\) rect"
    for red, green, blue, top, left in re.findall(colour, text):
        place = int(float(top) + 0.5), int(float(left) + 0.5)
        full = ",".join(str(max(2 * int(part) - 255, 0)) for part in (red, green, blue))
        fills[place] = f"fill:rgb({full});fill-opacity:.22"  # as pale on white, dark on black
    wide = SIDE * 1.6 if pairs else SIDE * 1.2
    out = []
    for r, row in enumerate(cells):
        for c, word in enumerate(row):
            out.append(
                f'<rect x="{c * wide:g}" y="{r * SIDE}" width="{wide:g}" height="{SIDE}" '
                f'style="{fills[r, c]};stroke:{TEXT};stroke-width:.6"/>'
                f'<text x="{(c + 0.5) * wide:g}" y="{(r + 0.66) * SIDE:g}" text-anchor="middle" '
                f'style="fill:{TEXT}">{word}</text>'
            )
    lines = wrap(title, NARROW - 6)
    high, across = len(cells) * SIDE, max(len(cells[0]) * wide, *map(width, lines))
    above = 9 + 14 * len(lines)
    alt = f"{title}.\n" + "\n".join(" ".join(row) for row in cells)
    size = f"{across + 2:g} {high + above + 1:g}"
    heading = "".join(
        f'<text x="0" y="{14 * (at - len(lines)) + 6}" style="fill:{TEXT};font-size:12px">'
        f"{escape(line)}</text>\n"
        for at, line in enumerate(lines)
    )
    return Picture(
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" class="phasebit-diagram" '
        f'width="{across + 2:g}" height="{high + above + 1:g}" viewBox="-1 -{above} {size}" '
        f'style="font:11px {FONT};background:transparent">\n<title>{escape(alt)}</title>\n'
        + heading + "\n".join(out) + "\n</svg>",
        alt,
    )  # fmt: skip


GAP = 22
"""Between both drawings of :func:`divided`, in pixels."""


def divided(text: str, rows: int, columns: int, title: str) -> Picture:
    """Numbers ``rows`` × ``columns``, row by row, and beside them what ``print_latex`` draws of
    their division: a column for each piece, whose colour it has on both sides.

    Raises ``ValueError`` where a cell is missing, or the two have not the same offsets.
    """
    from phasebit.draw import Picture
    from phasebit.letters import wrap
    from phasebit.palette import COLOURS, FONT, HUES, TEXT
    from phasebit.two_widths import NARROW

    pieces = grid(text)
    piece = {offset: at for row in pieces for at, offset in enumerate(row)}
    if sorted(piece) != [*range(rows * columns)]:
        raise ValueError(f"the drawing has other offsets than {rows} rows of {columns}")
    matrix = [[*range(row * columns, (row + 1) * columns)] for row in range(rows)]
    out = []

    def draw(cells: list[list[int]], left: float, name: str) -> None:
        out.append(f'<text x="{left:g}" y="-6" style="fill:{TEXT};font-size:12px">{name}</text>')
        for r, row in enumerate(cells):
            for c, offset in enumerate(row):
                x, y = left + c * SIDE, r * SIDE
                fill = COLOURS[HUES[piece[offset] % len(HUES)]]
                out.append(
                    f'<rect x="{x:g}" y="{y}" width="{SIDE}" height="{SIDE}" '
                    f'style="fill:{fill};fill-opacity:.25;stroke:{TEXT};stroke-width:.6"/>'
                    f'<text x="{x + SIDE / 2:g}" y="{y + 0.66 * SIDE:g}" text-anchor="middle" '
                    f'style="fill:{TEXT}">{offset}</text>'
                )

    draw(matrix, 0, "offsets, row by row")
    draw(pieces, columns * SIDE + GAP, "divided")
    lines = wrap(title, NARROW - 6)
    for at, line in enumerate(lines):
        out.append(f'<text x="0" y="{14 * (at - len(lines)) - 16}" '
                   f'style="fill:{TEXT};font-size:12px">{escape(line)}</text>')  # fmt: skip
    wide = (columns + len(pieces[0])) * SIDE + GAP + 2
    above, high = 14 * len(lines) + 30, max(rows, len(pieces)) * SIDE
    alt = f"{title}.\n" + "\n".join(" ".join(map(str, row)) for row in pieces)
    return Picture(
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" class="phasebit-diagram" '
        f'width="{wide}" height="{high + above + 1}" viewBox="-1 -{above} {wide} '
        f'{high + above + 1}" style="font:11px {FONT};background:transparent">\n'
        f"<title>{escape(alt)}</title>\n" + "\n".join(out) + "\n</svg>",
        alt,
    )
