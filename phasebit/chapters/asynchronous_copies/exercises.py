"""Checks of *Asynchronous copies*."""

from __future__ import annotations

import functools
import math
import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from phasebit import files
from phasebit.edits import replace_each
from phasebit.exercises import rings
from phasebit.exercises.judge import Wrong, ask, judged, real, shown, whole
from phasebit.exercises.written import compiled, written


@judged
def bytes_under_way(answer: Callable[[float, float], float]) -> str:
    """``answer(rate, latency)``: bytes under way at ``rate`` GB/s and ``latency`` ns."""
    draw = random.Random(121)
    cases = [(4800.0, 600.0)] + [
        (round(draw.uniform(10, 9000), 1), round(draw.uniform(50, 900), 1)) for _ in range(40)
    ]
    for rate, latency in cases:
        got, right = real(ask(answer, rate, latency), "bytes"), rate * latency
        if not math.isclose(got, right, rel_tol=1e-6):
            raise Wrong(f"at {rate} GB/s and {latency} ns it is {right:.10g} bytes, not {got:.10g}")
    return f"{len(cases)} pairs"


_LOOP = """        if (next < tiles) fetch(ring[free], x, n, next);
        __pipeline_commit();  // a group a tile, also when there is nothing left to fetch
        __pipeline_wait_prior(STAGES - 1);  // my copies of this tile have arrived
        __syncthreads();                    // and everybody's: the slot is full
        weigh(ring[slot], y, n, tile * TILE + 4 * threadIdx.x, weights);
        __syncthreads();                    // the slot is empty again
"""

ONE_BARRIER = """        __pipeline_wait_prior(N);  // my copies of this tile have arrived
        __syncthreads();  // everybody's have, and everybody is done with the tile before
        if (next < tiles) fetch(ring[free], x, n, next);
        __pipeline_commit();
        weigh(ring[slot], y, n, tile * TILE + 4 * threadIdx.x, weights);
"""
"""The loop of ``groups`` with one barrier a tile: wait first, fetch after it."""


def one_barrier(stages: int, prior: int) -> str:
    """``groups`` with that loop, ``N`` put in."""
    edits = [
        ("STAGES = 4;", f"STAGES = {stages};"),
        (_LOOP, ONE_BARRIER.replace("(N)", f"({prior})")),
    ]
    return replace_each(files.kernel("asynchronous_copies/groups"), edits, "groups.cu")


@judged
def wait_first(answer: Callable[[int], int]) -> str:
    """``answer(stages)``: the ``N`` of that loop, the largest that is right; 2 to 5 stages."""
    seed = random.randrange(2**32)
    for stages in (2, 3, 4, 5):
        prior = ask(answer, stages)
        if not whole(prior) or prior < 0:
            raise Wrong(f"for {stages} stages it gives {shown(prior)}: give a whole number from 0")
        why = _fault(one_barrier(stages, prior), 128, seed)
        if why:
            raise Wrong(f"with {stages} stages and N = {prior}: {why}")
        if not _fault(one_barrier(stages, prior + 1), 128, seed):
            raise Wrong(f"with {stages} stages N = {prior} is right, but so is a larger N")
    return "2 to 5 stages, no finding, and the largest N"


LINES = (
    "__threadfence_block();",
    "__pipeline_wait_prior(0);",
    "__pipeline_commit();",
    "__pipeline_arrive_on(&ring.full[slot]);",
    "__pipeline_commit(); __pipeline_wait_prior(0);",
)
"""Lines to choose from, for the place before the producer's arrival in ``mbarrier``."""

_ARRIVE_ON = "__pipeline_arrive_on(&ring.full[slot]);"


def producer(number: int) -> str:
    """``mbarrier`` with ``LINES[number]`` where the copies were told to arrive.

    Raises ``ValueError`` for a number that names no line.
    """
    if not whole(number) or not 0 <= number < len(LINES):
        raise ValueError(f"give a number from 0 to {len(LINES) - 1}")
    return files.kernel("asynchronous_copies/mbarrier").replace(_ARRIVE_ON, LINES[number])


@judged
def other_line(answer: int) -> str:
    """The *other* line that makes the kernel right; run on the emulator with every check."""
    try:
        source = producer(answer)
    except ValueError as error:
        raise Wrong(str(error)) from error
    why = _fault(source, 160, random.randrange(2**32))
    if why:
        raise Wrong(f"with line {answer}, {why}")
    if LINES[answer] == _ARRIVE_ON:
        raise Wrong(f"line {answer} is the kernel's own: find the other one that is right")
    return "the result is right, and the emulator finds nothing"


_TILE, _THREADS, _STAGES = 512, 128, "constexpr int STAGES = 4;"


@judged
def write_a_ring(answer: str) -> str:
    """A kernel ``reverse(const float* x, float* y, int tiles)`` with groups, written from blank.

    128 threads start asynchronous copies of tiles of 512 floats into a ring of ``STAGES`` slots
    and write each tile out backwards.  Run on the emulator with every check, with 2 to 4 stages,
    several numbers of tiles and early and late copies; copies, meetings and waits are counted.
    """
    text = written(answer, [_STAGES])
    for stages in (4, 2, 3):
        module = compiled(text.replace(_STAGES, f"constexpr int STAGES = {stages};"), "reverse")
        for tiles in (1, 3, 8):
            words, judge = f"{stages} stages, {tiles} tiles", functools.partial(_copies, tiles)
            rings.turned_round(module, _TILE, _THREADS, tiles, words, judge)
        left = [int(n) for n in re.findall(r"cp\.async\.wait_group\s+(\d+);", module.ptx)]
        if max(left, default=0) < stages - 2:
            raise Wrong(
                f"with {stages} stages, no wait leaves {stages - 2} or more groups under way"
            )
    return "2 to 4 stages, no finding"


def _copies(tiles: int, run: Any, where: str) -> None:
    """Judge the copies and meetings of a run."""
    copies, right = run.counters.get("smsp__sass_inst_executed_op_ldgsts.sum", 0), 4 * tiles
    if copies != right:
        raise Wrong(f"{where}: the warps execute {copies} copies, and {right} of 16 bytes do")
    meetings = run.counters.get("barrier.syncs", 0) // _THREADS
    if meetings > 2 * tiles + 1:
        raise Wrong(f"{where}: the block meets {meetings} times, and twice a tile is enough")


def reference(x: Any, weights: Any) -> Any:
    """y (n) of x (n) and weights (9): each element's neighbours, weighted; zeros outside."""
    return np.convolve(np.pad(x, 4), weights[::-1], "valid").astype(np.float32)


def run(source: str, threads: int, seed: int = 12, tiles: int = 6, **options: Any) -> Any:
    """Run a filter on the emulator: the run, and whether the result is right."""
    from phasebit.launching.launch import compile

    draw = np.random.default_rng(seed)
    n = tiles * 512 - 507  # the last tile has five elements
    x = draw.integers(-8, 9, n).astype(np.float32)
    weights = draw.integers(-8, 9, 9).astype(np.float32)
    y = np.full(n, np.nan, np.float32)
    done = compile(source)["filter"].launch(
        grid=1, block=threads, args=[x, y, n, weights.tobytes()], device="emulator", **options
    )
    return done, np.array_equal(y, reference(x, weights))


def _fault(source: str, threads: int, seed: int) -> str:
    """What is wrong with a filter: the first finding, or its result; nothing if all is well."""
    from phasebit.emulator import EmulatorError

    lines = source.splitlines()
    for schedule in ("late", "eager"):
        try:
            done, right = run(source, threads, seed, schedule=schedule)
        except EmulatorError as error:
            return str(error).splitlines()[0]
        if done.findings:
            finding = done.findings[0]
            line = lines[finding.lines[0] - 1].strip()
            return f"the emulator finds {finding.kind} at line {finding.lines[0]}, {line}"
        if not right:
            return f"the result is wrong with copies that complete {schedule}"
    return ""
