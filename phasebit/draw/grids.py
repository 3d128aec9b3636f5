"""Pictures made of cells: heat maps with their values, charts of text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from phasebit.draw.picture import INK, INK_MUTED, Picture, Real, figure_of, picture
from phasebit.palette import COLOURS, FONT, MUTED, TEXT, colour


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
    figure, axes = figure_of(1.6 + 0.5 * len(columns), 1.2 + 0.34 * len(rows))
    for r, line in enumerate(values):
        for c, value in enumerate(line):
            share = float(value - low) / float(high - low) if high > low else 0.5
            axes.add_patch(
                rectangle(c, r, facecolor=COLOURS["blue"], alpha=0.03 + 0.36 * share, linewidth=0)
            )
            axes.text(
                c,
                r,
                show(value),
                ha="center",
                va="center",
                color=INK,
                fontsize=9,
                fontweight="bold" if (r, c) in outline else "normal",
            )
    for r, c in sorted(outline):
        axes.add_patch(
            rectangle(c, r, inset=0.05, fill=False, edgecolor=COLOURS["orange"], linewidth=1.8)
        )
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xticks(range(len(columns)), [str(each) for each in columns])
    axes.set_yticks(range(len(rows)), [str(each) for each in rows])
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_xlabel(column_label)
    axes.set_ylabel(row_label)
    axes.set_title(title, fontsize=10, color=INK, loc="left")
    note = f" Framed: {outline_means}." if outline_means else ""
    if note:
        axes.annotate(
            note.strip(),
            (0, 0),
            (0, -34),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=9,
            color=INK_MUTED,
            annotation_clip=False,
        )
    grid = "\n".join(
        f"{row_label} {row}: "
        + " ".join(show(value) + ("*" if (r, c) in outline else "") for c, value in enumerate(line))
        for r, (row, line) in enumerate(zip(rows, values, strict=True))
    )
    across = f"{column_label} {', '.join(str(each) for each in columns)}"
    starred = f" (* {outline_means})" if outline_means else ""
    return picture(figure, f"{title}. From left to right, {across}{starred}.\n{grid}")


_LETTER = 6.8
"""Width of a letter of 12 px, on the average, in px."""
_PHONE = 430.0
"""A legend may make a chart so wide, in px: with letters of 10 px it fits on a phone."""


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
    texts = [cell.text for line in cells for cell in line if cell]
    down, head = 18.0, 42.0
    left = _LETTER * max(len(str(row)) for row in [*rows, row_label]) + 10
    named = len(columns) <= 8 and any(len(str(column)) > 3 for column in columns)
    wide = [
        max([len(cell.text) for line in cells if (cell := line[c])], default=1)
        for c in range(len(columns))
    ]
    if named:  # what stands above a column is written out, and each is as wide as it must be
        wide = [max(most, len(str(column)) + 1) for most, column in zip(wide, columns, strict=True)]
    elif wide:
        wide = [max(wide)] * len(columns)
    edges = [left]  # of the columns
    for most in wide:
        edges.append(edges[-1] + max(down, _LETTER * most + 6))
    out = [
        f'<text x="0" y="12" style="fill:{TEXT}">{escape(title.splitlines()[0])}</text>',
        f'<text x="{left - 6:g}" y="{head - 6:g}" text-anchor="end" style="fill:{MUTED}">'
        f"{escape(row_label)}</text>",
    ]
    for c, column in enumerate(columns):
        if len(columns) <= 8 or c % 4 == 0:
            middle = (edges[c] + edges[c + 1]) / 2
            place = f'x="{middle:g}" y="{head - 6:g}" text-anchor="middle"'
            out.append(f'<text {place} style="fill:{MUTED}">{escape(str(column))}</text>')
    for r, (row, line) in enumerate(zip(rows, cells, strict=True)):
        y = head + r * down
        out.append(
            f'<text x="{left - 6:g}" y="{y + 13:g}" text-anchor="end" '
            f'style="fill:{MUTED}">{escape(str(row))}</text>'
        )
        for c, cell in enumerate(line):
            if cell is None:
                continue
            x, across, ink = edges[c], edges[c + 1] - edges[c], colour(cell.hue)
            out.append(
                f'<rect x="{x + 1:g}" y="{y + 1:g}" width="{across - 2:g}" height="{down - 2:g}" '
                f'rx="2" style="fill:{ink};fill-opacity:.22;stroke:{ink};stroke-width:.8"/>'
            )
            if cell.text:
                out.append(
                    f'<text x="{x + across / 2:g}" y="{y + 13:g}" text-anchor="middle" '
                    f'style="fill:{TEXT}">{escape(cell.text)}</text>'
                )
    foot = head + len(rows) * down
    out.append(
        f'<text x="{left:g}" y="{foot + 16:g}" style="fill:{MUTED}">{escape(column_label)}</text>'
    )
    x = left + _LETTER * len(column_label) + 18
    width = max(edges[-1], x, _LETTER * len(title.splitlines()[0]))
    legend = legend or {}
    along = sum(_LETTER * len(means) + 34 for means in legend.values())
    if x + along > width:  # no room beside the label: a line of its own
        x, foot = max(0.0, min(left, max(width, _PHONE) - along)), foot + 20
    begin = x
    for hue, means in legend.items():
        if x > begin and x + _LETTER * len(means) + 34 > max(width, _PHONE):
            x, foot = begin, foot + 20
        out.append(
            f'<rect x="{x:g}" y="{foot + 6:g}" width="12" height="12" rx="2" '
            f'style="fill:{colour(hue)};fill-opacity:.22;stroke:{colour(hue)}"/>'
            f'<text x="{x + 17:g}" y="{foot + 16:g}" style="fill:{MUTED}">{escape(means)}</text>'
        )
        x += _LETTER * len(means) + 34
        width = max(width, x)
    height = foot + 24
    longest = max(map(len, texts), default=1)
    grid = "\n".join(
        f"{row!s:>{len(row_label)}} |"
        + "".join(f" {(cell.text or '#') if cell else '.':>{longest}}" for cell in line)
        for row, line in zip(rows, cells, strict=True)
    )
    across_words = f"{column_label} from {columns[0]} to {columns[-1]}"
    alt = f"{title}. {row_label} downwards; {across_words}.\n{grid}"
    return Picture(
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" class="phasebit-chart" '
        f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}" '
        f'style="font:12px {FONT};background:transparent">\n'
        f"<title>{escape(alt)}</title>\n" + "\n".join(out) + "\n</svg>",
        alt,
    )


def rectangle(column: float, row: float, inset: float = 0.02, **look: Any) -> Any:
    from matplotlib.patches import Rectangle

    side = 1 - 2 * inset
    return Rectangle((column - 0.5 + inset, row - 0.5 + inset), side, side, **look)
