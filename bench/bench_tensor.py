"""How fast the emulator multiplies with tensor cores.

    python bench/bench_tensor.py

The book's kernels for Blackwell: products, one with block scales, attention. Beside them products
of kernels that CuTe DSL compiled, which are kept with the tests, one of them for Hopper. The goals
are seconds of the processor, without checks and with all of them, once a program is read and
translated, which the first launch does; each time is the least of several.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from phasebit.chapters.attention_again import tensor_attention as attention
from phasebit.chapters.chain import kernels as chain
from phasebit.chapters.low_precision import nvfp4
from tests.foreign.saved import Saved

REPEATS = 3
PRODUCT, SCALED, ATTENTION = (0.15, 0.35), (0.5, 1), (1, 3)
"""Goals: seconds without checks, and with all of them."""


class Work(NamedTuple):
    what: str
    shape: tuple[int, ...]
    goals: tuple[float, float]
    run: Callable[..., bool]
    """``run(check=True)`` launches it, and says whether the result is right."""


def multiplied(a: Any, b: Any, text: str, *, check: bool) -> bool:
    _, c = chain.launch(text, a, b, check=check)
    return np.array_equal(c, a @ b.T)


def scaled(a: Any, b: Any, *, check: bool) -> bool:
    return np.array_equal(nvfp4.multiply(a, b, check=check).c, a.values() @ b.values().T)


def attended(shape: attention.Shape, data: attention.Data, text: str, *, check: bool) -> bool:
    return attention.off(shape, data, attention.attend(text, data, check=check).out) <= 1


def kept(kernel: Saved, *, check: bool) -> bool:
    return kernel.multiply("late", check=check)[0]


def works() -> Iterator[Work]:
    """What is timed: first the book's kernels."""
    m, n, k = 256, 512, 256
    draw = np.random.default_rng(1)
    a, b = (draw.integers(-4, 5, (rows, k)).astype(np.float64) for rows in (m, n))
    for name in chain.CHAIN, chain.PAIR:
        run = partial(multiplied, a, b, chain.source(name))
        yield Work(f"chain/{name}", (m, n, k), PRODUCT, run)
    small, large = (nvfp4.plain(128, 256, seed) for seed in (1, 2))
    yield Work("low_precision/nvfp4", (128, 128, 256), SCALED, partial(scaled, small, large))
    shape = attention.Shape(256, 256, 128)
    run = partial(attended, shape, attention.draw(shape), attention.source(attention.POLYNOMIAL))
    yield Work(f"attention_again/{attention.POLYNOMIAL}", (256, 256, 128), ATTENTION, run)
    for name in "cute_tcgen05", "cute_wgmma":
        kernel = Saved.load(name)
        yield Work(name, tuple(kernel.about["shape"]), PRODUCT, partial(kept, kernel))


def seconds(work: Work, check: bool) -> float:
    start = time.process_time()
    right = work.run(check=check)
    took = time.process_time() - start
    if not right:
        raise SystemExit(f"{work.what} is wrong: a kernel that is not right is not timed")
    return took


def main() -> None:
    print(f"{'kernel':32} {'shape':>15} {'checks':>7} {'goal':>7} {'first':>8} {'then':>8}")
    for work in works():
        for check, goal in zip((False, True), work.goals, strict=True):
            first = seconds(work, check)
            then = min(seconds(work, check) for _ in range(REPEATS))
            size = " × ".join(map(str, work.shape))
            print(f"{work.what:32} {size:>15} {'all' if check else 'none':>7} {goal:5} s "
                  f"{first:6.2f} s {then:6.2f} s")  # fmt: skip


if __name__ == "__main__":
    main()
