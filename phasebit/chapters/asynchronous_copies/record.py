"""*Asynchronous copies*: how many stages hide the latency of a copy, predicted and then swept.

First what the prediction needs: how long a load takes, and how long one block needs for a tile
whose data is already there. Then one block with every number of stages, and all
multiprocessors with several blocks each, beside ``cudaMemcpy`` of the same bytes.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from phasebit import files, measure, toolchain
from phasebit.edits import replace_each
from phasebit.instruments import profiler, programs

NAME = "asynchronous_copies"

SWEPT = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16)
"""Stages of the one-block sweep."""

STAGED = ("groups", "pipeline", "mbarrier")
"""Kernels with a ring, by their file names without ``.cu``; ``loads`` has one slot."""

FETCH = "if (next < tiles) fetch(ring[free], x, n, next);"
"""The line of ``groups`` without which a block works on what is already there."""

WAIT = "__pipeline_wait_prior(STAGES - 1);"
"""The line without which it starts copies and works on whatever is there."""

FITTING = (
    ("TILE = 4 * THREADS; ", "TILE = 4 * THREADS - 8; "),
    ("        weigh(ring[slot]", "        if (threadIdx.x < TILE / 4) weigh(ring[slot]"),
)
"""What makes a tile and its neighbours as many pieces as there are threads: one pass of copies."""

STALLS = {
    why: f"smsp__average_warps_issue_stalled_{why}_per_issue_active.ratio"
    for why in ("long_scoreboard", "lg_throttle", "mio_throttle", "short_scoreboard", "barrier",
                "wait", "math_pipe_throttle", "dispatch_stall")
}  # fmt: skip
"""Why a warp does not issue -> its counter in Nsight Compute."""

ONE_BLOCK = 1024
"""Tiles of the one-block runs: 2 MiB in and 2 MiB out, which stay in the L2 cache when warm."""

WHOLE_GPU = 1 << 16
"""Tiles of the runs with all multiprocessors: 128 MiB in and 128 MiB out."""

BLOCKS = (1, 2, 4, 8)
"""Blocks on each multiprocessor in the runs with all of them."""

_REPEATS = 40


def staged(kernel: str, stages: int) -> str:
    """The source of a kernel with that many slots; ``ValueError`` where it has one for good."""
    source = files.kernel(f"asynchronous_copies/{kernel}")
    if "STAGES = 4;" not in source and stages != 1:
        raise ValueError(f"{kernel} has no ring: it has one slot, not {stages}")
    return source.replace("STAGES = 4;", f"STAGES = {stages};")


def resident() -> str:
    """The ring of groups without its copies: what a tile costs when its data is there."""
    return _without(FETCH, FETCH.replace("next < tiles", "n < 0"))  # the compiler cannot know


def unwaited() -> str:
    """The ring of groups that starts its copies and never waits for them."""
    return _without(WAIT, ";")


def fitting(source: str) -> str:
    """A copy of groups, or of one of the above, whose tile takes one pass of copies.

    Raises ``ValueError`` when a line is not there once.
    """
    return replace_each(source, FITTING, "asynchronous_copies/groups.cu")


def _without(line: str, instead: str) -> str:
    source = files.kernel("asynchronous_copies/groups")
    harness = '#include "asynchronous_copies/filter_harness.cuh"'
    edits = [(line, instead), (harness, "#define UNVERIFIED\n" + harness)]
    return replace_each(source, edits, "asynchronous_copies/groups.cu")


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    The record holds ``latency`` (µs for one load, from the L2 cache and from memory),
    ``resident`` and ``unwaited`` (µs a launch) and ``rows``, each of a kernel, stages, blocks
    and tiles with its times in µs; beside them those of ``cudaMemcpy``.

    Raises :class:`toolchain.CudaError` when there is no GPU, or a kernel fails.
    """
    facts = measure.facts()
    units = programs.multiprocessors()
    plan = [("loads", 1, 1, ONE_BLOCK)]
    plan += [("groups", stages, 1, ONE_BLOCK) for stages in SWEPT]
    plan += [(kernel, stages, 1, ONE_BLOCK) for kernel in STAGED[1:] for stages in (1, 2, 4, 8, 16)]
    for blocks in BLOCKS:
        plan += [("loads", 1, blocks * units, WHOLE_GPU)]
        plan += [("groups", stages, blocks * units, WHOLE_GPU) for stages in (1, 2, 4, 8)]
    sources = {(kernel, stages): staged(kernel, stages) for kernel, stages, _, _ in plan}
    with ThreadPoolExecutor() as pool:
        built = list(pool.map(_build, sources.values()))
    ready = {key: build.program for key, build in zip(sources, built, strict=True)}

    loads = programs.times(programs.kernel("asynchronous_copies/latency"))
    there = programs.times(_build(resident()).program, *_sizes(1, ONE_BLOCK))
    started = programs.times(_build(unwaited()).program, *_sizes(1, ONE_BLOCK))
    fits = {
        "groups": fitting(files.kernel("asynchronous_copies/groups")),
        "resident": fitting(resident()),
        "unwaited": fitting(unwaited()),
    }
    fits_us = {
        what: programs.times(_build(text).program, *_sizes(1, ONE_BLOCK))
        for what, text in fits.items()
    }
    stalls = {
        what: _stalls(text)
        for what, text in (
            ("resident", resident()),
            ("unwaited", unwaited()),
            ("unwaited, fits", fits["unwaited"]),
        )
    }
    rows = []
    for kernel, stages, blocks, tiles in plan:
        times = programs.times(ready[kernel, stages], *_sizes(blocks, tiles))
        warm = statistics.median(times["warm_us"])
        print(f"⏱ {kernel}, stages {stages}, blocks {blocks}: {warm:.1f} µs warm", flush=True)
        rows.append({"kernel": kernel, "stages": stages, "blocks": blocks, "tiles": tiles, **times})
    return {
        "benchmark": NAME,
        **facts,
        "multiprocessors": units,
        "protocol": {
            "clock": "CUDA events before and after each launch, launches queued",
            "warm": f"{_REPEATS} launches of a process, after 20 that do not count; 4 MiB stay "
            "in the L2 cache, 256 MiB do not",
            "flushed": f"{_REPEATS // 5 + 1} launches, each after 256 MiB of other memory is read",
            "latency": "one thread follows a ring of pointers through 4 MiB, 4096 loads (ld.cg), "
            "20 launches; from memory: each after a flush",
            "resident": "groups without its copies, one block, 1024 tiles; not verified",
            "unwaited": "groups without its wait, one block, 1024 tiles; not verified",
            "fits": "groups, resident and unwaited with tiles of 504 outputs, whose copies take "
            "one pass of the block; 1024 tiles",
            "stalls": "Nsight Compute, the second launch of a process: warps that wait for a "
            "reason, for each instruction that is issued",
            "inputs": "normal random numbers; every kernel is checked in the process that times it",
            "vendor": "cudaMemcpyAsync, device to device, of the same bytes in the same process",
        },
        "latency": loads,
        "resident": there,
        "unwaited": started,
        "fits": fits_us,
        "stalls": stalls,
        "rows": rows,
    }


def _build(source: str) -> toolchain.Build:
    return toolchain.build(source, options=["-O3"])  # for the host: it checks long vectors


def _stalls(source: str) -> dict[str, float]:
    """Why the warps of a filter that verifies nothing wait, in its second launch."""
    program = _build(source).program
    command: list[str | Path] = [
        "-k",
        "filter",
        "-s",
        "1",
        "-c",
        "1",
        program,
        *_sizes(1, ONE_BLOCK),
    ]
    ((_, found),) = profiler.count(command, list(STALLS.values()))
    return {why: found[metric] for why, metric in STALLS.items()}


def _sizes(blocks: int, tiles: int) -> Iterable[str]:
    return "warm", "--blocks", str(blocks), "--tiles", str(tiles), "--repeats", str(_REPEATS)
