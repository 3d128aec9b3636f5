"""Checks of *Double buffering with barriers*."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable
from typing import Any

from phasebit import files
from phasebit.exercises import rings
from phasebit.exercises.judge import Wrong, ask, judged, real, same, shown, whole
from phasebit.exercises.written import compiled, written
from phasebit.mbarrier import Mbarrier

LINES = (
    "(void)ring.empty[slot].arrive();",
    "__syncthreads();",
    "if (threadIdx.x == 0) (void)ring.full[slot].arrive();",
    "(void)ring.full[slot].arrive();",
    "ring.full[slot].arrive_and_wait();",
)
"""Lines to choose from for the end of the producer's loop."""

_MISSING = "(void)ring.full[slot].arrive();"


@judged
def end_of_run(answer: Callable[[int, int, int, int], tuple[int, int, int]]) -> str:
    """``answer(tiles, slots, producers, consumers)`` about slot 0 when the kernel has ended.

    Phases that its barrier full completed, phases that empty completed, and the arrivals that
    empty still waits for. Compared with two :class:`Mbarrier` objects that go through it.
    """
    draw = random.Random(11)
    cases = [(128, 2, 256, 256)]
    for _ in range(40):
        slots = draw.randint(1, 5)
        cases.append((draw.randint(slots, 40), slots, draw.randint(1, 9), draw.randint(1, 9)))
    for case in cases:
        got, right = ask(answer, *case), _play(*case)
        if not same(got, right):
            tiles, slots, producers, consumers = case
            raise Wrong(
                f"for {tiles} tiles, {slots} slots, {producers} producers and {consumers} "
                f"consumers the barriers say {right}, you say {shown(got)}"
            )
    return f"{len(cases)} kernels"


def _play(tiles: int, slots: int, producers: int, consumers: int) -> tuple[int, int, int]:
    full = Mbarrier(producers + consumers, name="full[0]")
    empty = Mbarrier(producers + consumers, name="empty[0]")
    empty.arrive(consumers)  # before the loop
    for _ in range(0, tiles, slots):  # the tiles that pass through slot 0
        empty.test_wait(empty.arrive(producers))
        full.arrive(producers)
        full.test_wait(full.arrive(consumers))
        empty.arrive(consumers)
    return full.phase, empty.phase, empty.pending


@judged
def floor(answer: Callable[[int, int, int, int, float], float]) -> str:
    """``answer(m, n, k, lanes, ghz)``: microseconds that the multiply-adds need at the least.

    ``lanes`` multiply-adds begin in each cycle; ``ghz`` is the clock in 10⁹ cycles a second.
    """
    draw = random.Random(12)
    cases = [(32, 32, 4096, 128, 1.98)]
    for _ in range(50):
        m, n, k = draw.randint(1, 512), draw.randint(1, 512), draw.randint(1, 9999)
        cases.append((m, n, k, draw.choice((32, 64, 128)), round(draw.uniform(0.5, 3), 2)))
    for case in cases:
        m, n, k, lanes, ghz = case
        got, right = real(ask(answer, *case), "microseconds"), m * n * k / lanes / ghz * 1e-3
        if not math.isclose(got, right, rel_tol=1e-6):
            raise Wrong(
                f"for M={m}, N={n}, K={k}, {lanes} lanes at {ghz} GHz the floor is "
                f"{right:.10g} µs, not {got:.10g}"
            )
    return f"{len(cases)} sizes"


def repaired(number: int) -> str:
    """The producer–consumer kernel, its producer's loop ending in ``LINES[number]``.

    Raises ``ValueError`` for a number that names no line.
    """
    if not whole(number) or not 0 <= number < len(LINES):
        raise ValueError(f"give a number from 0 to {len(LINES) - 1}")
    return files.kernel("double_buffering/barrier_double_buffer").replace(_MISSING, LINES[number])


@judged
def missing_line(answer: int) -> str:
    """The *other* line that makes the kernel right; run on a GPU or on the emulator."""
    from phasebit.notebook import verdict  # needs IPython

    try:
        source = repaired(answer)
    except ValueError as error:
        raise Wrong(str(error)) from error
    said = verdict(source)
    if not said.startswith("matmul: OK"):
        raise Wrong(said)
    if LINES[answer] == _MISSING:
        raise Wrong(f"line {answer} is the deleted one: find the other one that is right")
    return said


RING_TILES = (1, 2, 5, 8)
"""Tiles that a ring written from blank must hand over."""

_TILE, _SLOTS = 128, 3


@judged
def write_a_ring(answer: str) -> str:
    """A kernel ``reverse(const float* x, float* y, int tiles)``, written from blank.

    128 producers bring tiles of 128 floats into a ring of three slots, 128 consumers write each
    tile out backwards.  Run on the emulator with every check, for several numbers of tiles and
    under several schedules; barriers, arrivals and waits are counted.
    """
    keep = (f"constexpr int TILE = {_TILE};", f"constexpr int SLOTS = {_SLOTS};")
    module = compiled(written(answer, keep), "reverse")
    for tiles in RING_TILES:
        judge = functools.partial(_signals, tiles)
        rings.turned_round(module, _TILE, 2 * _TILE, tiles, f"{tiles} tiles", judge)
    return f"{len(RING_TILES) * len(rings.SCHEDULES)} runs, no finding"


def _signals(tiles: int, run: Any, where: str) -> None:
    """Judge the meetings, arrivals and waits of a run."""
    meetings = run.counters.get("barrier.syncs", 0) / (2 * _TILE)
    if meetings > 1:
        raise Wrong(f"{where}: the block meets {meetings:.0f} times, and once is enough")
    barriers = {signal.barrier for signal in run.trace.signals}
    if tiles >= _SLOTS and len(barriers) != 2 * _SLOTS:
        raise Wrong(f"{where}: there are arrivals at {len(barriers)} barriers, not {2 * _SLOTS}")
    arrivals = run.counters.get("mbarrier.arrivals", 0)
    right = _TILE * (4 * tiles + _SLOTS)
    if arrivals != right:
        raise Wrong(f"{where}: {arrivals:,} arrivals, where tokens take {right:,}")
    # Of four arrivals a tile two are by those who wait; groups of warps count alike in both.
    if 2 * run.counters.get("mbarrier.waits", 0) > len(run.trace.signals):
        raise Wrong(f"{where}: somebody waits more than once a tile")
