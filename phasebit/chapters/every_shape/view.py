"""Pictures and tables of *Past the vendor*: tiles on multiprocessors, ratios by shape."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from phasebit import measure
from phasebit.chapters.every_shape import tries, waves
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
    rows = [each[at : at + _ACROSS] for at in range(0, len(each), _ACROSS)]
    return chart(
        rows, rows=[i * _ACROSS for i in range(len(rows))], columns=range(_ACROSS),
        row_label="from", column_label="multiprocessor",
        title=f"{shape} in tiles of {plan.rows // plan.pair} × {plan.bn}: tiles that each "
        f"multiprocessor makes; all of them multiply {share:.0%} of the time",
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


def best(row: Mapping[str, Any], way: str = "warm") -> str:
    """The contender of ours that took least."""
    ours: list[str] = [name for name in row["times"] if name != VENDOR]
    return min(ours, key=lambda name: median(row["times"][name], way))


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
    from phasebit.chapters.every_shape import waves
    from phasebit.chapters.every_shape.choice import choose
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


def shapes_table(record: Mapping[str, Any]) -> measure.Table:
    """Each shape: the fastest plan, cuBLAS's rate, the ratios, the spread of both."""
    rows = []
    for row in record["shapes"]:
        shape = Shape(*row["shape"])
        name = best(row)
        vendor = row["times"][VENDOR]
        rates = " / ".join(
            f"{measure.tflops(shape.flop, median(vendor, way) * 1e-6):.0f}" for way in WAYS
        )
        cells = [f"{ratio(row, name, way):.3f}" for way in WAYS]
        cells += [
            " / ".join(f"{spread(row['times'][who], way):.1%}" for who in (name, VENDOR))
            for way in WAYS
        ]
        rows.append((str(shape), name, rates, *cells))
    return measure.Table(
        ("M × N × K", "fastest plan (warm)", "cuBLAS, TFLOP/s", *WAYS,
         *(f"spread, {way}" for way in WAYS)),
        tuple(rows), "cuBLAS's time over ours; spread: the width of the middle half of the times, "
        f"as a part of the median, ours / cuBLAS; {measure.source(dict(record))}",
    )  # fmt: skip


def by_maker(row: Mapping[str, Any], way: str) -> dict[str, float]:
    """Whose kernel -> cuBLAS's time over that of the fastest of theirs, in the rivals' record."""
    found: dict[str, float] = {}
    for name in row["times"]:
        who = name.partition(":")[0]
        found[who] = max(found.get(who, 0.0), ratio(row, name, way))
    return found


MAKERS = ("ours", "CUTLASS", "DeepGEMM", "fast.cu")


def makers_table(record: Mapping[str, Any]) -> measure.Table:
    """Each shape: the fastest kernel of each maker, warm, as a share of cuBLAS's speed."""
    rows, all_of = [], {who: [] for who in MAKERS}  # type: tuple[list[Any], dict[str, list[float]]]
    for row in record["shapes"]:
        shares = by_maker(row, "warm")
        for who in MAKERS:
            all_of[who] += [shares[who]] if who in shares else []
        rows.append((str(Shape(*row["shape"])),
                     *(f"{shares[who]:.3f}" if who in shares else "–" for who in MAKERS)))
    means = (f"{geomean(all_of[who]):.3f}" for who in MAKERS)
    versions = ", ".join(f"{who} {told}" for who, told in record["versions"].items())
    return measure.Table(
        ("M × N × K", *MAKERS), (*rows, ("geometric mean", *means)),
        f"of cuBLAS's speed, warm; {versions}; {measure.source(dict(record))}",
    )  # fmt: skip


def choices_table(record: Mapping[str, Any]) -> measure.Table:
    """Each shape: what the model chose, what binds it there, how much slower than the fastest."""
    rows = []
    for row in record["shapes"]:
        shape = Shape(*row["shape"])
        fastest, took = best(row), chosen(row)
        lost = median(row["times"][took], "warm") / median(row["times"][fastest], "warm") - 1
        others = len(row["times"]) - 1
        rows.append((str(shape), took, f"{lost:.1%}" if took != fastest else "–", str(others)))
    return measure.Table(
        ("M × N × K", "the model chooses", "slower than the fastest, warm", "plans measured"),
        tuple(rows), measure.source(dict(record)),
    )  # fmt: skip


def tries_table(record: Mapping[str, Any]) -> measure.Table:
    """What was tried at the small square: expected, and what came out."""
    row = record["tries"]
    base = row["times"][tries.BASE]
    rows = []
    for name, each in tries.TRIES.items():
        out = []
        for way in WAYS:
            more = median(row["times"][name], way) / median(base, way) - 1
            out.append(f"{more:+.0%}")
        rows.append((name, each.expected, *out))
    return measure.Table(
        ("tried", "expected", "time warm", "flushed"), tuple(rows),
        f"time against {tries.BASE}, early launch: {Shape(*row['shape'])}; "
        f"{measure.source(dict(record))}",
    )  # fmt: skip


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


def stream_and_whole(row: Mapping[str, Any]) -> list[str]:
    """The fastest plan that cuts tiles along K, and the fastest of those that stay and cut none."""
    names = [name for name in row["times"] if "blocks stay" in name]
    kinds = ([n for n in names if "stream-K" in n], [n for n in names if "stream-K" not in n])
    return [min(kind, key=lambda n: median(row["times"][n], "warm")) for kind in kinds]


def named(shape: Shape) -> str:
    """A shape, and where it comes from."""
    return f"{shape}" + (f": {LAYERS[shape]}" if shape in LAYERS else "")


def rows_table(recorded: Mapping[str, Any]) -> measure.Table:
    """Rows as they are and rows that begin at multiples of 128 bytes: ours and cuBLAS, µs."""
    rows = []
    for row in recorded["rows"]:
        times = row["times"]
        for who, head in (("ours", ""), (VENDOR, f"{VENDOR}, ")):
            named = [name for name in times if name.startswith(VENDOR) == bool(head)]
            cells = [f"{median(times[name], way):.1f}" for way in WAYS for name in named]
            rows.append((str(Shape(*row["shape"])), who, *cells))
    heads = [f"{what}, {way}" for way in WAYS for what in ("as they are", "at multiples of 128")]
    return measure.Table(
        ("M × N × K", "who", *heads), tuple(rows),
        f"µs; where rows of A and B begin; {measure.source(dict(recorded))}",
    )  # fmt: skip


def promotion_table(recorded: Mapping[str, Any]) -> measure.Table:
    """What the tensor maps' promotion of L2 changes, as a part of the time without it.

    Shapes whose rows begin inside lines of the cache have a row each, the others two together.
    """
    _, *others = (name for name in recorded["promotion"][0]["times"] if name != VENDOR)
    changes = {}
    for row in recorded["promotion"]:
        base, *_ = times = row["times"]
        changes[Shape(*row["shape"])] = [
            median(times[name], way) / median(times[base], way) - 1
            for way in WAYS for name in others
        ]  # fmt: skip
    inside = {shape: each for shape, each in changes.items() if 2 * shape.k % 128}
    columns = list(zip(*(each for shape, each in changes.items() if shape not in inside),
                       strict=True))  # fmt: skip
    whole = f"the other {len(changes) - len(inside)}"
    rows = {str(shape): each for shape, each in inside.items()}
    rows |= {f"{whole}, least": [*map(min, columns)], f"{whole}, most": [*map(max, columns)]}
    return measure.Table(
        ("M × N × K", *(f"{name}, {way}" for way in WAYS for name in others)),
        tuple((what, *(f"{each:+.1%}" for each in cells)) for what, cells in rows.items()),
        f"time against a map without promotion; {measure.source(dict(recorded))}",
    )  # fmt: skip


def narrower_table(recorded: Mapping[str, Any]) -> measure.Table:
    """Tiles of other widths at one shape, with and without promotion, against cuBLAS."""
    ours = [name for name in recorded["times"] if name != VENDOR]
    rows = tuple((name, *(f"{ratio(recorded, name, way):.3f}" for way in WAYS)) for name in ours)
    return measure.Table(
        ("plan, and what its tensor maps ask of L2", *WAYS), rows,
        f"cuBLAS's time over ours at {Shape(*recorded['shape'])}; {measure.source(dict(recorded))}",
    )  # fmt: skip
