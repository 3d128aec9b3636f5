"""The chapter's kernels on the emulator: run, counted, and what it found in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import groupby

import numpy as np

from phasebit.emulator import Deadlock, Run, Schedule
from phasebit.launching.launch import compile
from phasebit.launching.ring_timeline import timeline
from phasebit.timeline import Span, Timeline

INSTRUCTIONS = "PTX instructions of all warps"
"""A row of its own sign: their number is the compiler's."""

COUNTERS = {
    "sectors loaded from global memory": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "wavefronts of shared loads": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "bank conflicts among them": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "arrivals at __syncthreads()": "barrier.syncs",
    "arrivals at cuda::barriers": "mbarrier.arrivals",
}
"""What :func:`table` shows -> the emulator's counter."""


BARRIERS = {
    "memory+16384": "full[0]",
    "memory+16392": "full[1]",
    "memory+16400": "empty[0]",
    "memory+16408": "empty[1]",
}
"""Where the barriers of the ring of two slots lie -> what its source calls them."""


_TILE = 4 * 32 * 32  # bytes of a tile of A or B
_STEP = 4  # columns of a drawing for the loads or the stores of a tile


def threads(source: str) -> int:
    """Threads of a block, from the constants of a kernel's file."""
    constants = {name: int(n) for name, n in re.findall(r"constexpr int (\w+) = (\d+);", source)}
    if "THREADS" in constants:
        return constants["THREADS"]
    return constants["PRODUCERS"] + constants["CONSUMERS"]


def emulate(
    source: str,
    depth: int = 4096,
    schedule: Schedule = "late",
    seed: int = 0,
    accesses: bool = False,
) -> tuple[Run, bool]:
    """Run a kernel for K = ``depth``: what the emulator saw, and whether C is right."""
    draw = np.random.default_rng(seed=11)
    a = draw.integers(-4, 5, (32, depth)).astype(np.float32)
    b = draw.integers(-4, 5, (depth, 32)).astype(np.float32)
    c = np.full((32, 32), np.nan, np.float32)
    text = source.replace("K = 4096", f"K = {depth}")
    run = compile(text)["matmul"].launch(
        grid=1, block=threads(text), args=[a, b, c], device="emulator", schedule=schedule,
        seed=seed, accesses=accesses,
    )  # fmt: skip
    return run, np.array_equal(c, a @ b)


def table(sources: Mapping[str, str], depth: int = 4096) -> str:
    """Kernels beside each other for one K: :data:`COUNTERS`, whether C is right, the findings."""
    runs = [emulate(source, depth) for source in sources.values()]
    widths = [max(12, len(name)) + 2 for name in sources]
    first = max(map(len, COUNTERS))
    lines = [f"{f'K = {depth}':<{first}}" + _row(sources, widths)]
    executed = (f"{run.counters['smsp__inst_executed.sum']:,}" for run, _ in runs)
    lines.append(f"⏱ {INSTRUCTIONS:>{first - 2}}" + _row(executed, widths))
    for what, counter in COUNTERS.items():
        values = (f"{run.counters.get(counter, 0):,}" for run, _ in runs)
        lines.append(f"{what:>{first}}" + _row(values, widths))
    right = (str(right) for _, right in runs)
    found = (str(len(run.findings)) for run, _ in runs)
    lines.append(f"{'the product is right':>{first}}" + _row(right, widths))
    lines.append(f"{'findings':>{first}}" + _row(found, widths))
    return "\n".join(lines)


def _row(cells: Iterable[str], widths: Iterable[int]) -> str:
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def findings(run: Run, source: str) -> str:
    """Each kind of finding, with the text of its two lines."""
    text, lines = source.splitlines(), []
    for kind, numbers in sorted({(each.kind, tuple(each.lines)) for each in run.findings}):
        lines.append(f"{kind}: nothing orders these two")
        lines += [f"    line {number}: {text[number - 1].strip()}" for number in numbers]
    return "\n".join(lines)


def order(source: str, tiles: int) -> Timeline:
    """The ring of two slots: warp 0 stands for the producers, warp 8 for the consumers."""
    run, _ = emulate(source, depth=32 * tiles)
    full_0, full_1, empty_0, empty_1 = BARRIERS
    full, empty = [full_0, full_1], [empty_0, empty_1]
    return timeline(run.trace, producer=0, consumer=8, full=full, empty=empty)


def loads_under_way(source: str, tiles: int, title: str) -> Timeline:
    """Two slots without roles: what warp 0 does, and until when its loads may be under way.

    Order, no times; all warps do the same. A load may be under way until the store of what it
    brings.
    """
    run, _ = emulate(source, depth=32 * tiles, accesses=True)
    steps = [
        step
        for step, _ in groupby(
            (use.space, use.op, int(use.addresses[0]) // _TILE % 2 if use.space == "shared" else 0)
            for use in run.accesses
            if use.warp == 0
        )
    ]
    spans: list[Span] = []
    now = asked = stored = read = 0
    filled = [0, 0]  # when each slot was full
    for space, op, slot in steps:
        end = now + (2 * _STEP if (space, op) == ("shared", "load") else _STEP)
        rows = ("warp 0", f"slot {slot}")
        if (space, op) == ("global", "load"):
            asked = now
            spans.append(Span("warp 0", now, end, "copy", str(stored)))
        elif (space, op) == ("shared", "store"):
            spans.append(Span("loads", asked, now, "copy", str(stored)))
            spans += [Span(row, now, end, "produce", str(stored)) for row in rows]
            stored, filled[slot] = stored + 1, end
        elif space == "shared":
            spans.append(Span(f"slot {slot}", filled[slot], now, "full"))
            spans += [Span(row, now, end, "consume", str(read)) for row in rows]
            read += 1
        now = end
    return Timeline(
        ("loads", "warp 0", "slot 0", "slot 1"),
        [span for span in spans if span.end > span.start],
        unit="order",
        title=title,
        legend={"copy": "loads: started, may be under way", "produce": "stores, filling",
                "consume": "multiplies, draining", "full": "full"},
    )  # fmt: skip


def waits(deadlock: Deadlock, source: str) -> str:
    """Who waits for what in the ring of two slots, and why."""
    text, lines = source.splitlines(), []
    for wait in deadlock.waits:
        what, why = wait.what, wait.why
        for address, name in BARRIERS.items():
            what, why = what.replace(address, name), why.replace(address, name)
        lines.append(f"{wait.threads} wait for {what}")
        if wait.place is not None:
            lines.append(f"    line {wait.place.line}: {text[wait.place.line - 1].strip()}")
        lines += [f"    {one}" for one in why.split("; ")]
    return "\n".join(lines)
