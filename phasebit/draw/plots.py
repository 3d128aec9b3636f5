"""Plots with axes: curves with their names, bars, dots, roofs."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

from phasebit.draw.picture import (
    INK,
    INK_MUTED,
    POINTS,
    Picture,
    Real,
    both,
    figure_of,
    frame,
    no_ticks,
)
from phasebit.letters import width, wrap
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
    line: float | None = None,
) -> Picture:
    """Several curves over ``x``, at most six, each named where it ends.

    ``notes`` are texts at points (x, y, text). ``evenly`` puts the points equally far apart,
    whatever their x, which may be names then. ``ratios`` makes the y axis logarithmic, so that
    equal ratios are equally far apart; ``line`` is drawn across at this height. Raises
    ``ValueError`` for a series that is not as long as x, more than six, notes where the points
    stand evenly, or a number that has no logarithm.
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

    def drawn(narrow: bool) -> Any:
        figure, axes = figure_of(6.2, 3.2 if not narrow else 2.7 + 0.2 * len(series), narrow)
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
                label=name,
            )
            ends.append((float(values[-1]), name, hue))
        axes.margins(x=0.02)
        if line is not None:
            axes.axhline(line, color=INK_MUTED, linewidth=1.2, zorder=1)
        if ratios:
            axes.set_yscale("log", subs=[])
            axes.yaxis.get_major_locator().set_params(subs=(1, 2, 5))
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        elif from_zero:
            axes.set_ylim(bottom=0)
        if narrow:
            below(figure, axes, [name for _, name, _ in sorted(ends, reverse=True)])
        else:
            _at_their_ends(axes, ends, ratios)
        if evenly or (all(isinstance(each, int) for each in x) and len(x) <= 24):
            told = [str(each) for each in x]
            if evenly:
                axes.set_xticks(*_told(places, told, POINTS[narrow]))
            else:
                axes.set_xticks(places, _apart(places, told, POINTS[narrow]))
        frame(axes, title, x_label, y_label, narrow)
        if notes:
            figure.draw_without_rendering()  # then it is known where the curves are
        for note_x, note_y, text in notes:
            at = (float(note_x), float(note_y))
            axes.annotate(
                text,
                at,
                _beside_curves(axes, at, text),
                textcoords="offset points",
                color=INK,
                fontsize=9,
                arrowprops={"arrowstyle": "-", "color": INK_MUTED, "linewidth": 0.8},
            )
        return figure

    lines = "\n".join(
        f"{name}: " + " ".join(show(value) for value in values) for name, values in series.items()
    )
    across = f"{x_label} {', '.join(str(each) for each in x)}"
    return both(drawn, f"{title}. {y_label}, from left to right at {across}.\n{lines}")


def _at_their_ends(axes: Any, ends: Sequence[tuple[float, str, str]], ratios: bool) -> None:
    """Each curve's name where it ends, none over another: value, name, colour."""
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


def _beside_curves(axes: Any, at: tuple[float, float], text: str) -> tuple[float, float]:
    """How far from its point, in points, a note begins where no curve passes through it: to the
    right and below, if it may, else on another side."""
    scale = 72 / axes.figure.dpi
    x, y = (scale * one for one in axes.transData.transform(at))
    wide, edge = 0.85 * width(text, 9), scale * axes.figure.bbox.width
    begin, top = scale * axes.bbox.x0, scale * axes.bbox.y1
    curves = [scale * axes.transData.transform(line.get_xydata()) for line in axes.lines
              if line.get_transform() == axes.transData]  # a line across has places of its own
    places = [(8.0, -16.0), (12.0, -3.0), (8.0, 9.0), (-8 - wide, -16.0), (-8 - wide, 9.0),
              (-wide / 2, -24.0)]  # fmt: skip
    for right, up in places:
        left, foot = x + right, y + up
        inside = left >= begin and left + wide <= edge and foot + 6 <= top
        if inside and not any(_passes(curve, left, foot, wide) for curve in curves):
            return right, up
    return places[0]


def _passes(curve: Any, left: float, foot: float, wide: float) -> bool:
    """Whether a curve, given by its points, passes through letters that begin at a place."""
    for (ax, ay), (bx, by) in pairwise(curve):
        for t in (step / 20 for step in range(21)):
            x, y = ax + t * (bx - ax), ay + t * (by - ay)
            if left - 2 <= x <= left + wide + 2 and foot - 4 <= y <= foot + 12:
                return True
    return False


def below(figure: Any, axes: Any, names: Sequence[str]) -> None:
    """What is drawn, by name and in this order, below the axes."""
    handles, labels = axes.get_legend_handles_labels()
    by_name = dict(zip(labels, handles, strict=True))
    figure.legend(
        [by_name[name] for name in names], [fill(name, POINTS[True]) for name in names],
        loc="outside lower left", frameon=False, labelcolor=INK, fontsize=9, handlelength=2.6,
        borderpad=0, labelspacing=0.3,
    )  # fmt: skip


def fill(text: str, points: float) -> str:
    """A text of 9 points, in lines that are at most so wide."""
    return "\n".join(wrap(text, points, 9))


def _told(
    places: Sequence[float], names: Sequence[str], points: float
) -> tuple[list[float], list[str]]:
    """The ticks whose names have room beside each other: every one, every second, and so on."""
    most = max(width(name, 9) for name in names) + 6
    every = math.ceil(len(names) * most / points)
    return [*places[::every]], [*names[::every]]


def _apart(places: Sequence[float], names: Sequence[str], points: float) -> list[str]:
    """The names of ticks at these places, "" where one would stand too near to the one before."""
    across = (max(places) - min(places)) or 1.0
    shown: list[str] = []
    free = -math.inf
    for place, name in zip(places, names, strict=True):
        at, half = (place - min(places)) / across * points, width(name, 9) / 2
        shown.append(name if at - half >= free else "")
        if shown[-1]:
            free = at + half + 3
    return shown


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

    def drawn(narrow: bool) -> Any:
        figure, axes = figure_of(6.2, 4.4, narrow)
        above = {name for name, (x, y) in points.items() if y > bandwidth * x}  # the slope
        room = 90 if narrow else 30  # left of a point for its name
        left = min([0.1, *(x / (room if name in above else 2) for name, (x, _) in points.items())])
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
            (8, -10) if narrow else (-8, 4),
            textcoords="offset points",
            ha="left" if narrow else "right",
            color=INK_MUTED,
            fontsize=9.5,
        )
        high = 0.0
        for name, rate in sorted(rates.items(), key=lambda item: item[1]):
            hue, dash, _ = SERIES[list(rates).index(name) % len(SERIES)]
            told = f"{name}: {rate:.0f}"
            axes.plot([rate / bandwidth, right], [rate, rate], color=COLOURS[hue], linestyle=dash,
                      linewidth=1.8, label=told)  # fmt: skip
            high = max(rate, 1.7 * high)  # names one above the other, however close the roofs
            if not narrow:
                axes.annotate(
                    told, (right, high), (6, 0), textcoords="offset points", va="center",
                    color=COLOURS[hue], fontsize=9.5, annotation_clip=False,
                )  # fmt: skip
        axes.set_xlim(left, right)
        for intensity, reached in points.values():
            axes.plot([intensity], [reached], marker="o", markersize=6, color=COLOURS["pink"])
        axes.set_ylim(axes.get_ylim())
        roofs = [*rates.values()]
        at: tuple[float, float]
        for name, (intensity, reached) in points.items():
            va = "baseline"
            if name in above:  # left of the slope, and of a phone's narrow axes
                name = "\n".join(wrap(name, 50, 9)) if narrow else name
                at, ha, va = (-8, 0), "right", "center"
            elif intensity > math.sqrt(left * right):  # on the right half, below or above
                ground = axes.get_ylim()[0]
                name, at = _beside(axes, name, (intensity, reached), bandwidth, [ground, *roofs])
                ha = "center"
            else:
                at, ha = (8, -3), "left"
            axes.annotate(
                name,
                (intensity, reached),
                at,
                color=INK,
                fontsize=9,
                textcoords="offset points",
                ha=ha,
                va=va,
            )
        frame(axes, title, "operations for each byte moved, FLOP/B", "TFLOP/s", narrow)
        if narrow:
            highest = sorted(rates.items(), key=lambda item: -item[1])
            below(figure, axes, [f"{name}: {rate:.0f}" for name, rate in highest])
        return figure

    lines = [f"memory: {bandwidth:.2f} TB/s"]
    lines += [f"{name}: {rate:.0f} TFLOP/s, from {rate / bandwidth:.1f} FLOP/B on"
              for name, rate in rates.items()]  # fmt: skip
    for name, (intensity, reached) in points.items():
        lines.append(f"{name}: {intensity:.3g} FLOP/B, {reached:.3g} TFLOP/s")
    return both(drawn, f"{title}.\n" + "\n".join(lines))


def _beside(
    axes: Any, name: str, point: tuple[float, float], bandwidth: float, lines: Sequence[float]
) -> tuple[str, tuple[float, float]]:
    """A name in lines, and how far from its point their middle and the last one's foot are.

    Below the point or above it, where no level line crosses the name, left of the axes' right edge
    and right of the slope.
    """

    def points(x: float, y: float) -> Any:
        return axes.transData.transform((x, y)) * 72 / axes.figure.dpi

    here = points(*point)
    off = [points(1, line)[1] - here[1] for line in lines]
    down = next((at for at in (-14, 7, -26) if all(not -4 < one - at < 9 for one in off)), -14)
    edge = points(axes.get_xlim()[1], 1)[0] - 2 - here[0]
    top = (here[1] + down + 9) * axes.figure.dpi / 72
    level = axes.transData.inverted().transform((0, top))[1]
    slope = points(level / bandwidth, 1)[0] - here[0] + 4
    told = wrap(name, max(edge - slope, 30), 9)
    half = max(width(line, 9) for line in told) / 2
    middle = min(max(0, slope + half), edge - half)
    return "\n".join(told), (middle, down if down > 0 else down - 11 * (len(told) - 1))


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

    def drawn(narrow: bool) -> Any:
        figure, axes = figure_of(5.2, 3.6 if narrow else 4.2, narrow)
        axes.set_xscale("log")
        axes.set_yscale("log")
        low, high = 0.85 * min(numbers), 1.2 * max(numbers)
        axes.plot([low, high], [low, high], color=INK_MUTED, linewidth=1, linestyle="--")
        for each, (x, y) in points.items():
            axes.plot([x], [y], marker="o", markersize=5, color=COLOURS["blue"], alpha=0.75)
            if each in name:
                told, va = each, "baseline"
                if x > math.sqrt(low * high):
                    at, ha, va = (-7, 2), "right", "center"
                    if narrow:  # in the part of about 185 points that is left of the dot
                        room = 185 * math.log(x / low) / math.log(high / low) - 12
                        lines = wrap(each, room, 9)
                        told = "\n".join(lines)
                        va = "top" if len(lines) > 1 else va  # not into the title
                else:  # not across the line
                    at, ha = ((0, 7), "center") if y > x else ((7, -3), "left")
                axes.annotate(told, (x, y), at, color=INK, fontsize=9, ha=ha, va=va,
                              textcoords="offset points")  # fmt: skip
        axes.set_xlim(low, high)
        axes.set_ylim(low, high)
        ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if low <= tick <= high]
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
            axis.set_minor_locator(no_ticks())
        frame(axes, title, x_label, y_label, narrow)
        return figure

    lines = [f"{each}: {x:.3g}, {y:.3g}" for each, (x, y) in points.items()]
    return both(drawn, f"{title}. {x_label}, {y_label}.\n" + "\n".join(lines))
