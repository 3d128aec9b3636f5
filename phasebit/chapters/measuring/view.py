"""What the page shows of the record: tables of times, and what each way's time covers."""

from __future__ import annotations

import statistics
from typing import Any

from phasebit import measure
from phasebit.chapters.measuring import launch_gaps, measuring_controls
from phasebit.timeline import Span, Timeline

KINDS = {
    "zeros": "zeros",
    "whole": "whole numbers, -4 to 4",
    "normal": "normal random numbers",
}

_FROM_TO = measuring_controls.STAMPED[:2]

ADDS, WORK, PRODUCT = "a launch adds, µs", "last end to next work, ns", "first work to last end, ns"
"""Of :mod:`launch_gaps`: what the table shows of each way and kind."""

MEMORY_TBS = 4.8
"""TB/s of an H200's memory. Source: NVIDIA, H200 Tensor Core GPU, data sheet."""


def ways_table(record: dict[str, Any]) -> measure.Table:
    """The six ways: all times, each process by itself, and a kernel that does nothing."""
    processes = len(record["ways"]["1 the first launch, waited for"])
    empty = {name: statistics.median(times) for name, times in record["empty"].items()}
    rows = []
    for name, times in record["ways"].items():
        s, each = measure.summary(times), len(times) // processes
        medians = [statistics.median(times[i : i + each]) for i in range(0, len(times), each)]
        cells = (name, f"{s.median:.2f}", f"{s.low:.2f}–{s.high:.2f}", f"{s.count}",
                 f"{min(medians):.2f}–{max(medians):.2f}")  # fmt: skip
        rows.append((*cells, f"{empty[name]:.2f}" if name in empty else ""))
    return measure.Table(
        ("", "median, µs", "middle half", "times", f"medians of {processes} processes",
         "an empty kernel, µs"),
        tuple(rows),
        measure.source(record),
    )  # fmt: skip


def covers(record: dict[str, Any]) -> Timeline:
    """One launch, to scale: what the times of four ways cover.

    Where the kernel lies within way 3, no time says: it is drawn in the middle of what follows
    the call.
    """
    call, waited, event, graph = (
        statistics.median(record["ways"][name])
        for name in ("2 host clock, nobody waits", "3 host clock, waited for",
                     "4 events around each launch", "6 a graph of 200 launches")
    )  # fmt: skip
    middle = (call + waited) / 2

    def span(row: str, start: float, end: float, kind: str, waits_for: str = "") -> Span:
        return Span(row, start, end, kind, "", waits_for)

    spans = [
        span("host", 0, call, "call"),
        span("host", call, waited, "wait", "the GPU to have done all that was asked"),
        span("GPU", middle - graph / 2, middle + graph / 2, "kernel"),
        span("way 2", 0, call, "time"),
        span("way 3", 0, waited, "time"),
        span("way 4", middle - event / 2, middle + event / 2, "time"),
    ]
    return Timeline(
        ["host", "GPU", "way 2", "way 3", "way 4"], spans, unit="µs",
        title=f"One launch, and what a way's time covers ({measure.source(record)})",
        legend={"kernel": "the kernel, by way 6", "time": "what the way calls the time"},
    )  # fmt: skip


def data_table(record: dict[str, Any], flop: float) -> measure.Table:
    """Products of ``flop`` operations on three kinds of data: time, rate, power, clock."""
    rows = []
    for kind, name in KINDS.items():
        kept = record["data"][kind]
        time, watt, mhz = (statistics.median(kept[what]) for what in ("times_us", "watt", "mhz"))
        numbers = (time, measure.tflops(flop, time * 1e-6), watt, mhz)
        rows.append((name, *(f"{number:.0f}" for number in numbers)))
    return measure.Table(
        ("", "µs", "TFLOP/s", "power, W", "clock, MHz"), tuple(rows), measure.source(record)
    )


def ceilings(record: dict[str, Any]) -> dict[str, float]:
    """Medians of the ceilings that were measured beside the roof: TB/s read, TFLOP/s."""
    return {name: statistics.median(rates) for name, rates in record["ceilings"].items()}


def graph_table(controls: dict[str, Any]) -> measure.Table:
    """What a launch of the product adds, and what its blocks say of begin and end, by way.

    ``controls``: the record of :mod:`measuring_controls`; begin and end are of launches whose
    blocks write them down.
    """
    gaps = controls["gaps"]
    rows = []
    for way in measuring_controls.WAYS:
        adds = (statistics.median(gaps[f"{way}{kind}: a launch adds, µs"])
                for kind in ("", ", stamped"))  # fmt: skip
        from_to = (statistics.median(gaps[f"{way}: {what}"]) / 1e3 for what in _FROM_TO)
        rows.append((way, *(f"{us:.2f}" for us in (*adds, *from_to))))
    return measure.Table(
        ("", "a launch adds, µs", "if blocks write times", "first begin to last end",
         "last end to next begin"),
        tuple(rows),
        measure.source(controls),
    )  # fmt: skip


def early_table(gaps: dict[str, Any]) -> measure.Table:
    """What a graph saves of the gap between two launches, where the next comes early and not.

    ``gaps``: the record of :mod:`launch_gaps`. Its last kind shows how it asks, and is left out.
    """
    launches = gaps["launches"]

    def medians(kind: str, what: str) -> list[float]:
        return [statistics.median(launches[f"{way}, {kind}: {what}"]) for way in launch_gaps.WAYS]

    rows = []
    for kind in launch_gaps.KINDS[:4]:
        stream, graph = (ns / 1e3 for ns in medians(kind, WORK))
        own = [ns / 1e3 for ns in medians(kind, PRODUCT)]
        numbers = (stream, graph, stream - graph, *own, *medians(kind, ADDS))
        rows.append((kind, *(f"{us:.2f}" for us in numbers)))
    longer = []
    for kind in launch_gaps.KINDS[:4]:
        graph_gaps = launches[f"graph, {kind}: {WORK}"]
        longer.append(sum(ns > min(graph_gaps) + 150 for ns in graph_gaps))
    return measure.Table(
        ("", "gap, stream", "gap, graph", "saved", "product, stream", "product, graph",
         "adds, stream", "adds, graph"),
        tuple(rows),
        "µs, medians; gap: last end to next work; product: first work to last end; adds: what a "
        "launch adds. A graph's gap has two lengths, a third of a µs apart; "
        f"{', '.join(map(str, longer[:-1]))} and {longer[-1]} of {len(graph_gaps)} turns had the "
        f"longer one. {measure.source(gaps)}",
    )


def sustained_table(controls: dict[str, Any]) -> measure.Table:
    """The ceilings and a product for as long as each other: rate, power, clock, and their ratios.

    ``controls``: the record of :mod:`measuring_controls`.
    """
    rows = []
    for name, numbers in sustained(controls).items():
        cells = (f"{numbers[what]:.0f}" for what in ("rate", "watt", "mhz", "a clock"))
        rows.append((name, *cells, f"{numbers['pJ']:.2f}"))
    return measure.Table(
        ("", "TFLOP/s", "power, W", "clock, MHz", "thousand FLOP a clock", "pJ a FLOP"),
        tuple(rows),
        "two seconds without a pause, medians; pJ a FLOP: power over rate. "
        f"{measure.source(controls)}",
    )


def sustained(controls: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Medians of what ran two seconds: TFLOP/s, W, MHz, thousand FLOP a clock, pJ a FLOP."""
    found = {}
    for name in (*measuring_controls.CEILINGS, measuring_controls.VENDOR):
        kept = controls["sustained"][name]
        rate = statistics.median([each for turn in kept["rates"] for each in turn])
        watt, mhz = (statistics.median(kept[what]) for what in ("watt", "mhz"))
        found[name] = {"rate": rate, "watt": watt, "mhz": mhz, "a clock": 1e3 * rate / mhz,
                       "pJ": watt / rate}  # fmt: skip
    return found
