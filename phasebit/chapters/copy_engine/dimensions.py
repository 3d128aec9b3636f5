"""Boxes in one to five dimensions, and im2col: fetched on the emulator by ``dimensions.cu``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from phasebit import TensorMap, files
from phasebit.draw import Cell, Picture, chart
from phasebit.launching import launch

if TYPE_CHECKING:
    from phasebit.emulator import Run


@cache
def _module() -> Any:
    return launch.compile(files.kernel("copy_engine/dimensions"), "sm_90a")


def fetch(tensor: Any, box: Sequence[int], corner: Sequence[int]) -> tuple[Any, Run]:
    """A box of a tensor of numbers of 4 bytes, as it comes to lie in shared memory, and the run.

    ``box`` and ``corner`` give the innermost dimension first; the result has the outermost first,
    as the tensor has.
    """
    made = TensorMap(tensor, tuple(box))
    out = np.zeros(tuple(reversed(box)), tensor.dtype)
    at = np.asarray(corner, np.int32)
    run = _module()[f"fetch_{len(box)}"].launch(
        1, 32, [made, at, out.view(np.int32), made.nbytes], shared=made.nbytes + 1024
    )
    return out, run


def window(tensor: Any, box: Sequence[int], corner: Sequence[int]) -> Any:
    """What :func:`fetch` must bring, by NumPy: zeros where the box sticks out."""
    out = np.zeros(tuple(reversed(box)), tensor.dtype)
    for place in np.ndindex(*out.shape):
        at = tuple(i + c for i, c in zip(place, reversed(corner), strict=True))
        if all(0 <= i < n for i, n in zip(at, tensor.shape, strict=True)):
            out[place] = tensor[at]
    return out


def pixels(rows: int, columns: int, count: int, begin: tuple[int, int],
           offset: tuple[int, int]) -> list[tuple[int, int] | None]:  # fmt: skip
    """Which pixel of an image each line of an im2col copy holds, by the engine; None: zeros.

    A filter of 3 × 3 with a margin of one pixel. ``begin``: row and column of the first position,
    from -1; ``offset``: down and right within the window, 0 to 2.
    """
    image = np.arange(1, rows * columns + 1, dtype=np.float32).reshape(1, rows, columns, 1)
    images = np.repeat(image, 4, axis=3)
    made = TensorMap.im2col(images, 4, count, (-1, -1), (-1, -1))
    out = np.zeros((count, 4), np.float32)
    at = np.array([0, begin[1], begin[0], 0], np.int32)
    _module()["fetch_pixels"].launch(
        1, 32, [made, at, offset[1], offset[0], out.view(np.int32), made.nbytes],
        shared=made.nbytes + 1024,
    )  # fmt: skip
    return [divmod(int(n) - 1, columns) if n else None for n in out[:, 0]]


def im2col_picture(rows: int, columns: int, count: int, begin: tuple[int, int]) -> Picture:
    """The pixels that one copy brings, for three places of a window of 3 × 3."""
    places = {"upper left": (0, 0), "middle": (1, 1), "lower right": (2, 2)}
    cells: list[list[Cell | None]] = []
    for offset in places.values():
        found = pixels(rows, columns, count, begin, offset)
        cells.append([
            Cell(f"{p[0]},{p[1]}", "orange" if p[0] % 2 else "blue") if p else Cell("0", "grey")
            for p in found
        ])  # fmt: skip
    return chart(
        cells, rows=list(places), columns=range(count), row_label="place in the window",
        column_label="line of shared memory; in the cells row,column of the pixel",
        title=f"im2col: {count} pixels of an image of {rows} × {columns}, from row {begin[0]} and "
        f"column {begin[1]} on",
        legend={"blue": "an even row", "orange": "an odd row", "grey": "outside: zeros"},
    )  # fmt: skip


__all__ = ["fetch", "im2col_picture", "pixels", "window"]
