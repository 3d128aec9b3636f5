"""Checks of *Low precision, block by block*."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from phasebit.chapters.low_precision import nvfp4
from phasebit.chapters.low_precision.quantise import MXFP4
from phasebit.edits import function, replace_once
from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import Wrong, ask, judged, shown
from phasebit.exercises.written import clean, compiling, running, written


@judged
def scale_at(answer: Callable[[int], tuple[int, int]]) -> str:
    """``answer(byte)``: row of 128, and which of its 4 scales a byte of an atom holds."""
    marks = np.arange(512, dtype=np.int64).reshape(128, 4)
    atom = marks.reshape(4, 32, 1, 4).transpose(2, 1, 0, 3).ravel()

    def cases() -> Iterator[Case]:
        for byte in 0, 22, *random.Random(190).sample(range(512), 60):
            yield (byte,), divmod(int(atom[byte]), 4)

    return agree(answer, cases(), lambda byte: f"byte {byte}", "bytes")


SLIPS = {
    1: ("from.a_scales[step]", "from.a_scales[0]"),
    2: ("(size_t(blockIdx.y) * slices + slice)", "(size_t(blockIdx.y) * slices)"),
    3: ("(size_t(blockIdx.y) * slices + slice)", "size_t(slice)"),
    4: ("a_scales + SCALES * step, b_scales + SCALES * step",
        "b_scales + SCALES * step, a_scales + SCALES * step"),
}  # fmt: skip
"""Slips in the kernel that break no rule: words of its text, and others."""

TESTS = {
    "a": ("2", "1"),
    "b": ("1 + row % 2", "1 + row % 2"),
    "c": ("1 + block % 2", "1"),
    "d": ("1 + block // 4 % 2", "1"),
    "e": ("1 + row // 128", "1"),
    "f": ("1 + row % 2", "1"),
}
"""The scales of A and those of B in some tests of the kernel, by row and block of 16 numbers."""

ROWS, BLOCKS = 256, 32
"""Of A and of B in these tests: two tiles of rows, two slices."""


def scales_of(said: str | Callable[[int, int], int]) -> Any:
    """The scales of a matrix in one of :data:`TESTS`, or as a function says: (ROWS, BLOCKS)."""
    found = np.empty((ROWS, BLOCKS), np.int8)
    for row, block in np.ndindex(ROWS, BLOCKS):
        names = {"row": row, "block": block}
        found[row, block] = eval(said, {}, names) if isinstance(said, str) else said(row, block)
    return found


def seen_by(a: Any, b: Any) -> list[int]:
    """The :data:`SLIPS` that change a factor of the product, by the scales of A and B."""
    blocks, rows = np.arange(BLOCKS), np.arange(ROWS)
    slipped = a[:, blocks // 16 * 16 + blocks % 4], a[:, blocks % 16], a[rows % 128]
    factors = a[:, None] * b
    changed = [not np.array_equal(one[:, None] * b, factors) for one in slipped]
    tiles = [each.reshape(2, 1, 128, BLOCKS) for each in (a, b)]
    of_a, of_b = tiles[0], tiles[1].swapaxes(0, 1)  # every tile of A with every tile of B
    exchanged = of_b[..., :, None, :] * of_a[..., None, :, :]
    rightly = of_a[..., :, None, :] * of_b[..., None, :, :]
    changed.append(not np.array_equal(exchanged, rightly))
    return [slip for slip, seen in enumerate(changed, 1) if seen]


@judged
def tests(seen: dict[str, list[int]], own: Callable[[int, int], int]) -> str:
    """Which slips each of :data:`TESTS` sees; ``own(row, block)``: scales of A that see all."""
    if not isinstance(seen, dict) or set(seen) != set(TESTS):
        raise Wrong(f"{shown(seen)}: give a list of slips for each of {', '.join(TESTS)}")
    for name, (of_a, of_b) in TESTS.items():
        if sorted(seen[name]) != seen_by(scales_of(of_a), scales_of(of_b)):
            raise Wrong(f"test {name} does not see just these slips: {shown(seen[name])}")
    mine = scales_of(lambda row, block: ask(own, row, block))
    if not set(mine.ravel()) <= {1, 2}:
        raise Wrong("your own scales: each is to be 1 or 2")
    if missed := sorted(set(SLIPS) - set(seen_by(mine, np.ones_like(mine)))):
        raise Wrong(f"your own test does not see slip {missed[0]}")
    return f"{len(TESTS)} tests and yours"


@judged
def block(answer: Callable[[Any], Any]) -> str:
    """``answer(x)``: 16 numbers -> the numbers that NVFP4 makes of them, without a whole factor.

    The scale is the largest magnitude over 6, rounded to e4m3; each number is divided by it and
    rounded to e2m1. Whole blocks of zeros stay zeros.
    """
    from phasebit.emulator import formats

    draw = np.random.default_rng(random.randrange(1 << 30))
    blocks = [np.linspace(-7, 8, 16), np.zeros(16), np.full(16, 6.0)]
    blocks += [draw.standard_normal(16) * 10.0 ** draw.integers(-1, 2) for _ in range(40)]
    for x in blocks:
        scale = formats.decode("e4m3", formats.encode("e4m3", np.abs(x).max() / 6))
        by = np.float64(scale) or 1.0
        right = formats.decode("e2m1", formats.encode("e2m1", x / by, satfinite=True)) * by
        got = ask(answer, x.copy())
        try:
            found = np.asarray(got, np.float64)
        except (TypeError, ValueError):
            raise Wrong(f"it gives {shown(got)}: give 16 numbers") from None
        if found.shape != (16,):
            raise Wrong(f"it gives {shown(got)}: give 16 numbers")
        if not np.allclose(found, right, rtol=1e-6, atol=0):
            at = int(np.argmax(np.abs(found - right)))
            raise Wrong(
                f"for a block whose largest magnitude is {np.abs(x).max():.4g}, {x[at]:.4g} "
                f"becomes {found[at]:.4g}, and NVFP4 makes {right[at]:.4g} of it"
            )
    return f"{len(blocks)} blocks"


@judged
def pieces(answer: Callable[[int, int], int]) -> str:
    """``answer(n, slots)``: pieces of 32 columns to fetch before the next tile may begin.

    Two sums of ``n`` columns and the scales of ``slots`` slices of NVFP4 share 512 columns.
    """

    def cases() -> Iterator[Case]:
        yield (256, 3), 5
        every = [(n, slots) for n in range(128, 257, 16) for slots in range(1, 13)]
        random.Random(270).shuffle(every)
        for n, slots in every:
            scales = slots * 16 * (1 + -(-n // 128))  # an atom takes four columns, four along k
            if n + scales <= 512:
                yield (n, slots), -(-max(0, 2 * n + scales - 512) // 32)

    return agree(
        answer, cases(), lambda n, slots: f"sums of {n} columns, scales of {slots} slots", "plans"
    )


_HEAD = "__device__ void multiply(Shared& s, int slices)"
_SHAPES = (128, 128, 256), (140, 40, 1088)
"""One slice, and five slices on ragged tiles, so that each slot comes twice."""


def with_multiply(answer: str) -> str:
    """The kernel with the reader's role in place of its own."""
    text = nvfp4.source(nvfp4.POWERS)
    return replace_once(text, function(text, "multiply"), answer.strip())


@judged
def multiply(answer: str) -> str:
    """MXFP4's role that copies scales and multiplies, from blank: run with every check."""
    source = with_multiply(written(answer, [_HEAD], "role"))
    runs = [(shape, schedule) for shape in _SHAPES for schedule in ("late", "eager")]
    for (m, n, k), schedule in runs:
        where = f"{m} × {n} × {k}, {schedule} copies and products"
        a, b = (nvfp4.plain(rows, k, random.randrange(1 << 30), MXFP4) for rows in (m, n))
        with running(where), compiling():
            run, c = nvfp4.multiply(a, b, source, schedule=schedule)
        clean(run, where)
        if not np.array_equal(c, a.values() @ b.values().T):
            raise Wrong(f"{where}: C is wrong")
    return f"{len(runs)} runs, no finding"


__all__ = ["block", "multiply", "pieces", "scale_at", "tests", "with_multiply"]
