"""Who makes which piece of which tile, and when: the scheduler of stream-K, in Python.

The same arithmetic as ``Walk`` in ``stream_k.cuh``; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from phasebit.timeline import Timeline


class Piece(NamedTuple):
    """Steps ``first`` to ``last`` - 1 along K of a tile."""

    tile: int
    first: int
    last: int


@dataclass(frozen=True)
class Walk:
    """``tiles`` of ``steps`` each, for ``workers``: blocks, or pairs of blocks.

    The first ``streamed`` tiles are laid end to end along K and cut into equal shares, one for
    each worker; the others are made whole, by turns.
    """

    tiles: int
    steps: int
    workers: int
    streamed: int = 0

    @classmethod
    def whole(cls, tiles: int, steps: int, most: int) -> Walk:
        """No tile is cut."""
        return cls(tiles, steps, min(tiles, most))

    @classmethod
    def stream(cls, tiles: int, steps: int, most: int, waves: int = 2) -> Walk:
        """The tiles of the last wave, where it is not full, and of those before it are cut.

        ``waves``: how many waves that are in all.
        """
        workers = min(tiles * steps, most)
        rest = tiles % workers
        cut = min(tiles, rest + (waves - 1) * workers) if rest and waves else 0
        return cls(tiles, steps, workers, cut)

    def bound(self, worker: int) -> int:
        """The step of the streamed tiles, end to end, at which a worker's share begins."""
        return self.streamed * self.steps * worker // self.workers

    def pieces(self, worker: int) -> Iterator[Piece]:
        """What a worker makes, in its order."""
        at, end = self.bound(worker), self.bound(worker + 1)
        while at < end:
            tile, first = divmod(at, self.steps)
            last = min(self.steps, first + end - at)
            yield Piece(tile, first, last)
            at += last - first
        for tile in range(self.streamed + worker, self.tiles, self.workers):
            yield Piece(tile, 0, self.steps)

    def length(self, worker: int) -> int:
        """Steps that a worker makes in all."""
        return sum(piece.last - piece.first for piece in self.pieces(worker))

    @property
    def clocks(self) -> int:
        """Steps until the last worker is done."""
        return max(map(self.length, range(self.workers)))

    @property
    def cut(self) -> int:
        """Tiles that more than one worker makes; the other streamed ones lie whole in a share."""
        pieces = (piece for worker in range(self.workers) for piece in self.pieces(worker))
        return len({piece.tile for piece in pieces if piece.last - piece.first < self.steps})

    @property
    def busy(self) -> float:
        """Share of all workers' time in which they multiply."""
        return self.tiles * self.steps / (self.clocks * self.workers)


def timeline(walk: Walk, shown: int, title: str) -> Timeline:
    """The pieces of the first ``shown`` workers; a number is a tile's.

    A piece that is no whole tile is drawn as its owner's or as its helper's.
    """
    from phasebit.timeline import Span, Timeline

    rows, spans = [], []
    for worker in range(min(shown, walk.workers)):
        row = f"worker {worker}"
        rows.append(row)
        at = 0
        for piece in walk.pieces(worker):
            long = piece.last - piece.first
            kind = "hand-off" if piece.first else "consume" if long == walk.steps else "produce"
            spans.append(Span(row, at, at + long, kind, str(piece.tile)))
            at += long
    legend = {"consume": "a whole tile", "produce": "a tile's beginning, and its result",
              "hand-off": "the rest of a tile, handed over"}  # fmt: skip
    return Timeline(rows, spans, unit="step", title=title, legend=legend)
