"""What the page shows of the record: rates by bytes under way, announcements, hints."""

from __future__ import annotations

import statistics
from typing import Any

from phasebit import measure
from phasebit.draw import Picture, bars, curves
from phasebit.measure import Table

LOADS = (1, 2, 4)
"""Loads of a thread that are shown."""


def prefetches(recorded: dict[str, Any]) -> Picture:
    """Cycles of a copy, by how long before the engine was told of it."""
    found = {
        what if not what.isdigit() else f"prefetched {int(what):,} cycles before":
            statistics.median(each)
        for what, each in recorded["cycles"].items()
    }  # fmt: skip
    names = sorted(found, key=lambda name: ("memory" not in name, "cache" in name))
    return bars(
        {name: found[name] for name in names}, x_label="cycles of the copy",
        hues=dict.fromkeys((names[0], names[-1]), "orange"),
        title=f"A copy of 8 KiB, {measure.source(recorded)}",
    )  # fmt: skip


def rates(recorded: dict[str, Any]) -> dict[str, str]:
    """Kernel -> how fast it was at best."""
    best = max(_rate(row) for row in recorded["memory"] if row["how"] == "copies")
    return {"few_threads": f"{best / 1000:.2f} TB/s by one thread"}


def _rate(row: dict[str, Any]) -> float:
    return float(statistics.median(row["gb_s"]))


def _rows(recorded: dict[str, Any], how: str) -> list[dict[str, Any]]:
    return [
        row for row in recorded["memory"]
        if row["how"] == how and (how == "copies" or row["bytes"] // row["threads"] // 16 in LOADS)
    ]  # fmt: skip


SHOWN = ((32, 1), (128, 1), (512, 1), (1024, 1), (512, 4), (1024, 2))
"""Threads and the loads of each: the rows of the table, beside copies of so many bytes."""
COPIES = (1024, 8192, 32_768, 65_536)


def threads(recorded: dict[str, Any]) -> Table:
    """GB/s of loads by many threads and of copies that one thread asks for: some rows of all."""
    rows = []
    every = _rows(recorded, "loads") + _rows(recorded, "copies")
    for row in every:
        loads = row["bytes"] // row["threads"] // 16
        shown = (row["threads"], loads) in SHOWN if row["how"] == "loads" else (
            row["bytes"] in COPIES)  # fmt: skip
        if not shown:
            continue
        asks = f"{loads} loads of 16 bytes" if row["how"] == "loads" else "bulk copies"
        rows.append((str(row["threads"]), asks.replace("1 loads", "1 load"),
                     f"{row['bytes']:,}", f"{_rate(row):,.0f}"))  # fmt: skip
    heading = ("threads of a block", "each asks for", "bytes under way", "GB/s")
    return Table(heading, tuple(rows),
                 f"{len(rows)} of {len(every)} rows; {measure.source(recorded)}")  # fmt: skip


def under_way(recorded: dict[str, Any]) -> Picture:
    """The rate over the bytes that a multiprocessor has under way, for loads and for copies."""
    best: dict[str, dict[int, float]] = {"copies": {}, "loads": {}}
    for how, found in best.items():
        for row in _rows(recorded, how):
            found[row["bytes"]] = max(found.get(row["bytes"], 0), _rate(row))
    points = sorted(set(best["copies"]) & set(best["loads"]))
    return curves(
        [f"{point / 1024:g}" for point in points],
        {"one thread, bulk copies": [best["copies"][p] for p in points],
         "many threads, loads": [best["loads"][p] for p in points]},
        x_label="KiB under way on each multiprocessor", y_label="GB/s", evenly=True,
        ratios=True,
        title=f"How fast 1 GiB is read, {measure.source(recorded)}",
    )  # fmt: skip


def announced(recorded: dict[str, Any]) -> Table:
    """How the blocks ended, for each announcement."""
    rows = []
    for case in recorded["announced"]:
        copies, blocks = case["copies"], case["blocks"]
        coming = 4096 * copies
        rows.append((str(copies), f"{coming:,}", f"{coming + case['more']:,}",
                     *(f"{count:,}" for count in blocks.values())))  # fmt: skip
    heading = ("copies", "bytes that come", "announced", "complete", "too early", "never")
    return Table(heading, tuple(rows), f"blocks of 2,112; {measure.source(recorded)}")


def hints(recorded: dict[str, Any]) -> Picture:
    """GB/s of stream and table together, by the table's size and the hint."""
    names = "no hint", "the stream first", "and the table last"
    found = zip(names, zip(*(each.values() for each in recorded["hints"].values()), strict=True),
                strict=True)  # fmt: skip
    return curves(
        [int(mib) for mib in recorded["hints"]],
        {name: [statistics.median(each) for each in of_sizes] for name, of_sizes in found},
        x_label="MiB of the table", y_label="GB/s of stream and table",
        show=lambda rate: f"{float(rate):,.0f}",
        title=f"What a hint is worth, {measure.source(recorded)}",
    )  # fmt: skip


def hint_control(recorded: dict[str, Any]) -> Picture:
    """The same where only the policy of the copies differs, and the table without a stream."""
    sizes = [int(mib) for mib in recorded["hints"]]
    names = tuple(next(iter(recorded["hints"].values())))
    return curves(
        sizes,
        {name: [statistics.median(each[name]) for each in recorded["hints"].values()]
         for name in names},
        x_label="MiB of the table", y_label="GB/s of stream and table",
        show=lambda rate: f"{float(rate):,.0f}",
        title=f"Copies that differ in their policy alone, {measure.source(recorded)}",
    )  # fmt: skip


def times(recorded: dict[str, Any], units: int = 132) -> dict[float, float]:
    """KiB under way -> nanoseconds that a byte is under way, of the copies of one thread."""
    found = {
        row["bytes"] / 1024: row["bytes"] * units / _rate(row)
        for row in sorted(_rows(recorded, "copies"), key=lambda row: row["bytes"])
    }
    return {kib: found[kib] for kib in (0.5, 2.0, 8.0, 16.0, 32.0, 64.0)}
