"""Slips that people make in products with block scales: a change each, and what must be said."""

from __future__ import annotations

from phasebit.chapters.low_precision import mixed, nvfp4

_ALONE = {
    "the scales of A are not copied": (
        "            ptx::tcgen05_cp_scales(a_scales + SCALES * step, from.a_scales[step]);\n", "",
        "scale|nobody has written"),
    "the bytes of the scales are not announced": (
        " + sizeof to.a_scales + sizeof to.b_scales", "", "a bulk copy writes it"),
    "the slice is not waited for": (
        "        ptx::mbarrier_wait(&s.full[slot], phase);\n", "", "a bulk copy writes it"),
    "the loader does not wait for an empty slot": (
        "        ptx::mbarrier_wait(&s.empty[slot], phase ^ 1);\n", "", "with 0 of 1 pending"),
    "the slot is never given back": (
        "        ptx::tcgen05_commit(&s.empty[slot]);  // numbers and scales have been read\n", "",
        "deadlock"),
    "the sum is not waited for": (
        "    ptx::mbarrier_wait(&s.done, 0);\n", "", "async|nobody has written"),
    "nobody says that the sum is there": ("    ptx::tcgen05_commit(&s.done);\n", "", "deadlock"),
    "each step has the first step's scales": ("from.b_scales[step]", "from.b_scales[0]", "WRONG"),
    "each step has the first step's numbers": ("a + 2 * step,", "a,", "WRONG"),
    "scales are said to be ue8m0": (
        "= ptx::tcgen05_nvfp4(TILE_M, TILE_N)", "= ptx::tcgen05_nvfp4(TILE_M, TILE_N) | 1 << 23",
        "WRONG"),
    "a scale factor id that 4X has not": (
        "= ptx::tcgen05_nvfp4(TILE_M, TILE_N)", "= ptx::tcgen05_nvfp4(TILE_M, TILE_N) | 1 << 29",
        "scale factor id of A"),
    "A and B exchange their scales": (
        "a_scales + SCALES * step, b_scales + SCALES * step,\n",
        "b_scales + SCALES * step, a_scales + SCALES * step,\n", "WRONG"),
    "the scales lie in the sum": (
        "sum + TILE_N + slot * 2", "sum + slot * 2", "WRONG|scale|race|async"),
    "too few columns are allocated": (
        "COLUMNS = 256", "COLUMNS = 128", "not allocated|allocated"),
    "the sum begins with what was there": (
        "slice + step > 0", "true", "nobody has written"),
}  # fmt: skip

_PAIR = {
    "both blocks announce": (
        "        if (rank == 0)  // for both blocks\n",
        "",
        "too many announced",
    ),
    "one block's bytes are announced": (
        "PAIR * (sizeof to.a + sizeof to.b +",
        "(sizeof to.a + sizeof to.b +",
        "deadlock",
    ),
    "the second block is not told of the sum": ("(&s.done, BOTH)", "(&s.done, 1)", "deadlock"),
    "scales of the first half of B for both": (
        "from.b_scales[half][step]",
        "from.b_scales[0][step]",
        "WRONG",
    ),
    "each block has the first block's scales of A": (
        "a_tile * slices * STEPS + first",
        "(a_tile - rank) * slices * STEPS + first",
        "WRONG",
    ),
    "the halves of B's scales lie one behind the other": (
        "b_scales + SCALES * (PAIR * step + half)",
        "b_scales + SCALES * (STEPS * half + step)",
        "WRONG",
    ),
}

_TWO_SUMS = {
    "the common columns are fetched last": (
        "PIECE * (turn % 2 ? piece : TILE_N / PIECE - 1 - piece)",
        "PIECE * (turn % 2 ? TILE_N / PIECE - 1 - piece : piece)", "race|async|tensor"),
    "every tile is fetched from its right end": (
        "turn % 2 ? piece : TILE_N / PIECE - 1 - piece", "TILE_N / PIECE - 1 - piece",
        "race|async|tensor"),
    "the next tile begins a piece too early": ("piece == BOTH - 1", "piece == BOTH - 2",
                                              "race|async|tensor"),
    "the next tile waits for nothing": (
        "        ptx::mbarrier_wait(&s.sum_free, turn % 2 ^ 1);\n", "", "race|async|tensor"),
    "no fence before the sum is given free": (
        "                ptx::tcgen05_fence_before_thread_sync();\n                if (lane == 0)",
        "                if (lane == 0)", "tensor|race|async"),
    "one warp speaks for four": (
        "if (lane == 0) free();", "if (threadIdx.x == 0) free();", "deadlock"),
    "both sums lie in one place": ("turn % 2 * SECOND;\n        // The", "0;\n        // The",
                                   "WRONG|race|nobody"),
    "the second sum begins where the scales are": (
        "SECOND = SCALES_AT - TILE_N;", "SECOND = SCALES_AT - TILE_N + 32;",
        "WRONG|race|scale|async"),
    "a piece is overwritten while it leaves": (
        "wait_group_read<0>();  // the piece", "wait_group_read<1>();  // the piece",
        "a bulk copy reads it|may still read it"),
    "a piece leaves before the four warps have met": (
        "            ptx::bar_sync(1, 32 * EPILOGUE);", "", "race|async"),
    "a piece leaves before its lanes are fenced": (
        "            ptx::fence_proxy_async_shared();\n", "", "async proxy"),
    "the block ends while pieces leave": (
        "    if (t == 0) ptx::cp_async_bulk_wait_group_read<0>();  // shared", "    ;  //",
        "leaves the kernel while"),
}  # fmt: skip

_PAIRS_STAY = {
    "the second block's epilogue is not counted": (
        "PAIR * EPILOGUE);  // warps", "EPILOGUE);  // warps", "race|async|tensor|arriv"),
    "each block tells its own barrier": (
        "ptx::mbarrier_arrive_at_after_reads(&s.sum_free, 0)", "ptx::mbarrier_arrive(&s.sum_free)",
        "deadlock"),
    "the second block is not told of the sum": ("(&s.sum_full, EACH)", "(&s.sum_full, 1)",
                                                "deadlock"),
    "slots are given back in one block": ("(&s.empty[at.slot], EACH)", "(&s.empty[at.slot], 1)",
                                          "deadlock"),
    "both blocks store the same rows": ("(down * BLOCKS + rank) * ROWS", "down * BLOCKS * ROWS",
                                        "WRONG|race"),
    "both blocks bring the same rows of B": ("(b_rows + rank) * ROWS", "b_rows * ROWS", "WRONG"),
    "each block has the first block's scales of A": (
        "a_scales, scales, a_rows,", "a_scales, scales, PAIR * row,", "WRONG"),
    "both blocks announce": ("            if (rank == 0)  // for both blocks\n", "",
                             "too many announced|with 0 of 1 pending"),
    "each block takes tiles by itself": (
        "tile = blockIdx.x / BLOCKS; tile", "tile = blockIdx.x; tile",
        "deadlock|WRONG|race|announced"),
}  # fmt: skip

_POWERS = {
    "every instruction begins with the atom's first scale": ("2 * (step % EACH)", "0", "WRONG"),
    "the id counts instructions": ("2 * (step % EACH)", "step % EACH", "scale factor id of A"),
    "an atom for each instruction": (
        "atom = step / EACH,", "atom = step,", "WRONG|nobody has written"),
    "only the first atom of a slice is copied": (
        "atom < ATOMS; ++atom", "atom < 1; ++atom", "nobody has written"),
    "scales are said to be ue4m3": (
        "(TILE_M, TILE_N, id),", "(TILE_M, TILE_N, id) & ~(1 << 23),", "ue4m3"),
    "as many scales are announced as NVFP4 has": (
        "sizeof to.a_scales + sizeof to.b_scales)",
        "2 * (sizeof to.a_scales + sizeof to.b_scales))", "announced"),
    "A and B exchange their scales": (
        "a_scales + SCALES * atom, b_scales + SCALES * atom,\n",
        "b_scales + SCALES * atom, a_scales + SCALES * atom,\n", "WRONG"),
}  # fmt: skip

_MIXED = {
    "the room is announced, not what is read": (
        "(bits(type_a) + bits(type_b)) / 8", "2", "too many announced"),
    "every step has the first step's scale": ("instruction(step, type_a", "instruction(0, type_a",
                                              "WRONG"),
    "A and B exchange their types": ("instruction(step, type_a, type_b)",
                                     "instruction(step, type_b, type_a)", "WRONG"),
    "the loader does not wait until all has been read": (
        "            ptx::mbarrier_wait(&s.empty, slice % 2 ^ 1);\n", "",
        "a tensor operation of thread 0 of block 0 may still read it"),
    "one barrier tells of slices and of the sum": (
        "ptx::mbarrier_wait(&s.done, 0);", "ptx::mbarrier_wait(&s.empty, (slices - 1) % 2);",
        "nobody has written|race|async"),
}  # fmt: skip

SLIPS = {nvfp4.ALONE: _ALONE, nvfp4.PAIR: _PAIR, nvfp4.TWO_SUMS: _TWO_SUMS, nvfp4.POWERS: _POWERS,
         nvfp4.PAIRS_STAY: _PAIRS_STAY, mixed.NAME: _MIXED}  # fmt: skip
"""Kernel -> slip -> what is replaced by what, and what must be said: a regular expression, in which
``WRONG`` is a wrong result."""

__all__ = ["SLIPS"]
