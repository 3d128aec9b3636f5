"""Tables of *Past the vendor* that set times of its record beside each other, chosen by subject."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

from phasebit import measure
from phasebit.chapters.every_shape import plans, processes, view, waves
from phasebit.chapters.every_shape.choice import PAIRS_EVERYWHERE
from phasebit.chapters.every_shape.plans import Plan
from phasebit.chapters.every_shape.shapes import Shape

if TYPE_CHECKING:
    from phasebit.draw import Picture

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


def sharing(record: Mapping[str, Any], *shapes: Shape) -> Picture:
    """Tiles of 64 × 128 by blocks alone, pairs and fours: modelled copies, measured times.

    Both against a block alone at the first of the shapes.
    """
    from phasebit.draw import dots

    kinds = {
        "alone": EARLY,
        "pairs": Plan(plans.PAIRS, 1, 128, 7, pair=2),
        "fours": Plan(plans.PAIRS, 1, 128, 7, pair=4),
    }
    found = {
        f"{shape}, {what}": (waves.copies_clocks(plan, shape),
                             view.median(view.row_of(record, shape)["all"][str(plan)], "warm"))
        for shape in shapes for what, plan in kinds.items()
    }  # fmt: skip
    clocks, us = next(iter(found.values()))
    return dots(
        {f"{name}: {took:.2f} µs": {"copies, by the model": asked / clocks, "time": took / us}
         for name, (asked, took) in found.items()},
        x_label=f"against {next(iter(found))}", line=1,
        title=f"Copies of a step by the model, and the time, warm; {measure.source(dict(record))}",
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


def lead(row: Mapping[str, Any], ours: str, way: str) -> str:
    """Who leads: "ours" or the vendor where the middle halves of their times are apart, or ""."""
    mine, theirs = (quantiles(row["times"][name][view.WAYS[way]], n=4)
                    for name in (ours, view.VENDOR))  # fmt: skip
    return "ours" if mine[2] < theirs[0] else view.VENDOR if theirs[2] < mine[0] else ""


def leads(
    record: Mapping[str, Any], found: Mapping[str, Any], way: str
) -> dict[Shape, tuple[str, ...]]:
    """Who leads at each shape: in the record with all plans, then in each further process."""
    said = {}
    for row in record["shapes"]:
        anew = (each for run in found["processes"] for each in run if each["shape"] == row["shape"])
        said[Shape(*row["shape"])] = tuple(lead(each, view.best(row), way) for each in (row, *anew))
    return said


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
    return measure.Table(
        ("plan", "warm: mean", "least", "flushed: mean", "least "),
        tuple(rows), f"{view.VENDOR}'s time over ours, geometric mean and least of "
        f"{len(record['shapes'])} shapes; {measure.source(dict(record))}",
    )  # fmt: skip


def anew(record: Mapping[str, Any], found: Mapping[str, Any], count: int = 3) -> measure.Table:
    """The fastest plans beside the vendor: in the record with all plans, and in further processes.

    Shown are the aims, the ``count`` shapes that differ most between the further processes, and
    those at which the record and such a process name different leaders.
    """
    runs = found["processes"]
    ratios: dict[str, dict[Shape, list[float]]] = {
        way: {Shape(*rows[0]["shape"]): [processes.ratio(row, name) for row in rows]
              for rows in zip(*runs, strict=True)}
        for way, name in view.WAYS.items()
    }  # fmt: skip
    shapes = list(ratios["warm"])
    vary = sorted(shapes, key=lambda shape: -max(
        max(each[shape]) - min(each[shape]) for each in ratios.values()))  # fmt: skip
    by = {way: leads(record, found, way) for way in view.WAYS}
    turned = [shape for shape in shapes
              if any({"ours", view.VENDOR} <= set(said[shape]) and said[shape][0]
                     for said in by.values())]  # fmt: skip

    def cells(before: float, after: list[float]) -> tuple[str, str]:
        return f"{before:.3f}", f"{median(after):.3f} ({min(after):.3f} to {max(after):.3f})"

    best = view.summary(record)
    by_run = {way: list(zip(*of.values(), strict=True)) for way, of in ratios.items()}
    over: dict[str, Any] = {"geometric mean": view.geomean, "least": min}
    rows = [
        (what, *(cell for way, of in by_run.items() for cell in cells(
            best[f"{way}, {what}"], [take(run) for run in of])))
        for what, take in over.items()
    ]  # fmt: skip
    for shape in dict.fromkeys((*vary[:count], *turned)):
        row = view.row_of(record, shape)
        rows.append((str(shape), *(cell for way in view.WAYS for cell in cells(
            view.ratio(row, view.best(row), way), ratios[way][shape]))))  # fmt: skip
    sure = []
    for way, said in by.items():
        always = {who: [shape for shape, each in said.items() if set(each) == {who}]
                  for who in ("ours", view.VENDOR)}  # fmt: skip
        led = ", ".join(str(shape) for shape in always[view.VENDOR])
        sure.append(f"{way} ours at {len(always['ours'])}, {view.VENDOR} at "
                    f"{len(always[view.VENDOR])}" + (f" ({led})" if led else ""))  # fmt: skip
    return measure.Table(
        ("", "warm: above", "anew", "flushed: above", "anew "), tuple(rows),
        f"{view.VENDOR}'s time over ours; anew: the median of {len(runs)} processes (least to "
        f"greatest); ahead above and in all {len(runs)}, by middle halves: {'; '.join(sure)}; "
        f"{measure.source(dict(found))}",
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
