"""Pictures and tables of *Past the vendor*: tiles on multiprocessors, ratios by shape."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from phasebit import measure
from phasebit.chapters.every_shape import tries, waves
from phasebit.chapters.every_shape.choice import choose, contenders
from phasebit.chapters.every_shape.plans import Plan
from phasebit.chapters.every_shape.shapes import LAYERS, Shape

if TYPE_CHECKING:
    from phasebit.draw import Picture

VENDOR = "cuBLAS"
WAYS = {"warm": "warm_us", "flushed": "flushed_us"}
_ACROSS = 22  # multiprocessors in a row of the picture


def on_multiprocessors(plan: Plan, shape: Shape) -> Picture:
    """How many tiles each multiprocessor makes: a cell each, 132 of an H200."""
    from phasebit.draw import Cell, chart

    walk = waves.walk(plan, shape)
    units = waves.H200.multiprocessors
    each: list[Cell | None] = [None] * (-(-units // _ACROSS) * _ACROSS)
    for unit in range(units):
        worker = unit // plan.pair
        steps = walk.length(worker) if worker < walk.workers else 0
        tiles = steps / walk.steps
        each[unit] = Cell(f"{tiles:.2g}" if steps else "·", "blue" if steps else "grey")
    share = walk.busy * min(1, walk.workers * plan.pair / units)
    kind = {1: "tiles", 2: "pairs", 4: "fours"}[plan.pair]
    rows = [each[at : at + _ACROSS] for at in range(0, len(each), _ACROSS)]
    return chart(
        rows, rows=[i * _ACROSS for i in range(len(rows))], columns=range(_ACROSS),
        row_label="first of the row", column_label="multiprocessor",
        title=f"{shape} in {kind} of {plan.rows // plan.pair} × {plan.bn}: how many each "
        f"multiprocessor makes; on average it is busy {share:.0%} of the time",
    )  # fmt: skip


def median(times: Mapping[str, Sequence[float]], way: str) -> float:
    """Microseconds of a contender, ``warm`` or ``flushed``."""
    return float(statistics.median(times[WAYS[way]]))


def spread(times: Mapping[str, Sequence[float]], way: str) -> float:
    """The width of the middle half of a contender's times, as a part of their median."""
    return measure.summary(times[WAYS[way]]).spread


def ratio(row: Mapping[str, Any], name: str, way: str) -> float:
    """The vendor's time over that of a contender: above 1 it is faster than the vendor."""
    return median(row["times"][VENDOR], way) / median(row["times"][name], way)


def row_of(record: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """The row of a shape."""
    found: dict[str, Any] = next(r for r in record["shapes"] if tuple(r["shape"]) == tuple(shape))
    return found


def best(row: Mapping[str, Any]) -> str:
    """The plan that was fastest where all were timed; its own times are of the run after that."""
    return str(row["fastest"])


def geomean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(statistics.fmean(map(math.log, values)))


def summary(record: Mapping[str, Any], name: Any = best) -> dict[str, float]:
    """Geometric mean and least of the ratios, warm and flushed; ``name`` picks the contender."""
    found = {}
    for way in WAYS:
        all_ = [ratio(row, name(row), way) for row in record["shapes"]]
        found[f"{way}, geometric mean"] = geomean(all_)
        found[f"{way}, least"] = min(all_)
    return found


def chosen(row: Mapping[str, Any]) -> str:
    """The contender that the model chose."""
    return str(row["chosen"])


def ratios(record: Mapping[str, Any], name: Any = best) -> Picture:
    """The vendor's time over ours at every shape, warm and flushed."""
    from phasebit.draw import dots

    rows = sorted(record["shapes"], key=lambda row: Shape(*row["shape"]).flop)
    return dots(
        {str(Shape(*row["shape"])): {way: ratio(row, name(row), way) for way in WAYS}
         for row in rows},
        x_label="above 1: faster than cuBLAS", line=1,
        title=f"cuBLAS's time over ours, by shape; {measure.source(dict(record))}",
    )  # fmt: skip


def modelled(record: Mapping[str, Any]) -> Picture:
    """The model's time over the measured one, warm, of the plan that it chose, at every shape."""
    from phasebit.draw import dots

    found = {}
    for row in sorted(record["shapes"], key=lambda row: Shape(*row["shape"]).flop):
        shape = Shape(*row["shape"])
        said = waves.estimate(choose(shape), shape)
        took = median(row["times"][chosen(row)], "warm")
        found[str(shape)] = {f"{said.binds} bind{'s' * (said.binds == 'memory')}": said.us / took}
    return dots(
        found, x_label="the model's time / measured", line=1,
        title=f"The plan that the model chooses, warm; {measure.source(dict(record))}",
    )  # fmt: skip


def short(shape: Shape, name: str) -> str:
    """The short name of a plan that was timed at a shape; the vendor keeps its own."""
    return {str(plan): plan.short for plan in contenders(shape)}.get(name, name)


def results_table(record: Mapping[str, Any]) -> measure.Table:
    """Each shape: cuBLAS's rate, the fastest plan beside it, the model's choice beside that.

    First those where the model's choice takes most longer than the fastest plan, warm.
    """
    rows = []

    def longer(row: Mapping[str, Any]) -> float:
        times = row["times"]
        return median(times[chosen(row)], "warm") / median(times[best(row)], "warm") - 1

    for row in sorted(record["shapes"], key=longer, reverse=True):
        shape = Shape(*row["shape"])
        fastest, took = best(row), chosen(row)
        rates = " / ".join(
            f"{measure.tflops(shape.flop, median(row['times'][VENDOR], way) * 1e-6):.0f}"
            for way in WAYS
        )
        model = ("the same", "")
        if took != fastest:
            model = short(shape, took), f"{longer(row):+.1%}"
        rows.append(
            (str(shape), rates, short(shape, fastest),
             *(f"{ratio(row, fastest, way):.3f}" for way in WAYS), *model, str(len(row["all"]) - 1))
        )  # fmt: skip
    widest = "; ".join(
        f"{way} {max(spread(row['times'][best(row)], way) for row in record['shapes']):.1%} ours, "
        f"{max(spread(row['times'][VENDOR], way) for row in record['shapes']):.1%} {VENDOR}'s"
        for way in WAYS
    )
    return measure.Table(
        ("M × N × K", f"{VENDOR}, TFLOP/s", "fastest plan", *WAYS, "the model's", "its time",
         "plans"),
        tuple(rows), f"{VENDOR}'s time over ours; its time: against the fastest plan, warm; "
        f"widest middle half of the times, as a part of their median: {widest}; "
        f"{measure.source(dict(record))}",
    )  # fmt: skip


def by_maker(row: Mapping[str, Any], way: str) -> dict[str, float]:
    """Whose kernel -> cuBLAS's time over that of the fastest of theirs, in the rivals' record."""
    found: dict[str, float] = {}
    for name in row["times"]:
        who = name.partition(":")[0]
        found[who] = max(found.get(who, 0.0), ratio(row, name, way))
    return found


MAKERS = ("ours", "CUTLASS", "DeepGEMM", "fast.cu")


def makers(record: Mapping[str, Any]) -> Picture:
    """Each shape: the fastest kernel of each maker, warm, as a share of cuBLAS's speed."""
    from phasebit.draw import dots

    found = {}
    for row in record["shapes"]:
        shares = by_maker(row, "warm")
        found[str(Shape(*row["shape"]))] = {who: shares[who] for who in MAKERS if who in shares}
    versions = ", ".join(f"{who} {told.partition(', SHA')[0]}"  # the record has the checksum
                         for who, told in record["versions"].items())  # fmt: skip
    return dots(
        found, x_label="above 1: faster than cuBLAS, warm", line=1,
        show=lambda share: f"{float(share):.3f}",
        title=f"cuBLAS's time over that of each maker's fastest kernel; {versions}; "
        f"{measure.source(dict(record))}",
    )  # fmt: skip


def majors(record: Mapping[str, Any]) -> str:
    """How far apart the four ways lie in which A and B can be given, of ours and of cuBLAS's."""
    times = record["majors"]["times"]
    said = []
    for who in ("ours", VENDOR):
        names = [name for name in times if name.startswith(VENDOR) == (who == VENDOR)]
        for way in WAYS:
            each = [median(times[name], way) for name in names]
            said.append(f"{who}, {way}: {min(each):.1f} to {max(each):.1f} µs")
    shape = Shape(*record["majors"]["shape"])
    return "\n".join((f"{shape}, {len(times) // 2} layouts of A and B", *said))


def parts(record: Mapping[str, Any], shape: Shape) -> Picture:
    """A kernel without some of its work, warm."""
    from phasebit import draw

    row = next(row for row in record["parts"] if tuple(row["shape"]) == tuple(shape))
    values = {name: median(row["times"][name], "warm") for name in tries.PARTS}
    return draw.bars(
        values, x_label="microseconds a launch, warm",
        title=f"{shape}, {tries.BASE}: what remains without some of the work",
        hues={"whole": "orange"}, show=lambda us: f"{us:.2f}",
    )  # fmt: skip


def named(shape: Shape) -> str:
    """A shape, and where it comes from."""
    return f"{shape}" + (f": {LAYERS[shape]}" if shape in LAYERS else "")


def rows_drawn(recorded: Mapping[str, Any]) -> Picture:
    """Rows as they are and rows that begin at multiples of 128 bytes: ours and cuBLAS."""
    from phasebit.draw import dots

    found = {}
    for row in recorded["rows"]:
        times = row["times"]
        named = {who: [name for name in times if name.startswith(VENDOR) == (who == VENDOR)]
                 for who in ("ours", VENDOR)}  # fmt: skip
        for who, (as_it_is, at_lines) in named.items():
            us = median(times[as_it_is], "warm")
            found[f"{Shape(*row['shape'])}, {who}: {us:.1f} µs"] = {
                f"{what}, {way}": median(times[name], way) / median(times[named[VENDOR][0]], way)
                for way in WAYS
                for what, name in (("as they are", as_it_is), ("at multiples of 128", at_lines))
            }
    return dots(
        found, x_label=f"time / that of {VENDOR} with rows as they are", line=1,
        title="Where rows of A and B begin; behind each name its time with rows as they are, "
        f"warm; {measure.source(dict(recorded))}",
    )  # fmt: skip
