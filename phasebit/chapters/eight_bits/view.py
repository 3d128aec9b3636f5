"""Pictures and tables of *Eight bits*."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any

import numpy as np

from phasebit import measure
from phasebit.chapters.eight_bits import lead as trying
from phasebit.chapters.eight_bits import product
from phasebit.chapters.eight_bits import scale_slips as slips
from phasebit.chapters.eight_bits import sum_errors as errors
from phasebit.chapters.eight_bits.contenders import KERNELS, E, F
from phasebit.emulator import formats
from phasebit.measure import Table
from phasebit.timeline import Span, Timeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from phasebit.draw import Cell, Picture

RIVAL = "cuBLASLt, scales by row"
"""What the kernels with scales for blocks are compared with."""


def positive(element: str) -> Any:
    """The positive finite numbers of a format, ascending, as the emulator decodes all 256 codes."""
    values = formats.decode(element, np.arange(256, dtype=np.uint8)).astype(np.float64)
    return np.unique(values[np.isfinite(values) & (values > 0)])


def values() -> Picture:
    """The positive numbers of both formats on an axis of powers of two."""
    from phasebit.draw.picture import INK, both, figure_of, frame
    from phasebit.palette import COLOURS

    formats = {"e4m3": "blue", "e5m2": "orange"}
    title = "The positive numbers of eight bits"

    def drawn(narrow: bool) -> Any:
        figure, axes = figure_of(6.2, 1.9, narrow)
        for row, (element, hue) in enumerate(formats.items()):
            at = [math.log2(x) for x in positive(element)]
            axes.vlines(at, row - 0.3, row + 0.3, color=COLOURS[hue], linewidth=0.9)
        axes.set_yticks(range(len(formats)), list(formats))
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.set_ylim(1.6, -0.6)
        axes.set_xticks(range(-16, 17, 4))
        below = "power of two: each line is a number, equal distances are equal factors"
        frame(axes, title, below, narrow=narrow)
        return figure

    said = []
    for element in formats:
        numbers = positive(element)
        nearest = min(np.diff(numbers))
        said.append(
            f"{element}: {len(numbers)} numbers from 2^{math.log2(numbers[0]):.0f} to "
            f"{numbers[-1]:g}; {int(((numbers >= 1) & (numbers < 2)).sum())} from 1 to below 2; "
            f"the least step is 2^{math.log2(nearest):.0f}"
        )
    return both(drawn, "\n".join([f"{title}.", *said]))


def stalling(term: float = 0.75, most: int = 16_384, step: int = 2_048) -> Picture:
    """A sum of equal terms as it grows: exact, by the tensor core, and promoted every 128."""
    from phasebit.draw import curves

    counts = range(0, most + 1, step)
    found = errors.growing(term, most, step)
    mended = errors.growing(term, most, step, 128)
    return curves(
        list(counts),
        {"promoted every 128": mended, "in the tensor core": found},
        x_label=f"terms of {term:g} added up", y_label="the sum",
        title="A sum that stops growing", show=lambda value: f"{float(value):.0f}",
    )  # fmt: skip


_HIGHEST, _LOWEST = 13, -2
BITS = 13
"""Bits behind its first that a sum of eight-bit products keeps (:mod:`sums` asks for them)."""


def _marks(value: float, hue: Callable[[int], str]) -> list[Cell | None]:
    """The bits of a value, from the highest power of two of the picture to the lowest."""
    from phasebit.draw import Cell

    powers = range(_HIGHEST, _LOWEST - 1, -1)
    return [Cell("1", hue(power)) if value / 2.0**power % 2 >= 1 else None for power in powers]


def cut(term: float = 0.75, totals: tuple[float, ...] = (2048, 4096, 8192)) -> Picture:
    """Which bits of a term the tensor core adds to sums of several sizes, asked of the emulator."""
    from phasebit.draw import Cell, chart

    cells, rows, said = [], [], []
    for total in totals:
        first = int(math.log2(total))
        gain = errors.one_more(term, total) - total
        kept = _marks(gain, lambda power: "green")
        own = _marks(total, lambda power: "blue")
        for power in range(first - 1, first - BITS - 1, -1):
            if power >= _LOWEST:
                own[_HIGHEST - power] = Cell("0", "grey")
        lost = _marks(term, lambda power: "red")
        cells += [own, [a or b for a, b in zip(kept, lost, strict=True)]]
        rows += [f"{total:,.0f}", f"+ {term:g}"]
        said.append(f"{total:,.0f} + {term:g} grows by {gain:g}")
    title = f"What the tensor core adds of {term:g}\n" + "; ".join(said)
    return chart(
        cells, rows=rows, columns=[*range(_HIGHEST, _LOWEST - 1, -1)], row_label="sum",
        column_label="power of two", title=title,
        legend={"blue": "first bit of the sum", "grey": "13 bits behind it", "green": "added",
                "red": "cut off"},
    )  # fmt: skip


def sharing() -> Picture:
    """Which numbers of a matrix share a scale: four ways."""
    from phasebit.draw import Panel, panels

    ways = (
        ("one a tensor", 1, 1, (0, 0), "blue"), ("one a row", 16, 1, (5, 0), "blue"),
        ("1 × 128: activations", 16, 4, (5, 1), "orange"),
        ("128 × 128: weights", 2, 4, (0, 1), "green"),
    )  # fmt: skip
    return panels(
        [Panel(title, rows, columns, {mark}, hue, 1.0, 0.5)
         for title, rows, columns, mark, hue in ways],
        alt="Numbers that share a scale, in a matrix of 256 × 512: all of them; the 512 of a row; "
        "128 neighbours in a row; a square of 128 × 128.",
    )  # fmt: skip


def right_bits(positive: bool, lengths: tuple[int, ...] = (128, 512, 2048, 8192)) -> Picture:
    """How many bits of a sum are right, by k and by where it is promoted."""
    from phasebit.draw import curves

    found = [errors.of_sums(k, positive, size=8) for k in lengths]
    kind = "numbers without signs" if positive else "normal numbers"
    return curves(
        [str(k) for k in lengths],
        {name: [-math.log2(each[name]) for each in found] for name in errors.CHOICES},
        x_label="k", y_label="bits that are right", title=f"Sums of {kind}, by promotion",
        show=lambda value: f"{float(value):.0f}", evenly=True,
    )  # fmt: skip


SIZES = tuple(4**e for e in range(9))
"""How many times as large an outlier is as its neighbours."""


def outliers() -> Picture:
    """What eight large channels of 1024 do to the others, by format and scales."""
    from phasebit.draw import curves

    found = [errors.ordinary(size) for size in SIZES]
    return curves(
        [str(size) for size in SIZES],
        {name: [each[name] for each in found] for name in found[0]},
        x_label="how many times as large an outlier is", y_label="relative error of the others",
        title="What eight outliers in 1024 channels do to the channels beside them", evenly=True,
    )  # fmt: skip


def product_errors() -> Table:
    """Relative error of activations times weights, by scales and promotion."""
    found = [errors.of_products(data) for data in errors.DATA]
    return Table(
        ("way", *errors.DATA),
        tuple((name, *(f"{each[name]:.3f}" for each in found)) for name in found[0]),
        "relative error against the product before rounding; k = 4096, fixed seeds",
    )


def rate(recorded: dict[str, Any], shape: tuple[int, ...], name: str) -> float:
    """TFLOP/s of a contender: the median launch."""
    (row,) = [each for each in recorded["products"] if tuple(each["shape"]) == shape]
    us = statistics.median(row["contenders"][name]["times_us"])
    return measure.tflops(measure.matmul_flop(*shape), us * 1e-6)


def clock(recorded: dict[str, Any], shape: tuple[int, ...], name: str) -> float:
    """MHz after the launches of a contender: the median."""
    (row,) = [each for each in recorded["products"] if tuple(each["shape"]) == shape]
    return float(statistics.median(row["contenders"][name]["mhz"]))


def shapes(recorded: dict[str, Any]) -> list[tuple[int, ...]]:
    """M, N, K of each product of the record that takes longer than the host to ask for it."""
    return [
        tuple(each["shape"]) for each in recorded["products"]
        if measure.matmul_flop(*each["shape"]) > 1e11
    ]  # fmt: skip


def _heads(recorded: dict[str, Any]) -> list[str]:
    return [f"{m}³" if m == n == k else f"{m} × {n} × {k}" for m, n, k in shapes(recorded)]


def rates_table(recorded: dict[str, Any], names: tuple[str, ...]) -> Table:
    """TFLOP/s of contenders on each shape, and beside them the share of the rival's."""
    rows = []
    for name in names:
        cells = []
        for shape in shapes(recorded):
            own = rate(recorded, shape, name)
            cells.append(f"{own:.0f} ({own / rate(recorded, shape, RIVAL):.2f})")
        rows.append((name, *cells))
    return Table(
        ("TFLOP/s", *_heads(recorded)), tuple(rows),
        f"({RIVAL} = 1) {measure.source(recorded)}",
    )  # fmt: skip


def step_cycles(recorded: dict[str, Any], shape: tuple[int, ...], name: str) -> float:
    """Cycles of a multiprocessor for 128 × 256 of C and 128 of K, at the clock of the launches."""
    flop_a_second = rate(recorded, shape, name) * 1e12 / int(recorded["multiprocessors"])
    return 2 * 128 * 256 * 128 / flop_a_second * clock(recorded, shape, name) * 1e6


def cycles_table(
    recorded: dict[str, Any], shape: tuple[int, ...], names: tuple[str, ...], over: str = ""
) -> Table:
    """Rate, clock and cycles a step of some contenders on one shape.

    ``over``: a contender; a last column has the cycles that each needs beyond its.
    """
    base = step_cycles(recorded, shape, over) if over else 0.0
    rows = []
    for name in names:
        cycles = step_cycles(recorded, shape, name)
        more = [f"{round(cycles) - round(base):+d}"] if over else []
        rows.append((
            name, f"{rate(recorded, shape, name):.0f}", f"{clock(recorded, shape, name):.0f}",
            f"{cycles:.0f}", *more,
        ))  # fmt: skip
    m, n, k = shape
    beyond = f"; price: beyond {over}" if over else ""
    return Table(
        ("kernel", "TFLOP/s", "MHz", "cycles a step", *(["price"] if over else [])), tuple(rows),
        f"{m} × {n} × {k}; a step: 128 × 256 of C, 128 of K{beyond}. {measure.source(recorded)}",
    )


TRIED = {
    "two parts": "one is promoted under the other",
    "consumers take turns": "by named barriers",
    "one consumer begins late": "they stay out of step",
    "scales of B a step ahead": "no wait for loads",
    "three slots": "is the ring deep enough?",
}
"""What was tried to hide promotion -> why it should help."""


def tried(recorded: dict[str, Any]) -> Picture:
    """What each try does to the kernel with block scales, as a share of its rate."""
    rows = {f"{name}: {why}": name for name, why in TRIED.items()}
    return _shares(recorded, rows, "block scales", chosen=2)


def rates_drawn(recorded: dict[str, Any], names: tuple[str, ...]) -> Picture:
    """Rates of contenders on each shape, as shares of the rival's."""
    return _shares(recorded, {name: name for name in names}, RIVAL)


def _shares(
    recorded: dict[str, Any], rows: dict[str, str], over: str, digits: int = 2, chosen: int = 9
) -> Picture:
    """Rates over a contender's, a mark for each shape; ``rows``: name of a row -> contender."""
    from phasebit.draw import dots

    heads = dict(zip(_heads(recorded), shapes(recorded)[:chosen], strict=False))
    return dots(
        {row: {head: rate(recorded, shape, name) / rate(recorded, shape, over)
               for head, shape in heads.items()}
         for row, name in rows.items()},
        x_label=f"rate, {over} = 1", line=1, show=lambda share: f"{float(share):.{digits}f}",
        title=measure.source(recorded),
    )  # fmt: skip


def errors_table(recorded: dict[str, Any], names: tuple[str, ...]) -> Table:
    """Errors of kernels on the GPU, by length of the sum and signs of the data.

    Kernels with the same errors share a row.
    """
    cases = recorded["errors"]
    heads = (f"k = {c['k']}, {'normal' if c['signs'] else 'no signs'}" for c in cases)
    rows: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        if all(name in case["relative"] for case in cases):
            cells = tuple(f"{case['relative'][name]:.4f}" for case in cases)
            rows.setdefault(cells, []).append(name)
    return Table(
        ("kernel", *heads), tuple(("; ".join(who), *cells) for cells, who in rows.items()),
        "relative error against f64, the rounding of the result to bf16 included. "
        + measure.source(recorded),
    )  # fmt: skip


LEAD = {
    "unrolled by 8": "less of the loop is left",
    "descriptors by adding": "one addition",
    "all boxes of a tile": "no store waits",
    "one block, said to ptxas": "all registers",
    "scales of B in shared memory": "no loads",
    "scales of B in lanes": "shuffles, no loads",
    "pairs of blocks": "B leaves L2 once for two",
}
"""What was tried against DeepGEMM's lead -> why it should help."""

BACK = (
    "consumers load the scales of B",
    "each warp stores its own 16 rows",
    "unrolled by 6, not 9",
    "8 rows of tiles together, not 12",
    "16 rows of tiles together, not 12",
    "every lane frees the slot",
)
"""What is taken back of the kernel that is ahead, in the order of :data:`trying.BACK`."""


def lead(recorded: dict[str, Any]) -> Picture:
    """Rates over DeepGEMM's on each shape: the unrolled kernel, and what was tried."""
    rows = {"unrolled": "unrolled"} | {f"{name}: {why}": name for name, why in LEAD.items()}
    rows["DeepGEMM, no pairs"] = "DeepGEMM, no pairs"
    return _shares(recorded, rows, "DeepGEMM", digits=3)


def ahead(recorded: dict[str, Any]) -> Picture:
    """The same of the kernel that is ahead, and of it with one thing taken back."""
    rows = {name: name for name in ("unrolled", trying.IN_SLOT)}
    rows |= {f"but {back}": name for name, back in zip(trying.BACK, BACK, strict=True)}
    return _shares(recorded, rows, "DeepGEMM", digits=3)


def rates(recorded: dict[str, Any]) -> dict[str, str]:
    """Kernel -> its rate on the largest square; the last two are of a later record."""
    large, later = (8192, 8192, 8192), measure.read(trying.NAME)
    return {
        kernel: f"{rate(recorded, large, name):.0f} TFLOP/s, 8192³"
        for name, kernel in KERNELS.items()
    } | {
        kernel: f"{rate(later, large, name):.0f} TFLOP/s, 8192³, {later['date']}"
        for name, kernel in (("pairs of blocks", E), (trying.IN_SLOT, F))
    }


def promotion(recorded: dict[str, Any], first: int = 60, last: int = 67) -> Timeline:
    """What two consumers do with some halves of steps, in cycles, by their clock stamps."""
    places = recorded["stamps"]["places"]
    begin = min(places[0][first], places[4][first])
    spans = []
    for group, at in ((0, 0), (1, 4)):
        row = f"consumer {group}"
        for half in range(first, last + 1):
            asked, there, done = (places[at + i][half] - begin for i in range(3))
            spans.append(Span(row, asked, there, "multiply", str(half)))
            spans.append(Span(row, there, done, "promote"))
    return Timeline(
        ["consumer 0", "consumer 1"], spans, unit="cycles",
        title=f"Halves {first} to {last} of the steps of one tile",
        legend={"multiply": "the tensor core multiplies for it", "promote": "it promotes"},
    )  # fmt: skip


def promoting(recorded: dict[str, Any]) -> dict[str, float]:
    """Mean cycles of a half: until the sums are there, of the promotion, from half to half."""
    places = recorded["stamps"]["places"]
    halves = range(16, len(places[0]) - 8)
    groups = (places[0:3], places[4:7])
    return {
        "multiply": statistics.mean(g[1][h] - g[0][h] for g in groups for h in halves),
        "promote": statistics.mean(g[2][h] - g[1][h] for g in groups for h in halves),
        "half": statistics.mean(g[0][h + 1] - g[0][h] for g in groups for h in halves),
    }


def slip_table(names: tuple[str, ...]) -> Table:
    """What the emulator says of some slips, and what the result is."""
    kernels = product.kernels({name: slips.fewer_slots(slips.broken(name)) for name in names})
    rows = []
    for name in names:
        said = slips.judge(kernels[name], of=slips.SLIPS[name].kernel)
        lines = [line for line in said.splitlines() if line and not line.startswith(" ")]
        found = [line.partition(":")[0] for line in lines if line != "WRONG"]
        result = "none" if "deadlock" in said else "wrong" if "WRONG" in lines else "right"
        rows.append((name, found[0] if found else "nothing", result))
    return Table(("slip", "the emulator says", "result"), tuple(rows), "late copies and products")
