"""Pictures of *Past the vendor: the trials*: what was expected of each change, what came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from phasebit import measure
from phasebit.chapters.every_shape import cold, cold_tables, few_rows, floor_texts, tries, view
from phasebit.chapters.every_shape.shapes import Shape
from phasebit.chapters.every_shape.trial_tables import LEVEL, word_of

if TYPE_CHECKING:
    from phasebit.draw import Picture

_LINEAR = 10
"""Per cent to both sides of 0 that have as much room as the next ten times."""
_LINE, _STEP = 11.5, 12.5
"""Points from a line of a label to the next, and from a mark of a row to the next."""
_LABEL = 190.0
"""Points across that a label beside the axes has."""
_TITLE = 350.0
"""Points across that a title has above them: a wider one would make the picture wider."""


class Trial(NamedTuple):
    """A row of a picture."""

    name: str
    expected: str
    """As it was written down; "" where nothing was expected, as of the vendor."""
    more: dict[str, float]
    """Which time -> per cent by which it is longer than without the change."""


def small(record: Mapping[str, Any]) -> Picture:
    """The eleven changes at the small square."""
    row = record["tries"]
    base = row["times"][tries.BASE]
    trials = [
        Trial(name, each.expected, {way: _per_cent(row["times"][name], base, way)
                                    for way in view.WAYS})
        for name, each in tries.TRIES.items()
    ]  # fmt: skip
    return drawn(trials, f"{Shape(*row['shape'])}: time against {tries.BASE}, early launch", record)


def further(record: Mapping[str, Any], *shapes: Shape) -> Picture:
    """What was tried at one of the hardest shapes, or at several: a row for each change.

    Changes of which different things were expected at two shapes have a row for each.
    """
    rows: dict[tuple[str, str], dict[str, float]] = {}
    bases = []
    for shape in shapes:
        tried = next(each for each in tries.FURTHER if each.shape == shape)
        row = view.row_of({"shapes": record["further"]}, shape)
        base = row["times"][row["base"]]
        took = " and ".join(f"{view.median(base, way):.1f} µs {way}" for way in view.WAYS)
        bases.append(f"{shape}: {tried.base.short}, {took}, {median(base['mhz']):.0f} MHz")
        for plan, expected in (*tried.plans.items(), (None, "")):
            times = row["times"][view.VENDOR if plan is None else str(plan)]
            name = (view.VENDOR if plan is None else plan.short if len(shapes) == 1
                    else tries.change(plan, tried.base))  # fmt: skip
            for way in view.WAYS:
                key = f"{shape}, {way}" if len(shapes) > 1 else way
                rows.setdefault((name, expected), {})[key] = _per_cent(times, base, way)
    trials = [Trial(*key, more) for key, more in rows.items() if key[1]]
    trials += [Trial(*key, more) for key, more in rows.items() if not key[1]]
    return drawn(trials, "Time against " + "; ".join(bases), record)


def few(recorded: Mapping[str, Any]) -> Picture:
    """Few rows, flushed: the plan without its products, and two changes; the vendor last."""
    rows: dict[str, dict[str, float]] = {}
    took = []
    for row in recorded["shapes"]:
        shape = str(Shape(*row["shape"]))
        whole = row["times"][few_rows.WHOLE]
        took.append(f"{shape}: {view.median(whole, 'flushed'):.1f} µs")
        for name, times in row["times"].items():
            if name != few_rows.WHOLE:
                rows.setdefault(name, {})[shape] = _per_cent(times, whole, "flushed")
    rows[view.VENDOR] = rows.pop(view.VENDOR)
    said = few_rows.tried(few_rows.PLANS[Shape(*recorded["shapes"][-1]["shape"])])
    trials = [Trial(name, said[name].expected if name in said else "", more)
              for name, more in rows.items()]  # fmt: skip
    return drawn(trials, "Flushed, time against the whole plan; " + "; ".join(took), recorded,
                 "flushed")  # fmt: skip


TURNS = "boxes as the plan's, by turns"
WIDER = "boxes of 256 bytes, all rows"
FLOOR = {
    "weights, boxes of 256 bytes": WIDER,
    "weights, boxes by turns": TURNS,
    "weights, the plan's boxes": floor_texts.PLANS_BOXES,
    "no products": few_rows.NO_PRODUCTS,
    view.VENDOR: view.VENDOR,
}
"""Row of the picture -> contender of the record."""


def least(row: Mapping[str, Any]) -> float:
    """Microseconds, flushed, of the fastest way to read all weights."""
    return min(view.median(row["times"][way], "flushed") for way in row["ways"]
               if way not in (floor_texts.NOTHING, floor_texts.HALF))  # fmt: skip


def floor(recorded: Mapping[str, Any]) -> Picture:
    """Few rows, flushed: reading the weights alone, and what multiplies as well, against it all."""
    ways = len(recorded["shapes"][0]["ways"]) - 2
    fastest = f"weights, fastest of {ways} ways"
    rows: dict[str, dict[str, float]] = {fastest: {}}
    took = []
    for row in recorded["shapes"]:
        shape, times = str(Shape(*row["shape"])), row["times"]
        whole, nothing = (view.median(times[name], "flushed")
                          for name in (few_rows.WHOLE, floor_texts.NOTHING))  # fmt: skip
        took.append(f"{shape}: {whole:.1f} µs, a launch alone {nothing:.1f}")
        rows[fastest][shape] = 100 * (least(row) / whole - 1)
        for what, name in FLOOR.items():
            rows.setdefault(what, {})[shape] = _per_cent(
                times[name], times[few_rows.WHOLE], "flushed"
            )
    trials = [Trial(name, "", more) for name, more in rows.items()]
    return drawn(trials, "Flushed, time against the whole plan; " + "; ".join(took), recorded,
                 "flushed")  # fmt: skip


TWO_STEPS = "2 at a time", "8 rows by 256 bytes", "one box of A for 2 steps"
"""Ways to ask for the boxes of two steps at a time, as in ``grouped``."""


def grouped(recorded: Mapping[str, Any]) -> Picture:
    """Few rows, flushed: the plan, but two steps at a time; slots of the plan's bytes."""
    rows: dict[str, dict[str, float]] = {}
    for row in recorded["shapes"]:
        shape, times = Shape(*row["shape"]), row["times"]
        if shape not in few_rows.PLANS:
            continue
        pairs = few_rows.PLANS[shape].slots // 2  # slots of two steps
        for name in TWO_STEPS:
            known = name if name in times else f"{name}, {pairs} slots"
            rows.setdefault(name, {})[str(shape)] = _per_cent(
                times[known], times["as it is"], "flushed"
            )
    trials = [Trial(name, "", more) for name, more in rows.items()]
    return drawn(trials, "Flushed, time against the whole plan", recorded, "flushed")


def against_cold(record: Mapping[str, Any]) -> Picture:
    """What was tried against cold launches: a row for each change at each shape that had it."""
    squares = [shape for shape in cold.CHANGES if shape.m == shape.n == shape.k]
    meant = {"lines": squares, "turned": [each for each in cold.CHANGES if each not in squares]}
    trials = []
    for what in cold_tables.ROWS:
        expected = cold.EXPECTED[what.rpartition(", ")[2]].partition(":")[0]
        for shape in cold.CHANGES:
            more = cold_tables.changed(record, shape, what)
            if more is not None:
                said = expected if shape in meant.get(what, cold.CHANGES) else ""
                values = {way: 100 * each for way, each in zip(view.WAYS, more, strict=True)}
                trials.append(Trial(f"{what}, {shape}", said, values))
    return drawn(trials, "Time against the fastest plan as it was", record, "flushed")


def _per_cent(times: Mapping[str, Any], base: Mapping[str, Any], way: str) -> float:
    return 100 * (view.median(times, way) / view.median(base, way) - 1)


def zone(expected: str) -> tuple[float, float]:
    """From where to where, in per cent, a warm time was expected.

    >>> zone("a little slower: 16 short gaps"), zone("the same: 16 KB a block")
    ((2.0, inf), (-2.0, 2.0))
    """
    level, far = 100 * LEVEL, float("inf")
    return {"faster": (-far, -level), "slower": (level, far), "the same": (-level, level)}[
        word_of(expected)
    ]


def drawn(
    trials: Sequence[Trial], title: str, record: Mapping[str, Any], way: str = "warm"
) -> Picture:
    """A row for each trial: shaded where its time was expected, if it was; marks where it came out.

    The axis is linear between -10 and 10 per cent, and logarithmic beyond. Marks of a row stand one
    below the other, each with its number at the right; no line of the grid crosses what is read.
    """
    from phasebit.draw.picture import INK, INK_FAINT, INK_MUTED, POINTS, both, figure_of, frame
    from phasebit.draw.plots import SERIES, below
    from phasebit.letters import wrap
    from phasebit.palette import COLOURS

    names = list(dict.fromkeys(name for trial in trials for name in trial.more))
    labels = [trial.name + (f" – {trial.expected}" if trial.expected else "") for trial in trials]
    values = [value for trial in trials for value in trial.more.values()]
    low, high = min(-_LINEAR, *values) * 1.15, max(_LINEAR, *values) * 1.15
    looks = {name: (COLOURS[hue], marker)
             for name, (hue, _, marker) in zip(names, SERIES[1:], strict=False)}  # fmt: skip
    title = f"{title}; {measure.source(dict(record))}"

    def one(narrow: bool) -> Any:
        words = [
            [(line, ink) for text, ink in ((trial.name, INK), (trial.expected, INK_MUTED)) if text
             for line in wrap(text, POINTS[narrow] if narrow else _LABEL, 9)]
            for trial in trials
        ]  # fmt: skip
        bands = [_STEP * max(len(trial.more), 2) for trial in trials]
        heights = [_LINE * len(lines) + band + 10 if narrow else max(_LINE * len(lines), band) + 10
                   for lines, band in zip(words, bands, strict=True)]  # fmt: skip
        total = sum(heights)
        # Points beside the rows: title, axis and its name, names of the marks.
        rest = 13 * len(wrap(title, POINTS[narrow], 10)) + 75 + 14 * len(names)
        figure, axes = figure_of(5.4, (total + rest if narrow else total / 0.77) / 72, narrow)
        axes.set_xscale("symlog", linthresh=_LINEAR, linscale=1)
        ticks = [each for each in (-10, -2, 2, 10, 100) if low <= each <= high]
        marks: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        edges: list[tuple[float, float]] = []
        top = 0.0
        for trial, lines, band, height in zip(trials, words, bands, heights, strict=True):
            middle = top + height - 5 - band / 2 if narrow else top + height / 2
            a, b = middle - band / 2, middle + band / 2
            if trial.expected:
                ends = [min(max(edge, low), high) for edge in zone(trial.expected)]
                axes.fill_betweenx([a, b], *ends, color=COLOURS["blue"], alpha=0.2, linewidth=0)
            edges.append((a, b))
            for at, (line, ink) in enumerate(lines):
                y = (top + 5 + _LINE * (at + 0.5) if narrow
                     else middle + _LINE * (at - (len(lines) - 1) / 2))  # fmt: skip
                axes.annotate(line, (0, y), (0 if narrow else -6, 0), textcoords="offset points",
                              xycoords=axes.get_yaxis_transform(), va="center", color=ink,
                              ha="left" if narrow else "right", fontsize=9)  # fmt: skip
            for at, (name, value) in enumerate(trial.more.items()):
                y = middle + _STEP * (at - (len(trial.more) - 1) / 2)
                marks[name].append((value, y))
                axes.annotate(f"{value:+.1f}%", (1, y), (46, 0), va="center", color=looks[name][0],
                              xycoords=axes.get_yaxis_transform(), ha="right",
                              textcoords="offset points", fontsize=9)  # fmt: skip
            top += height
        for name, found in marks.items():
            hue, marker = looks[name]
            axes.plot(*zip(*found, strict=True), color=hue, marker=marker, linestyle="",
                      markersize=6, label=name)  # fmt: skip
        for places, ink, wide in ((ticks, INK_FAINT, 0.7), ([0], INK_MUTED, 1.2)):
            each = [(place, *edge) for edge in edges for place in places]
            axes.vlines(*zip(*each, strict=True), color=ink, linewidth=wide, zorder=1)
        axes.set_xlim(low, high)
        axes.set_xticks(ticks, [f"{each:+d}%" for each in ticks])
        axes.minorticks_off()
        axes.set_ylim(total, 0)
        axes.set_yticks([])
        if narrow:
            below(figure, axes, names)
        else:
            handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
            axes.legend(handles.values(), handles, frameon=False, labelcolor=INK_MUTED, fontsize=9,
                        loc="upper left", bbox_to_anchor=(0, -45 / total), ncols=2)  # fmt: skip
        said = "shaded: where we expected" if any(each.expected for each in trials) else "change of"
        frame(axes, title, f"{said} the {way} time", narrow=narrow)
        if not narrow:
            axes.set_title("\n".join(wrap(title, _TITLE, 10)), fontsize=10, color=INK, loc="left")
        axes.grid(visible=False)
        return figure

    lines = [f"{label}: " + ", ".join(f"{name} {value:+.1f}%" for name, value in trial.more.items())
             for label, trial in zip(labels, trials, strict=True)]  # fmt: skip
    return both(one, f"{title}.\n" + "\n".join(lines))


__all__ = ["Trial", "against_cold", "drawn", "few", "further", "small", "zone"]
