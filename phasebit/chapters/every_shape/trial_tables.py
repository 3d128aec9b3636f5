"""Tables of *Past the vendor: the trials*: what was expected of a change, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from statistics import quantiles
from typing import Any

from phasebit import measure
from phasebit.chapters.every_shape import plans, shape_tables, tries, view
from phasebit.chapters.every_shape.choice import contenders
from phasebit.chapters.every_shape.plans import Plan
from phasebit.chapters.every_shape.shapes import Shape

LEVEL = 0.02
"""Times that differ by less are called the same."""
EXPECTED = ("faster", "slower", "the same")


def outcomes(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Of each trial: what was expected, and what came of it, warm; words of :data:`EXPECTED`."""
    row = record["tries"]
    base = view.median(row["times"][tries.BASE], "warm")
    for name, each in tries.TRIES.items():
        yield word_of(each.expected), became(view.median(row["times"][name], "warm") / base - 1)
    for tried in tries.FURTHER:
        _, row = _further(record, tried.shape)
        for plan, expected in tried.plans.items():
            yield word_of(expected), became(_more(row, str(plan))[0])


def word_of(expected: str) -> str:
    """The word of :data:`EXPECTED` with which what was expected of the warm time begins.

    >>> word_of("a little slower: 16 short gaps"), word_of("slower warm, the same flushed")
    ('slower', 'slower')
    """
    words = expected.removeprefix("a little ")
    return next(each for each in EXPECTED if words.startswith(each))


def became(more: float) -> str:
    """The same words for a time that is longer by this part.

    >>> became(0.019), became(-0.05)
    ('the same', 'faster')
    """
    return "the same" if abs(more) < LEVEL else "slower" if more > 0 else "faster"


def expectations(record: Mapping[str, Any]) -> measure.Table:
    """How many trials were expected to be faster, slower, the same, and what they were."""
    all_ = [*outcomes(record)]
    rows = [
        (expected, *(f"{all_.count((expected, was))}" for was in EXPECTED)) for expected in EXPECTED
    ]
    true = sum(expected == was for expected, was in all_)
    return measure.Table(
        ("expected", *(f"was {was}" for was in EXPECTED)), tuple(rows),
        f"{len(all_)} trials, warm: {true} as expected; within {LEVEL:.0%} is the same; "
        f"{measure.source(dict(record))}",
    )  # fmt: skip


AS_IT_IS = "as it is"
"""The plan that was meant for a shape, among those that were tried in its place."""


def trials(
    record: Mapping[str, Any], shape: Shape
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """At one of the hardest shapes: warm times in µs by change, and what was expected of each.

    The times have two names more: :data:`AS_IT_IS`, and the vendor's.
    """
    tried, row = _further(record, shape)
    names = {row["base"]: AS_IT_IS, view.VENDOR: view.VENDOR}
    names |= {str(plan): tries.change(plan, tried.base) for plan in tried.plans}
    times = {name: [*row["times"][plan][view.WAYS["warm"]]] for plan, name in names.items()}
    return times, {names[str(plan)]: word_of(said) for plan, said in tried.plans.items()}


def _further(record: Mapping[str, Any], shape: Shape) -> tuple[tries.Tried, dict[str, Any]]:
    tried = next(each for each in tries.FURTHER if each.shape == shape)
    return tried, view.row_of({"shapes": record["further"]}, shape)


def _more(row: Mapping[str, Any], name: str) -> list[float]:
    """How much longer a contender takes than the plan meant for its shape, warm and flushed."""
    base, times = row["times"][row["base"]], row["times"][name]
    return [view.median(times, way) / view.median(base, way) - 1 for way in view.WAYS]


def warm(record: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Shape -> short name of a plan -> its time in µs, warm, in the run with all plans."""
    shapes = {Shape(*row["shape"]): row["all"] for row in record["shapes"]}
    short = {str(plan): plan.short for shape in shapes for plan in contenders(shape)}
    return {
        str(shape): {short.get(name, name): view.median(times, "warm")
                     for name, times in all_.items() if name != view.VENDOR}
        for shape, all_ in shapes.items()
    }  # fmt: skip


POLICIES = Plan(plans.WEIGHTS, 2, 112, 7), Plan(plans.EARLY, 2, 112, 7)
"""The same tiles at 128 × 14336 × 4096, with policies for the copies and without."""


def policies(record: Mapping[str, Any]) -> measure.Table:
    """What policies for the copies change where rows are few, flushed: middle halves, too."""
    shape = shape_tables.FEW[-1]
    times = view.row_of(record, shape)["all"]
    rows = []
    for plan in POLICIES:
        low, middle, high = quantiles(times[str(plan)][view.WAYS["flushed"]], n=4)
        rows.append((plan.short, f"{middle:.1f}", f"{low:.1f} to {high:.1f}"))
    return measure.Table(
        (f"{shape}", "µs, flushed", "middle half"), tuple(rows),
        f"of the run with all plans; {measure.source(dict(record))}",
    )  # fmt: skip


def took(
    record: Mapping[str, Any], times: Mapping[str, Any], some: Iterable[Plan]
) -> measure.Table:
    """Some plans of one run, warm."""
    return measure.Table(
        ("plan", "µs, warm"),
        tuple((plan.short, f"{view.median(times[str(plan)], 'warm'):.0f}") for plan in some),
        f"of one run; {measure.source(dict(record))}",
    )


def promotion(recorded: Mapping[str, Any]) -> str:
    """What the tensor maps' promotion of L2 changes, as a part of the time without it.

    The shapes whose rows begin inside lines of the cache stand apart from the others.
    """
    found: dict[str, list[float]] = {}
    for row in recorded["promotion"]:
        base, *others = (name for name in row["times"] if name != view.VENDOR)
        inside = 2 * Shape(*row["shape"]).k % 128
        for name in others:
            key = f"{name}, rows that begin {'inside' if inside else 'at'} lines"
            found.setdefault(key, []).extend(
                view.median(row["times"][name], way) / view.median(row["times"][base], way) - 1
                for way in view.WAYS
            )
    return "\n".join(f"{key}: {min(each):+.1%} to {max(each):+.1%}"
                     for key, each in sorted(found.items()))  # fmt: skip


def narrower(recorded: Mapping[str, Any], narrow: Plan, wide: Plan) -> str:
    """Two widths of tiles at one shape, warm and flushed, and what promotion does to either."""
    times = recorded["times"]
    base = times[f"{wide} NONE"]
    lines = []
    for plan in (narrow, wide):
        for promoted in ("NONE", "L2_256B"):
            each = times[f"{plan} {promoted}"]
            more = ", ".join(f"{way} {view.median(each, way) / view.median(base, way) - 1:+.1%}"
                             for way in view.WAYS)  # fmt: skip
            lines.append(f"{plan.short}, promotion {promoted}: {more}")
    return "\n".join(lines)
