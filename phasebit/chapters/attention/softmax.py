"""The online softmax of *Attention* in NumPy, and how far rounding may carry it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def bound(d: int, keys: int, sizes: Array, weighted: Array, output: Array) -> Array:
    """How far an output may be from the exact one.

    ``sizes``: the largest scale · Σ |q·k| of the row; ``weighted``: Σ p |v|; ``output``: |o|.
    Four errors, each a part of what it is an error of: a score is a sum of ``d`` products whose
    adders cut bits off, and its exponent is rounded twice; ex2 is exact to 2⁻²²; a probability is
    rounded to bf16, and the output too, 2⁻⁹ each; the sums over ``keys`` are f32.
    """
    score = sizes * ((d + d / 8 + 4) * 2.0**-23 + 4 * 2.0**-24) + 2.0**-22
    relative = 2 * score + 2.0**-9 + 2.5 * (keys + 8) * 2.0**-23
    return np.asarray(1.01 * (relative * weighted + 2.0**-9 * output))
