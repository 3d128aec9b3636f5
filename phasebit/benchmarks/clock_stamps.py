"""Kernels with clock stamps in their loops: who did what when, on a real multiprocessor.

A stamp is a call put into a copy of the kernel's source (``kernels/include/stamps.cuh``); one
thread of the first warp of each role makes it. What the kernel computes stays the same.
"""

from __future__ import annotations

from phasebit import files

PLACES = ("asks", "may write", "has written", "asks", "may read", "has read", "is full")
"""What a thread has come to: the producer three times a tile, the consumer three times, and one
that only looks (where copies are asynchronous, no producer knows when a slot is full)."""

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
    "04_tiled": (
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
    "05_barrier_double_buffer": _token_ring("slot"),
    "11_a_wide_loads": _token_ring("slot"),
    "11_b_register_tiles": _token_ring("s"),
    "11_d_few_arrivals": (
        _around("        wait(ring.empty[s], !phase);", 0, "0"),
        _before("        arrive_when_copied(ring.full[s]);", 2, "0"),
        _around("        wait(ring.full[s], phase);", 3, "PRODUCERS"),
        _before("        __syncwarp();  // all of the warp have read the slot", 5, "PRODUCERS"),
        *_TWO_CLOCKS,
        *_WATCHED,
    ),
    "11_e_warp_workers": (
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
    text = files.kernel(kernel) if source is None else source
    for line, with_stamp in STAMPED[kernel]:
        if text.count(line) != 1:
            raise ValueError(f"{kernel}.cu must hold {line.strip()!r} once to be stamped")
        text = text.replace(line, with_stamp)
    return '#include "stamps.cuh"\n' + text
