"""Checks of chapter 11, *Double buffering with barriers*."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from phasebit import files
from phasebit.exercises.judge import Wrong, ask, judged
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
        if got != right:
            tiles, slots, producers, consumers = case
            raise Wrong(
                f"for {tiles} tiles, {slots} slots, {producers} producers and {consumers} "
                f"consumers the barriers say {right}, you say {got}"
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
        got, right = ask(answer, *case), m * n * k / lanes / ghz * 1e-3
        if isinstance(got, bool) or not isinstance(got, (int, float)):
            raise Wrong(f"it gives {got!r}: give a number of microseconds")
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
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(LINES):
        raise ValueError(f"give a number from 0 to {len(LINES) - 1}")
    return files.kernel("05_barrier_double_buffer").replace(_MISSING, LINES[number])


@judged
def missing_line(answer: int) -> str:
    """Compile the kernel with that line and run it, on a GPU or on the emulator."""
    from phasebit.notebook import verdict  # needs IPython

    try:
        source = repaired(answer)
    except ValueError as error:
        raise Wrong(str(error)) from error
    said = verdict(source)
    if not said.startswith("matmul: OK"):
        raise Wrong(said)
    return said
