# mypy: ignore-errors
"""Matrix products for Blackwell in CuTe DSL: one tile of C per block."""

from __future__ import annotations

import cutlass.cute as cute

from tests.foreign.cute_roles import Roles


class Gemm(Roles):
    """One tile of C per block (or per pair of blocks, with ``pair``)."""

    def place(self):
        """The tile of this block, and its place in a pair."""
        bx, by, _ = cute.arch.block_idx()
        return bx // self.share, by, bx % self.share

    def grid(self, c):
        tile = self.tile[0] // self.share, self.tile[1]
        blocks = (cute.ceil_div(c.shape[0], tile[0]), cute.ceil_div(c.shape[1], tile[1]), 1)
        return cute.round_up(blocks, (*self.cluster, 1))

    @cute.jit
    def load(self, a, b, c, producer):
        row, column, _ = self.place()
        self.load_tile(a, b, row, column, producer).tail()

    @cute.jit
    def multiply(self, mma, fragments, totals, steps, c, consumer, filler):
        _, _, half = self.place()
        if half == 0:  # the first block of a pair multiplies for both
            out = filler.acquire_and_advance()
            total = totals[(None, None, None, 0)]
            mma, consumer = self.multiply_tile(mma, fragments, total, steps, consumer)
            out.commit()

    @cute.jit
    def store(self, thread, totals, tc, c, drainer):
        row, column, _ = self.place()
        ready = drainer.wait_and_advance()
        self.store_tile(thread, totals[(None, None, None, 0)],
                        tc[(None, None, None, row, column)])  # fmt: skip
        ready.release()
