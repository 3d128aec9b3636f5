"""Plots with a row for each thing: bars, dots, measurements.

A narrow one has the names above its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from phasebit.draw.picture import (
    INK,
    INK_FAINT,
    INK_MUTED,
    POINTS,
    Picture,
    Real,
    both,
    figure_of,
    frame,
)
from phasebit.draw.plots import SERIES, below, fill
from phasebit.letters import balanced, wrap
from phasebit.palette import COLOURS


def bars(
    values: Mapping[str, float],
    *,
    x_label: str,
    title: str,
    hues: Mapping[str, str] | None = None,
    show: Callable[[float], str] = lambda value: f"{value:.0f}",
    of: Mapping[str, float] | None = None,
) -> Picture:
    """A bar for each value, in their order, with the value beside it.

    ``hues`` gives some of them another colour of the palette than blue; ``of`` says what some
    are a part of, and the rest is drawn pale. Raises ``ValueError`` for a value below zero or
    larger than what it is a part of.
    """
    whole = {name: (of or {}).get(name, value) for name, value in values.items()}
    if min(values.values()) < 0:
        raise ValueError("a bar below zero: give values from zero on")
    if larger := [name for name, value in values.items() if value > whole[name]]:
        raise ValueError(f"{larger[0]} is larger than what it is a part of: give a part")
    said = {
        name: show(value) + (f" of {show(whole[name])}" if name in (of or {}) else "")
        for name, value in values.items()
    }

    def drawn(narrow: bool) -> Any:
        figure, axes = figure_of(6.2, 0.9 + (0.45 if narrow else 0.34) * len(values), narrow)
        for row, (name, value) in enumerate(values.items()):
            hue = COLOURS[(hues or {}).get(name, "blue")]
            axes.barh(
                row + 0.2 * narrow, value, height=0.36 if narrow else 0.62, color=hue, alpha=0.75
            )
            axes.barh(
                row + 0.2 * narrow, whole[name] - value, left=value,
                height=0.36 if narrow else 0.62, color=hue, alpha=0.2,
            )
            axes.annotate(
                said[name], (whole[name], row + 0.2 * narrow), (4, 0), textcoords="offset points",
                va="center", color=INK, fontsize=9.5,
            )  # fmt: skip
        room = 1.1 + 0.1 * narrow + (0.1 if of else 0)
        axes.set_xlim(0, room * max(whole.values()))
        axes.set_ylim(len(values) - 0.5, -0.5)
        named_rows(axes, list(values), narrow)
        frame(axes, title, x_label, narrow=narrow)
        return figure

    lines = "\n".join(f"{name}: {text}" for name, text in said.items())
    return both(drawn, f"{title}. {x_label}.\n{lines}")


def dots(
    rows: Mapping[str, Mapping[str, Real]],
    *,
    x_label: str,
    title: str,
    show: Callable[[Real], str] = lambda value: f"{float(value):.2f}",
    line: float | None = None,
) -> Picture:
    """A row for each thing, and in it a mark for each of its values, by name; at most six names.

    A row may lack a name. ``line`` is drawn across all rows. Raises ``ValueError`` for more names
    than there are marks.
    """
    names = list(dict.fromkeys(name for values in rows.values() for name in values))
    if len(names) > len(SERIES):
        raise ValueError(f"rows have {len(names)} names: give at most {len(SERIES)}")

    def drawn(narrow: bool) -> Any:
        high = 0.9 + 0.3 * len(rows)
        if narrow:  # what stands above and below the rows takes nothing from them
            lines = balanced(title, POINTS[narrow], 10) + wrap(x_label, POINTS[narrow], 10)
            high = 0.45 + 0.42 * len(rows) + 0.17 * (len(lines) + len(names))
        figure, axes = figure_of(6.2, high, narrow)
        if line is not None and not narrow:
            axes.axvline(line, color=INK_MUTED, linewidth=1.2)
        every = [float(each) for values in rows.values() for each in values.values()]
        near = (max(every) - min(every)) * (0.035 if narrow else 0.018)
        beside = [_side_by_side(values, near, narrow) for values in rows.values()]
        for at, values in enumerate(rows.values()):
            axes.plot([*map(float, values.values())], [at + 0.15 * narrow] * len(values),
                      color=INK_MUTED, linewidth=0.8)  # fmt: skip
        for name, (hue, _, marker) in zip(names, SERIES, strict=False):
            found = [(float(values[name]), at + 0.15 * narrow + beside[at].get(name, 0.0))
                     for at, values in enumerate(rows.values()) if name in values]  # fmt: skip
            axes.plot(*zip(*found, strict=True), color=COLOURS[hue], marker=marker, linestyle="",
                      markersize=6, label=name)  # fmt: skip
        axes.set_ylim(len(rows) - 0.5, -0.5)
        named_rows(axes, list(rows), narrow)
        if narrow:
            below(figure, axes, names)
        else:
            axes.legend(
                frameon=False,
                labelcolor=INK,
                fontsize=9,
                loc="center left",
                bbox_to_anchor=(1, 0.5),
            )
        frame(axes, title, x_label, narrow=narrow)
        if narrow:
            _between_names(axes, len(rows), line)
        return figure

    lines = [f"{row}: " + ", ".join(f"{name} {show(value)}" for name, value in values.items())
             for row, values in rows.items()]  # fmt: skip
    return both(drawn, f"{title}. {x_label}.\n" + "\n".join(lines))


def spread(
    times: Mapping[str, Sequence[Real]],
    apart: Mapping[str, Sequence[Real]],
    *,
    x_label: str,
    title: str,
    times_are: str,
    apart_are: str,
    ratios: bool = False,
) -> Picture:
    """Many measurements of a few things: a row each, a dot each.

    ``apart`` are measurements of another kind of the same things, drawn as crosses on the same
    rows; ``times_are`` and ``apart_are`` name the two kinds. The numbers are medians. ``ratios``
    makes the axis logarithmic. Raises ``ValueError`` for a row without measurements.
    """
    from statistics import median, quantiles

    for name, values in times.items():
        if len(values) < 2:
            raise ValueError(f"{name!r} has {len(values)} measurements: give at least two")

    def drawn(narrow: bool) -> Any:
        figure, axes = figure_of(6.2, 0.7 + (0.85 if narrow else 0.65) * len(times), narrow)
        for row, (name, values) in enumerate(times.items()):
            numbers = [float(each) for each in values]
            at, high = (row + 0.2, 0.44) if narrow else (row, 0.56)
            # Dots one above the other in order of measurement, so that a drift would show.
            heights = [at + high / 2 - high * i / (len(numbers) - 1) for i in range(len(numbers))]
            every = -(-len(numbers) // 120)  # enough dots to see the spread, few enough to load
            axes.plot(
                numbers[::every],
                heights[::every],
                linestyle="none",
                marker=".",
                markersize=3,
                color=COLOURS["blue"],
            )
            others = [float(each) for each in apart.get(name, ())]
            if narrow:  # at the end of the line with the name, where no dot lies
                shown = [(numbers, INK), *([(others, COLOURS["orange"])] if others else [])]
                for place, (kind, ink) in enumerate(shown):
                    axes.text(0.87 + 0.13 * place, row - 0.05, f"{median(kind):.1f}", color=ink,
                              transform=axes.get_yaxis_transform(), ha="right", va="bottom",
                              fontsize=9.5)  # fmt: skip
            else:
                axes.annotate(
                    f"{median(numbers):.1f}",
                    (median(numbers), at - high / 2),
                    (0, 4),
                    textcoords="offset points",
                    ha="center",
                    color=INK,
                    fontsize=9.5,
                )
            if others:
                axes.plot(
                    others,
                    [at] * len(others),
                    linestyle="none",
                    marker="x",
                    markersize=7,
                    markeredgewidth=1.6,
                    color=COLOURS["orange"],
                )
            if others and not narrow:
                beyond = min(others) > quantiles(numbers, n=4)[2]  # then there is room to the right
                axes.annotate(
                    f"{median(others):.1f}",
                    (max(others) if beyond else median(others), at),
                    (6, 0) if beyond else (0, -13),
                    textcoords="offset points",
                    ha="left" if beyond else "center",
                    va="center" if beyond else "top",
                    color=COLOURS["orange"],
                    fontsize=9.5,
                )
        every_time = [float(each) for kind in (times, apart) for row in kind.values()
                      for each in row]  # fmt: skip
        most = max(every_time)
        if ratios:
            axes.set_xscale("log", subs=[])
            axes.xaxis.get_major_locator().set_params(subs=(1, 2, 5))
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.set_xlim(min(every_time) / 1.2, 1.2 * most)
        else:
            axes.set_xlim(0, (1.2 if narrow else 1.1) * most)
        axes.set_ylim(len(times) - (0.4 if ratios or narrow else 0.6), -0.7)
        named_rows(axes, list(times), narrow, most=200)
        kinds = f"{x_label}   (dots: {times_are}; crosses: {apart_are})"
        frame(axes, title, kinds, narrow=narrow)
        return figure

    lines = []
    for name, values in times.items():
        low, middle, high = quantiles([float(each) for each in values], n=4)
        line = f"{name}: {times_are} {middle:.1f} (median), middle half {low:.1f} to {high:.1f}"
        if others := [float(each) for each in apart.get(name, ())]:
            line += f"; {apart_are} {median(others):.1f} (median)"
        lines.append(line)
    return both(drawn, f"{title}. {x_label}.\n" + "\n".join(lines))


def _side_by_side(values: Mapping[str, Real], near: float, narrow: bool) -> dict[str, float]:
    """How far marks that would hide each other stand above and below their row, as parts of it.

    In a narrow figure below it alone: a name stands above.
    """
    moved: dict[str, float] = {}
    group: list[str] = []
    for name in [*sorted(values, key=lambda each: float(values[each])), None]:
        if group and (name is None or float(values[name]) - float(values[group[-1]]) > near):
            if len(group) > 1:
                step = 0.13 if narrow else min(0.2, 0.4 / (len(group) - 1))
                first = -0.05 if narrow else -step * (len(group) - 1) / 2
                moved |= {each: first + step * k for k, each in enumerate(group)}
            group = []
        if name is not None:
            group.append(name)
    return moved


def _between_names(axes: Any, rows: int, line: float | None) -> None:
    """The grid, and ``line``, in the bands of the marks: names stand above them, uncrossed."""
    axes.grid(visible=False)
    low, high = axes.get_xlim()
    ticks = [each for each in axes.get_xticks() if low < each < high]
    for places, ink, wide in ((ticks, INK_FAINT, 0.7), ([line], INK_MUTED, 1.2)):
        each = [(place, row - 0.02, row + 0.42) for row in range(rows) for place in places
                if place is not None]  # fmt: skip
        if each:
            axes.vlines(*zip(*each, strict=True), color=ink, linewidth=wide, zorder=1)


def named_rows(axes: Any, names: Sequence[str], narrow: bool, most: float = 240) -> None:
    """Names of rows: beside them, or above them in a narrow figure, in lines of ``most`` points."""
    if narrow:
        axes.set_yticks([])
        for row, name in enumerate(names):
            axes.text(0, row - 0.05, fill(name, most), transform=axes.get_yaxis_transform(),
                      va="bottom", color=INK, fontsize=9)  # fmt: skip
    else:
        axes.set_yticks(range(len(names)), [fill(name, 190) for name in names])
        axes.tick_params(axis="y", length=0, labelcolor=INK)
