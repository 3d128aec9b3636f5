"""The whole product of *One thread multiplies* on the emulator.

No GPU that it is for was at hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from phasebit.emulator import Schedule

if TYPE_CHECKING:
    from phasebit.emulator import Run

ONE = "one_thread_multiplies/tcgen05"


def _whole_numbers(m: int, n: int, k: int, seed: int) -> tuple[list[Any], Any, Any]:
    """A (m, k) and B (n, k) as bits of bf16, C (m, n) full of NaN, and the product."""
    import numpy as np

    from phasebit.emulator import formats

    draw = np.random.default_rng(seed)
    a, b = (draw.integers(-4, 5, size).astype(np.float64) for size in ((m, k), (n, k)))
    bits = [np.asarray(formats.encode("bf16", x)) for x in (a, b)]
    return bits, np.full((m, n), np.nan, np.float32), a @ b.T


def multiply(
    source: str, m: int, n: int, k: int, *, schedule: Schedule = "late", seed: int = 16
) -> tuple[Run, bool]:
    """C (m, n) = A (m, k) · B (n, k)ᵀ by ``tcgen05.cu``, or a variant, on whole numbers.

    Returns the run, and whether C is exact.
    """
    import numpy as np

    from phasebit.launching.launch import compile

    bits, c, product = _whole_numbers(m, n, k, seed)
    kernel = compile(source, "sm_100a")["matmul"]
    grid = -(-n // 128), -(-m // 128)
    run = kernel.launch(grid, 128, [*bits, c, m, n, k], schedule=schedule)
    return run, bool(np.array_equal(c, product))
