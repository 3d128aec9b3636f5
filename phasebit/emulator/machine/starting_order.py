"""In which order the blocks of a grid start."""

from __future__ import annotations

import numpy as np

from phasebit.emulator.ptx.types import Array


class StartingOrder:
    """The blocks' linear numbers in the order of starting; clusters stay together.

    Nothing is kept for a block: a grid may have more than two thousand million.
    """

    def __init__(self, grid: tuple[int, int, int], cluster: tuple[int, int, int]) -> None:
        self.grid = grid
        self.cluster = cluster

    def blocks(self, first: int, count: int) -> Array:
        """Those at ``count`` places from ``first`` on."""
        places = np.arange(first, first + count)
        if self.cluster == (1, 1, 1):
            return places
        number, rank = np.divmod(places, self.cluster[0] * self.cluster[1] * self.cluster[2])
        coordinates = []
        for extent, wide in zip(self.grid, self.cluster, strict=True):
            number, place = np.divmod(number, extent // wide)
            rank, inside = np.divmod(rank, wide)
            coordinates.append(place * wide + inside)
        x, y, z = coordinates
        linear: Array = x + self.grid[0] * (y + self.grid[1] * z)
        return linear

    def __getitem__(self, place: int) -> int:
        return int(self.blocks(place, 1)[0])


__all__ = ["StartingOrder"]
