"""What the page shows of the record: tables of times, and what each way's time covers."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from phasebit import measure
from phasebit.timeline import Span, Timeline

KINDS = {
    "zeros": "zeros",
    "whole": "whole numbers, -4 to 4",
    "normal": "normal random numbers",
}

MEMORY_TBS = 4.8
"""TB/s of an H200's memory. Source: NVIDIA, H200 Tensor Core GPU, data sheet."""


def times_table(record: dict[str, Any], times: Mapping[str, Sequence[float]]) -> measure.Table:
    """Median and middle half of each list of times, in µs."""
    return measure.Table(
        ("", "median, µs", "middle half", "times"),
        tuple((name, *_summary(values)) for name, values in times.items()),
        measure.source(record),
    )


def ways_table(record: dict[str, Any]) -> measure.Table:
    """The six ways, and what those that are recorded give for an empty kernel."""
    empty, whose = empty_kernel(record)
    return measure.Table(
        ("", "median, µs", "middle half", "times", "an empty kernel, µs"),
        tuple(
            (name, *_summary(times), f"{empty[name]:.2f}" if name in empty else "")
            for name, times in record["ways"].items()
        ),
        f"{measure.source(record)}; an empty kernel: {whose}",
    )


def empty_kernel(record: dict[str, Any]) -> tuple[dict[str, float], str]:
    """Median µs of a kernel that does nothing, by the name of the way; and the record's source.

    From this chapter's record where it has them, else the two ways of that of the clock stamps.
    """
    if "empty" in record:
        medians = {name: statistics.median(times) for name, times in record["empty"].items()}
        return medians, measure.source(record)
    stamps = measure.read("clock_stamps")
    found = {
        "4 events around each launch": stamps["nothing"]["warm_us"],
        "5 events around 200 launches": stamps["nothing"]["queued_us"],
    }
    return found, f"{measure.source(stamps)}, way 5 around 50 launches"


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

    def span(row: str, start: float, end: float, kind: str) -> Span:
        return Span(row, start, end, kind)

    spans = [
        span("host", 0, call, "call"),
        span("host", call, waited, "wait"),
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
    """Medians of the ceilings that were measured beside the roof, none before they are recorded."""
    return {name: statistics.median(rates) for name, rates in record.get("ceilings", {}).items()}


def _summary(times: Sequence[float]) -> tuple[str, str, str]:
    s = measure.summary(times)
    return f"{s.median:.2f}", f"{s.low:.2f}–{s.high:.2f}", f"{s.count}"
