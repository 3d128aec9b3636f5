# mypy: ignore-errors
"""A product for Blackwell in CuTe DSL whose blocks stay: tile after tile, two accumulators.

While the epilogue stores one accumulator, the tensor core fills the other.
"""

from __future__ import annotations

import cutlass
import cutlass.cute as cute

from tests.foreign.cute_roles import Roles


class Staying(Roles):
    """Two blocks share the tiles of C."""

    accumulators = 2

    def grid(self, c):
        self.notes.grid = (2, 1)
        return (2, 1, 1)

    def tiles(self, c):
        """The tiles of this block: first, end, step; and how many lie side by side in C."""
        across = cute.ceil_div(c.shape[1], self.tile[1])
        bx, _, _ = cute.arch.block_idx()
        stride, _, _ = cute.arch.grid_dim()
        return bx, across * cute.ceil_div(c.shape[0], self.tile[0]), stride, across

    @cute.jit
    def load(self, a, b, c, producer):
        first, end, step, across = self.tiles(c)
        for tile in cutlass.range(first, end, step):
            producer = self.load_tile(a, b, tile // across, tile % across, producer)
        producer.tail()

    @cute.jit
    def multiply(self, mma, fragments, totals, steps, c, consumer, filler):
        first, end, step, _ = self.tiles(c)
        for _ in cutlass.range(first, end, step):
            out = filler.acquire_and_advance()
            total = totals[(None, None, None, out.index)]
            mma, consumer = self.multiply_tile(mma, fragments, total, steps, consumer)
            out.commit()
        filler.tail()

    @cute.jit
    def store(self, thread, totals, tc, c, drainer):
        first, end, step, across = self.tiles(c)
        for tile in cutlass.range(first, end, step):
            ready = drainer.wait_and_advance()
            self.store_tile(thread, totals[(None, None, None, ready.index)],
                            tc[(None, None, None, tile // across, tile % across)])  # fmt: skip
            ready.release()
