"""What the page shows of the record: bandwidths, and tables beside what the emulator counts."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from phasebit import measure
from phasebit.chapters.threads_and_memory import counted_transposes, transpose_halves
from phasebit.chapters.threads_and_memory.record import DRAM, FETCHES, ISSUED, LOGS, SHAPE
from phasebit.draw import Cell, Picture, chart, curves
from phasebit.draw.picture import INK, both, figure_of, frame
from phasebit.draw.row_plots import dots, named_rows
from phasebit.emulator import Access, Run
from phasebit.occupancy import limits, occupancy
from phasebit.palette import COLOURS, HUES

WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum"
GENERATIONS = {75: "T4", 80: "A100", 90: "H100, H200", 100: "B200"}


def counted_by(record: dict[str, Any]) -> str:
    """Who counted, where and when: ``"Nsight Compute 2025.3.1.0 on NVIDIA H200, 2026-11-21"``."""
    return f"{record['protocol']['counters'].partition(',')[0]} on {measure.source(record)}"


def limits_table() -> measure.Table:
    """What one multiprocessor holds, of four generations."""
    owns = [limits(capability) for capability in GENERATIONS]
    rows = {
        "threads": [f"{own.threads:,}" for own in owns],
        "warps": [str(own.warps) for own in owns],
        "blocks": [str(own.blocks) for own in owns],
        "registers of 32 bits": [f"{own.registers:,}" for own in owns],
        "shared memory, KiB": [str(own.shared // 1024) for own in owns],
        "of it for one block, KiB": [str(own.block_shared // 1024) for own in owns],
    }
    return measure.Table(
        ("one multiprocessor holds", *(f"sm_{c} ({name})" for c, name in GENERATIONS.items())),
        tuple((name, *row) for name, row in rows.items()),
        "CUDA C++ Programming Guide, specifications per compute capability",
    )


def occupancy_table(record: dict[str, Any], shared: Mapping[str, int]) -> measure.Table:
    """What limits kernels in blocks of 256 threads on sm_90; ``shared``: bytes a block."""
    rows = []
    for kernel, size in shared.items():
        registers = record["registers"][kernel]
        fit = occupancy(limits(90), registers, size, threads=256)
        rows.append((kernel, str(registers), str(size), str(fit.blocks), str(fit.warps),
                     f"{fit.share:.0%}", ", ".join(fit.limited_by)))  # fmt: skip
    return measure.Table(
        ("kernel", "registers", "shared", "blocks", "warps", "occupancy", "limited by"),
        tuple(rows),
        f"blocks of 256 threads on sm_90; registers: ptxas, CUDA {record['cuda']}",
    )


def divergence_table(
    turns: Mapping[str, Any], runs: Mapping[str, Run], record: dict[str, Any]
) -> measure.Table:
    """What each deal of turns costs, as the emulator counts it and as the profiler does.

    ``turns``: deal -> how often each thread goes round (threads).
    """
    rows = []
    for deal, run in runs.items():
        longest = turns[deal].reshape(-1, 32).max(axis=1)
        cells = [deal, f"{turns[deal].sum():,}", f"{longest.sum():,}"]
        for counted in (run.counters, record["divergence"][deal]):
            issued, threads = (counted[metric] for metric in ISSUED)
            cells += [f"{issued:,}", f"{threads / issued / 32:.0%}"]
        rows.append(tuple(cells))
    return measure.Table(
        ("deal", "turns of all threads", "turns of all warps", "PTX instructions issued",
         "lanes busy", "machine instructions issued", "lanes busy"),
        tuple(rows),
        f"PTX: the emulator; machine: {counted_by(record)}",
    )  # fmt: skip


def turns_of_a_warp(turns: Any, title: str) -> Picture:
    """Which lanes of a warp are busy in which of its turns; ``turns`` (32)."""
    most, each = int(turns.max()), 8
    return chart(
        [[Cell("x", HUES[0]) if turn < own else None for own in turns]
         for turn in range(0, most, each)],
        rows=[f"{turn + 1} to {turn + each}" for turn in range(0, most, each)],
        columns=range(32), row_label="turns", column_label="lane (x: it is busy)", title=title,
    )  # fmt: skip


def hierarchy(record: dict[str, Any]) -> Picture:
    """The memories that a load may be answered from: who shares each, its size, its latency.

    A level's latency is the median over the walks that fit into it and into no nearer one; each
    walk is a small dot.
    """
    own, l2_mib = limits(90), measure.read("measuring")["l2_mib"]
    levels = {
        f"registers: {own.registers * 4 // 1024} KiB a multiprocessor": (-1.0, -1.0),
        f"shared memory: up to {own.shared // 1024} KiB a multiprocessor": (-1.0, 0.0),
        "L1 cache: what is left of 256 KiB, a multiprocessor": (0.0, own.shared / 1024),
        f"L2 cache: {l2_mib:.0f} MiB for all": (own.shared / 1024, l2_mib * 1024),
        "global memory (DRAM), for all": (l2_mib * 1024, float("inf")),
    }
    walks = {
        0.0 if name == "shared memory" else float(name.removesuffix(" KiB")):
        statistics.median(cycles) / record["most_mhz"] * 1e3
        for name, cycles in record["latency"].items()
    }  # fmt: skip
    there = [[ns for kib, ns in walks.items() if above < kib <= most]
             for above, most in levels.values()]  # fmt: skip
    title = f"Where a load may be answered ({measure.source(record)}, at {record['most_mhz']} MHz)"

    def says(found: Sequence[float]) -> str:
        return f"{statistics.median(found):.0f} ns" if found else "no load needed"

    def drawn(narrow: bool) -> Any:
        figure, axes = figure_of(4.4, 3.4 if narrow else 2.8, narrow)
        axes.set_xscale("log")
        for row, found in enumerate(there):
            at = statistics.median(found) if found else 10.0
            place = row + 0.2 * narrow
            if found:
                axes.plot(found, [place] * len(found), "o", markersize=3, color=COLOURS["blue"])
                axes.plot([at], [place], marker="o", markersize=7, color=COLOURS["blue"])
            beyond = max(found, default=at) if narrow else at  # there no dot lies
            axes.annotate(
                says(found), (beyond, place), (8 * bool(found), 0) if narrow else (0, 6),
                textcoords="offset points", va="center" if narrow else "bottom",
                ha="center" if found and not narrow else "left", color=INK, fontsize=9,
            )  # fmt: skip
        axes.set_xlim(10, 1000)
        axes.set_xticks([10, 30, 100, 300, 1000], ["10", "30", "100", "300", "1000"])
        axes.set_ylim(len(levels) - 0.5, -0.8)
        named_rows(axes, list(levels), narrow)
        frame(axes, title, "ns for one load that waits for the one before", narrow=narrow)
        return figure

    lines = []
    for words, found in zip(levels, there, strict=True):
        span = f" ({min(found):.0f} to {max(found):.0f})" if len(found) > 1 else ""
        lines.append(f"{words}: {says(found)}{span}")
    return both(drawn, f"{title}.\n" + "\n".join(lines))


def first_read(run: Run) -> Access:
    """The first load of a run from shared memory, with the addresses of its lanes."""
    return first(run, "shared", "load")


def first(run: Run, space: str, op: str) -> Access:
    """The first access of a run to ``"global"`` or ``"shared"`` memory, a ``"load"`` or a store."""
    return next(a for a in run.accesses if (a.space, a.op) == (space, op))


def wavefront_us(record: dict[str, Any], kernel: str) -> float:
    """µs that the timed transpose needs if shared memory does a wavefront a clock and no more."""
    counters = record["counters"][kernel]
    counted = sum(counters[WAVEFRONTS.format(op)] for op in ("ld", "st"))
    larger = record["transpose_bytes"] / 8 / (SHAPE[0] * SHAPE[1])  # than the counted matrix
    us: float = counted * larger / record["multiprocessors"] / record["most_mhz"]
    return us


def sector_us(record: dict[str, Any], kernel: str) -> float:
    """µs that the timed transpose needs if its sectors move as fast as those of cudaMemcpy."""

    def sectors(name: str) -> int:
        counted: int = sum(record["counters"][name][SECTORS.format(op)] for op in ("ld", "st"))
        return counted

    times: list[float] = record["transpose_us"]["cudaMemcpy"]
    return statistics.median(times) * sectors(kernel) / sectors("copy")


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


def strides(record: dict[str, Any], *, dram: bool = False) -> Picture:
    """The strided copies: the time that their sectors predict from stride 1, and the measured.

    ``dram``: and the time that :func:`needed` gives.
    """
    times = strided_times(record)
    shown = {
        "measured": list(times.values()),
        "by the sectors": [times[1] * min(32, 4 * stride) / 4 for stride in times],
    }
    if dram:
        shown["by DRAM's bytes"] = list(needed(record).values())
    return curves(
        list(times), shown,
        x_label="stride", y_label="µs", show=lambda time: f"{float(time):.0f}",
        evenly=True, ratios=True, title=f"A copy of 256 MiB ({measure.source(record)})",
    )  # fmt: skip


def dram_table(record: dict[str, Any]) -> measure.Table:
    """The strided copies: what DRAM delivered and took."""
    array = record["bandwidth_bytes"] / 2
    rows = []
    for stride in strided_times(record):
        moved = (record["strided"][str(stride)][metric] for metric in DRAM)
        rows.append((str(stride), *(f"{each / array:.1f}" for each in moved)))
    return measure.Table(
        ("stride", "read, arrays", "written, arrays"), tuple(rows),
        f"bytes of DRAM in units of the array, 256 MiB; {measure.source(record)}",
    )  # fmt: skip


def needed(record: dict[str, Any]) -> dict[int, float]:
    """Stride -> µs in which cudaMemcpy's rate moves what DRAM moves for a strided copy."""
    vendor = memcpy_bandwidth(record)
    return {
        stride: sum(record["strided"][str(stride)][metric] for metric in DRAM) / vendor / 1e3
        for stride in strided_times(record)
    }


def one_way_table(record: dict[str, Any]) -> measure.Table:
    """DRAM's bytes of loads alone and of stores alone, by stride; and what is left of the copy.

    The loads stand once for each size that L2 may fetch at a time. The copy's loads are what it
    reads less what stores alone read.
    """
    array, one_way = record["bandwidth_bytes"] / 2, record["one_way"]
    rows = []
    for stride in (1 << log for log in LOGS):
        loads = [one_way[most][f"loads, stride {stride}"][DRAM[0]] for most in FETCHES]
        read, written = (one_way[FETCHES[0]][f"stores, stride {stride}"][way] for way in DRAM)
        copies = record["strided"][str(stride)][DRAM[0]] - read
        counts = (*loads, copies, read, written)
        rows.append((str(stride), *(f"{count / array:.1f}" for count in counts)))
    return measure.Table(
        ("stride", *(f"loads alone, {most} bytes" for most in FETCHES), "the copy's loads",
         "stores alone, read", "written"),
        tuple(rows),
        "bytes of DRAM in units of the array, 256 MiB; loads alone, with at most so many bytes "
        f"fetched at a time; {measure.source(record)}",
    )  # fmt: skip


def transpose_table(record: dict[str, Any]) -> measure.Table:
    """The transposes: what sectors and wavefronts predict, beside what was measured."""
    vendor = statistics.median(record["transpose_us"]["cudaMemcpy"])
    rows = []
    for name, times in record["transpose_us"].items():
        low, middle, high = statistics.quantiles(times, n=4)
        counted: tuple[str, ...] = ("", "")
        predicted = 1.0
        if name != "cudaMemcpy":
            needed = sector_us(record, name), wavefront_us(record, name)
            counted, predicted = tuple(f"{us:.0f}" for us in needed), max(needed) / vendor
        measured = (f"{middle:.0f}", f"{low:.0f}–{high:.0f}")
        rows.append((name, *counted, *measured, f"{predicted:.2f}", f"{middle / vendor:.2f}"))
    return measure.Table(
        ("kernel", "sectors, µs", "wavefronts, µs", "measured, µs", "middle half", "predicted ×",
         "measured ×"),
        tuple(rows),
        f"8192 × 8192 floats; sectors at cudaMemcpy's rate; wavefronts one a clock at "
        f"{record['most_mhz']} MHz on {record['multiprocessors']} multiprocessors; predicted: the "
        f"longer of the two; ×: over cudaMemcpy's time. {measure.source(record)}, CUDA "
        f"{record['cuda']}",
    )  # fmt: skip


def counted_table(record: dict[str, Any]) -> measure.Table:
    """A copy and the naive transpose, large and small: what DRAM and the L2 cache were asked.

    ``record``: that of :mod:`counted_transposes`; medians of its launches.
    """
    rows = []
    for shape in counted_transposes.SHAPES:
        copied = _counts(record, "copy", shape)[counted_transposes.L2_WRITES]
        name = f"{shape[0]} × {shape[1]}"
        for kernel in ("copy", "naive"):
            counts = _counts(record, kernel, shape)
            numbers = shape[0] * shape[1]
            read, written = (
                counts[way] / (4 * numbers)
                for way in (counted_transposes.READ, counted_transposes.WRITTEN)
            )
            rows.append((
                name, kernel, f"{read:.2f}", f"{written:.2f}",
                f"{counts[counted_transposes.L2_WRITES] / copied:.1f}",
                f"{counts[counted_transposes.TIME] / numbers * 1e3:.1f}",
            ))  # fmt: skip
            name = ""
    return measure.Table(
        ("rows × columns", "kernel", "DRAM reads ×", "DRAM writes ×", "L2 stores ×",
         "ps for a number"),
        tuple(rows),
        "×: DRAM's bytes over those of the matrix; sectors stored to L2 over those of the copy. "
        f"{measure.source(record)}",
    )  # fmt: skip


def _counts(record: dict[str, Any], kernel: str, shape: tuple[int, int]) -> dict[str, float]:
    """Medians over the launches of a kernel: metric -> value."""
    mine = [
        launch for launch in record["launches"]
        if launch["kernel"] == kernel and tuple(launch["shape"]) == shape
    ]  # fmt: skip
    return {
        metric: statistics.median(launch[metric] for launch in mine)
        for metric in counted_transposes.METRICS
    }


def _rate(size: int, times_us: Sequence[float]) -> float:
    """GB/s of the median time: bytes over seconds, over 10⁹."""
    return size / (statistics.median(times_us) * 1e-6) / 1e9


def halves(controls: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Medians of a transpose's time and of its halves, in µs, by kernel and blocks at once.

    ``controls``: the record of :mod:`transpose_halves`. *One after the other* is the sum of the
    halves less an empty launch, which stands in both.
    """
    times = {name: statistics.median(us) for name, us in controls["times_us"].items()}
    empty = f"{transpose_halves.NOTHING}, "
    counts = [int(name.removeprefix(empty).split()[0]) for name in times if name.startswith(empty)]
    found = {}
    for kernel in transpose_halves.WHOLE:
        for blocks in counts:
            device, shared, whole, racing, nothing = (
                times[transpose_halves.named(contender, blocks)]
                for contender in (
                    transpose_halves.DEVICE, transpose_halves.SHARED[kernel], kernel,
                    f"{kernel}, {transpose_halves.WITHOUT}", transpose_halves.NOTHING,
                )
            )  # fmt: skip
            found[f"{kernel}, {blocks} blocks at once"] = {
                "the slower half": max(device, shared),
                "without the barrier": racing,
                "whole": whole,
                "one after the other": device + shared - nothing,
            }
    return found


def halves_picture(controls: dict[str, Any]) -> Picture:
    """Where a transpose's time lies between its slower half and both, one after the other."""
    return dots(
        halves(controls), x_label="µs", show=lambda us: f"{float(us):.0f}",
        title=f"The transposes and their halves ({measure.source(controls)})",
    )  # fmt: skip
