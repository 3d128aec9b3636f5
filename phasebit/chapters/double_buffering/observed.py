"""The chapter's kernels on the emulator: run, counted, and what it found in words."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from phasebit.emulator import Deadlock, Run, Schedule
from phasebit.launching.launch import compile
from phasebit.launching.ring_timeline import timeline
from phasebit.timeline import Timeline

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


def threads(source: str) -> int:
    """Threads of a block, from the constants of a kernel's file."""
    constants = {name: int(n) for name, n in re.findall(r"constexpr int (\w+) = (\d+);", source)}
    if "THREADS" in constants:
        return constants["THREADS"]
    return constants["PRODUCERS"] + constants["CONSUMERS"]


def emulate(
    source: str, depth: int = 4096, schedule: Schedule = "late", seed: int = 0
) -> tuple[Run, bool]:
    """Run a kernel for K = ``depth``: what the emulator saw, and whether C is right."""
    draw = np.random.default_rng(seed=11)
    a = draw.integers(-4, 5, (32, depth)).astype(np.float32)
    b = draw.integers(-4, 5, (depth, 32)).astype(np.float32)
    c = np.full((32, 32), np.nan, np.float32)
    text = source.replace("K = 4096", f"K = {depth}")
    run = compile(text)["matmul"].launch(
        grid=1, block=threads(text), args=[a, b, c], device="emulator", schedule=schedule, seed=seed
    )
    return run, np.array_equal(c, a @ b)


def table(sources: Mapping[str, str], depth: int = 4096) -> str:
    """Kernels beside each other for one K: :data:`COUNTERS`, whether C is right, the findings."""
    runs = [emulate(source, depth) for source in sources.values()]
    width = max(12, *map(len, sources)) + 2
    first = max(map(len, COUNTERS))
    lines = [f"{f'K = {depth}':<{first}}" + "".join(f"{name:>{width}}" for name in sources)]
    for what, counter in COUNTERS.items():
        values = (f"{run.counters.get(counter, 0):>{width},}" for run, _ in runs)
        lines.append(f"{what:>{first}}" + "".join(values))
    right = (f"{right!s:>{width}}" for _, right in runs)
    found = (f"{len(run.findings):>{width}}" for run, _ in runs)
    lines.append(f"{'the product is right':>{first}}" + "".join(right))
    lines.append(f"{'findings':>{first}}" + "".join(found))
    return "\n".join(lines)


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
