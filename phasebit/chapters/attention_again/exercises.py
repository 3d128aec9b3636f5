"""Checks of *Attention again*."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from phasebit.chapters.attention_again import tensor_attention as kernels
from phasebit.edits import replace_once
from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import Wrong, judged
from phasebit.exercises.written import clean, compiled, running, written


@judged
def highest_threshold(answer: Callable[[float, int], int]) -> str:
    """``answer(greatest, keys)``: the highest whole threshold with which nothing overflows."""
    draw = random.Random(250)

    def right(greatest: float, keys: int) -> int:
        return min(math.floor(math.log2(greatest)), 127 - math.floor(math.log2(keys)))

    def cases() -> Iterator[Case]:
        for greatest in (65504.0, 448.0, 57344.0, (2 - 2**-7) * 2.0**127):
            for keys in (1, 128, 200, 1 << 20):
                yield (greatest, keys), right(greatest, keys)
        for _ in range(40):
            greatest, keys = 2.0 ** draw.randint(3, 127) * 1.5, draw.randint(1, 1 << 24)
            yield (greatest, keys), right(greatest, keys)

    def words(greatest: float, keys: int) -> str:
        return f"weights up to {greatest:g} and {keys} keys"

    return agree(answer, cases(), words, "formats")


_POWERS = """
{}

extern "C" __global__ void powers(const float* x, float* y, int n) {{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = power(x[i]);
}}
"""


@judged
def polynomial(answer: str) -> str:
    """2^x from additions and multiply-adds, compared with float64 at random places."""
    text = written(answer, ["__device__ float power(float x)"], "function")
    kernel = compiled(_POWERS.format(text), "powers", "sm_100a")["powers"]
    for word in ("ex2", "lg2", ".f64", "div", "call"):
        if word in kernel.ptx.partition(".entry")[2]:
            raise Wrong(f"the compiled function has {word}: use f32 additions and multiply-adds")
    draw = np.random.default_rng()
    x = np.concatenate([
        np.arange(-125, 9), np.arange(-125, 9) + 0.5, np.arange(-124, 9) - 0.499,
        draw.uniform(-1, 8, 500), draw.uniform(-125, 0, 2000),
    ]).astype(np.float32)  # fmt: skip
    x = np.concatenate([x, [-126, -126.6, -127.5, -150, -1e4, -1e30, -np.inf]]).astype(np.float32)
    y = np.full_like(x, np.nan)
    with running("powers of two"):
        run = kernel.launch(-(-len(x) // 128), 128, [x, y, len(x)])
    clean(run, "powers of two")
    low = x < -125
    for at, got in zip(x[low], y[low], strict=True):
        if not 0 <= got <= 2.0**-124:
            raise Wrong(f"2^{at:g} came out as {got:g}: it must not be above 2^-124, nor below 0")
    right = np.exp2(x.astype(np.float64))
    off = abs(y - right) / np.where(low, 1, right)
    worst = int(np.argmax(np.where(np.isnan(off), np.inf, off)))
    if not off[worst] <= 2.0**-13:
        raise Wrong(f"2^{x[worst]:.9g} came out as {y[worst]:.9g}: off by {off[worst]:.2g} of it")
    return f"{len(x)} powers, none off by more than 2^-13"


_ROWS = """
constexpr float LOWEST = -1e30f;
struct Row {{ float reference = LOWEST, sum = 0; }};

{}

// Each thread a row: `steps` steps of one score. A step adds 2^(scale * (score - reference)).
extern "C" __global__ void rows(const float* scores, int steps, float scale, float threshold,
                                float* sums, float* references, float* factors) {{
    const int row = threadIdx.x;
    Row r;
    for (int step = 0; step < steps; ++step) {{
        const float score = scores[row * steps + step];
        const float factor = follow(r, score, scale, threshold);
        r.sum = r.sum * factor + exp2f((score - r.reference) * scale);
        references[row * steps + step] = r.reference;
        factors[row * steps + step] = factor;
    }}
    sums[row] = r.sum;
}}
"""
_HEAD = "__device__ float follow(Row& row, float most, float scale, float threshold)"


def _expected(scores: Any, scale: float, threshold: float) -> Any:
    """References and factors, step by step, as float64."""
    rows, steps = scores.shape
    references, factors = np.empty((rows, steps)), np.empty((rows, steps))
    now = np.full(rows, -1e30)
    for step in range(steps):
        moved = (scores[:, step] - now) * scale
        moves = moved > threshold
        factors[:, step] = np.where(moves, np.exp2(-np.where(moves, moved, 0)), 1)
        now = np.where(moves, scores[:, step], now)
        references[:, step] = now
    return references, factors


@judged
def lazy(answer: str) -> str:
    """``follow``, written from blank: first on rows of single scores, then in the last kernel."""
    text = written(answer, [_HEAD], "function")
    kernel = compiled(_ROWS.format(text), "rows", "sm_100a")["rows"]
    draw = np.random.default_rng()
    rows, steps = 64, 24
    for scale, threshold in ((1.0, 8.0), (0.25, 8.0), (0.5, 0.0), (2.0, 3.0)):
        # whole numbers: no rounding decides; walks that creep upwards, jump, and fall
        walk = draw.integers(-6, 9, (rows, steps)).cumsum(axis=1)
        jumps = draw.integers(-60, 60, (rows, steps))
        scores = np.where(draw.random((rows, steps)) < 0.7, walk, jumps).astype(np.float32)
        scores[:8] = np.arange(steps) * (threshold / scale if threshold else 1)  # just not above
        sums, references, factors = (
            np.full(n, np.nan, np.float32) for n in (rows, rows * steps, rows * steps)
        )
        where = f"scale {scale:g}, threshold {threshold:g}"
        with running(where):
            arguments = [scores.ravel(), steps, np.float32(scale), np.float32(threshold)]
            run = kernel.launch(1, rows, [*arguments, sums, references, factors])
        clean(run, where)
        right, multiplied = _expected(scores.astype(np.float64), scale, threshold)
        got = references.reshape(rows, steps), factors.reshape(rows, steps)
        for row in range(rows):
            for step in range(steps):
                before = right[row, step - 1] if step else -1e30
                place = (f"{where}: at score {scores[row, step]:g} with the reference at "
                         f"{before:g}")  # fmt: skip
                if got[0][row, step] != right[row, step]:
                    raise Wrong(f"{place} the reference becomes {got[0][row, step]:g} "
                                f"and should be {right[row, step]:g}")  # fmt: skip
                if not math.isclose(got[1][row, step], multiplied[row, step], rel_tol=1e-5,
                                    abs_tol=1e-37):  # fmt: skip
                    raise Wrong(f"{place} the factor is {got[1][row, step]:g} "
                                f"and should be {multiplied[row, step]:g}")  # fmt: skip
    whole = with_follow(text)
    for spread in (1.0, 12.0):
        shape = kernels.Shape(130, 200)
        data = kernels.draw(shape, random.randrange(1 << 30), spread)
        where = f"in the kernel, scores {spread:g} times as large"
        with running(where):
            made = kernels.attend(whole, data)
        clean(made.run, where)
        if kernels.off(shape, data, made.out) > 1:
            raise Wrong(f"{where}: O is wrong")
    return "4 scales of 64 rows, and 2 runs of the kernel, no finding"


def with_follow(answer: str) -> str:
    """The last kernel with the reader's ``follow`` in place of its own."""
    text = kernels.source(kernels.POLYNOMIAL)
    own = kernels.function(text, "follow")
    return replace_once(text, own, answer.strip().replace("__device__ ", "__device__ inline ", 1))
