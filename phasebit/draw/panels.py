"""Rectangles cut into equal parts, side by side: blocks of a matrix, warps of a block, waves."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from phasebit.draw.picture import INK, INK_MUTED, NARROW_INCHES, Picture, both, figure_of
from phasebit.palette import COLOURS


class Panel(NamedTuple):
    """A rectangle of ``width`` × ``height`` in units of the picture, cut into rows × columns.

    ``marked`` parts, as (row, column), are dark; ``labels`` stand in their parts.
    """

    title: str
    rows: int
    columns: int
    marked: Collection[tuple[int, int]]
    hue: str = "blue"
    width: float = 1.0
    height: float = 1.0
    labels: Mapping[tuple[int, int], str] = {}


def panels(parts: Sequence[Panel], *, alt: str) -> Picture:
    """The panels from left to right, each under its title; ``alt`` says what they show.

    Raises ``ValueError`` for a marked or labelled part that a panel does not have.
    """
    for part in parts:
        for row, column in (*part.marked, *part.labels):
            if not (0 <= row < part.rows and 0 <= column < part.columns):
                raise ValueError(f"{part.title}: it has no part {(row, column)}")

    def drawn(narrow: bool) -> Any:
        """Side by side; in a narrow figure one below the other."""
        widest, tall = max(part.width for part in parts), max(part.height for part in parts)
        gap, head = (0.0, 0.14 * widest) if narrow else (0.3, 0.28)
        if narrow:
            whole, high = 1.5 * widest, sum(part.height + head for part in parts)
            inches = NARROW_INCHES
        else:
            whole = sum(part.width for part in parts) + gap * (len(parts) - 1)
            high, inches = tall + 0.3, 7.2
        figure, axes = figure_of(inches, inches * high / whole, narrow)
        axes.set_axis_off()
        axes.set_xlim(-0.02, whole + 0.02)
        axes.set_ylim((high - head if narrow else tall) + 0.02, -head)
        axes.set_aspect("equal")
        left = top = 0.0
        for part in parts:
            _draw(axes, part, left, top)
            axes.text(left, top - 0.05, part.title, color=INK, fontsize=9, va="bottom")
            if narrow:
                top += part.height + head
            else:
                left += part.width + gap
        return figure

    return both(drawn, alt)


def _runs(marked: Collection[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Neighbours of a row together, as (row, first column, columns): a page has less to load."""
    runs: list[tuple[int, int, int]] = []
    for row, column in sorted(marked):
        if runs and runs[-1][0] == row and sum(runs[-1][1:]) == column:
            runs[-1] = (row, runs[-1][1], runs[-1][2] + 1)
        else:
            runs.append((row, column, 1))
    return runs


def _draw(axes: Any, part: Panel, left: float, top: float) -> None:
    from matplotlib.patches import Rectangle

    across, down = part.width / part.columns, part.height / part.rows
    look: dict[str, Any] = {"facecolor": COLOURS[part.hue], "linewidth": 0}
    axes.add_patch(Rectangle((left, top), part.width, part.height, alpha=0.18, **look))
    dark = 0.35 if part.labels else 0.75  # a label is read on it, on the page's dark ground, too
    for row, first, columns in _runs(part.marked):
        corner = (left + first * across, top + row * down)
        axes.add_patch(Rectangle(corner, columns * across, down, alpha=dark, **look))
    lines: dict[str, Any] = {"color": INK_MUTED, "linewidth": 0.3, "alpha": 0.5}
    downs = [left + column * across for column in range(part.columns + 1)]
    axes.vlines(downs, top, top + part.height, **lines)
    acrosses = [top + row * down for row in range(part.rows + 1)]
    axes.hlines(acrosses, left, left + part.width, **lines)
    for (row, column), label in part.labels.items():
        middle = (left + (column + 0.5) * across, top + (row + 0.5) * down)
        axes.text(*middle, label, color=INK, fontsize=9, ha="center", va="center")
