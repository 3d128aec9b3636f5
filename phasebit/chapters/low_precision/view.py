"""Pictures and tables of *Low precision, block by block*."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from phasebit.chapters.low_precision import nvfp4
from phasebit.chapters.low_precision.quantise import (
    ALL,
    ONE_OF_TWO,
    Format,
    activations,
    quantise,
)

if TYPE_CHECKING:
    from phasebit.draw import Picture
    from phasebit.measure import Table

SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
"""How many times as large an outlier is as its neighbours."""


def ordinary(
    size: float, outliers: int = 8, k: int = 1024, of: tuple[Format, ...] = ALL
) -> dict[str, float]:
    """Relative error of the channels that are no outliers, by format."""
    x = activations(64, k, outliers, size=size)
    plain = np.abs(x).mean(axis=0) < 2 if size > 4 else np.ones(k, bool)
    return {
        form.name: float(
            np.linalg.norm((quantise(x, form).values() - x)[:, plain]) / np.linalg.norm(x[:, plain])
        )
        for form in of
    }


def one_of_two(sizes: tuple[float, ...] = (1, 16, 64)) -> Table:
    """From MXFP4 to NVFP4 by smaller blocks first, or by finer scales first."""
    from phasebit.measure import Table

    found = [ordinary(size, of=ONE_OF_TWO) for size in sizes]
    rows = tuple(
        (str(form.block), form.scale, *(f"{each[form.name]:.2f}" for each in found))
        for form in ONE_OF_TWO
    )
    titles = "a scale for", "its type", *(f"outliers {size:g} times as large" for size in sizes)
    return Table(titles, rows, "e2m1; relative error of the ordinary channels")


def outliers() -> Picture:
    """What eight large channels of 1024 do to the others, by format and by how large they are."""
    from phasebit.draw import curves

    found = [ordinary(size) for size in SIZES]
    return curves(
        [str(size) for size in SIZES],
        {form.name: [each[form.name] for each in found] for form in ALL},
        x_label="how many times as large an outlier is", y_label="relative error of the others",
        title="What eight outliers in 1024 channels do to the channels beside them",
    )  # fmt: skip


def rows_of_atom() -> Picture:
    """512 bytes of scales in shared memory: which row's, found by a mark in each row."""
    from phasebit.draw import Cell, chart

    marks = np.repeat(np.arange(128, dtype=np.uint8)[:, None], 16, axis=1)
    words = nvfp4.atoms(marks)[0].reshape(32, 4, 4)[:, :, 0]
    return chart(
        [[Cell(str(int(row)), ("blue", "orange", "green", "cyan")[int(row) // 32])
          for row in line] for line in words.T],
        rows=[f"word {w}" for w in range(4)], columns=range(32),
        row_label="of its 16 bytes", column_label="line of 16 bytes",
        title="Whose scales a word of the atom holds: the row of A or B",
    )  # fmt: skip


def lanes_of_scales() -> Picture:
    """The same 128 rows in tensor memory, as the emulator's tensor core reads them."""
    from phasebit.draw import Cell, chart
    from phasebit.emulator import block_scales

    marks = np.repeat(np.arange(128, dtype=np.uint8)[:, None], 4, axis=1)
    cells = block_scales.words(marks) & 0xFF  # (32 lanes, 4 columns)
    return chart(
        [[Cell(str(int(row)), ("blue", "orange", "green", "cyan")[int(row) // 32])
          for row in line] for line in cells.T],
        rows=[f"column {c}" for c in range(4)], columns=range(32),
        row_label="of tensor memory", column_label="lane, the same in each quarter",
        title="Where tcgen05.cp puts them: a word is four scales of one row",
    )  # fmt: skip
