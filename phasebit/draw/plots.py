"""Plots with axes: curves with their names, bars, dots, roofs."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

from phasebit.draw.picture import INK, INK_MUTED, Picture, Real, figure_of, frame, no_ticks, picture
from phasebit.palette import COLOURS

SERIES = (
    ("blue", "-", "o"),
    ("orange", "--", "s"),
    ("green", "-.", "^"),
    ("pink", ":", "D"),
    ("cyan", (0, (5, 1, 1, 1, 1, 1)), "v"),
    ("red", (0, (1, 1)), "x"),
)


def curves(
    x: Sequence[Real] | Sequence[str],
    series: Mapping[str, Sequence[Real]],
    *,
    x_label: str,
    y_label: str,
    title: str,
    show: Callable[[Real], str] = lambda value: f"{float(value):.2f}",
    from_zero: bool = True,
    notes: Sequence[tuple[Real, Real, str]] = (),
    evenly: bool = False,
    ratios: bool = False,
) -> Picture:
    """Several curves over ``x``, at most six, each named where it ends.

    ``notes`` are texts at points (x, y, text). ``evenly`` puts the points equally far apart,
    whatever their x, which may be names then. ``ratios`` makes the y axis logarithmic, so that
    equal ratios are equally far apart. Raises ``ValueError`` for a series that is not as long as x,
    more than six, notes where the points stand evenly, or a number that has no logarithm.
    """
    if evenly and notes:
        raise ValueError("notes have places on an axis of numbers: leave out evenly")
    if len(series) > len(SERIES):
        raise ValueError(f"series has {len(series)} curves: give at most {len(SERIES)}")
    for name, values in series.items():
        if len(values) != len(x):
            raise ValueError(f"series {name!r} has {len(values)} values: give {len(x)}, one an x")
        if ratios and min(map(float, values)) <= 0:
            raise ValueError(f"series {name!r} has a value that is not positive: leave out ratios")
    figure, axes = figure_of(6.2, 3.2)
    places = [float(index if evenly else place) for index, place in enumerate(x)]
    ends = []
    for (name, values), (hue, dash, marker) in zip(series.items(), SERIES, strict=False):
        axes.plot(
            places,
            [float(each) for each in values],
            color=COLOURS[hue],
            linestyle=dash,
            linewidth=1.8,
            marker=marker if len(x) <= 40 else None,
            markersize=4,
        )
        ends.append((float(values[-1]), name, hue))
    axes.margins(x=0.02)
    if ratios:
        axes.set_yscale("log", subs=[])
        axes.yaxis.get_major_locator().set_params(subs=(1, 2, 5))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    elif from_zero:
        axes.set_ylim(bottom=0)
    bottom, top = axes.get_ylim()
    axes.set_ylim(bottom, top)
    place, value_at = (math.log, math.exp) if ratios else (float, float)
    apart, at = (place(top) - place(bottom)) * 0.075, float("-inf")
    for value, name, hue in sorted(ends):
        at = max(place(value), at + apart)
        axes.annotate(
            name,
            (1, value_at(at)),
            (6, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="center",
            color=COLOURS[hue],
            fontsize=9.5,
            annotation_clip=False,
        )
    for note_x, note_y, text in notes:
        axes.annotate(
            text,
            (float(note_x), float(note_y)),
            (8, -16),
            textcoords="offset points",
            color=INK,
            fontsize=9,
            arrowprops={"arrowstyle": "-", "color": INK_MUTED, "linewidth": 0.8},
        )
    if evenly or (all(isinstance(each, int) for each in x) and len(x) <= 24):
        axes.set_xticks(places, [str(each) for each in x])
    frame(axes, title, x_label, y_label)
    lines = "\n".join(
        f"{name}: " + " ".join(show(value) for value in values) for name, values in series.items()
    )
    across = f"{x_label} {', '.join(str(each) for each in x)}"
    return picture(figure, f"{title}. {y_label}, from left to right at {across}.\n{lines}")


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

    figure, axes = figure_of(6.2, 0.7 + 0.65 * len(times))
    lines = []
    for row, (name, values) in enumerate(times.items()):
        if len(values) < 2:
            raise ValueError(f"{name!r} has {len(values)} measurements: give at least two")
        numbers = [float(each) for each in values]
        low, middle, high = quantiles(numbers, n=4)
        # Dots one above the other in order of measurement, so that a drift would show.
        heights = [row + 0.28 - 0.56 * i / (len(numbers) - 1) for i in range(len(numbers))]
        every = -(-len(numbers) // 120)  # enough dots to see the spread, few enough to load
        axes.plot(
            numbers[::every],
            heights[::every],
            linestyle="none",
            marker=".",
            markersize=3,
            color=COLOURS["blue"],
        )
        axes.annotate(
            f"{middle:.1f}",
            (middle, row),
            (0, 15),
            textcoords="offset points",
            ha="center",
            color=INK,
            fontsize=9.5,
        )
        line = f"{name}: {times_are} {middle:.1f} (median), middle half {low:.1f} to {high:.1f}"
        others = [float(each) for each in apart.get(name, ())]
        if others:
            axes.plot(
                others,
                [row] * len(others),
                linestyle="none",
                marker="x",
                markersize=7,
                markeredgewidth=1.6,
                color=COLOURS["orange"],
            )
            beyond = min(others) > high  # then there is room to the right of them
            axes.annotate(
                f"{median(others):.1f}",
                (max(others) if beyond else median(others), row),
                (6, 0) if beyond else (0, -13),
                textcoords="offset points",
                ha="left" if beyond else "center",
                va="center" if beyond else "top",
                color=COLOURS["orange"],
                fontsize=9.5,
            )
            line += f"; {apart_are} {median(others):.1f} (median)"
        lines.append(line)
    every_time = [float(each) for kind in (times, apart) for row in kind.values() for each in row]
    most = max(every_time)
    if ratios:
        axes.set_xscale("log", subs=[])
        axes.xaxis.get_major_locator().set_params(subs=(1, 2, 5))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlim(min(every_time) / 1.2, 1.2 * most)
    else:
        axes.set_xlim(0, 1.1 * most)
    axes.set_ylim(len(times) - (0.4 if ratios else 0.6), -0.7)
    axes.set_yticks(range(len(times)), list(times))
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    frame(axes, title, f"{x_label}   (dots: {times_are}; crosses: {apart_are})")
    return picture(figure, f"{title}. {x_label}.\n" + "\n".join(lines))


def roofline(
    bandwidth: float,
    rates: Mapping[str, float],
    points: Mapping[str, tuple[float, float]],
    *,
    title: str,
) -> Picture:
    """Roofs and kernels under them, both axes logarithmic.

    ``bandwidth`` in TB/s, ``rates`` in TFLOP/s, ``points`` name -> (FLOP a byte, TFLOP/s).
    Raises ``ValueError`` for a number that is not positive, or without rates.
    """
    numbers = [bandwidth, *rates.values(), *(each for point in points.values() for each in point)]
    if not rates or min(numbers) <= 0:
        raise ValueError("a roofline needs rates, and every number of it must be positive")
    figure, axes = figure_of(6.2, 4.4)
    above = {name for name, (x, y) in points.items() if y > bandwidth * x}  # the slope
    left = min([0.1, *(x / (30 if name in above else 2) for name, (x, _) in points.items())])
    right = max(4 * max(rates.values()) / bandwidth, *(4 * x for x, _ in points.values()), 1.0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):  # 0.1, not a power whose exponent nobody can read
        axis.set_major_formatter(lambda value, _: f"{value:g}")
    slope = [left, max(rates.values()) / bandwidth]
    axes.plot(slope, [bandwidth * x for x in slope], color=COLOURS["grey"], linewidth=1.8)
    middle = math.sqrt(slope[0] * slope[1])
    axes.annotate(
        f"memory: {bandwidth:.2f} TB/s",
        (middle, bandwidth * middle),
        (-8, 4),
        textcoords="offset points",
        ha="right",
        color=INK_MUTED,
        fontsize=9.5,
    )
    high = 0.0
    for name, rate in sorted(rates.items(), key=lambda item: item[1]):
        hue, dash, _ = SERIES[list(rates).index(name) % len(SERIES)]
        axes.plot([rate / bandwidth, right], [rate, rate], color=COLOURS[hue], linestyle=dash,
                  linewidth=1.8)  # fmt: skip
        high = max(rate, 1.7 * high)  # names one above the other, however close the roofs
        axes.annotate(
            f"{name}: {rate:.0f}",
            (right, high),
            (6, 0),
            textcoords="offset points",
            va="center",
            color=COLOURS[hue],
            fontsize=9.5,
            annotation_clip=False,
        )
    for name, (intensity, reached) in points.items():
        axes.plot([intensity], [reached], marker="o", markersize=6, color=COLOURS["pink"])
        if name in above:  # left of the slope
            at, ha = (-8, -3), "right"
        elif intensity > math.sqrt(left * right):  # on the right half, below
            at, ha = (0, -14), "center"
        else:
            at, ha = (8, -3), "left"
        axes.annotate(
            name, (intensity, reached), at, color=INK, fontsize=9, textcoords="offset points", ha=ha
        )
    axes.set_xlim(left, right)
    frame(axes, title, "operations for each byte moved, FLOP/B", "TFLOP/s")
    lines = [f"memory: {bandwidth:.2f} TB/s"]
    lines += [f"{name}: {rate:.0f} TFLOP/s, from {rate / bandwidth:.1f} FLOP/B on"
              for name, rate in rates.items()]  # fmt: skip
    for name, (intensity, reached) in points.items():
        lines.append(f"{name}: {intensity:.3g} FLOP/B, {reached:.3g} TFLOP/s")
    return picture(figure, f"{title}.\n" + "\n".join(lines))


def bars(
    values: Mapping[str, float],
    *,
    x_label: str,
    title: str,
    hues: Mapping[str, str] | None = None,
    show: Callable[[float], str] = lambda value: f"{value:.0f}",
) -> Picture:
    """A bar for each value, in their order, with the value beside it.

    ``hues`` gives some of them another colour of the palette than blue. Raises ``ValueError``
    for a value below zero.
    """
    if min(values.values()) < 0:
        raise ValueError("a bar below zero: give values from zero on")
    figure, axes = figure_of(6.2, 0.9 + 0.34 * len(values))
    for row, (name, value) in enumerate(values.items()):
        hue = COLOURS[(hues or {}).get(name, "blue")]
        axes.barh(row, value, height=0.62, color=hue, alpha=0.75)
        axes.annotate(
            show(value), (value, row), (4, 0), textcoords="offset points", va="center",
            color=INK, fontsize=9.5,
        )  # fmt: skip
    axes.set_xlim(0, 1.1 * max(values.values()))
    axes.set_ylim(len(values) - 0.5, -0.5)
    axes.set_yticks(range(len(values)), list(values))
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    frame(axes, title, x_label)
    lines = "\n".join(f"{name}: {show(value)}" for name, value in values.items())
    return picture(figure, f"{title}. {x_label}.\n{lines}")


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
    figure, axes = figure_of(6.2, 0.9 + 0.3 * len(rows))
    if line is not None:
        axes.axvline(line, color=INK_MUTED, linewidth=1.2)
    for at, values in enumerate(rows.values()):
        axes.plot(
            [*map(float, values.values())], [at] * len(values), color=INK_MUTED, linewidth=0.8
        )  # fmt: skip
    for name, (hue, _, marker) in zip(names, SERIES, strict=False):
        found = [(float(values[name]), at) for at, values in enumerate(rows.values())
                 if name in values]  # fmt: skip
        axes.plot(*zip(*found, strict=True), color=COLOURS[hue], marker=marker, linestyle="",
                  markersize=6, label=name)  # fmt: skip
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.legend(
        frameon=False, labelcolor=INK, fontsize=9, loc="center left", bbox_to_anchor=(1, 0.5)
    )
    frame(axes, title, x_label)
    lines = [f"{row}: " + ", ".join(f"{name} {show(value)}" for name, value in values.items())
             for row, values in rows.items()]  # fmt: skip
    return picture(figure, f"{title}. {x_label}.\n" + "\n".join(lines))


def scatter(
    points: Mapping[str, tuple[float, float]],
    *,
    x_label: str,
    y_label: str,
    title: str,
    name: Collection[str] = (),
) -> Picture:
    """A dot for each thing at (x, y), both axes logarithmic, with the line on which x is y.

    ``name`` are those whose names are written beside their dots; the sentence has all. Raises
    ``ValueError`` for a number that is not positive, and without points.
    """
    numbers = [each for point in points.values() for each in point]
    if not numbers or min(numbers) <= 0:
        raise ValueError("a scatter needs points, and every number of it must be positive")
    figure, axes = figure_of(5.2, 4.2)
    axes.set_xscale("log")
    axes.set_yscale("log")
    low, high = 0.85 * min(numbers), 1.2 * max(numbers)
    axes.plot([low, high], [low, high], color=INK_MUTED, linewidth=1, linestyle="--")
    for each, (x, y) in points.items():
        axes.plot([x], [y], marker="o", markersize=5, color=COLOURS["blue"], alpha=0.75)
        if each in name:
            if x > math.sqrt(low * high):
                at, ha = (-7, -3), "right"
            else:  # not across the line
                at, ha = ((0, 7), "center") if y > x else ((7, -3), "left")
            axes.annotate(
                each, (x, y), at, color=INK, fontsize=9, textcoords="offset points", ha=ha
            )
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if low <= tick <= high]
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.set_minor_locator(no_ticks())
    frame(axes, title, x_label, y_label)
    lines = [f"{each}: {x:.3g}, {y:.3g}" for each, (x, y) in points.items()]
    return picture(figure, f"{title}. {x_label}, {y_label}.\n" + "\n".join(lines))
