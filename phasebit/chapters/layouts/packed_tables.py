"""What the record of *Layouts* says of packed operands, as tables and a picture."""

from __future__ import annotations

from statistics import median
from typing import Any

from phasebit import draw, measure
from phasebit.chapters.layouts import packed_tiles
from phasebit.chapters.layouts.packed_operands import ASKED
from phasebit.draw import Picture

Record = dict[str, Any]
TOGETHER = COLUMNS = (1, 2, 4, 8, 16)
"""Products that are interleaved; and columns of blocks, 128 wide."""


def sectors() -> measure.Table:
    """Sectors for A on the emulator, in place and packed; prints how loads and stores compare."""
    rows, loads, conflicts = [], set(), set()
    for s in (1, 2, 4):
        for n in (1, 2, 4):
            strides = (16 * s, s, 1) if s > 1 else (16 + 4096, 1, 0)  # of m, k and the batch
            moved = packed_tiles.count((128, 128 * n, 16), strides, batch=s)
            loads.add(moved.strided_loads / moved.packed_loads)
            conflicts.add((moved.strided_conflicts // (s * n), moved.packed_conflicts // (s * n)))
            dense = s * 128 * 16 * 4 // 32
            rows.append((
                "row-major, rows far apart" if s == 1 else f"{s} interleaved", str(n),
                f"{moved.strided / dense:g}", f"{moved.copy / dense:g}",
                f"{moved.packed / dense:g}", f"{moved.with_copy / moved.strided:.2f}",
            ))  # fmt: skip
    print("instructions that load A, in place for each one from tiles:", *sorted(loads))
    for in_place, packed in sorted(conflicts):
        print(f"bank conflicts when a tile is stored: in place {in_place}, from tiles {packed}")
    return measure.Table(
        ("A", "columns of blocks", "in place", "the copy", "packed", "with copy / in place"),
        tuple(rows), "sectors for A as the emulator counts them; unit: a dense A",
    )  # fmt: skip


def interleaved(record: Record) -> dict[tuple[int, int], dict[str, float]]:
    """Products together and N -> the median µs of each way."""
    return {(each["interleaved"], each["shape"][1]): _medians(each)
            for each in record["interleaved"]}  # fmt: skip


def _medians(entry: Record) -> dict[str, float]:
    return {name: median(each["times_us"]) for name, each in entry["times"].items()}


def counted(record: Record) -> measure.Table:
    """Counted sectors, and times; prints how far the formula is from them, in place and packed."""
    took_all, rows, off = interleaved(record), [], 0.0
    for each in record["interleaved_counted"]:
        s, (m, n, k) = each["interleaved"], each["shape"]
        dense = s * m * k * 4 / 32
        of_b = s * (m // 128) * k * n * 4 / 32  # each row of blocks reads all of B
        formula = n / 128 * min(s, 8)
        strided, packed = ((each[way][ASKED] - of_b) / dense for way in ("strided", "packed"))
        off = max(off, abs(strided / formula - 1), abs(packed / (n / 128) - 1))
        took = took_all[s, n]
        rows.append((
            str(s), f"{strided:.2f}",
            f"{each['strided']['dram__bytes_read.sum'] / 1e9:.2f}", f"{took['strided']:.0f}",
            f"{took['copy and packed'] - took['copy']:.0f}", f"{took['copy']:.0f}",
        ))  # fmt: skip
    slower = took_all[8, 1024]["strided"] / took_all[1, 1024]["strided"] - 1
    print(f"sectors: the formula is off by {off:.1%} at most")
    print(f"eight interleaved beside a dense A, in place: {slower:.1%} slower")
    return measure.Table(
        ("interleaved", "sectors in place", "GB from memory, in place", "µs in place", "µs packed",
         "µs copy"),
        tuple(rows), measure.source(record) + "; sectors for A in units of a dense A, N = 1024",
    )  # fmt: skip


def when_it_pays(record: Record) -> Picture:
    """Time with the copy over time in place; prints what a rule of one price and one gain says.

    Price and gain are taken from the most columns, which do not count among the cases.
    """
    took_all, ratio, right = interleaved(record), {}, []
    for s in TOGETHER:
        took = {n: took_all[s, 128 * n] for n in COLUMNS}
        ratio[f"{s} interleaved"] = [
            took[n]["copy and packed"] / took[n]["strided"] for n in COLUMNS
        ]
        most = took[COLUMNS[-1]]
        saved = (most["strided"] - most["copy and packed"] + most["copy"]) / COLUMNS[-1]
        pays = [n for n in COLUMNS if took[n]["copy and packed"] < took[n]["strided"]]
        right += [(n > most["copy"] / saved) == (n in pays) for n in COLUMNS[:-1]]
        print(f"{s:2} interleaved: copy {most['copy']:3.0f} µs, a column saves {saved:.0f} µs: "
              f"from {most['copy'] / saved:.1f} columns on; measured: {pays[0]}")  # fmt: skip
    judged = f"{sum(right)} of {len(right)} cases"
    print(f"up to {COLUMNS[-2]} columns the rule decides right in {judged}")
    return draw.curves(
        COLUMNS, ratio, x_label="columns of blocks, 128 wide", evenly=True, from_zero=False,
        y_label="time with copy / in place",
        title="Packing A, the copy included: below 1 it pays (H200, f32)",
    )  # fmt: skip


def beside_the_vendor(record: Record) -> measure.Table:
    """Both ways beside cuBLAS; prints where in place wins, and what the copies cost."""
    took_all, rows = interleaved(record), []
    for s in (1, 4, 16):
        for n in (128, 2048):
            took = took_all[s, n]
            best = min(took["strided"], took["copy and packed"])
            rows.append((
                str(s), str(n), *(f"{took[way]:.0f}" for way in (
                    "strided", "copy and packed", "cuBLAS", "cuBLAS, A dense")),
                f"{took['cuBLAS'] / best:.2f}",
            ))  # fmt: skip
    wins = [key for key, took in took_all.items() if took["strided"] < took["cuBLAS"]]
    print("(interleaved, N) where in place beats cuBLAS with its copy:", wins)
    price = {s: took_all[s, 2048]["cuBLAS"] - took_all[s, 2048]["cuBLAS, A dense"]
             for s in TOGETHER[1:]}  # fmt: skip
    print("what the copy costs there, µs:", {s: round(each) for s, each in price.items()})
    print("and our copy, µs:             ", {s: round(took_all[s, 2048]["copy"]) for s in price})
    return measure.Table(
        ("interleaved", "N", "in place", "copy and packed", "cuBLAS with its copy",
         "cuBLAS, A dense", "cuBLAS / best of ours"),
        tuple(rows), measure.source(record) + "; µs",
    )  # fmt: skip


def rows_far_apart(record: Record) -> None:
    """Print the times of one product whose rows lie at several distances: least and most."""
    took = {entry["name"]: _medians(entry) for entry in record["alone"]}
    print(f"{measure.source(record)}; A of 2048 × 1024 as", ", ".join(took))
    ways = {"strided": "in place", "copy and packed": "copy and packed", "cuBLAS": "cuBLAS"}
    for way, words in ways.items():
        times = [each[way] for each in took.values()]
        print(f"{words:>15}: {min(times):.0f} to {max(times):.0f} µs")
