"""Checks of *Caches and tiles*."""

from __future__ import annotations

import random
from collections.abc import Callable

from phasebit import caches
from phasebit.exercises.judge import Wrong, ask, judged, same, shown, whole


@judged
def which_set(answer: Callable[[int, int, int], int]) -> str:
    """``answer(address, line, sets)``: the set that the line of this address belongs to."""
    draw = random.Random(60)
    cases = [(0, 64, 64), (63, 64, 64), (64, 64, 64), (4096, 64, 64)]
    cases += [
        (draw.randrange(1 << 32), 1 << draw.randint(2, 8), draw.choice((1, 3, 64, 96)))
        for _ in range(60)
    ]
    for address, line, sets in cases:
        got, right = ask(answer, address, line, sets), address // line % sets
        if not same(got, right):
            raise Wrong(
                f"address {address} with lines of {line} bytes and {sets} sets is in set {right}, "
                f"not {shown(got)}"
            )
    return f"{len(cases)} addresses"


@judged
def misses_of_a_walk(answer: Callable[[int, int, int, int], int]) -> str:
    """``answer(count, stride, times, ways)``: misses of a walk over ``count`` addresses.

    They lie ``stride`` bytes apart, a whole number of lines, and are walked through ``times``
    times, in a cache of 64 sets of ``ways`` lines of 64 bytes. Compared with the simulator.
    """
    draw = random.Random(61)
    cases = [(8, 4096, 3, 8), (9, 4096, 3, 8), (64, 64, 2, 1), (65, 64, 2, 1), (1, 64, 5, 1)]
    cases += [
        (draw.randint(1, 400), 64 * draw.choice((1, 2, 3, 16, 64)), draw.randint(1, 4), ways)
        for ways in (1, 2, 4, 8)
        for _ in range(8)
    ]
    for count, stride, times, ways in cases:
        level = caches.Level("L1", 64, 64, ways)
        walk = [step * stride for _ in range(times) for step in range(count)]
        got = ask(answer, count, stride, times, ways)
        right = caches.trace(walk, (level,)).misses["L1"]
        if not same(got, right):
            raise Wrong(
                f"{count} addresses {stride} bytes apart, {times} times, {ways} ways: "
                f"{right} misses, not {shown(got)}"
            )
    return f"{len(cases)} walks"


@judged
def padding(answer: Callable[[int, int], int]) -> str:
    """``answer(n, block)``: the least ld ≥ n with which a block is kept by the first cache.

    The cache is ``caches.TYPICAL[0]``; a block of ``block`` rows and columns of f32 is kept when
    it asks no set for more than six of its eight ways.
    """
    level = caches.TYPICAL[0]
    for n, block in ((256, 48), (256, 24), (512, 56), (200, 60), (1024, 64), (1000, 64), (384, 62)):
        right = n
        while caches.crowding(level, block, block, right).max() > level.ways - 2:
            right += 1
        got = ask(answer, n, block)
        if not whole(got):
            raise Wrong(f"it gives {shown(got)}: give a whole number of elements")
        if got < n:
            raise Wrong(f"with n {n} an ld of {got} is too small: rows would overlap")
        if got < right:
            raise Wrong(f"with n {n} and ld {got} some set is asked for more than six of {block}²")
        if got > right:
            raise Wrong(f"for n {n} and blocks of {block} a smaller ld than {got} does: {right}")
    return "7 matrices"
