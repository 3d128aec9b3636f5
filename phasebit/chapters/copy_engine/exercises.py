"""Checks of *The copy engine*."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np

from phasebit import TensorMap
from phasebit.chapters.copy_engine import bounding_box
from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import Wrong, ask, judged, same, shown
from phasebit.exercises.written import clean, compiled, running, written


@judged
def copies_under_way(answer: Callable[[int, int, int, int], int]) -> str:
    """``answer(gb_per_s, nanoseconds, multiprocessors, piece)``: copies that each has under way.

    The fewest of ``piece`` bytes with which memory could be busy, where each byte takes so long.
    """
    draw = random.Random(151)

    def cases() -> Iterator[Case]:
        for known in ((4800, 400, 132, 2048), (4000, 512, 125, 16), (4000, 512, 125, 16_385)):
            yield known, -(-known[0] * known[1] // (known[2] * known[3]))
        for _ in range(40):
            given = (draw.randrange(200, 8000, 50), draw.randrange(300, 900),
                     draw.randint(8, 160), 16 * 2 ** draw.randint(0, 10))  # fmt: skip
            yield given, -(-given[0] * given[1] // (given[2] * given[3]))

    def words(rate: int, nanoseconds: int, units: int, piece: int) -> str:
        return (f"{rate} GB/s, {nanoseconds} ns, {units} multiprocessors and copies of {piece} "
                "bytes")  # fmt: skip

    return agree(answer, cases(), words, "memories")


@judged
def expected_bytes(answer: Callable[..., int]) -> str:
    """``answer(rows, cols, box_rows, box_cols, x, y)``: bytes to expect for one box of bf16.

    The matrix has ``rows`` × ``cols``; the box begins at column ``x`` and row ``y``.
    """
    draw = random.Random(150)
    for _ in range(60):
        rows, cols = draw.randint(1, 300), 8 * draw.randint(1, 40)
        box_rows, box_cols = draw.randint(1, 256), 8 * draw.randint(1, 8)
        x, y = 8 * draw.randint(-3, cols // 8 + 2), draw.randint(-20, rows + 20)
        tensor = TensorMap(np.zeros((rows, cols), np.float16), (box_cols, box_rows))
        got = ask(answer, rows, cols, box_rows, box_cols, x, y)
        if not same(got, tensor.nbytes):
            raise Wrong(
                f"for a box of {box_rows} × {box_cols} at column {x} and row {y} of a matrix of "
                f"{rows} × {cols} the barrier sees {tensor.nbytes} bytes, not {shown(got)}"
            )
    return "60 boxes, at the edges too"


@judged
def place_of(answer: Callable[[int, int, int], int]) -> str:
    """``answer(span, row, piece)``: byte of a piece of 16 bytes in a box with rows of ``span``.

    The box is swizzled over the same span: 32, 64 or 128 bytes.
    """
    for span in (128, 64, 32):
        tensor = TensorMap(np.zeros((32, span), np.uint8), (span, 32), swizzle=f"{span}B")
        for piece in bounding_box.pieces(tensor):
            got = ask(answer, span, piece.row, piece.number)
            if not same(got, piece.place):
                raise Wrong(
                    f"with rows of {span} bytes, piece {piece.number} of row {piece.row} lies at "
                    f"byte {piece.place}, not {shown(got)}"
                )
    return "every piece of 32 rows, for three swizzles"


ROWS, COLS = 8, 16
"""Of a patch."""


@judged
def patches(answer: str) -> str:
    """The kernel that cuts patches out of an image, from blank: run with every check."""
    head = "patches(const __grid_constant__ CUtensorMap image,"
    kernel = compiled(written(answer, [head], "kernel"), "patches", "sm_90a")["patches"]
    if "fence.mbarrier_init" not in kernel.ptx:
        raise Wrong("there is no fence.mbarrier_init: the engine need not see the barriers")
    draw = np.random.default_rng(random.randrange(1 << 30))
    for count, schedule in ((1, "late"), (7, "late"), (6, "eager"), (5, "random")):
        where = f"{count} patches, {schedule} copies"
        rows, cols = int(draw.integers(20, 40)), 4 * int(draw.integers(6, 12))
        image = draw.integers(1, 100, (rows, cols)).astype(np.float32)
        corners = np.stack(
            [4 * draw.integers(-2, cols // 4, count), draw.integers(-5, rows, count)], 1
        ).astype(np.int32)
        stack = np.full((count * ROWS, COLS), np.nan, np.float32)
        maps = [TensorMap(each, (COLS, ROWS), data_type="f32") for each in (image, stack)]
        with running(where):
            run = kernel.launch(1, 32, [*maps, corners, count], schedule=schedule)
        clean(run, where)
        wide = np.zeros((rows + 60, cols + 80), np.float32)
        wide[20 : 20 + rows, 20 : 20 + cols] = image
        right = [wide[y + 20 : y + 20 + ROWS, x + 20 : x + 20 + COLS] for x, y in corners]
        if not np.array_equal(stack, np.concatenate(right)):
            raise Wrong(f"{where}: the stack does not hold the patches in their order")
    return "1, 5, 6 and 7 patches, some partly outside; no finding"
