"""Heat maps with their values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from phasebit.draw.picture import INK, INK_MUTED, Picture, Real, both, figure_of, titled
from phasebit.draw.plots import fill
from phasebit.palette import COLOURS


def heatmap(
    values: Sequence[Sequence[Real]],
    *,
    rows: Sequence[object],
    columns: Sequence[object],
    row_label: str,
    column_label: str,
    title: str,
    show: Callable[[Real], str] = lambda value: f"{float(value):.2f}",
    outline: Collection[tuple[int, int]] = (),
    outline_means: str = "",
    scale: tuple[Real, Real] | None = None,
) -> Picture:
    """``values[r][c]`` as a grid of cells: the larger, the darker, with the value printed.

    ``outline`` frames cells (row index, column index); ``outline_means`` says why. ``scale`` is
    the value that is lightest and the one that is darkest, the same for pictures that are
    compared; else they are the least value and the largest.
    Raises ``ValueError`` when the shape of values is not rows by columns, or one is off the scale.
    """
    if [len(line) for line in values] != [len(columns)] * len(rows):
        raise ValueError(
            f"values has the shape {len(values)} by {[len(line) for line in values]}: "
            f"give {len(rows)} rows of {len(columns)}"
        )
    least, most = min(map(min, values)), max(map(max, values))
    low, high = scale or (least, most)
    if not low <= least <= most <= high:
        raise ValueError(f"values from {least} to {most} are not all on the scale {low} to {high}")
    note = f"Framed: {outline_means}." if outline_means else ""

    def drawn(narrow: bool) -> Any:
        parts = _parts(len(columns), _PHONE if narrow else len(columns))
        high = (0.55 + 0.28 * len(rows)) * len(parts) if narrow else 0.34 * len(rows)
        figure, axes = figure_of(1.6 + 0.5 * len(columns), 1.2 + high, narrow)
        if len(parts) > 1:
            axes.remove()
            all_axes = figure.subplots(len(parts), 1, sharey=True)
        else:
            all_axes = [axes]
        for axes, part in zip(all_axes, parts, strict=True):
            _cells(axes, part)
        titled(all_axes[0], title, narrow)
        all_axes[-1].set_xlabel(column_label, color=INK)
        if note and narrow:
            figure.supxlabel(fill(note, 230), fontsize=9, color=INK_MUTED)
        if note and not narrow:
            axes.annotate(
                note,
                (0, 0),
                (0, -42),
                xycoords="axes fraction",
                textcoords="offset points",
                fontsize=9,
                color=INK_MUTED,
                annotation_clip=False,
            )
        return figure

    def _cells(axes: Any, part: range) -> None:
        """Some columns, with their values."""
        axes.patch.set_visible(False)
        for r, line in enumerate(values):
            for c in part:
                share = float(line[c] - low) / float(high - low) if high > low else 0.5
                axes.add_patch(rectangle(
                    c, r, facecolor=COLOURS["blue"], alpha=0.03 + 0.36 * share, linewidth=0
                ))  # fmt: skip
                axes.text(
                    c,
                    r,
                    show(line[c]),
                    ha="center",
                    va="center",
                    color=INK,
                    fontsize=9,
                    fontweight="bold" if (r, c) in outline else "normal",
                )
        for r, c in sorted(outline):
            if c in part:
                axes.add_patch(rectangle(
                    c, r, inset=0.05, fill=False, edgecolor=COLOURS["orange"], linewidth=1.8
                ))  # fmt: skip
        axes.set_xlim(part.start - 0.5, part.stop - 0.5)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xticks(part, [str(columns[c]) for c in part])
        axes.set_yticks(range(len(rows)), [str(each) for each in rows])
        axes.tick_params(length=0, colors=INK_MUTED, labelsize=9)
        for side in axes.spines.values():
            side.set_visible(False)
        axes.set_ylabel(row_label, color=INK)

    grid = "\n".join(
        f"{row_label} {row}: "
        + " ".join(show(value) + ("*" if (r, c) in outline else "") for c, value in enumerate(line))
        for r, (row, line) in enumerate(zip(rows, values, strict=True))
    )
    across = f"{column_label} {', '.join(str(each) for each in columns)}"
    starred = f" (* {outline_means})" if outline_means else ""
    return both(drawn, f"{title}. From left to right, {across}{starred}.\n{grid}")


_PHONE = 8
"""Columns of a heat map that a phone has room for."""


def _parts(count: int, most: int) -> list[range]:
    """So many columns in parts of equal length, which are not longer than ``most``."""
    number = -(-count // most)
    step = -(-count // number)
    return [range(first, min(first + step, count)) for first in range(0, count, step)]


def rectangle(column: float, row: float, inset: float = 0.02, **look: Any) -> Any:
    from matplotlib.patches import Rectangle

    side = 1 - 2 * inset
    return Rectangle((column - 0.5 + inset, row - 0.5 + inset), side, side, **look)
