"""Charts of text: a small text in each coloured cell.

What does not fit into the width of a page is drawn without its empty columns; if that is still too
wide, in bands, one below the other. Likewise for a narrow screen.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from phasebit.draw.picture import Picture
from phasebit.letters import balanced, width, wrap
from phasebit.letters import columns as fitted
from phasebit.palette import FONT, MUTED, TEXT, colour
from phasebit.timeline.pieces import PAGE
from phasebit.two_widths import NARROW

_LINE, _GAP, _SWATCH = 15.0, 18.0, 34.0
_APART = 3.0
"""Pixels between a row and the name of the next one, which stands above that."""
_LEFT_OUT = 5.0
"""Pixels between two columns where others are left out, if there is room for all such gaps."""
_NAMED = 8
"""So many columns at most may have names instead of numbers."""
_LONG = 110.0
"""Pixels of a row's name from which on it stands above its row in the narrow drawing."""


class Cell(NamedTuple):
    """One cell of a chart: its text, a colour of the palette."""

    text: str
    hue: str = "grey"


def chart(
    cells: Sequence[Sequence[Cell | None]],
    *,
    rows: Sequence[object],
    columns: Sequence[object],
    row_label: str,
    column_label: str,
    title: str,
    legend: Mapping[str, str] | None = None,
) -> Picture:
    """``cells[r][c]``: a small text in a coloured cell, or ``None`` for nothing.

    For what happens lane by lane: lanes across and time down, banks across and wavefronts down.
    All columns are equally wide, but for up to eight that have names of more than three letters.
    ``legend`` says what a colour means. Raises ``ValueError`` when the shape of cells is not
    rows by columns.
    """
    if [len(line) for line in cells] != [len(columns)] * len(rows):
        raise ValueError(
            f"cells has the shape {len(cells)} by {[len(line) for line in cells]}: "
            f"give {len(rows)} rows of {len(columns)}"
        )
    longest = max((len(cell.text) for line in cells for cell in line if cell), default=1)
    grid = "\n".join(
        f"{row!s:>{len(row_label)}} |"
        + "".join(f" {(cell.text or '#') if cell else '.':>{longest}}" for cell in line)
        for row, line in zip(rows, cells, strict=True)
    )
    across = f"{column_label} from {columns[0]} to {columns[-1]}"
    down = f"{row_label} downwards; " if row_label else ""
    alt = f"{title}. {down}{across}.\n{grid}"
    drawn = [
        _Drawing(cells, [*map(str, rows)], [*map(str, columns)], row_label, column_label, narrow)
        .svg(title.splitlines()[0], alt, legend or {})
        for narrow in (False, True)
    ]  # fmt: skip
    return Picture(drawn[0], alt, drawn[1])


class _Drawing:
    """One drawing of a chart, from top to bottom."""

    def __init__(
        self, cells: Sequence[Sequence[Cell | None]], rows: Sequence[str], columns: Sequence[str],
        row_label: str, column_label: str, narrow: bool,
    ) -> None:  # fmt: skip
        self.cells, self.rows, self.columns = cells, rows, columns
        self.row_label, self.column_label = row_label, column_label
        self.room = NARROW if narrow else PAGE
        self.left = max(width(row) for row in [*rows, row_label]) + 10
        self.above = self.left > (_LONG if narrow else PAGE / 3)
        """The names of rows stand above them, and leave the columns all of the width."""
        if self.above:
            self.left = 0.0
        self.least, self.inside = (16.0, 3.0) if narrow else (18.0, 4.0)
        self.named = len(columns) <= _NAMED and any(len(column) > 3 for column in columns)
        self.wide = self._widths()
        self.shown: Sequence[int] = range(len(columns))
        """The columns that are drawn: where they do not fit side by side, those with a cell."""
        if not self.named and sum(self.wide) > self.room - self.left:
            self.shown = [c for c in self.shown if any(line[c] for line in cells)]
        self.y = 0.0
        self.right = 0.0
        self.rects: dict[str, list[str]] = {}
        self.texts: list[str] = []
        self.muted: list[str] = []

    def _widths(self) -> list[float]:
        texts = [[cell.text for line in self.cells if (cell := line[c])]
                 for c in range(len(self.columns))]  # fmt: skip
        if self.named:  # what stands above a column is written out
            texts = [[*each, name] for each, name in zip(texts, self.columns, strict=True)]
            cut = fitted(texts, self.room - self.left, 8)
            return [max(self.least, one) for one in cut]
        most = max((width(text) for each in texts for text in each), default=0) + self.inside
        return [max(self.least, most)] * len(self.columns)

    def bands(self) -> list[Sequence[int]]:
        """The columns, in as many bands as there must be."""
        room, count = self.room - self.left, len(self.shown)
        if sum(self.wide[c] for c in self.shown) <= room:
            return [self.shown]
        if self.named:
            found: list[Sequence[int]] = []
            first = 0
            for c in range(count):
                if c > first and sum(self.wide[first : c + 1]) > room:
                    found.append(range(first, c))
                    first = c
            return [*found, range(first, count)]
        fit = max(1, int(room / self.wide[0]))
        even = next(n for n in range(fit, 0, -1) if count % n == 0)
        step = even if 2 * even > fit else fit
        return [self.shown[first : first + step] for first in range(0, count, step)]

    def some_left_out(self) -> bool:
        return len(self.shown) < len(self.columns)

    # -- what is drawn ------------------------------------------------------------

    def write(self, x: float, y: float, text: str, anchor: str = "", muted: bool = True) -> None:
        at = f' text-anchor="{anchor}"' if anchor else ""
        out = self.muted if muted else self.texts
        out.append(f'<text x="{x:.5g}" y="{y:.5g}"{at}>{escape(text)}</text>')

    def rect(self, x: float, y: float, wide: float, high: float, hue: str) -> None:
        self.rects.setdefault(hue, []).append(
            f'<rect x="{x:.5g}" y="{y:.5g}" width="{wide:.5g}" height="{high:.5g}" rx="2"/>'
        )

    def band(self, columns: Sequence[int]) -> None:
        """Some columns, with what stands above and beside them."""
        edges = [self.left]
        for c in columns:
            edges.append(edges[-1] + self.wide[c])
        gaps = [c > before + 1 for before, c in itertools.pairwise(columns)]
        if edges[-1] + _LEFT_OUT * sum(gaps) <= self.room:
            moved = [_LEFT_OUT * sum(gaps[:k]) for k in range(len(columns))]
        else:
            moved = [0.0] * len(columns)
        spans = [(edges[k] + moved[k], edges[k + 1] + moved[k]) for k in range(len(columns))]
        self.right = max(self.right, spans[-1][1])
        names = [wrap(self.columns[c], self.wide[c] - 4) if self.named else [self.columns[c]]
                 for c in columns]  # fmt: skip
        self.y += 6 + _LINE * max(map(len, names))
        for k, c in enumerate(columns):
            if len(self.columns) <= _NAMED or c % 4 == 0 or self.some_left_out():
                for n, line in enumerate(reversed(names[k])):
                    middle = max(sum(spans[k]) / 2, width(line) / 2)  # not cut off
                    self.write(middle, self.y - n * _LINE, line, "middle")
        if not self.above:
            self.write(self.left - 6, self.y, self.row_label, "end")
        self.y += 6
        whole = len(columns) == len(self.shown)
        for row, cells in zip(self.rows, self.cells, strict=True):
            here = [cells[c] for c in columns]
            if whole or any(here):  # a row that has nothing in this band says nothing there
                self.line(row, here, spans)

    def line(
        self, row: str, cells: Sequence[Cell | None], spans: Sequence[tuple[float, float]]
    ) -> None:
        """One row of a band."""
        if self.above:
            self.y += _LINE + _APART
            self.write(0, self.y - 3, row)
        lines = [
            wrap(cell.text, spans[k][1] - spans[k][0] - 4) if cell and self.named
            else [cell.text if cell else ""] for k, cell in enumerate(cells)
        ]  # fmt: skip
        high = 18 + _LINE * (max(map(len, lines), default=1) - 1)
        if not self.above:
            self.write(self.left - 6, self.y + high / 2 + 4, row, "end")
        for k, cell in enumerate(cells):
            if cell is None:
                continue
            x, across = spans[k][0], spans[k][1] - spans[k][0]
            self.rect(x + 1, self.y + 1, across - 2, high - 2, cell.hue)
            for n, text in enumerate(lines[k]):
                if text:
                    y = self.y + high / 2 + 4 + (n - (len(lines[k]) - 1) / 2) * _LINE
                    self.write(x + across / 2, y, text, muted=False)
        self.y += high

    def foot(self, legend: Mapping[str, str]) -> None:
        """What the columns are, and what the colours mean: beside it, if there is room."""
        said = f"{self.column_label}; empty columns are left out"
        label = wrap(said if self.some_left_out() else self.column_label, self.room - self.left)
        for text in label:
            self.write(self.left, self.y + 16, text)
            self.right = max(self.right, self.left + width(text))
            self.y += _LINE
        if not legend:
            return
        x = self.left + width(label[-1]) + _GAP
        needs = sum(width(means) + _SWATCH for means in legend.values())
        if x + needs <= max(self.right, self.room / 2) and self.room > NARROW:
            self.y -= _LINE
        else:
            x, self.y = min(self.left, max(0.0, self.room - needs)), self.y + 4
        begin = x
        for hue, means in legend.items():
            if x > begin and x + width(means) + 17 > self.room:
                x, self.y = begin, self.y + 20
            self.rect(x, self.y + 6, 12, 12, hue)
            self.write(x + 17, self.y + 16, means)
            self.right = max(self.right, x + 17 + width(means))
            x += width(means) + _SWATCH
        self.y += _LINE

    def svg(self, title: str, alt: str, legend: Mapping[str, str]) -> str:
        """The drawing, whose alternative text is ``alt``."""
        heading = []
        for text in balanced(title, self.room):
            heading.append(f'<text x="0" y="{self.y + 12:g}">{escape(text)}</text>')
            self.right = max(self.right, width(text))
            self.y += _LINE
        for columns in self.bands():
            self.band(columns)
            self.y += 4
        self.y -= 4
        self.foot(legend)
        wide, high = self.right + 1, self.y + 9
        rects = [
            f'<g style="fill:{colour(hue)};fill-opacity:.22;stroke:{colour(hue)};'
            f'stroke-width:.8">{"".join(some)}</g>'
            for hue, some in self.rects.items()
        ]
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" class="phasebit-chart" '
            f'width="{wide:.5g}" height="{high:.5g}" viewBox="0 0 {wide:.5g} {high:.5g}" '
            f'style="font:12px {FONT};background:transparent">\n<title>{escape(alt)}</title>\n'
            + "\n".join(rects)
            + f'\n<g style="fill:{MUTED}">{"".join(self.muted)}</g>'
            + f'\n<g style="fill:{TEXT}" text-anchor="middle">{"".join(self.texts)}</g>'
            + f'\n<g style="fill:{TEXT}">{"".join(heading)}</g>\n</svg>'
        )


__all__ = ["Cell", "chart"]
