"""How often O is rescaled, by numbers and threshold, and where weights at last overflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from phasebit.chapters.attention_again import tensor_attention as kernels
from phasebit.chapters.attention_again import view
from phasebit.chapters.attention_again.tensor_attention import Shape

if TYPE_CHECKING:
    from phasebit.measure import Table

SHAPE = Shape(256, 512)
"""Two tiles of queries, four steps."""
THRESHOLDS = {"normal": (0, 8), "Q 12 times": (0, 8, 30), "and late keys 8 times": (8, 110, 140)}
"""Numbers -> the thresholds that are tried with them."""


def numbers(what: str) -> kernels.Data:
    """The matrices of one of :data:`THRESHOLDS`."""
    if what == "normal":
        return kernels.draw(SHAPE)
    wide = kernels.draw(SHAPE, 0, 12.0)
    if what == "Q 12 times":
        return wide
    return wide._replace(k=wide.k * [[[1 if key < 256 else 8]] for key in range(512)])


def table(*chosen: str) -> Table:
    """Runs of the kernel with the polynomial on the emulator, late copies and products.

    ``chosen``: which of :data:`THRESHOLDS`.
    """
    import numpy as np

    from phasebit.measure import Table

    text = kernels.source(kernels.POLYNOMIAL)
    rows = []
    for what in chosen:
        data = numbers(what)
        for threshold in THRESHOLDS[what]:
            with view.watching() as log:
                _, out = kernels.attend(text, data, threshold=threshold)
            made, able = view.rescales(text, SHAPE.depth, log, steps=4)
            right = kernels.off(SHAPE, data, out) <= 1
            rows.append((what, str(threshold), f"{made} of {able}", "yes" if right else "no",
                         str(int((~np.isfinite(out)).sum()))))  # fmt: skip
    return Table(
        ("numbers", "threshold", "rescaled", "within the bound", "infinite or NaN"), tuple(rows),
        "late copies and products",
    )  # fmt: skip
