"""What tables and pictures show of the records: kernels, their controls, and who waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phasebit import draw, measure
from phasebit.chapters.double_buffering import clock_stamps, ring_waits
from phasebit.draw import Picture


def rates(recorded: dict[str, Any]) -> dict[str, str]:
    """Kernel -> its rate in warm launches, on the record's one shape."""
    shape = recorded["shape"]
    return {
        row["kernel"]: measure.spoken(shape, measure.summary(row["warm_us"]).median)
        for row in recorded["rows"]
        if row["kernel"] != measure.VENDOR
    }


def spread(record: measure.Record, names: Mapping[str, str], what: str) -> Picture:
    """Every launch of some kernels, warm and with flushed caches; ``names`` are those shown."""
    return draw.spread(
        {name: record[kernel].warm_us for kernel, name in names.items()},
        {name: record[kernel].flushed_us for kernel, name in names.items()},
        x_label="microseconds for one launch",
        title=f"{what}, {record.source}",
        times_are="warm",
        apart_are="caches flushed",
    )


def times(record: measure.Record, names: Mapping[str, str]) -> measure.Table:
    """Medians of some kernels; ``names`` are those shown."""
    return measure.Table(
        ("kernel", "warm, µs", "caches flushed, µs"),
        tuple(
            (name, f"{record[kernel].warm:.1f}", f"{record[kernel].flushed:.1f}")
            for kernel, name in names.items()
        ),
        record.source,
    )


def swept(inside: dict[str, Any], kernel: str) -> Picture:
    """A kernel with several numbers of slots, warm and with flushed caches."""
    points = [point for point in inside["sweep"] if point["kernel"] == kernel]
    return draw.curves(
        [point["constants"]["SLOTS"] for point in points],
        {
            "caches flushed": [point["flushed_us"] for point in points],
            "warm": [point["warm_us"] for point in points],
        },
        x_label="slots",
        y_label="microseconds for one launch",
        title=f"Kernel {kernel[0]}, {measure.source(inside)}",
        show=lambda value: f"{value:.1f}",
    )


def who_waits(inside: dict[str, Any], names: Mapping[str, str]) -> measure.Table:
    """The share of the time in which each role waits, by its clock stamps."""
    rows = []
    for kernel, name in names.items():
        for kind in ("warm", "flushed"):
            stamps = clock_stamps.load(inside, kernel, kind)
            rows.append(
                (name, kind, f"{stamps.producer_waits:.0%}", f"{stamps.consumer_waits:.0%}")
            )
    return measure.Table(
        ("kernel", "caches", "producers wait", "consumers wait"),
        tuple(rows),
        f"{measure.source(inside)}; with stamps",
    )


def two_rings(waits: dict[str, Any]) -> measure.Table:
    """The first ring and *loads first*, with other waits and with other machine code."""
    first, other = ring_waits.STAMPED

    def row(said: str, times: dict[str, Any], how: str) -> tuple[str, ...]:
        medians = (
            measure.summary(times[f"{ring}{how}"][kind]).median
            for kind in ("warm_us", "flushed_us")
            for ring in (first, other)
        )
        return said, *(f"{each:.1f}" for each in medians)

    rows = [
        row("as they are", waits["times"], ""),
        row("a loop of try_wait", waits["times"], ", try_wait"),
        row("a loop of test_wait", waits["times"], ", test_wait"),
        row("as they are, once more", waits["schedules"], ""),
        row("consumers in a function of their own", waits["schedules"], ", consumers apart"),
        row("more registers", waits["schedules"], ", more registers"),
    ]
    heading = ("µs", *(f"{ring}, {how}" for how in ("warm", "flushed") for ring in (first, other)))
    return measure.Table(heading, tuple(rows), measure.source(waits))
