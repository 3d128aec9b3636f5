"""Kernels of the book with one mistake planted, and how the harness must see it.

Each is (kernel, what the file says, what the mistake says, a pattern of the verdict).
"""

from __future__ import annotations

from phasebit import files

TILED, RING = "04_tiled", "05_barrier_double_buffer"
WRONG, HANGS = "wrong result", "did not end"
EITHER = f"{WRONG}|{HANGS}"  # which of the two depends on who wins the race

MISTAKES: dict[str, tuple[str, str, str, str]] = {
    "the last tile is left out": (TILED, "k0 < K;", "k0 < K - BK;", WRONG),
    "one product is left out": (TILED, "int k = 0; k < BK;", "int k = k0 == 0; k < BK;", WRONG),
    "half of C is never written": (
        TILED,
        "i < M / ROWS; ++i) C[",
        "i < 1; ++i) C[",
        WRONG,
    ),
    "rows and columns exchanged": (TILED, "b[k][x];", "b[x][k];", WRONG),
    "nobody waits for the tile": (
        TILED,
        "__syncthreads();  // the tile is full",
        "",
        WRONG,
    ),
    "the slot is taken from k": (RING, "ring.b[slot][k][x];", "ring.b[k % SLOTS][k][x];", WRONG),
    "the consumer does not wait": (
        RING,
        "ring.full[slot].arrive_and_wait();",
        "(void)ring.full[slot].arrive();",
        EITHER,
    ),
    "the producer does not wait": (
        RING,
        "ring.empty[slot].arrive_and_wait();",
        "(void)ring.empty[slot].arrive();",
        EITHER,
    ),
    "the producer never says full": (RING, "(void)ring.full[slot].arrive();", "", HANGS),
    "the slots never begin empty": (
        RING,
        "for (int slot = 0; slot < SLOTS; ++slot) (void)ring.empty[slot].arrive();",
        "",
        HANGS,
    ),
    "the consumer never says empty": (
        RING,
        "        (void)ring.empty[slot].arrive();\n",
        "",
        HANGS,
    ),
    "one arrival too many is expected": (
        RING,
        "init(&ring.full[threadIdx.x], THREADS);",
        "init(&ring.full[threadIdx.x], THREADS + 1);",
        HANGS,
    ),
}


def source(kernel: str) -> str:
    """The text of a kernel's file."""
    return (files.kernels() / f"{kernel}.cu").read_text(encoding="utf-8")


def planted(name: str) -> str:
    """The source with that mistake in it."""
    kernel, right, wrong, _ = MISTAKES[name]
    text = source(kernel)
    assert text.count(right) == 1, f"{right!r} must stand in {kernel}.cu exactly once"
    return text.replace(right, wrong)
