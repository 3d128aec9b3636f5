"""Pictures of *Past the vendor: the trials*: what was expected of each change, what came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from phasebit import measure
from phasebit.chapters.every_shape import tries, view
from phasebit.chapters.every_shape.shapes import Shape
from phasebit.chapters.every_shape.trial_tables import LEVEL, word_of

if TYPE_CHECKING:
    from phasebit.draw import Picture

_LINEAR = 10
"""Per cent to both sides of 0 that have as much room as the next ten times."""


class Trial(NamedTuple):
    """A row of a picture."""

    name: str
    expected: str
    """As it was written down; "" for the vendor, of whom nothing was expected."""
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


def drawn(trials: Sequence[Trial], title: str, record: Mapping[str, Any]) -> Picture:
    """A row for each trial: shaded where its warm time was expected, a mark where each came out.

    The axis is linear between -10 and 10 per cent, and logarithmic beyond.
    """
    from phasebit.draw.picture import INK_FAINT, INK_MUTED, both, figure_of, frame
    from phasebit.draw.plots import SERIES, below
    from phasebit.draw.row_plots import named_rows
    from phasebit.palette import COLOURS

    names = list(dict.fromkeys(name for trial in trials for name in trial.more))
    labels = [trial.name + (f" – {trial.expected}" if trial.expected else "") for trial in trials]
    values = [value for trial in trials for value in trial.more.values()]
    low, high = min(-_LINEAR, *values) * 1.15, max(_LINEAR, *values) * 1.15

    def high_of(narrow: bool) -> float:  # inches
        return 2.4 + 0.6 * len(trials) if narrow else 1 + 0.5 * len(trials)

    def one(narrow: bool) -> Any:
        figure, axes = figure_of(5.4, high_of(narrow), narrow)
        axes.set_xscale("symlog", linthresh=_LINEAR, linscale=1)
        down = 0.22 * narrow
        for at, trial in enumerate(trials):
            if trial.expected:
                a, b = (min(max(edge, low), high) for edge in zone(trial.expected))
                axes.barh(at + down, b - a, left=a, height=0.42 if narrow else 0.74,
                          color=COLOURS["blue"], alpha=0.2)  # fmt: skip
        axes.axvline(0, color=INK_MUTED, linewidth=1.2)
        for name, (hue, _, marker) in zip(names, (SERIES[1], SERIES[2], *SERIES[3:]), strict=False):
            found = [(trial.more[name], at + down) for at, trial in enumerate(trials)
                     if name in trial.more]  # fmt: skip
            axes.plot(*zip(*found, strict=True), color=COLOURS[hue], marker=marker, linestyle="",
                      markersize=6, label=name)  # fmt: skip
        ticks = [each for each in (-10, -2, 2, 10, 100) if low <= each <= high]
        axes.set_xlim(low, high)
        axes.set_xticks(ticks, [f"{each:+d}%" for each in ticks])
        axes.minorticks_off()
        axes.set_ylim(len(trials) - 0.5, -0.5 - 0.3 * narrow)
        named_rows(axes, labels, narrow)
        for label in axes.get_yticklabels():
            label.set_multialignment("left")  # the page's letters have other widths
        below(figure, axes, names) if narrow else axes.legend(
            frameon=False, labelcolor=INK_MUTED, fontsize=9, loc="upper left",
            bbox_to_anchor=(0, -0.7 / high_of(narrow)), ncols=2,
        )  # fmt: skip
        frame(axes, title, "shaded: where we expected the warm time", narrow=narrow)
        axes.grid(axis="x", color=INK_FAINT)
        return figure

    lines = [f"{label}: " + ", ".join(f"{name} {value:+.1f}%" for name, value in trial.more.items())
             for label, trial in zip(labels, trials, strict=True)]  # fmt: skip
    title = f"{title}; {measure.source(dict(record))}"
    return both(one, f"{title}.\n" + "\n".join(lines))


__all__ = ["Trial", "drawn", "further", "small", "zone"]
