"""Checks of *Epilogues and groups*."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from phasebit.chapters.epilogues_and_groups import epilogues, groups, view
from phasebit.chapters.epilogues_and_groups.epilogues import FETCHED, FUSED, Numbers, Programs
from phasebit.edits import replace_each, replace_once
from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import Wrong, judged
from phasebit.exercises.written import clean, compiling, running, written


@judged
def moved(answer: Callable[[int, int, int], int]) -> str:
    """``answer(m, n, kernels)``: bytes of D that steps apart move, in so many kernels, bf16."""
    draw = random.Random(241)

    def cases() -> Iterator[Case]:
        yield (1024, 1024, 0), 2 << 20
        yield (1024, 1024, 1), 6 << 20
        for _ in range(30):
            m, n, after = draw.randint(1, 5000), 8 * draw.randint(1, 600), draw.randint(0, 8)
            yield (m, n, after), 2 * m * n * (1 + 2 * after)

    def words(m: int, n: int, after: int) -> str:
        return f"D of {m} × {n} and {after} kernels after the product"

    return agree(answer, cases(), words, "results")


@judged
def orders(answer: Callable[[int, int], tuple[int, int]]) -> str:
    """``answer(products, epilogue)``: cycles of eight tiles, together and by turns.

    ``products``: cycles of one tile's; ``epilogue``: of a group's epilogue of a whole tile, even.
    """
    draw = random.Random(244)

    def cases() -> Iterator[Case]:
        for _ in range(60):
            products, epilogue = draw.randint(1, 400), 2 * draw.randint(1, 200)
            given = products, epilogue
            yield given, tuple(
                round(8 * products * view.by_arithmetic(products, epilogue, order))
                for order in ("together", "by turns")
            )

    def words(products: int, epilogue: int) -> str:
        return f"products of {products} cycles and an epilogue of {epilogue}"

    return agree(answer, cases(), words, "pairs")


@judged
def place(answer: Callable[[list[int], int, int], Any]) -> str:
    """``answer(sizes, n, number)``: (group, row, col) of a tile of 128 × 256, by its number.

    Tiles are numbered group by group, in a group along its rows of tiles.
    """
    draw = random.Random(242)

    def cases() -> Iterator[Case]:
        for _ in range(40):
            sizes = [draw.choice((0, 1, 127, 128, 129, draw.randint(0, 700))) for _ in range(6)]
            sizes[draw.randrange(6)] = draw.randint(1, 300)
            n = 8 * draw.randint(1, 80)
            every = list(groups.walk(sizes, n))
            number = draw.randrange(len(every))
            yield (sizes, n, number), tuple(every[number])

    def words(sizes: list[int], n: int, number: int) -> str:
        return f"tile {number} of groups of {sizes} rows, {n} columns"

    return agree(answer, cases(), words, "tiles")


_HEAD = "struct Step {"
_SHAPE = 40, 136, 24


def with_step(answer: str) -> str:
    """The fused kernel whose only step is a reader's."""
    text = epilogues.without_apart(epilogues.with_steps(epilogues.source(FUSED), ("Step",)))
    chain = "template <class... Steps> struct Chain {"
    return epilogues.with_constants(
        replace_once(text, chain, answer.strip() + "\n" + chain), SLOTS=2
    )


def _drawn(name: str) -> tuple[Numbers, Any]:
    """Numbers, and the step's result: its largest magnitude in an odd column, then in an even one.

    And one that bf16 does not have.
    """
    import numpy as np

    while True:
        given = Numbers.draw(*_SHAPE, random.randrange(1 << 30))
        given.row_scale[::2] *= -1
        if name == "a NaN in A":
            given.a[3, 5] = np.nan
            given.__post_init__()
        with np.errstate(invalid="ignore"):
            x = given.sums + given.bias
            x = np.where(x < 0, 0, x) ** 2 * given.row_scale[:, None]
        most, size = int(np.abs(x).argmax()), np.abs(x).max()
        odd = most % x.shape[1] % 2 == (name == "numbers")
        rounded = epilogues.plain(epilogues.bf16(size))
        if np.isnan(size) or (odd and abs(rounded - size) > 5e-4 * size):
            return given, x


@judged
def step(answer: str) -> str:
    """A step: bias by column, squared ReLU, row scale, amax; run on the emulator."""
    import numpy as np

    source = with_step(written(answer, [_HEAD], "step"))
    with compiling():
        programs = Programs({"step": source})
        programs.kernel("step")
    for name in ("numbers", "other numbers", "a NaN in A"):
        given, x = _drawn(name)
        amax = float(np.abs(x).max())
        with running(name):
            made, seen = epilogues.launched(programs, "step", given)
        clean(made.run, name)
        if wrong := epilogues.differs(made.c, x):
            raise Wrong(f"{name}: {wrong}")
        if not (abs(seen - amax) <= 1e-4 * amax or (np.isnan(seen) and np.isnan(amax))):
            raise Wrong(f"{name}: amax is {seen:.6g} and should be {amax:.6g}")
    return "3 products, no finding"


BY_BOX = (
    "__device__ void fetch(Shared& s, const CUtensorMap& residual, const CUtensorMap& bias,",
    "__device__ void wait_for_box(Shared& s, int box, bool phase) {",
)
"""The lines with which the two functions of a barrier for each box begin."""
_EACH_A_BARRIER = (
    ("fetched[CONSUMERS / 32];  //", "fetched[CONSUMERS / 32][ALL];  //"),
    ("for (auto& barrier : s.fetched) ptx::mbarrier_init(&barrier, 1);",
     "for (auto& warp : s.fetched)\n"
     "            for (auto& barrier : warp) ptx::mbarrier_init(&barrier, 1);"),
    ("            ptx::cp_async_bulk_wait_group_read<0>();  // the last tile has left the boxes\n",
     ""),
    ("        ptx::mbarrier_wait(&s.fetched[warp], phase);\n        phase = !phase;\n", ""),
    ("            float now[32];\n",
     "            wait_for_box(s, box, phase);\n            float now[32];\n"),
    ("            }\n        }\n    }\n    finish(f);",
     "            }\n        }\n        phase = !phase;\n    }\n    finish(f);"),
)  # fmt: skip


def with_boxes(answer: str) -> str:
    """The fetching kernel with a barrier for each box, and the reader's two functions."""
    text = replace_each(epilogues.source(FETCHED), _EACH_A_BARRIER, f"{FETCHED}.cu")
    begin, end = map(text.index, ("// Before the products of a tile", "// The sums of a box"))
    return epilogues.with_constants(f"{text[:begin]}{answer.strip()}\n\n{text[end:]}", SLOTS=2)


@contextmanager
def _fetching() -> Iterator[list[int]]:
    """Collects boxes for which a lane asks when a later one, too, has been read by its store."""
    from phasebit.emulator import BulkCopyObserver, observing

    boxes, size = 4, 16 * 64 * 2  # of a warp; bytes
    left, asked, late = Counter[int](), Counter[int](), list[int]()

    class Watcher(BulkCopyObserver):
        def starts_copies(self, g: Any, copies: Any) -> None:
            for _, copy in copies:
                if copy.site is None or copy.size != size:
                    continue  # a store, or no residual
                lane = int(copy.lanes[0])
                tile, box = divmod(asked[lane], boxes)
                asked[lane] += 1
                if tile and left[lane] > boxes * (tile - 1) + box + 1:
                    late.append(box)

        def source_is_free(self, copy: Any) -> None:
            left[int(copy.lanes[0])] += 1

    with observing(Watcher()):
        yield late


@judged
def by_box(answer: str) -> str:
    """A barrier for each box: fetched as soon as it has left, waited for alone; on the emulator."""
    source = with_boxes(written(answer, BY_BOX, "two functions"))
    with compiling():
        programs = Programs({"answer": source})
        programs.kernel("answer")
    runs: tuple[tuple[str, tuple[int, int, int], float, bool, str], ...] = (
        ("three tiles", (260, 72, 72), 0.5, False, "late"),
        ("in place", (130, 264, 8), 0.5, True, "random"),
        ("beta is 0", (260, 72, 8), 0.0, False, "late"),
    )
    for what, shape, beta, in_place, schedule in runs:
        given = Numbers.draw(*shape, random.randrange(1 << 30), beta=beta)
        with running(what), _fetching() as late:
            made = epilogues.fused(
                programs, "answer", given, epilogues.short(epilogues.STEPS),
                in_place=in_place, workers=1, schedule=schedule,
            )  # fmt: skip
        clean(made.run, what)
        if made.wrong:
            raise Wrong(f"{what}: {made.wrong}")
        if late:
            raise Wrong(f"{what}: box {late[0]} is fetched only when a later one has left, too")
    return f"{len(runs)} products, no finding"


__all__ = ["by_box", "moved", "place", "step", "with_boxes", "with_step"]
