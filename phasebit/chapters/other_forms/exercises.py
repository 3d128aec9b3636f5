"""Checks of *Other forms of the product*."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterator

from phasebit import files
from phasebit.edits import replace_once
from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import Wrong, ask, judged, shown, whole
from phasebit.exercises.written import clean, compiled, running, written


@judged
def sum_after(answer: Callable[[int, int], float]) -> str:
    """``answer(n, s)``: a sum after ``n`` products 1 · 1 with scale-input-d ``s``.

    The first of them replaces what was there. The emulator makes them.
    """
    import numpy as np

    from phasebit.launching import one_product

    kernel = files.kernel("one_thread_multiplies/described")
    one = one_product.tile(np.eye(128, 16), "f16")  # its first row is a one, and zeros

    def cases() -> Iterator[Case]:
        for n, s in (3, 1), (1, 4), (2, 15), (5, 2), (20, 1), (4, 0):
            text = replace_once(kernel, "%3, p; }", f"%3, p, {s}; }}")
            out, _ = one_product.product(text, one, one, 0x08100010, times=n)
            yield (n, s), float(out.view(np.float32)[0, 0])

    return agree(answer, cases(), lambda n, s: f"{n} products with s = {s}", "sums")


@judged
def mask(answer: Callable[[list[int]], list[int]]) -> str:
    """``answer(lanes)``: the four registers of disable-output-lane that leave these lanes alone.

    The emulator makes a product into a sum of ones, with what the answer gives.
    """
    import numpy as np

    from phasebit.launching import one_product

    kernel = files.kernel("one_thread_multiplies/described")
    ones = np.eye(1, 16).repeat(128, axis=0)
    tiles = one_product.tile(ones, "f16"), one_product.tile(ones[:64], "f16")
    draw = random.Random(220)
    kept = [[0], [31, 32], list(range(40, 100)), [127], *(draw.sample(range(128), 9) for _ in "ab")]
    for lanes in kept:
        got = ask(answer, list(lanes))
        try:
            words = [operator.index(word) for word in got]
        except TypeError:
            raise Wrong(f"it gives {shown(got)}: give four whole numbers") from None
        if len(words) != 4 or not all(0 <= word < 1 << 32 for word in words):
            raise Wrong(f"it gives {shown(got)}: give four numbers of 32 bits")
        moves = "".join(f" mov.b32 m{i}, {word};" for i, word in enumerate(words))
        text = replace_once(kernel, "%3, p; }", "%3, {m0, m1, m2, m3}, p; }")
        # The first product fills the sum: for it, in which %4 is 0, the mask is 0.
        clear = "".join(f" @!p mov.b32 m{i}, 0;" for i in range(4))
        text = replace_once(text, "%4, 0;", f"%4, 0; .reg .b32 m<4>;{moves}{clear}")
        out, _ = one_product.product(text, *tiles, 0x08100010, times=2)
        alone = [lane for lane in range(128) if out.view(np.float32)[lane, 0] == 1]
        if alone != sorted(lanes):
            raise Wrong(f"to leave {shown(sorted(lanes))} alone, it leaves {shown(alone)}")
    return f"{len(kept)} masks"


@judged
def cell_of(answer: Callable[[int, int, int, int], tuple[int, int]]) -> str:
    """``answer(i, j, m, n)``: lane and column of a number of a sum that ``.ws`` has made."""
    from phasebit.chapters.other_forms import held_weights

    draw = random.Random(220)

    def cases() -> Iterator[Case]:
        for m, n in (32, 128), (64, 64), (128, 64), (64, 128):
            cells = held_weights.held(m, n)
            places = {tuple(cells[lane, column].tolist()): (lane, column)
                      for lane in range(128) for column in range(cells.shape[1])}  # fmt: skip
            for i, j in draw.sample(sorted(places), 15):
                yield (i, j, m, n), places[i, j]

    return agree(answer, cases(), lambda i, j, m, n: f"row {i}, column {j} of {m} × {n}", "numbers")


@judged
def compress(answer: Callable[[list[int]], tuple[list[int], list[int]]]) -> str:
    """``answer(row)``: the stored half of a row, and the four bits of each chunk of four.

    Rows have at most two numbers in four that are not zero, often fewer.
    """
    draw = random.Random()
    rows = [[0, 5, 0, 7], [3, 0, 0, 0], [0, 0, 0, 9], [0] * 8, [1, 0, 2, 0, 0, 3, 4, 0]]
    for _ in range(60):
        row = []
        for _ in range(draw.randint(1, 12)):
            four = [0] * 4
            for place in draw.sample(range(4), draw.choice((0, 1, 2, 2))):
                four[place] = draw.choice((-1, 1)) * draw.randint(1, 99)
            row += four
        rows.append(row)
    for row in rows:
        _expanded(row, ask(answer, list(row)))
    return f"{len(rows)} rows, expanded again by their metadata"


def _expanded(row: list[int], got: object) -> None:
    """Raises :class:`Wrong` when a stored row and its metadata do not say the row."""
    wrong = f"for {row} it gives {shown(got)}"
    if not isinstance(got, tuple | list) or len(got) != 2:
        raise Wrong(f"{wrong}: give two lists, the numbers and the four bits of each chunk")
    stored, bits = (list(x) if isinstance(x, tuple | list) else [x] for x in got)
    if not all(whole(x) for x in (*stored, *bits)):
        raise Wrong(f"{wrong}: give whole numbers")
    if (len(stored), len(bits)) != (len(row) // 2, len(row) // 4):
        raise Wrong(f"{wrong}: a chunk of four has two stored numbers and one entry of metadata, "
                    f"here {len(row) // 2} and {len(row) // 4} in all")  # fmt: skip
    for chunk, four in enumerate(bits):
        first, second = int(four) & 3, int(four) >> 2
        if not 0 <= int(four) < 16:
            raise Wrong(f"{wrong}: metadata of chunk {chunk} have more than four bits")
        if first == second:
            raise Wrong(f"{wrong}: the metadata of chunk {chunk}, {int(four):04b}, name one place "
                        "twice, which is illegal, also where zeros are stored")  # fmt: skip
        if first > second:
            raise Wrong(f"{wrong}: the places of chunk {chunk}, {first} and {second}, are not in "
                        "order; the first stands in the low two bits")  # fmt: skip
        seen = [0] * 4
        seen[first], seen[second] = int(stored[2 * chunk]), int(stored[2 * chunk + 1])
        if seen != row[4 * chunk : 4 * chunk + 4]:
            raise Wrong(f"{wrong}: chunk {chunk} is {row[4 * chunk:4 * chunk + 4]}, and the tensor "
                        f"core has {seen}")  # fmt: skip


_KEEP = ("__device__ void fetch(unsigned base, float* C, int m, int n) {",)


@judged
def fetch(answer: str) -> str:
    """The function ``fetch`` of ``stationary.cu``: what all threads do once the products are made.

    It is put into the kernel, for tiles of 32, 64 and 128 rows, and run under each schedule, on
    whole numbers and ragged sizes.
    """
    import numpy as np

    from phasebit.chapters.other_forms import held_weights

    text = written(answer, _KEEP, "function")
    draw = np.random.default_rng()
    for high, schedule in zip(held_weights.ROWS, ("late", "eager", "random"), strict=True):
        kernel = held_weights.with_fetch(text, high)
        compiled(kernel, "stationary", "sm_100a")
        for m, n in (4 * high, 128), (3 * high + 5, 100), (1, 1):
            where = f"tiles of {high} rows, C of {m} × {n}, schedule {schedule}"
            a, b = (draw.integers(-4, 5, (rows, held_weights.K)) for rows in (m, n))
            with running(where):
                c, run = held_weights.launch(a, b, high, kernel, schedule=schedule)
            clean(run, where)
            wrong = np.argwhere(c != a @ b.T)
            if len(wrong):
                raise Wrong(f"{where}: C is wrong at {len(wrong)} places, first at row "
                            f"{wrong[0][0]}, column {wrong[0][1]}")  # fmt: skip
    return "exact for tiles of 32, 64 and 128 rows, no finding"
