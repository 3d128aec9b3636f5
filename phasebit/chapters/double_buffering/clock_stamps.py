"""Kernels with clock stamps in their loops: who did what when, on a real multiprocessor.

A stamp is a call put into a copy of the kernel's source (``kernels/include/stamps.cuh``); one
thread of the first warp of each role makes it. What the kernel computes stays the same.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

from phasebit import files
from phasebit.edits import replace_each
from phasebit.pipeline.ring_drawing import RingDrawing
from phasebit.timeline import RING_LEGEND, Timeline

_SLOTS_DRAWN = 6  # a ring of more is not drawn slot by slot
_ALL_WRITTEN, _ALL_READ = (f"all threads to have {done} their tile" for done in ("written", "read"))

_LANE_0 = "threadIdx.x / 32 * 32"  # of each warp

_Edits = tuple[tuple[str, str], ...]


def _around(wait: str, first: int, thread: str) -> tuple[str, str]:
    """A line that waits, with a stamp before and after it."""
    before, after = (f"stamp({thread}, {place}, tile);" for place in (first, first + 1))
    return wait, f"{before} {wait} {after}"


def _before(line: str, place: int, thread: str) -> tuple[str, str]:
    return line, f"stamp({thread}, {place}, tile); {line}"


_TWO_CLOCKS: _Edits = (
    (
        "    if (threadIdx.x < PRODUCERS) produce(ring, A, B);\n",
        "    if (threadIdx.x == 0) stamp_both(0);\n"
        "    if (threadIdx.x < PRODUCERS) produce(ring, A, B);\n",
    ),
    (
        "    else consume(ring, C);\n",
        "    else consume(ring, C);\n    if (threadIdx.x == PRODUCERS) stamp_both(1);\n",
    ),
)


def _token_ring(slot: str) -> _Edits:
    return (
        _around(f"ring.empty[{slot}].arrive_and_wait();", 0, "0"),
        _before(f"(void)ring.full[{slot}].arrive();", 2, "0"),
        _around(f"ring.full[{slot}].arrive_and_wait();", 3, "PRODUCERS"),
        _before(f"        (void)ring.empty[{slot}].arrive();", 5, "PRODUCERS"),
        *_TWO_CLOCKS,
    )


# A warp that only looks: it waits for each slot to be full and has no part in the work.
_WATCH = """__device__ void watch(Ring& ring) {
    for (int tile = 0; tile < TILES; ++tile) {
        ring.full[tile % SLOTS].wait_parity(tile / SLOTS % 2);
        stamp(THREADS, 6, tile);
    }
}

"""
_WATCHED: _Edits = (
    (
        "__global__ void __launch_bounds__(THREADS)\n",
        f"{_WATCH}__global__ void __launch_bounds__(THREADS + 32)\n",
    ),
    ("    else consume(ring, C);\n", "    else if (threadIdx.x >= THREADS) watch(ring);\n"
     "    else consume(ring, C);\n"),
    ("<<<1, THREADS, sizeof(Ring)>>>", "<<<1, THREADS + 32, sizeof(Ring)>>>"),
)  # fmt: skip

STAMPED: dict[str, _Edits] = {
    "tiled": (
        (
            "    for (int k0 = 0; k0 < K; k0 += BK) {\n",
            "    if (threadIdx.x == 0) stamp_both(0);\n"
            "    for (int k0 = 0; k0 < K; k0 += BK) {\n        stamp(0, 1, k0 / BK);\n",
        ),
        (
            "        __syncthreads();  // the tile is full\n",
            "        stamp(0, 2, k0 / BK); __syncthreads(); stamp(0, 4, k0 / BK);\n",
        ),
        (
            "        __syncthreads();  // the tile is empty again\n    }\n",
            "        stamp(0, 5, k0 / BK); __syncthreads();\n    }\n"
            "    if (threadIdx.x == 0) stamp_both(1);\n",
        ),
    ),
    "barrier_double_buffer": _token_ring("slot"),
    "a_wide_loads": _token_ring("slot"),
    "b_register_tiles": _token_ring("s"),
    "d_few_arrivals": (
        _around("        wait(ring.empty[s], !phase);", 0, "0"),
        _before("        arrive_when_copied(ring.full[s]);", 2, "0"),
        _around("        wait(ring.full[s], phase);", 3, "PRODUCERS"),
        _before("        __syncwarp();  // all of the warp have read the slot", 5, "PRODUCERS"),
        *_TWO_CLOCKS,
        *_WATCHED,
    ),
    "e_warp_workers": (
        _around("        wait(ring.empty[s], ~(tile / SLOTS) & 1);", 0, _LANE_0),
        _before("        arrive_when_copied(ring.full[s]);", 2, _LANE_0),
        _around("        wait(ring.full[s], tile / SLOTS & 1);", 3, _LANE_0),
        _before("        __syncwarp();  // all of the warp have read the slot", 5, _LANE_0),
        (
            "    if (threadIdx.x < PRODUCERS * 32) produce(ring, A, B);\n",
            "    if (threadIdx.x == 0) stamp_both(0);\n"
            "    if (threadIdx.x < PRODUCERS * 32) produce(ring, A, B);\n",
        ),
        (
            "    else consume(ring, C);\n",
            "    else consume(ring, C);\n    if (threadIdx.x == PRODUCERS * 32) stamp_both(1);\n",
        ),
    ),
}
"""Kernel -> what stands in its file, and what stands there in the copy with stamps."""


def stamped(kernel: str, source: str | None = None) -> str:
    """The kernel's source with stamps in it.

    Raises ``KeyError`` for a kernel that has none, ``ValueError`` when a line is not there once.
    """
    text = files.kernel(f"double_buffering/{kernel}") if source is None else source
    return '#include "stamps.cuh"\n' + replace_each(text, STAMPED[kernel], f"{kernel}.cu")


VARIANTS: dict[str, tuple[str, dict[str, int]]] = {
    "e_warp_workers, 8 producers": ("e_warp_workers", {"PRODUCERS": 8}),
}
"""Name -> a kernel, and the constants of its file that are set to other values to be stamped."""

WORKERS: dict[str, tuple[int, int, int]] = {
    "tiled": (1, 1, 1),
    "barrier_double_buffer": (1, 1, 2),
    "a_wide_loads": (1, 1, 2),
    "b_register_tiles": (1, 1, 2),
    "d_few_arrivals": (1, 1, 6),
    "e_warp_workers": (4, 8, 16),
    "e_warp_workers, 8 producers": (8, 8, 16),
}
"""Kernel -> its producers, consumers and slots, in the words of Part I: a role whose threads all
take part in every tile is one worker."""


@dataclass(frozen=True)
class Stamps:
    """The stamps of one launch: ``places[place][tile]`` in cycles since the beginning, -1 if none.

    A place is what a thread has come to.  The producer: 0 it asks, 1 it may write, 2 it has
    written.  The consumer: 3 it asks, 4 it may read, 5 it has read.  A thread that only looks: 6
    the slot is full (where copies are asynchronous, no producer knows when).
    ``cycles`` and ``ns`` are the launch's length on the multiprocessor's clock and on the GPU's.
    """

    kernel: str
    places: tuple[tuple[int, ...], ...]
    cycles: int
    ns: int
    producers: int  # workers: a role whose threads share each tile is one
    consumers: int
    slots: int

    @property
    def tiles(self) -> int:
        """How many tiles were multiplied."""
        return sum(at >= 0 for at in self.places[5])

    def between(self, first: int, second: int) -> float:
        """Mean ns from one place to another, for the tiles of the run's second half."""
        tiles = range(self.tiles // 2, self.tiles - 8)
        cycles = [self.places[second][tile] - self.places[first][tile] for tile in tiles]
        return statistics.mean(cycles) * self.ns / self.cycles

    @property
    def fill(self) -> float:
        """Mean ns in which a worker fills a tile's slot, its wait not counted."""
        return self.between(1, 2)

    @property
    def drain(self) -> float:
        """Mean ns in which a worker drains a tile's slot."""
        return self.between(4, 5)

    @property
    def producer_waits(self) -> float:
        """The share of the time in which the producers wait, where they are one worker."""
        return self.between(0, 1) / self.tile

    @property
    def consumer_waits(self) -> float:
        """The share of the time in which the consumers wait, where they are one worker."""
        return self.between(3, 4) / self.tile

    @property
    def tile(self) -> float:
        """Mean ns from one tile to the next."""
        half, last = self.tiles // 2, self.tiles - 8
        cycles = (self.places[4][last] - self.places[4][half]) / (last - half)
        return cycles * self.ns / self.cycles


def load(inside: dict[str, Any], kernel: str, kind: str) -> Stamps:
    """The stamps of a kernel in the record ``clock_stamps``; ``kind`` is "warm" or "flushed"."""
    data = inside["stamps"][kernel][kind]
    places = tuple(tuple(place) for place in data["places"])
    return Stamps(kernel, places, data["cycles"], data["ns"], *WORKERS[kernel])


def timeline(stamps: Stamps, first: int, last: int, title: str) -> Timeline:
    """What was done with tiles ``first`` to ``last``, in ns, drawn as Part I draws a ring."""
    scale = stamps.ns / stamps.cycles
    at = stamps.places
    tiles = range(first, last + 1)
    begin = min(at[place][first] for place in (0, 1, 3, 4) if at[place][first] >= 0)
    drawing = RingDrawing(lambda cycle: (cycle - begin) * scale, begin)
    together = at[0][first] < 0  # one role does everything
    if together:
        for tile in tiles:
            drawing.span("threads", at[1][tile], at[2][tile], "produce", str(tile))
            begins, ends = at[4][tile], at[5][tile]
            drawing.span("threads", at[2][tile], begins, "wait", waits_for=_ALL_WRITTEN)
            drawing.span("threads", begins, ends, "consume", str(tile))
            if tile < last:
                drawing.span("threads", ends, at[1][tile + 1], "wait", waits_for=_ALL_READ)
        rows = ["threads"]
    else:
        full = 6 if at[6][first] >= 0 else 2
        for tile in tiles:
            producer = f"producer {tile % stamps.producers}"
            consumer = f"consumer {tile % stamps.consumers}"
            may_write, written = at[1][tile], at[2][tile]
            may_read, read = at[4][tile], at[5][tile]
            slot = f"slot {tile % stamps.slots}"
            drawing.work(producer, at[0][tile], may_write, written, "produce", str(tile), slot)
            drawing.work(consumer, at[3][tile], may_read, read, "consume", str(tile), slot)
            if stamps.slots <= _SLOTS_DRAWN:
                drawing.turn(slot, may_write, at[full][tile], may_read, read, str(tile))
        rows = [f"producer {n}" for n in range(stamps.producers)]
        rows += [f"slot {n}" for n in range(stamps.slots) if stamps.slots <= _SLOTS_DRAWN]
        rows += [f"consumer {n}" for n in range(stamps.consumers)]
    return Timeline(
        rows,
        drawing.spans,
        unit="ns",
        title=title,
        legend=RING_LEGEND,
    )
