"""Tables and pictures of *Tiling on the GPU*: the ladder's counters, bounds and times."""

from __future__ import annotations

import functools
import itertools
import re
from math import prod
from typing import Any

from phasebit import measure
from phasebit.chapters.tiling_on_the_gpu import ladder, machine_code, tiling_controls
from phasebit.chapters.tiling_on_the_gpu.record import SIZES
from phasebit.draw import Cell, Panel, Picture, chart, panels
from phasebit.draw.picture import both, figure_of, frame
from phasebit.draw.plots import SERIES, below
from phasebit.occupancy import limits, occupancy
from phasebit.palette import COLOURS
from phasebit.pipeline import Pipeline, simulate
from phasebit.timeline import Timeline

Record = dict[str, Any]
SECTORS, WAVEFRONTS, CONFLICTS, STORE_CONFLICTS, LOADS, COPIES = ladder.METRICS
EXECUTED, FETCHED = ladder.EXECUTED, "dram__bytes_read.sum"
WORDS = {
    SECTORS: "sectors", WAVEFRONTS: "wavefronts", CONFLICTS: "load conflicts",
    STORE_CONFLICTS: "store conflicts", LOADS: "shared loads", COPIES: "async copies",
}  # fmt: skip
_STATIC = {"shared_tile": 8192, "column": 4096, "square": 8192, "vectorised": 8192,
           "conflict_free": 8320, "warp_tile": 8320, "double_buffered": 16640}  # fmt: skip
"""Bytes of static shared memory, as the compiler reports them; the last rung's is dynamic."""


def rates(recorded: Record) -> dict[str, str]:
    """Kernel -> its rate on the largest product of the record."""
    times = recorded["products"][str(SIZES[0])]
    return {
        rung.file: measure.spoken([SIZES[0]] * 3, measure.summary(times[name]).median)
        for name, rung in ladder.RUNGS.items()
    }


@functools.lru_cache(maxsize=64)
def predicted(name: str) -> dict[str, int]:
    """The emulator's counters of a rung at the largest size of the record."""
    return ladder.predict(name, SIZES[0])


def milliseconds(record: Record, name: str, size: int = SIZES[0]) -> float:
    """The median time of a kernel."""
    return measure.summary(record["products"][str(size)][name]).median / 1000


def counters() -> measure.Table:
    """What the emulator predicts of each rung."""
    rows = tuple(
        (name, *(f"{predicted(name)[metric] / 1e6:,.0f}" for metric in WORDS))
        for name in ladder.RUNGS
    )
    return measure.Table(("predicted", *WORDS.values()), rows, f"millions, for {SIZES[0]}³")


def counters_beside_the_gpus(record: Record) -> None:
    """Print how far each predicted counter is from the counted one, over all rungs."""
    print(f"counted on {measure.source(record)}")
    for metric, word in WORDS.items():
        pairs = [(predicted(name)[metric], record["counters"][name][metric])
                 for name in ladder.RUNGS]  # fmt: skip
        most, told = max((abs(found - told), told) for told, found in pairs)
        print(f"{word:>15}: off by {most / 1e6:6.2f} millions at most", end="")
        print(f", {most / told:.3%}" if told else ", where none are predicted")


def times(record: Record) -> None:
    """Print what the whole ladder gains, and how near its last rung is to cuBLAS at every size."""
    first, last = milliseconds(record, "naive"), milliseconds(record, "tuned")
    print(f"first to last: {first / last:.0f} times as fast")
    for size in SIZES:
        share = milliseconds(record, "cuBLAS", size) / milliseconds(record, "tuned", size)
        print(f"{size:>5}: tuned reaches {share:.2f} of cuBLAS")


def steps(record: Record) -> measure.Table:
    """What each rung gains over the one before it at every size, and what its counters change."""

    def quotient(before: float, after: float) -> str:
        return f"{before / after:.1f}" if before and after else "–"

    counted, names, rows = record["counters"], list(ladder.RUNGS), []
    for before, after in itertools.pairwise(names):
        gains = (milliseconds(record, before, size) / milliseconds(record, after, size)
                 for size in SIZES)  # fmt: skip
        rows.append((
            f"{before} → {after}", *(f"{gain:.2f}" for gain in gains),
            *(quotient(counted[before][metric], counted[after][metric])
              for metric in (SECTORS, LOADS, WAVEFRONTS)),
            f"{counted[before][EXECUTED] / counted[after][EXECUTED]:.2f}",
        ))  # fmt: skip
    return measure.Table(
        ("step", *(f"time, {size}³" for size in SIZES),
         "sectors", "shared loads", "wavefronts", "instructions"),
        tuple(rows), f"before by after; {measure.source(record)}; counted at {SIZES[0]}³",
    )  # fmt: skip


def clocks() -> float:
    """Clocks of all multiprocessors together in a millisecond, at the highest clock rate."""
    machine = measure.read("threads_and_memory")
    return float(machine["multiprocessors"] * machine["most_mhz"] * 1e3)


def bounds(record: Record) -> dict[str, list[float]]:
    """Four lower bounds in milliseconds, for each rung that uses shared memory."""
    names, counted = list(ladder.RUNGS)[2:], record["counters"]
    rate = measure.roofline().bandwidth * 1e9  # bytes in a millisecond
    return {
        "instructions": [counted[name][EXECUTED] / 4 / clocks() for name in names],
        "wavefronts": [predicted(name)[WAVEFRONTS] / clocks() for name in names],
        "multiply-adds": [SIZES[0] ** 3 / 128 / clocks()] * len(names),
        "memory": [counted[name][FETCHED] / rate for name in names],
    }


def beside_the_bounds(record: Record) -> Picture:
    """Measured times and the four bounds, on a logarithmic axis; prints the largest of each."""
    names, found = list(ladder.RUNGS)[2:], bounds(record)
    took = [milliseconds(record, name) for name in names]
    for i, name in enumerate(names):
        bound = max(found, key=lambda each: found[each][i])
        most = found[bound][i]
        print(f"{name:>15}: {took[i]:5.2f} ms are {took[i] / most:.2f} times "
              f"the largest bound, {most:5.2f} ms for {bound}")  # fmt: skip
    series = {"measured": took, **found}
    title = f"{SIZES[0]}³: measured, and four lower bounds"
    nudge = {"measured": 4, "instructions": 1, "multiply-adds": -8}

    def drawn(narrow: bool) -> Any:
        figure, axes = figure_of(6.2, 3.6, narrow)
        axes.set_yscale("log", base=2)
        for (name, values), (hue, dash, marker) in zip(series.items(), SERIES, strict=False):
            axes.plot(range(len(names)), values, color=COLOURS[hue], linestyle=dash, linewidth=1.8,
                      marker=marker, markersize=4, label=name)  # fmt: skip
            if not narrow:
                axes.annotate(name, (1, values[-1]), (6, nudge.get(name, 0)), va="center",
                              fontsize=9.5, xycoords=("axes fraction", "data"),
                              textcoords="offset points", color=COLOURS[hue],
                              annotation_clip=False)  # fmt: skip
        axes.set_xticks(range(len(names)), [ladder.RUNGS[name].letter for name in names])
        ticks = [2.0**power for power in range(-4, 5)]
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        frame(axes, title, "rung", "milliseconds, doubling", narrow)
        if narrow:
            below(figure, axes, sorted(series, key=lambda name: -series[name][-1]))
        return figure

    lines = "\n".join(
        f"{name}: " + " ".join(f"{value:.2f}" for value in values)
        for name, values in series.items()
    )
    return both(drawn, f"{title}. Milliseconds on a logarithmic axis, rungs c to j.\n{lines}")


def squares(record: Record) -> measure.Table:
    """Rung e with other tiles, squares and depths: the emulator's counters, and times."""
    rows = []
    for (tile, each), name in [*sorted(ladder.SQUARES.items()), ((32, 1), "deep")]:
        told = predicted(name)
        rows.append((
            f"{tile} × {tile}", f"{each} × {each}", _constant(name, "BK"),
            str(ladder.VARIANTS[name].block[0]),
            f"{told[SECTORS] / 1e6:,.0f}", f"{told[LOADS] / 1e6:,.0f}",
            f"{told[WAVEFRONTS] / 1e6:,.0f}", f"{milliseconds(record, name):.2f}",
        ))  # fmt: skip
    return measure.Table(
        ("a block's tile", "a thread's square", "depth", "threads", "sectors", "shared loads",
         "wavefronts", "ms"),
        tuple(rows), f"counters in millions, from the emulator; times: {measure.source(record)}; "
        f"{SIZES[0]}³",
    )  # fmt: skip


def controlled(controls: Record, part: str, name: str) -> float:
    """Milliseconds of a contender of the controls."""
    return measure.summary(controls[part][name]["times_us"]).median / 1000


def crossed(controls: Record) -> measure.Table:
    """Rung e with each square and each number of threads in a block; where it can be, also with
    1024 threads on a multiprocessor at once."""
    squares, at_once = tiling_controls.SQUARES, controls["at_once"]
    most = tiling_controls.RESIDENT[0]
    sides = sorted({square.each for square in squares.values()})
    threads = sorted({square.threads for square in squares.values()})

    def took(each: int, count: int, limited: bool) -> str:
        name = tiling_controls.Square(each, count).name
        if limited:
            ways = (name, f"{name}, {most} at once")
            found = next((way for way in ways if at_once.get(way, 0) * count == most), None)
        else:
            found = f"{name}, usual share" if name in squares else None
        return f"{controlled(controls, 'squares', found):.1f}" if found else "–"

    rows = tuple(
        (f"{each} × {each}",
         *(took(each, count, limited) for limited in (False, True) for count in threads))
        for each in sides
    )  # fmt: skip
    free = (f"{count} threads in a block" if count == threads[0] else str(count)
            for count in threads)  # fmt: skip
    limited = (f"{most} at once: {count}" if count == threads[0] else str(count)
               for count in threads)  # fmt: skip
    return measure.Table(
        ("a thread's square", *free, *limited), rows,
        f"ms; {measure.source(controls)}; {controls['size']}³, tiles 8 deep",
    )  # fmt: skip


def meetings(controls: Record) -> measure.Table:
    """Rung e with tiles of 32 × 32: how often threads meet, what is executed, and the times."""
    started = {
        name: controls["counters"][name][EXECUTED]
        * (controls["size"] / tiling_controls.COUNTED) ** 3 / 4 / clocks()
        for name in tiling_controls.DEPTH
    }  # fmt: skip
    rows = tuple(
        (name, str(met), f"{started[name]:.1f}", f"{controlled(controls, 'depth', name):.1f}")
        for name, met in tiling_controls.MEETINGS.items()
    )
    return measure.Table(
        ("rung e, 32 × 32, 1 × 1", "meetings for 32 of K", "ms to start instructions", "ms"), rows,
        f"{measure.source(controls)}; {controls['size']}³",
    )  # fmt: skip


def marks(controls: Record) -> measure.Table:
    """Two orders of multiply-adds, their machine code with its marks and without."""
    ways = (tiling_controls.MARKS, tiling_controls.NO_MARKS)
    took = {
        rung: [controlled(controls, "tuned", f"{rung}, {way}") for way in ways]
        for rung in tiling_controls.MARKED
    }
    one, other = (took[rung] for rung in tiling_controls.MARKED)
    rows = tuple((rung, *(f"{ms:.3f}" for ms in each)) for rung, each in took.items())
    apart = ("apart", *(f"{b / a - 1:.1%}" for a, b in zip(one, other, strict=True)))
    return measure.Table(
        ("ms", "as compiled", ways[1]), (*rows, apart),
        f"{measure.source(controls)}; {controls['size']}³",
    )  # fmt: skip


def what_fits(record: Record) -> None:
    """Print registers, and the blocks and warps that fit on a multiprocessor."""
    for name in list(ladder.RUNGS)[2:]:
        rung, registers = ladder.RUNGS[name], record["registers"][f"{name}_rung::{name}"]
        warps = prod(rung.block) // 32
        fits = occupancy(limits(90), registers, _STATIC.get(name, rung.shared), 32 * warps)
        print(f"{name:>15}: {registers:3} registers a thread: {fits.blocks} × {warps:2} warps fit")


def loops(record: Record, *names: str) -> measure.Table:
    """The machine code of main loops, what was executed, and the times of these kernels.

    What the H200 executed is its counter of the whole kernel, over its multiply-adds; of PTX the
    emulator counts the main loop.
    """
    compiled = machine_code.read()
    kinds = [kind for kind in machine_code.KINDS if kind not in ("multiply-adds", "global loads")]
    rows = []
    for name in names:
        of = compiled["loops"][name]
        scale = 512 / of["multiply-adds"]
        on_gpu = 32 * record["counters"][name][EXECUTED] / SIZES[0] ** 3
        rows.append((
            name, str(of["registers"]), f"{of['instructions'] * scale:.0f}",
            f"{512 * on_gpu:.0f}", f"{float(512 * ladder.executed(name)):.0f}",
            *(f"{of[kind] * scale:.0f}" for kind in kinds),
            f"{milliseconds(record, name):.2f}",
        ))  # fmt: skip
    return measure.Table(
        ("main loop", "registers", "instructions", "executed, H200", "executed, PTX", *kinds,
         f"ms at {SIZES[0]}³"), tuple(rows),
        f"for 512 multiply-adds of a thread; nvcc {compiled['nvcc']}, {compiled['target']}; "
        f"{measure.source(record)}",
    )  # fmt: skip


def banks(first_column: Any, title: str) -> Picture:
    """The banks in which eight lanes find the four numbers that each loads from a column on."""
    cells: list[list[Cell | None]] = [[None] * 32 for _ in range(2)]
    for lane in range(8):
        for word in range(first_column(lane), first_column(lane) + 4):
            row = 0 if cells[0][word % 32] is None else 1
            cells[row][word % 32] = Cell(str(lane), "blue" if row == 0 else "orange")
    return chart(cells, rows=[1, 2], columns=range(32), row_label="wavefront",
                 column_label="bank (in the cells: the lane)", title=title)  # fmt: skip


def turned() -> Picture:
    """The tile of A in rung f: where one thread stores what it loads, and what one thread reads."""
    depth, each = (int(_constant("vectorised", name)) for name in ("BK", "T"))
    cells: list[list[Cell | None]] = [[None] * 32 for _ in range(depth)]
    thread, k, y = 9, 1, each  # the thread that stores; the k, and the thread row, that are read
    column, first = thread // (depth // 4), thread % (depth // 4) * 4
    for i in range(4):
        cells[first + i][column] = Cell("xyzw"[i], "blue")
    for i in range(each):
        cells[k][y + i] = Cell(str(i), "orange")
    return chart(cells, rows=range(depth), columns=range(32), row_label="k",
                 column_label="row of A (m)", title="f: the tile of A, turned (the first 32 rows)",
                 legend={"blue": f"the float4 that thread {thread} loads, stored",
                         "orange": f"what a thread reads for k = {k}"})  # fmt: skip


def slots(count: int) -> Timeline:
    """Tiles that are copied into ``count`` slots and multiplied: 3 clocks and 5, as an example."""
    ring = Pipeline(1, 1, count, produce=3, consume=5, see_full=0, see_empty=0)
    return simulate(ring, jobs=5).timeline


def _constant(rung: str, name: str) -> str:
    """The value of a constant in a rung's text; ``ValueError`` where there is none."""
    found = re.search(rf"\b{name} = (\d+)", ladder.text(rung))
    if found is None:
        raise ValueError(f"{rung} has no constant {name}")
    return found[1]


def hierarchy() -> Picture:
    """Who makes which part of C in rung h: a block, a warp, a thread; sizes from its text."""
    side, high, wide = (int(_constant("warp_tile", name)) for name in ("BM", "WM", "WN"))
    grid = 8  # blocks drawn of C's 32
    down, across = side // high, side // wide
    groups = [(4 * (group // 2), 8 * (group % 2) + 5) for group in range(4)]  # lane 5's, of 8 × 4
    parts = [
        Panel(f"C: blocks of {side} × {side}", grid, grid, [(1, 2)]),
        Panel(f"a block: warps of {high} × {wide}", down, across, [(0, 0)], "orange"),
        Panel(f"a warp: 32 threads of {high // 4} × {wide // 8}", 8, 16, groups, "green",
              height=high / wide),
    ]  # fmt: skip
    alt = (
        "Tiles within tiles, rung h. C is cut into blocks of "
        f"{side} × {side}; a block into {down * across} warps of {high} × {wide}; a warp's part "
        f"goes to 32 threads, each with four groups of 4 × 4, half a warp's part apart. One "
        "block, one warp and one thread are marked."
    )
    return panels(parts, alt=alt)


def _against(record: Record, one: str, other: str, size: int) -> str:
    """How much longer one takes than the other."""
    return f"{milliseconds(record, one, size) / milliseconds(record, other, size) - 1:+.1%}"


def small_differences(record: Record) -> None:
    """Print what swizzle, warp tile, order of lanes and double buffering change in the time."""
    print("          time against:    " + "    ".join(f"{size}³" for size in SIZES))
    for one, other in (("swizzled", "conflict_free"), ("warp_tile", "conflict_free"),
                       ("reordered", "warp_tile"), ("double_buffered", "warp_tile")):  # fmt: skip
        change = "  ".join(f"{_against(record, one, other, size):>7}" for size in SIZES)
        print(f"{one:>15}, {other:<13}{change}")


def waiting(record: Record) -> measure.Table:
    """How long three rungs start instructions, and how long nothing is started."""
    rows = []
    for name in ("warp_tile", "double_buffered", "tuned"):
        started = record["counters"][name][EXECUTED]
        busy = started / 4 / clocks()
        rows.append((name, f"{started / 1e6:,.0f}", f"{SIZES[0] ** 3 / 32 / started:.0%}",
                     f"{busy:.2f}", f"{milliseconds(record, name) - busy:.2f}"))  # fmt: skip
    return measure.Table(
        ("rung", "millions of warp instructions", "multiply-adds", "ms to start them",
         "ms waiting"), tuple(rows), f"{measure.source(record)}; {SIZES[0]}³",
    )  # fmt: skip


def taken_back(record: Record) -> measure.Table:
    """The times of the last rung's variants against its own."""
    rows = tuple(
        (name, *(_against(record, name, "tuned", size) for size in SIZES)) for name in ladder.TUNED
    )
    return measure.Table(
        ("time against tuned", *(f"{size}³" for size in SIZES)), rows, measure.source(record)
    )


def more_meetings(controls: Record) -> None:
    """Print what the meetings of tiles 8 deep cost the last rung, and what those tiles do."""
    took = {name: controlled(controls, "tuned", name) for name in tiling_controls.TUNED}
    for name, ms in took.items():
        print(f"{name:>20}: {ms:.2f} ms, {ms / took['tuned'] - 1:+.1%}")


def taken_back_counted(record: Record) -> measure.Table:
    """Their counters; prints the prediction for the order of the lanes, and how many blocks fit."""
    counted = record["counters"]
    told = predicted("lanes_in_rows")[WAVEFRONTS]
    print(f"lanes_in_rows, millions of wavefronts, predicted / counted: {told / 1e6:.0f} / "
          f"{counted['lanes_in_rows'][WAVEFRONTS] / 1e6:.0f}")  # fmt: skip

    def resident(name: str) -> int:
        rung, registers = ladder.VARIANTS[name], record["registers"][f"{name}_rung::tuned"]
        return occupancy(limits(90), registers, rung.shared, rung.block[0]).blocks

    multiprocessors = measure.read("threads_and_memory")["multiprocessors"]
    for name in ("tuned", "small_tile"):
        there = ", ".join(
            f"{(size // ladder.VARIANTS[name].tile) ** 2} at {size}" for size in SIZES
        )
        print(
            f"{name}: {multiprocessors * resident(name)} blocks fit on the GPU; there are {there}"
        )
    rows = []
    for name in ("tuned", *ladder.TUNED):
        rung = ladder.VARIANTS[name]
        change = (counted[name][metric] / counted["tuned"][metric] - 1
                  for metric in (EXECUTED, SECTORS, WAVEFRONTS, FETCHED))  # fmt: skip
        said = (f"{each:+.1%}" if abs(each) >= 0.0005 else "" for each in change)
        rows.append((name, *said, str(SIZES[0] // rung.depth),
                     f"{resident(name)} × {rung.block[0] // 32}"))  # fmt: skip
    return measure.Table(
        ("counters against tuned", "instructions", "sectors", "wavefronts", "bytes from memory",
         "tiles along K", "blocks that fit × warps"),
        tuple(rows), f"{measure.source(record)}; {SIZES[0]}³; the last two are computed",
    )  # fmt: skip


def ragged(record: Record) -> None:
    """Print what sizes that are no whole tiles cost."""
    whole: dict[str, float] = {}
    for row in record["ragged"]:
        took = {name: measure.summary(each).median / 1000 for name, each in row["times_us"].items()}
        whole = whole or took
        more = ", ".join(f"{name} {took[name] / whole[name] - 1:+.0%}" for name in took)
        shape = " × ".join(map(str, row["shape"]))
        print(f"{shape:>19}: {took['tuned']:.2f} ms, {took['cuBLAS'] / took['tuned']:.2f} of "
              f"cuBLAS; against whole tiles: {more}")  # fmt: skip
