"""The online softmax of *Attention* in NumPy, and how far rounding may carry it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def bound(d: int, sizes: Array, weighted: Array, output: Array) -> Array:
    """How far an output may be from the exact one.

    ``sizes``: the largest scale · Σ |q·k| of the row; ``weighted``: Σ p |v|; ``output``: |o|.
    A score is a sum of ``d`` products whose adders cut bits off, and its exponent is rounded: an
    absolute error that becomes a relative one of the probability, and of their sum. Each
    probability is then rounded to bf16, and so is the output.
    """
    relative = 2.0**-8 + sizes * (2 * d + 16) * 2.0**-23
    return np.asarray(1.01 * (relative * weighted + 2.0**-8 * output))
