"""Kernels of the book with one mistake planted, and how the harness must see it.

Each is (kernel, what the file says, what the mistake says, a pattern of the verdict).
"""

from __future__ import annotations

from phasebit import files

TILED, RING = "04_tiled", "05_barrier_double_buffer"
WIDE, TILES, ASYNC = "11_a_wide_loads", "11_b_register_tiles", "11_c_async_copies"
FEW, WARPS, GPU = "11_d_few_arrivals", "11_e_warp_workers", "11_f_whole_gpu"
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
    "A's floats are stored as B's": (
        WIDE,
        "four(ring.b[slot][y][x]) = b;",
        "four(ring.b[slot][y][x]) = a;",
        WRONG,
    ),
    "every group takes the same slice": (TILES, "t / 16 * DEPTH, x, y, c", "0, x, y, c", WRONG),
    "the sums of half the warps are left out": (
        TILES,
        "w < CONSUMERS / 32; ++w) sum",
        "w < CONSUMERS / 64; ++w) sum",
        WRONG,
    ),
    "nobody waits for the copies": (ASYNC, "        wait_for_copies(ring.full[s]);\n", "", WRONG),
    "threads are counted where warps arrive": (
        FEW,
        "init(&ring.empty[threadIdx.x], CONSUMERS / 32);",
        "init(&ring.empty[threadIdx.x], CONSUMERS);",
        HANGS,
    ),
    "the phase bit never flips": (FEW, ", phase = !phase;", ";", EITHER),
    "both halves of a warp take the first half of a tile": (
        WARPS,
        "lane / 16 * (BK / 2), x, y, c",
        "0, x, y, c",
        WRONG,
    ),
    "the warp that arrives is the wrong one": (
        WARPS,
        "        if (lane == 0) (void)ring.empty[s].arrive();\n",
        "        if (threadIdx.x == 0) (void)ring.empty[s].arrive();\n",
        HANGS,
    ),
    "nobody clears C": (GPU, "four(C[t * 4]) = float4{};", "", WRONG),
    "the flag is never set": (GPU, "store(1, cuda::memory", "store(0, cuda::memory", HANGS),
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
