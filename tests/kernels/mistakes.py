"""Kernels of the book with one mistake planted, and how the harness must see it.

Each is (kernel, what the file says, what the mistake says, a pattern of the verdict).
"""

from __future__ import annotations

from phasebit import files
from phasebit.edits import replace_once

TILED, RING = "double_buffering/tiled", "double_buffering/barrier_double_buffer"
WIDE, TILES = "double_buffering/a_wide_loads", "double_buffering/b_register_tiles"
ASYNC, FEW = "double_buffering/c_async_copies", "double_buffering/d_few_arrivals"
WARPS, GPU = "double_buffering/e_warp_workers", "double_buffering/f_whole_gpu"
NO_ROLES = "double_buffering/no_roles"
OWN, TENSOR = "double_buffering/g_own_ring", "double_buffering/h_tensor_cores"
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
    "the next tile is stored over the one that is multiplied": (
        NO_ROLES,
        "        if (tile + 1 < TILES) store(1 - slot);",
        "        if (tile + 1 < TILES) store(slot);",
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
    "a warp multiplies the slot that it fills": (
        OWN,
        "multiply(ring.slot[s], half",
        "multiply(ring.slot[1 - s], half",
        WRONG,
    ),
    "both halves of a warp take the same steps": (
        OWN,
        "multiply(ring.slot[s], half, x, y, c)",
        "multiply(ring.slot[s], 0, x, y, c)",
        WRONG,
    ),
    "the sum of the first warp is left out": (
        OWN,
        "float4 total = four(rings[0].sum[row][column]);",
        "float4 total = {};",
        WRONG,
    ),
    "a lane's rows of A are four apart": (
        TENSOR,
        "four(slot.a[8 * i + g][4 * t])",
        "four(slot.a[4 * i + g][4 * t])",
        WRONG,
    ),
    "columns are read where they were not written": (
        TENSOR,
        "4 * ((4 * h + g / 2) ^ 2 * t)",
        "4 * (4 * h + g / 2)",
        WRONG,
    ),
    "the product of the upper parts is left out": (
        TENSOR,
        "                mma(c[h][i], b_high, a_high);",
        "                //",
        WRONG,
    ),
}

STAGE, ROLES = "hopper_ring/a_one_stage", "hopper_ring/b_ring"
STAY, BOXES = "hopper_ring/c_persistent", "hopper_ring/d_boxes_of_c"
PAIRS = "hopper_ring/e_pairs"
UNSEEN, EARLY = "async", "may still read it"

HOPPER: dict[str, tuple[str, str, str, str]] = {
    "nobody waits for the tiles": (STAGE, "ptx::mbarrier_wait(&full, tile & 1);", "", UNSEEN),
    "the bytes of A alone": (STAGE, "sizeof stage)", "sizeof stage.a)", "not announced"),
    "a byte too many": (STAGE, "sizeof stage)", "sizeof stage + 16)", "too many announced"),
    "the parity stays": (STAGE, "tile & 1);", "0);", UNSEEN),
    "the sums are read too early": (
        STAGE, "        ptx::wgmma_wait_group<0>();\n", "", "no wgmma.wait_group"),
    "the sums are not fenced": (STAGE, "        ptx::wgmma_fence();\n", "", "no wgmma.fence"),
    "a stage is filled under the other group": (
        STAGE, "        __syncthreads();  // all warps have read the stage\n", "",
        f"{EARLY}|race|{UNSEEN}"),
    "another tile of B": (STAGE, "B, tile * BK, col,", "B, tile * BK, row,", WRONG),
    "a slot is filled while it is read": (
        ROLES, "        ptx::mbarrier_wait(&ring.empty[s], !phase);\n", "",
        "0 of 1 pending"),
    "the producer waits for the other parity": (ROLES, "empty[s], !phase", "empty[s], phase",
                                                "deadlock"),
    "the consumers wait for the other parity": (ROLES, "full[s], phase", "full[s], !phase", UNSEEN),
    "a slot is given back before it is read": (
        ROLES, "ptx::wgmma_wait_group<0>()", "ptx::wgmma_wait_group<1>()",
        f"{EARLY}|no wgmma.wait_group"),
    "one group gives a slot back": (ROLES, "CONSUMERS / 32", "CONSUMERS / 64",
                                     f"{EARLY}|nobody has seen"),
    "all consumer threads are waited for": (ROLES, "CONSUMERS / 32", "CONSUMERS", "deadlock"),
    "barriers that nobody has seen": (
        ROLES, "    __syncthreads();  // the others see the barriers\n", "",
        "race|not initialised"),
    "the ring begins anew with each tile of C": (
        STAY, "        Sums sums;\n", "        Sums sums;\n        s = 0, phase = false;\n",
        f"deadlock|{UNSEEN}|{WRONG}"),
    "the sums go on into the next tile of C": (STAY, "group, k > 0)", "group, true)",
                                               f"{WRONG}|uninitialised"),
    "the engine does not see the box": (
        BOXES, "        ptx::fence_proxy_async_shared();  // the engine sees what", "        //",
        "proxy"),
    "the engine stores before the others are ready": (
        BOXES, "        __syncwarp();                     // and the others\n", "",
        f"race|proxy|{UNSEEN}"),
    "a box is filled while it is stored": (BOXES, "wait_group_read<1>", "wait_group_read<2>",
                                           UNSEEN),
    "the last boxes are not waited for": (
        BOXES, "    ptx::cp_async_bulk_wait_group_read<0>();", "    //", "ends|exit|still"),
    "no box is stored": (
        BOXES, "ptx::cp_async_bulk_tensor_store(C, col + part * BOX_COLS, row, box);", "",
        "is a store to global memory left out"),
    "the producers keep their registers": (
        BOXES, "        ptx::setmaxnreg_dec<40>();  // registers for the consumers' sums\n", "",
        "setmaxnreg.inc 232 waits for ever"),
    "a box without its swizzle": (BOXES, "(2 * j + lane / 16) ^ lane % 8", "2 * j + lane / 16",
                                  WRONG),
    "only one block hears that a slot is empty": (
        PAIRS, "ring.empty[s], threadIdx.x % 32);", "ring.empty[s], rank);", EARLY),
    "half of B is not expected": (
        PAIRS, "full[s], sizeof(Stage))", "full[s], sizeof(Stage) - HALF * BK * 2)",
        "not announced"),
    "a block leaves while the other writes into it": (
        PAIRS, "    ptx::cluster_arrive();  // a block stays while the other may write into it\n"
        "    ptx::cluster_wait();\n", "", "exit|left|ended|gone"),
}  # fmt: skip
"""The same for the products of *The ring at full width*: what must be said of each."""


def source(kernel: str) -> str:
    """The text of a kernel's file."""
    return (files.kernels() / f"{kernel}.cu").read_text(encoding="utf-8")


def planted(name: str) -> str:
    """The source with that mistake in it."""
    kernel, right, wrong, _ = (MISTAKES | HOPPER)[name]
    return replace_once(source(kernel), right, wrong, f"{kernel}.cu")
