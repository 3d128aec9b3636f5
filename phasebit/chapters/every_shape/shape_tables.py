"""Tables of *Past the vendor* that set times of its record beside each other, chosen by subject."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import quantiles
from typing import Any

from phasebit import measure
from phasebit.chapters.every_shape import plans, view, waves
from phasebit.chapters.every_shape.choice import PAIRS_EVERYWHERE
from phasebit.chapters.every_shape.plans import Plan
from phasebit.chapters.every_shape.shapes import Shape

EARLY, LATE = Plan(plans.EARLY, 1, 128, 8), Plan(plans.SMALL, 1, 128, 8)
"""Tiles of 64 × 128 with an early launch, and the same without."""
OTHERS = (Shape(256, 4096, 14336), Shape(64, 10240, 8192), Shape(16, 14336, 4096),
          Shape(128, 14336, 4096))  # fmt: skip
FEW = (Shape(16, 14336, 4096), Shape(64, 10240, 8192), Shape(128, 14336, 4096))


def early(record: Mapping[str, Any], *shapes: Shape) -> measure.Table:
    """What an early launch changes, warm, in tiles of 64 × 128."""
    rows = []
    for shape in shapes:
        times = view.row_of(record, shape)["all"]
        with_it, without = (view.median(times[str(plan)], "warm") for plan in (EARLY, LATE))
        rows.append((str(shape), f"{EARLY.tiles(shape)}", f"{without:.2f}", f"{with_it:.2f}",
                     f"{with_it / without - 1:+.0%}",
                     f"{view.median(times[view.VENDOR], 'warm'):.2f}"))  # fmt: skip
    return measure.Table(
        ("M × N × K", "blocks", "not early", "early", "changes", view.VENDOR), tuple(rows),
        f"µs, warm, tiles of 64 × 128; {measure.source(dict(record))}",
    )  # fmt: skip


def few_rows(record: Mapping[str, Any]) -> measure.Table:
    """The fastest plans where rows are few, flushed: beside memory's own time and cuBLAS."""
    rows = []
    for shape in FEW:
        row = view.row_of(record, shape)
        name = view.best(row)
        floor = shape.bytes / waves.H200.memory * 1e-6
        rows.append((str(shape), view.short(shape, name), f"{floor:.1f}",
                     f"{view.median(row['times'][name], 'flushed'):.1f}",
                     f"{view.median(row['times'][view.VENDOR], 'flushed'):.1f}"))  # fmt: skip
    return measure.Table(
        ("M × N × K", "fastest plan", f"at {waves.H200.memory} TB/s", "ours", view.VENDOR),
        tuple(rows), f"µs, flushed; {measure.source(dict(record))}",
    )  # fmt: skip


def exchanged(record: Mapping[str, Any]) -> measure.Table:
    """16 rows of A: as 64 rows of a tile, three quarters of them padding, and as its 16 columns."""
    shape = FEW[0]
    times = view.row_of(record, shape)["all"]
    rows = tuple(
        (plan.short, *(f"{view.median(times[str(plan)], way):.1f}" for way in view.WAYS))
        for plan in (LATE, EARLY, Plan(plans.FEW, 2, 16, 6))
    )
    return measure.Table(
        (str(shape), *view.WAYS), rows, f"µs, of one run; {measure.source(dict(record))}"
    )


def sharing(record: Mapping[str, Any], *shapes: Shape) -> measure.Table:
    """Tiles of 64 × 128 by blocks alone, pairs and fours: modelled copies, measured times."""
    kinds = {
        "alone": EARLY,
        "pairs": Plan(plans.PAIRS, 1, 128, 7, pair=2),
        "fours": Plan(plans.PAIRS, 1, 128, 7, pair=4),
    }
    rows = []
    for shape in shapes:
        times = view.row_of(record, shape)["all"]
        for what, plan in kinds.items():
            rows.append((str(shape), what, f"{waves.copies_clocks(plan, shape):.0f}",
                         f"{view.median(times[str(plan)], 'warm'):.2f}"))  # fmt: skip
    return measure.Table(
        ("M × N × K", "blocks", "copies of a step, clocks of the model", "µs, warm"), tuple(rows),
        measure.source(dict(record)),
    )  # fmt: skip


def without_parts(record: Mapping[str, Any], *shapes: Shape) -> measure.Table:
    """The kernel whole, without its copies, without its products."""
    names = ("whole", "no copies", "no products")
    rows = []
    for shape in shapes:
        times = view.row_of({"shapes": record["parts"]}, shape)["times"]
        rows.append((str(shape), *(f"{view.median(times[name], 'warm'):.2f}" for name in names)))
    return measure.Table(
        ("M × N × K", *names), tuple(rows),
        f"µs, warm, blocks alone; {measure.source(dict(record))}",
    )  # fmt: skip


def any_size(record: Mapping[str, Any]) -> measure.Table:
    """Sizes of which the copy engine takes no rows: with a copy, rounded up, cuBLAS."""
    rows = tuple(
        (str(Shape(*row["shape"])), name, *(f"{view.median(times, way):.1f}" for way in view.WAYS))
        for row in record["any"]
        for name, times in row["times"].items()
    )
    return measure.Table(
        ("M × N × K", "who", "µs, warm", "flushed"), rows, measure.source(dict(record))
    )


def decided(record: Mapping[str, Any], way: str) -> dict[str, list[Shape]]:
    """Where the middle halves of our fastest plan's times and cuBLAS's are apart, and who leads."""
    found: dict[str, list[Shape]] = {"ours": [], view.VENDOR: []}
    for row in record["shapes"]:
        ours, vendor = (quantiles(row["times"][name][view.WAYS[way]], n=4)
                        for name in (view.best(row), view.VENDOR))  # fmt: skip
        if ours[2] < vendor[0]:
            found["ours"].append(Shape(*row["shape"]))
        elif vendor[2] < ours[0]:
            found[view.VENDOR].append(Shape(*row["shape"]))
    return found


def summaries(record: Mapping[str, Any]) -> measure.Table:
    """Geometric mean and least of cuBLAS's time over ours, of three ways to choose a plan."""
    choosers = {
        "the fastest plan": view.best,
        "the model's": view.chosen,
        "pairs of 128 × 256 everywhere": lambda row: str(PAIRS_EVERYWHERE),
    }
    rows = []
    for who, name in choosers.items():
        said = view.summary(record, name)
        rows.append((who, *(f"{said[f'{way}, {what}']:.3f}" for way in view.WAYS
                            for what in ("geometric mean", "least"))))  # fmt: skip
    sure = []
    for way in view.WAYS:
        by = decided(record, way)
        led = ", ".join(str(shape) for shape in by[view.VENDOR])
        sure.append(f"{way}: ours ahead at {len(by['ours'])}, {view.VENDOR} at "
                    f"{len(by[view.VENDOR])}" + (f" ({led})" if led else ""))  # fmt: skip
    return measure.Table(
        ("plan", "warm: mean", "least", "flushed: mean", "least "),
        tuple(rows), f"{view.VENDOR}'s time over ours, geometric mean and least; middle halves "
        f"apart, fastest plan, of {len(record['shapes'])} shapes: "
        f"{'; '.join(sure)}; {measure.source(dict(record))}",
    )  # fmt: skip


def ahead(record: Mapping[str, Any]) -> str:
    """Where another maker's kernel is faster than ours, warm, in the rivals' record."""
    lines = []
    for row in record["shapes"]:
        shares = view.by_maker(row, "warm")
        for who in sorted(shares.keys() - {"ours", view.VENDOR}):
            if shares[who] > shares["ours"]:
                by = shares[who] / shares["ours"] - 1
                lines.append(f"{who} is ahead of ours at {Shape(*row['shape'])}, by {by:.1%}")
    return "\n".join(lines)


def rates_of_makers(record: Mapping[str, Any]) -> str:
    """The geometric mean of each maker's shares of cuBLAS's speed over its shapes, warm."""
    shares = [view.by_maker(row, "warm") for row in record["shapes"]]
    means = {who: [each[who] for each in shares if who in each] for who in view.MAKERS}
    return "geometric means: " + ", ".join(
        f"{who} {view.geomean(each):.3f}" for who, each in means.items() if each
    )
