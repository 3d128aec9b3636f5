"""Launches with rests between them, so that each finds the clock as the one before did.

A GPU at its power limit lowers its clock, and keeps it low for a while. Contenders that take
turns without a rest then inherit each other's clock: who follows the hungriest is slowest. Here
their order is drawn anew for each turn, the GPU rests before each, and a kernel that follows the
launch says at what clock it ended.
"""

from __future__ import annotations

import ctypes
import random
import time
from typing import Any

from phasebit import toolchain
from phasebit.instruments.beside_torch import Launch

_CLOCK = """
#include "check.cuh"
__global__ void clock_of(unsigned long long* found) {
    unsigned long long begin, end;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    const long long cycle = clock64();
    while (clock64() - cycle < 100000) {}
    const long long cycles = clock64() - cycle;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(end));
    found[0] = cycles, found[1] = end - begin;
}
extern "C" void run(unsigned long long* found, cudaStream_t stream) {
    clock_of<<<1, 1, 0, stream>>>(found);
}
"""


def clock() -> toolchain.Build:
    """A kernel that counts its cycles, and the nanoseconds that they took (about 50 µs)."""
    return toolchain.build(_CLOCK, name="clock", library=True)


def times(
    torch: Any, launches: dict[str, Launch], rounds: int, rest: float, *, each: int = 1,
    drawn: bool = True,
) -> dict[str, dict[str, list[float]]]:  # fmt: skip
    """For each contender ``times_us`` of its launches, and ``mhz`` after each of them.

    ``rest``: seconds before each turn. A turn is one launch that is not counted and ``each`` that
    are. ``drawn``: the order of the turns is drawn anew for each round; else it is the given one.
    """
    found: dict[str, dict[str, list[float]]] = {
        name: {"times_us": [], "mhz": []} for name in launches
    }
    names = list(launches)
    draw = random.Random()
    for _ in range(rounds):
        if drawn:
            draw.shuffle(names)
        for name in names:
            time.sleep(rest)
            for key, values in _turn(torch, launches[name], each).items():
                found[name][key] += values
    return found


def sustained(
    torch: Any, launches: dict[str, Launch], seconds: float, each: int
) -> dict[str, dict[str, list[float]]]:
    """As :func:`times`, of ``each`` launches after a contender has run alone for ``seconds``.

    As long a rest comes before. What it costs to run hot is then the contender's own.
    """
    found = {}
    for name, launch in launches.items():
        time.sleep(seconds)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(4):
                launch()
            torch.cuda.synchronize()
        found[name] = _turn(torch, launch, each)
    return found


def _turn(torch: Any, launch: Launch, each: int) -> dict[str, list[float]]:
    run = ctypes.CDLL(str(clock().program)).run
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    counts = torch.zeros(each, 2, dtype=torch.int64, device="cuda")
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2 * each)]
    launch()
    for i in range(each):
        events[2 * i].record()
        launch()
        events[2 * i + 1].record()
        run(ctypes.c_void_p(counts[i].data_ptr()), stream)
    torch.cuda.synchronize()
    return {
        "times_us": [
            round(before.elapsed_time(after) * 1e3, 2)
            for before, after in zip(events[::2], events[1::2], strict=True)
        ],
        "mhz": [round(cycles / nanoseconds * 1e3) for cycles, nanoseconds in counts.tolist()],
    }
