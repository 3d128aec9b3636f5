"""The clock of a GPU's multiprocessors over some launches, read by kernels before and behind them.

It changes with the power that the GPU draws, many times a second, so a tool that asks from outside
does not see the clock of these launches, and a kernel behind them sees it when it has risen again.
"""

from __future__ import annotations

import ctypes
import random
import statistics
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from phasebit import toolchain
from phasebit.instruments.beside_torch import Launch, timed

_READ = """
#include "check.cuh"
// Each multiprocessor that gets a block: its own clock and the GPU's, at this moment.
__global__ void look(long long* clocks) {  // (multiprocessors, 2): cycles, nanoseconds
    unsigned unit;
    long long nanoseconds;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(unit));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
    clocks[2 * unit] = clock64();
    clocks[2 * unit + 1] = nanoseconds;
}
extern "C" void read_clocks(long long* clocks, int units, cudaStream_t stream) {
    look<<<units, 1, 0, stream>>>(clocks);
    CHECK(cudaGetLastError());
}
"""


def reader() -> toolchain.Build:
    """The kernel that reads the clocks."""
    return toolchain.build(_READ, name="clocks", library=True)


_Built = TypeVar("_Built")


def built(
    build: Callable[[str], _Built], names: Iterable[str], jobs: int = 16
) -> dict[str, _Built]:
    """Each of ``names`` built, some at a time, and :func:`reader` beside them.

    So that nothing is compiled any more when the times are taken.
    """
    names = list(names)
    with ThreadPoolExecutor(jobs) as pool:
        first = pool.submit(reader)
        found = dict(zip(names, pool.map(build, names), strict=True))
        first.result()
    return found


def libraries(
    build: Callable[[str], toolchain.Build], names: Iterable[str]
) -> dict[str, ctypes.CDLL]:
    """The same, loaded: for what is built as a library."""
    return {name: ctypes.CDLL(str(each.program)) for name, each in built(build, names).items()}


class Clocks:
    """The clock of the multiprocessors between two points of a stream."""

    def __init__(self, torch: Any) -> None:
        self.units: int = torch.cuda.get_device_properties(0).multi_processor_count
        self._seen = torch.zeros(2, self.units, 2, dtype=torch.int64, device="cuda")
        self._read = ctypes.CDLL(str(reader().program)).read_clocks
        self._stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

    def look(self, end: int) -> None:
        """Read the clocks, at the beginning (0) or at the end (1)."""
        self._seen[end].zero_()
        self._read(ctypes.c_void_p(self._seen[end].data_ptr()), self.units, self._stream)

    def mhz(self) -> int:
        """Between the two: the median of the multiprocessors that were seen both times."""
        return median_mhz(*self._seen.tolist())


def median_mhz(begin: list[list[int]], end: list[list[int]]) -> int:
    """MHz by two readings of (cycles, nanoseconds) of each multiprocessor; zeros: it was not seen.

    >>> median_mhz([[100, 1000], [0, 0]], [[1700, 2000], [5, 7]])
    1600
    """
    return round(
        statistics.median(
            (after[0] - before[0]) / (after[1] - before[1]) * 1e3
            for before, after in zip(begin, end, strict=True)
            if before[1] and after[1]
        )
    )


def protocol(rounds: int, rest: float, *, warm: int, each: int) -> dict[str, str]:
    """What a record says of :func:`times`."""
    return {
        "clock": "CUDA events before and after each launch; mhz: the multiprocessors' clock over "
        "the launches of a turn, the median multiprocessor",
        "order": f"{rounds} rounds, the contenders in a new random order in each; a rest of "
        f"{rest:g} s before each turn, then {warm} launches that do not count and {each} that do; "
        "no flush between launches",
    }


def times(
    torch: Any, launches: dict[str, Launch], rounds: int, rest: float, *, warm: int, each: int
) -> dict[str, dict[str, list[float]]]:
    """For each contender ``times_us`` of its launches, and ``mhz`` of each turn.

    In each round the contenders come in a new random order. A turn is a rest of so many seconds,
    ``warm`` launches that are not counted, and ``each`` that are, with the clock over these.
    """
    clocks = Clocks(torch)
    found: dict[str, dict[str, list[float]]] = {
        name: {"times_us": [], "mhz": []} for name in launches
    }
    names, draw = list(launches), random.Random()
    for _ in range(rounds):
        draw.shuffle(names)
        for name in names:
            time.sleep(rest)
            for _ in range(warm):
                launches[name]()
            clocks.look(0)
            found[name]["times_us"] += timed(torch, launches[name], each)
            clocks.look(1)
            found[name]["mhz"].append(clocks.mhz())
    return found
