"""Tables and pictures of *The order of blocks*: the model beside what an H200 counted and took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from phasebit import draw, measure
from phasebit.chapters.block_order import orders
from phasebit.chapters.block_order.block_order_times import (
    ASKED,
    DRAM,
    DRAM_WRITTEN,
    FABRIC,
    HIT,
    LOOKUPS,
    TILE,
    compared,
)
from phasebit.chapters.block_order.neighbours import APART, DEALT, FIXED, FOUR, HOLD, OWN, PAIRS
from phasebit.draw import Cell, Picture
from phasebit.draw.picture import INK, INK_MUTED, both, figure_of
from phasebit.draw.plots import fill
from phasebit.palette import COLOURS

Entry = dict[str, Any]
"""One shape of the record: its orders, their counters and their times."""
LOT, FIRST, VENDOR = "drawn by lot", "row by row", "cuBLAS"
ROUNDS = 4
"""Turns of each contender without rest."""
NEAR = 0.1
"""How far a prediction may be from a count."""
LATE = (0, 50, 100, 200, 400, 800)
"""Nanoseconds by which the second of a pair is late, as far as they are shown."""
HELD_IN = "super-rows of 16"
"""Order of the blocks whose neighbours were held."""
READS = {
    "with none": APART,
    "with one neighbour": PAIRS,
    "what the product shares": OWN,
    "four tiles with all": FOUR,
}
"""What a block shares, in words -> the name of its table in the record."""


def numbered(
    order: orders.Order, rows: int, columns: int, title: str, running: int = 24
) -> Picture:
    """The tiles of C, each with the number of its block; the first ``running`` are coloured."""
    cells: list[list[Cell | None]] = [[None] * columns for _ in range(rows)]
    for number, (row, column) in enumerate(order):
        cells[row][column] = Cell(str(number), "orange" if number < running else "grey")
    return draw.chart(
        cells, rows=range(rows), columns=range(columns), row_label="row of blocks",
        column_label="column of blocks (cells: the block's number)", title=title,
        legend={"orange": f"the first {running}, which run together"},
    )  # fmt: skip


def waves(record: Entry, entry: Entry, names: tuple[str, ...]) -> Picture:
    """The first wave of some orders on the tiles of C, and what of A and of B it needs.

    C is drawn to scale. Bands left of it are the rows of A that a block of the wave needs, bands
    above it the columns of B.
    """
    from matplotlib.patches import PathPatch, Rectangle
    from matplotlib.path import Path
    from matplotlib.transforms import Affine2D

    m, n, _ = entry["shape"]
    rows, columns = m // TILE[0], n // TILE[1]
    tables = compared(rows, columns)
    high, wide, band, step = 1 / rows, 1 / columns, 0.07, 1.3
    of = {name: tables[name][: record["multiprocessors"]] for name in names}
    sides = {name: tuple({block[side] for block in wave} for side in (0, 1))
             for name, wave in of.items()}  # fmt: skip

    def drawn(narrow: bool) -> Any:
        """Side by side; in a narrow figure one below the other."""
        count = len(names)
        if narrow:
            figure, axes = figure_of(0, 2.0 * count, narrow)
            axes.set_xlim(-0.14, 2.0)
            axes.set_ylim(1.32 * count - 0.3, -0.3)
        else:
            figure, axes = figure_of(2.2 * count, 2.5)
            axes.set_xlim(-0.14, step * (count - 1) + 1.02)
            axes.set_ylim(1.02, -0.3)
        axes.set_axis_off()
        axes.set_aspect("equal")

        def areas(
            corners: Iterable[tuple[float, float]], width: float, height: float, hue: str
        ) -> None:
            one = Path.unit_rectangle().transformed(Affine2D().scale(width, height))
            each = (one.transformed(Affine2D().translate(*corner)) for corner in corners)
            axes.add_patch(PathPatch(Path.make_compound_path(*each), facecolor=COLOURS[hue], lw=0))

        for place, name in enumerate(names):
            left, top = (0.0, 1.32 * place) if narrow else (place * step, 0.0)
            of_a, of_b = sides[name]
            areas(((left + column * wide, top + row * high) for row, column in of[name]),
                  wide, high, "orange")  # fmt: skip
            areas(((left - band - 0.03, top + row * high) for row in sorted(of_a)), band, high,
                  "blue")  # fmt: skip
            areas(((left + column * wide, top - band - 0.03) for column in sorted(of_b)), wide,
                  band, "green")  # fmt: skip
            axes.add_patch(Rectangle((left, top), 1, 1, fill=False, edgecolor=INK_MUTED,
                                     linewidth=0.8))  # fmt: skip
            told = f"{len(of_a)} rows, {len(of_b)} columns"
            if narrow:
                axes.text(1.06, top + 0.12, name, color=INK, fontsize=9)
                axes.text(1.06, top + 0.26, fill(told, 110), color=INK_MUTED, fontsize=9, va="top")
            else:
                axes.text(left, -0.24, name, color=INK, fontsize=9)
                axes.text(left, -0.12, told, color=INK_MUTED, fontsize=9)
        return figure

    said = [f"{name}: {len(wave)} tiles in {len(sides[name][0])} rows and {len(sides[name][1])} "
            "columns" for name, wave in of.items()]  # fmt: skip
    title = (
        f"The first wave on the {rows} × {columns} tiles of C; left the rows of A that it needs, "
        "above the columns of B"
    )
    return both(drawn, f"{title}.\n" + "\n".join(said))


def play(record: Entry, entry: Entry, **changed: Any) -> dict[str, orders.Shared]:
    """The model of each order of a shape; ``changed`` are arguments of :func:`orders.shared`."""
    m, n, k = entry["shape"]
    facts = {"resident": record["multiprocessors"], "cache": record["l2_bytes"]} | changed
    tables = compared(m // TILE[0], n // TILE[1])
    return {
        row["order"]: orders.shared(tables[row["order"]], k, TILE, **facts) for row in entry["rows"]
    }


def read(row: Entry) -> float:
    """Bytes that an order read from memory, as the H200 counted them."""
    return float(row[DRAM])


def moved(row: Entry) -> float:
    """Bytes that an order read from memory and wrote to it."""
    return float(row[DRAM] + row[DRAM_WRITTEN])


def microseconds(each: Entry) -> float:
    """The median time."""
    return float(median(each["times_us"]))


def megahertz(each: Entry) -> float:
    """The median clock at the end of a launch."""
    return float(median(each["mhz"]))


def halves(record: Entry, entry: Entry, name: str) -> Picture:
    """Who asks whom in the model's cache, and for how many bytes, while an order is played."""
    told = play(record, entry)[name]
    at_home = told.missed - told.forwarded  # missed by the half that is the piece's home
    sums = (told.asked, told.forwarded, at_home, told.read - at_home)
    asked, forwarded, near, far = (f"{each / 1e9:.2f} GB" for each in sums)
    nodes = {
        "blocks": draw.Node("blocks", 0, 0, "orange"),
        "near": draw.Node("near half", 170, 0, "blue"),
        "other": draw.Node("other half", 340, 80, "blue"),
        "memory": draw.Node("memory", 510, 0, "grey"),
    }
    arrows = [
        draw.Arrow("blocks", "near", asked), draw.Arrow("near", "other", forwarded),
        draw.Arrow("near", "memory", near), draw.Arrow("other", "memory", far),
    ]  # fmt: skip
    return draw.diagram(
        nodes, arrows, title=f"Who asks whom for how much: the model, {name}, {_shape(entry)}"
    )


def beside_the_model(record: Entry, entry: Entry) -> Picture:
    """What each order reads from memory, in the model and counted; prints how far apart."""
    told, off = play(record, entry), {}
    rows = {}
    for row in entry["rows"]:
        model = told[row["order"]].read
        off[row["order"]] = abs(model / row[DRAM] - 1)
        rows[row["order"]] = {"H200": row[DRAM] / 1e9, "model": model / 1e9}
    lot = off.pop(LOT)
    print(f"bytes from memory: off by {max(off.values()):.1%} at most; {LOT}, by {lot:.0%}")
    return draw.dots(rows, x_label="GB read from memory",
                     title=f"{_shape(entry)}, {measure.source(record)}")  # fmt: skip


def missed_by_the_near_half(record: Entry, entry: Entry) -> Picture:
    """What the near half did not have: counted, in the model, and in a cache without halves.

    Prints how far the two are from the counters, and how far the bytes between the halves are.
    """
    told, undivided = play(record, entry), play(record, entry, halves=1)
    rows, between = {}, []
    for row in entry["rows"]:
        name = row["order"]
        shares = {"H200": _missed(row), "model": 1 - told[name].hit_rate,
                  "undivided": 1 - undivided[name].hit_rate}  # fmt: skip
        rows[name] = {which: 100 * share for which, share in shares.items()}
        between.append(abs(told[name].forwarded / (32 * row[FABRIC]) - 1))
    points, were = (100 * _points_off(each, entry) for each in (told, undivided))
    print(f"missed: off by {points:.1f} points at most; were the cache undivided, by {were:.1f}")
    print(f"bytes between the halves: off by {max(between):.0%} at most")
    return draw.dots(rows, x_label="per cent of what blocks asked for, missed by the near half",
                     title=f"{_shape(entry)}, {measure.source(record)}")  # fmt: skip


def _missed(row: Entry) -> float:
    """The share of what blocks asked for that the near half of the cache did not have."""
    return float((row[LOOKUPS] - row[HIT]) / row[ASKED])


def _points_off(told: dict[str, orders.Shared], entry: Entry) -> float:
    """The largest difference between misses of a model and those counted, as shares."""
    off: list[float] = [
        abs(1 - told[row["order"]].hit_rate - _missed(row)) for row in entry["rows"]
    ]
    return max(off)


def in_lockstep_and_drifting(record: Entry, entries: Mapping[str, Entry], drift: float) -> Picture:
    """Both models beside the counters; prints for how many orders they are near.

    ``entries`` have the same orders, each a name for its shape. A cell is how far a prediction is
    from the bytes counted; green up to a tenth.
    """
    near, every, agreed = 0, 0, []
    cells: dict[str, list[Cell | None]] = {}
    for entry in entries.values():
        lockstep, drifting = play(record, entry), play(record, entry, drift=drift)
        for row in entry["rows"]:
            one, other = lockstep[row["order"]].read, drifting[row["order"]].read
            off = [each / row[DRAM] - 1 for each in (one, other)]
            near += abs(off[0]) < NEAR
            every += 1
            if abs(one / other - 1) < 0.05:
                agreed.append(max(map(abs, off)))
            line = cells.setdefault(row["order"], [])
            line.append(Cell(f"{row[DRAM] / 1e9:.2f}"))
            line += [
                Cell(f"{round(each, 2) + 0:+.0%}",  # never -0%
                     "green" if abs(each) < NEAR else "orange" if each < 0 else "pink")
                for each in off
            ]  # fmt: skip
    print(f"in lockstep, {near} of {every} orders are within {NEAR:.0%}")
    print(f"for {len(agreed)} the two predictions agree within 5%;", end=" ")
    print(f"these are off by {max(agreed):.0%} at most")
    shapes = ", ".join(f"{name} {_shape(entry)}" for name, entry in entries.items())
    return draw.chart(
        list(cells.values()), rows=list(cells), row_label="",
        columns=[f"{name}, {what}" for name in entries
                 for what in ("GB", "lockstep", f"drift {drift:.0%}")],
        column_label="predicted beside counted bytes",
        title=f"{shapes}; {measure.source(record)}",
        legend={"green": f"within {NEAR:.0%}", "orange": "too low", "pink": "too high"},
    )  # fmt: skip


def began(controls: Entry) -> None:
    """Print how far from its number's place a block began, at most, in any order."""
    found = [each["displaced"] for one in controls["shapes"] for each in one["orders"].values()]
    print(f"a block began at most {max(found):.0f} places from that of its number")
    print(f"{measure.source(controls)}, {controls['multiprocessors']} multiprocessors")


def lags(controls: Entry) -> Picture:
    """How far apart blocks of one wave begin that share rows of A, or columns of B.

    Green up to a hundredth of a block's time, orange from a tenth on.
    """
    names = ["8192³", "square", "wide"]
    found = [one["orders"] for one in controls["shapes"]]
    cells: list[list[Cell | None]] = []
    for name in found[0]:
        shares = [each[name][lag] for each in found for lag in ("lag_a", "lag_b")]
        cells.append([
            Cell(f"{share:.1%}", "green" if share <= 0.01 else "orange" if share >= 0.1 else "grey")
            for share in shares
        ])  # fmt: skip
    return draw.chart(
        cells, rows=list(found[0]), row_label="",
        columns=[f"{name}, {side}" for name in names for side in ("A", "B")],
        column_label="share of a block's time, medians",
        title=f"Apart at the beginning; {measure.source(controls)}",
        legend={"green": "at most 1%", "orange": "at least 10%"},
    )  # fmt: skip


def watts(controls: Entry, entry: Entry) -> measure.Table:
    """What the GPU drew, and its clock, while each order of the wide C ran alone.

    ``entry``: the same shape in the other record, which counted what each order reads.
    """
    found = controls["shapes"][-1]["orders"]
    rows = [
        (row["order"], f"{read(row) / 1e9:.1f}", f"{median(found[row['order']]['watts']):.0f}",
         f"{median(found[row['order']]['mhz']):.0f}")
        for row in sorted(entry["rows"], key=read)
    ]  # fmt: skip
    limit = f"the limit is {controls['power_limit_w']:.0f} W"
    return measure.Table(("order", "GB read (H200)", "W", "MHz"), tuple(rows),
                         f"{limit}; {measure.source(controls)}")  # fmt: skip


def two_ways_to_time(record: Entry, entry: Entry, names: tuple[str, ...]) -> measure.Table:
    """Time and clock of some orders, and of cuBLAS: by turns without rest, and with rests."""

    def said(each: Entry) -> tuple[str, str]:
        return f"{microseconds(each) / 1e3:.2f}", f"{megahertz(each):.0f}"

    restless = entry["without_rest"]
    rows = [
        (row["order"], f"{moved(row) / 1e9:.1f}", *said(restless[row["order"]]), *said(row))
        for row in entry["rows"]
        if row["order"] in names
    ]
    rows.append((VENDOR, "", *said(restless[VENDOR]), *said(entry["vendor"])))
    return measure.Table(
        ("order", "GB read and written", "ms, without rest", "MHz", "ms, with rests", "MHz"),
        tuple(rows), f"{measure.source(record)}; {_shape(entry)}; medians",
    )  # fmt: skip


def turns(entry: Entry) -> Picture:
    """The clock of each turn without rest, in the order in which they ran."""
    found = entry["without_rest"]
    names = list(found)
    if (names[0], names[-1]) != (FIRST, VENDOR):
        raise ValueError(f"the turns of this record begin with {names[0]}, end with {names[-1]}")
    each = len(found[FIRST]["mhz"]) // ROUNDS  # launches of a turn that were counted
    clock = [median(found[name]["mhz"][turn * each : (turn + 1) * each])
             for turn in range(ROUNDS) for name in names]  # fmt: skip
    begins = range(0, len(clock), len(names))
    return draw.curves(
        range(1, len(clock) + 1), {"clock": clock}, x_label="turn", y_label="MHz, median of a turn",
        from_zero=False, show=lambda value: f"{float(value):.0f}",
        notes=[(at + 1, clock[at], FIRST) for at in begins if clock[at] > 1.1 * min(clock)],
        title=f"The clock without rest: {LOT} and {VENDOR} end each round",
    )  # fmt: skip


def longer_of_two(record: Entry) -> measure.Table:
    """Times with rests beside the longer of multiplication and traffic."""
    rate = record["copy_bytes_per_second"]
    rows, wrong = [], []
    for entry in record["orders"]:
        fastest = min(microseconds(row) for row in entry["rows"])
        for row in entry["rows"]:
            took = microseconds(row)
            told = max(fastest, moved(row) / rate * 1e6)
            wrong.append(abs(told / took - 1))
            if took > 1.02 * fastest:
                rows.append((_shape(entry), row["order"], f"{moved(row) / took / 1e6:.2f}",
                             f"{took / fastest:.2f}", f"{told / fastest:.2f}"))  # fmt: skip
    print(f"a copy moves {rate / 1e12:.2f} TB/s")
    print(f"the longer of multiplication and traffic: off by {max(wrong):.1%} at most")
    return measure.Table(
        ("M × N × K", "order", "TB/s", "time / the fastest order's", "predicted"), tuple(rows),
        f"{measure.source(record)}; with rests; orders more than 2% slower than the fastest",
    )  # fmt: skip


def clocks(entries: dict[str, Entry]) -> Picture:
    """The clock against what was read, of the last shape; prints times and cycles of all."""
    ratios = []
    for name, entry in entries.items():
        hot = entry["sustained"]
        took = {row["order"]: microseconds(hot[row["order"]]) for row in entry["rows"]}
        ratios += [_cycles(hot[row["order"]]) / _cycles(row) for row in entry["rows"]]
        best, worst = min(took, key=took.__getitem__), max(took, key=took.__getitem__)
        print(f"{name}: best {best}, worst {worst}, {took[worst] / took[best] - 1:.0%} more time")
    print(f"cycles, alone for long / with rests: from {min(ratios):.2f} to {max(ratios):.2f}")
    rows = sorted(entry["rows"], key=read)
    return draw.curves(
        [round(read(row) / 1e9, 1) for row in rows],
        {"with rests": [megahertz(row) for row in rows],
         "alone for long": [megahertz(hot[row["order"]]) for row in rows]},
        x_label="GB read from memory", y_label="MHz", from_zero=False,
        show=lambda value: f"{float(value):.0f}",
        title=f"The clock against the traffic ({_shape(entry)}, nine orders)",
    )  # fmt: skip


def _cycles(each: Entry) -> float:
    return microseconds(each) * megahertz(each)


def _shape(entry: Entry) -> str:
    return " × ".join(map(str, entry["shape"]))


def joined(record: Entry) -> measure.Table:
    """Of the sectors that came to multiprocessors, the share that L2 was asked for.

    By ``cp.async``; :func:`joined_by` has both ways.
    """
    shares = joined_by(record, "cp.async")
    rows = [("each its own", f"{shares['each its own']:.3f}", *("",) * (len(LATE) - 1))]
    for name in ("two of a TPC", "two TPCs of a GPC", "two GPCs"):
        found = (shares.get(f"{name}, {shift} ns") for shift in LATE)
        rows.append((name, *("" if share is None else f"{share:.3f}" for share in found)))
    for name in ("all of a GPC", "all"):
        rows.append((name, f"{shares[name]:.3f}", *("",) * (len(LATE) - 1)))
    return measure.Table(
        ("who reads the same", "at once", *(f"{shift} ns later" for shift in LATE[1:])),
        tuple(rows), f"sectors that L2 looked up, over those that came; {measure.source(record)}",
    )  # fmt: skip


def joined_by(record: Entry, way: str) -> dict[str, float]:
    """The same shares for one way of reading, by who reads the same bytes."""
    return {who: counts[LOOKUPS] / counts[ASKED] for who, counts in record["counts"][way].items()}


def held_together(record: Entry) -> measure.Table:
    """How far apart neighbours begin, by what their blocks read and how they get their numbers."""
    waves = ("1", "16", "32", "64", "131")
    rows = []
    for name, table in READS.items():
        runs = {(run["numbers"], run["held_ns"]): run for run in record["runs"]
                if (run["order"], run["reads"]) == (HELD_IN, table)}  # fmt: skip
        dealt, fixed = runs[DEALT, 0], runs[FIXED, 0]
        late = runs[FIXED, HOLD]["behind_waves"]
        rows.append((
            name, *(f"{each['begin_1']:.2%}" for each in (dealt, fixed)),
            *(f"{late[wave] / 1e3 + 0:.1f}" for wave in waves),
        ))  # fmt: skip
    return measure.Table(
        ("a block shares", "dealt", "fixed", *(f"late, wave {wave}" for wave in waves)),
        tuple(rows),
        "dealt, fixed: how far apart neighbours begin, over a block's time; late: how far behind, "
        f"µs, held {HOLD / 1e3:.0f} µs at first; {measure.source(record)}",
    )
