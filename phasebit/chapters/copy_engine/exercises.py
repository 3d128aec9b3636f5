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


Pieces = list[int]
"""Bytes that the engine subtracts at a time, in order."""


def _ends(first: Pieces, second: Pieces, announced: int) -> set[str]:
    total = sum(first) + sum(second)
    seen: set[str] = set()
    at = {(0, 0)}  # how many pieces of each have come, where the count has not been zero
    for _ in range(len(first) + len(second)):
        on = {(i + di, j + dj) for i, j in at for di, dj in ((1, 0), (0, 1))
              if i + di <= len(first) and j + dj <= len(second)}  # fmt: skip
        zero = {(i, j) for i, j in on if sum(first[:i]) + sum(second[:j]) == announced}
        if zero:
            seen |= {"complete"} if announced == total else {"complete", "too early"}
        at = on - zero
    return seen | ({"never"} if at else set())


@judged
def endings(answer: Callable[[Pieces, Pieces, int], set[str]]) -> str:
    """``answer(first, second, announced)``: how a wait for two copies can end.

    The engine subtracts the pieces of both, in any mixture. A right answer is told which equal
    pieces could end as the blocks of the record did.
    """
    draw = random.Random(150)

    def cases() -> Iterator[Case]:
        for first, second, announced in (
            ([4096], [4096], 8192), ([4096], [4096], 4096), ([4096], [4096], 8176),
            ([4096], [2048], 4096), ([1024, 3072], [3072, 1024], 4096), ([16], [16], 48),
            ([4080, 16], [4096], 4096), ([32, 16], [16, 32], 48),
        ):  # fmt: skip
            yield (first, second, announced), _ends(first, second, announced)
        for _ in range(80):
            first, second = ([16 * draw.randint(1, 4) for _ in range(draw.randint(1, 4))]
                             for _ in range(2))  # fmt: skip
            announced = 16 * draw.randint(1, (sum(first) + sum(second)) // 16 + 1)
            yield (first, second, announced), _ends(first, second, announced)

    def words(first: Pieces, second: Pieces, announced: int) -> str:
        return f"pieces {first} and {second}, {announced} bytes announced"

    tried = agree(answer, cases(), words, "pairs of copies")
    sizes = [2**n for n in range(4, 13)]
    half, less = ([_ends([size] * (4096 // size), [size] * (4096 // size), announced)
                   for size in sizes] for announced in (4096, 8176))  # fmt: skip
    return (
        f"{tried}; equal pieces of 16 to 4,096 bytes: with 4,096 announced "
        f"{sum('never' in said for said in half)} of {len(sizes)} sizes can end in never; with "
        f"8,176 announced {sum(said == {'never'} for said in less)} sizes always do"
    )


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
