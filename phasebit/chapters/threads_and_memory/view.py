"""What the page shows of the record: bandwidths, and tables beside what the emulator counts."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from phasebit import measure
from phasebit.chapters.threads_and_memory.record import DRAM


def counted_by(record: dict[str, Any]) -> str:
    """Who counted, where and when: ``"Nsight Compute 2025.3.1.0 on NVIDIA H200, 2026-11-21"``."""
    return f"{record['protocol']['counters'].partition(',')[0]} on {measure.source(record)}"


def bandwidth(record: dict[str, Any], what: str) -> dict[int, float]:
    """Median bandwidth of one kind of copy, read and written, in GB/s: number -> rate."""
    return {
        row["number"]: _rate(record["bandwidth_bytes"], row["us"])
        for row in record["bandwidth"]
        if row["what"] == what
    }


def memcpy_bandwidth(record: dict[str, Any]) -> float:
    """Median bandwidth of cudaMemcpy from device to device in the same run, in GB/s."""
    times = [time for row in record["bandwidth"] for time in row["memcpy_us"]]
    return _rate(record["bandwidth_bytes"], times)


def strided_times(record: dict[str, Any]) -> dict[int, float]:
    """Median time of the strided copies, in µs: stride -> time."""
    rows = (row for row in record["bandwidth"] if row["what"] == "stride")
    return {row["number"]: statistics.median(row["us"]) for row in rows}


def stride_table(record: dict[str, Any]) -> measure.Table:
    """The strided copies: the time that their sectors predict, and the measured one."""
    times = strided_times(record)
    rows = []
    for stride, time in times.items():
        sectors = min(32, 4 * stride)
        predicted = times[1] * sectors / 4
        line = (str(stride), str(sectors), f"{predicted:.0f}", f"{time:.0f}")
        rows.append((*line, f"{time / predicted:.2f}"))
    return measure.Table(
        ("stride", "sectors a load", "predicted, µs", "measured, µs", "measured / predicted"),
        tuple(rows),
        f"a copy of 256 MiB, predicted from stride 1; {measure.source(record)}",
    )


def dram_table(record: dict[str, Any]) -> measure.Table:
    """The strided copies: what DRAM delivered and took, and how long cudaMemcpy needs for that."""
    array, vendor = record["bandwidth_bytes"] / 2, memcpy_bandwidth(record)
    rows = []
    for stride, time in strided_times(record).items():
        read, written = (record["strided"][str(stride)][metric] for metric in DRAM)
        needed = (read + written) / vendor / 1e3
        line = (str(stride), f"{read / array:.1f}", f"{written / array:.1f}", f"{needed:.0f}")
        rows.append((*line, f"{time:.0f}", f"{time / needed:.2f}"))
    return measure.Table(
        ("stride", "read, arrays", "written, arrays", "needed, µs", "measured, µs",
         "measured / needed"),
        tuple(rows),
        f"bytes of DRAM in units of the array, 256 MiB; needed: at cudaMemcpy's {vendor:.0f} GB/s; "
        f"{measure.source(record)}",
    )  # fmt: skip


def transpose_table(record: dict[str, Any]) -> measure.Table:
    """The transposes and the copies of the record, as a table."""
    vendor = statistics.median(record["transpose_us"]["cudaMemcpy"])
    rows = []
    for name, times in record["transpose_us"].items():
        low, middle, high = statistics.quantiles(times, n=4)
        rows.append(
            (
                name,
                f"{middle:.0f}",
                f"{low:.0f}–{high:.0f}",
                f"{_rate(record['transpose_bytes'], times):.0f}",
                f"{middle / vendor:.2f}",
            )
        )
    return measure.Table(
        ("kernel", "µs, median", "middle half", "GB/s", "times cudaMemcpy"),
        tuple(rows),
        f"8192 × 8192 floats, read once and written once. {measure.source(record)}, "
        f"driver {record['driver']}, CUDA {record['cuda']}",
    )


def _rate(size: int, times_us: Sequence[float]) -> float:
    """GB/s of the median time: bytes over seconds, over 10⁹."""
    return size / (statistics.median(times_us) * 1e-6) / 1e9
