"""Checks of *Tensor memory*."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import Wrong, judged
from phasebit.exercises.written import clean, compiled, fenced, running, written


@judged
def addresses(answer: Callable[[int, int, int], list[int]]) -> str:
    """``answer(base, warp, columns)``: the addresses that one of eight warps gives, in order.

    Warps 0 to 3 fetch the left half of a sum, warps 4 to 7 the right, 32 columns by each load.
    """
    draw = random.Random(160)

    def right(base: int, warp: int, columns: int) -> list[int]:
        half = columns // 2
        first = base + (warp % 4 * 32 << 16) + warp // 4 * half
        return [first + column for column in range(0, half, 32)]

    def cases() -> Iterator[Case]:
        for asked in [(0, 5, 128), (64, 2, 64), (256, 7, 256)]:
            yield asked, right(*asked)
        for _ in range(60):
            asked = 32 * draw.randrange(8), draw.randrange(8), 64 * draw.randint(1, 4)
            yield asked, right(*asked)

    return agree(
        answer, cases(), lambda base, warp, columns: f"base {base}, warp {warp}, {columns} columns",
        "lists of addresses",
    )  # fmt: skip


@judged
def columns(answer: Callable[[int, int], int]) -> str:
    """``answer(n, sums)``: columns to allocate for so many sums of n columns; 0 if too many."""

    def right(n: int, sums: int) -> int:
        wanted = 32
        while wanted < n * sums:
            wanted *= 2
        return wanted if wanted <= 512 else 0

    cases: list[Case] = [((n, s), right(n, s)) for n in range(8, 257, 8) for s in (1, 2, 3, 4, 8)]
    random.Random(162).shuffle(cases)
    return agree(answer, cases, lambda n, sums: f"{sums} sums of {n} columns", "cases")


@judged
def stops(answer: Callable[[list[int], int], bool]) -> str:
    """``answer(requests, blocks)``: may blocks that share a multiprocessor stop each other?

    Each allocates ``requests``, one after the other, and gives all back at the end.
    """

    def right(requests: list[int], blocks: int) -> bool:
        for made in itertools.product(range(len(requests)), repeat=blocks):
            free = 512 - sum(sum(requests[:n]) for n in made)
            if free >= 0 and all(requests[n] > free for n in made):
                return True
        return False

    sizes = (32, 64, 128, 256)
    many = [[first, *rest] for first in sizes for n in range(3)
            for rest in itertools.product([s for s in sizes if s <= first], repeat=n)
            if first + sum(rest) <= 512]  # fmt: skip
    cases: list[Case] = [((list(each), blocks), right(each, blocks))
                         for each in many for blocks in (1, 2, 3, 4)]  # fmt: skip
    random.Random(163).shuffle(cases)
    return agree(
        answer, cases, lambda requests, blocks: f"{blocks} blocks that allocate {requests}",
        "cases",
    )  # fmt: skip


@judged
def cell_of(answer: Callable[[int, int], tuple[int, int]]) -> str:
    """``answer(thread, register)``: lane and column that a load of ``16x256b.x8`` puts there."""
    from phasebit.emulator import tcgen05_access

    lanes, columns = tcgen05_access.cells("16x256b", 32, 0)
    every = [(t, j) for t in range(32) for j in range(32)]
    random.Random(164).shuffle(every)
    cases: list[Case] = [((t, j), (int(lanes[t, j]), int(columns[t, j]))) for t, j in every]
    return agree(answer, cases, lambda t, j: f"register {j} of thread {t}", "registers")


@judged
def row_in(answer: Callable[[str, int], int]) -> str:
    """``answer(shape, lane)``: the row that a ``tcgen05.cp`` puts into a lane, or -1 for none."""
    from phasebit.chapters.tensor_memory import cells

    every = {shape: cells.copied(shape)[0][:, 0].tolist() for shape in (*cells.COPIES, *cells.WIDE)}
    cases: list[Case] = [((shape, lane), row) for shape, rows in every.items()
                         for lane, row in enumerate(rows)]  # fmt: skip
    random.Random(165).shuffle(cases)
    return agree(answer, cases, lambda shape, lane: f"{shape} and lane {lane}", "lanes")


_KEEP = ("constexpr int COLUMNS = 64;",)
_RUNS = (("late", 0), ("eager", 0), ("random", 5), ("random", 6))


@judged
def rescale(answer: str) -> str:
    """A kernel ``rescale(const float* x, const float* factor, float* y)``, written from blank.

    256 threads: warps 0 to 3 put x (128, 64) into tensor memory, warps 4 to 7 multiply row i there
    by ``factor[i]``, warps 0 to 3 fetch what is there then and write y.  Run on the emulator with
    every check under all schedules; who loads and stores, and how much, is counted.
    """
    kernel = compiled(written(answer, _KEEP), "rescale", "sm_100a")["rescale"]
    for schedule, seed in _RUNS:
        _rescaled(kernel, schedule, seed)
    fenced(kernel)
    return "exact, no finding, each group of warps in its part"


def _rescaled(kernel: Any, schedule: str, seed: int) -> None:
    """Run it once and judge the run."""
    import numpy as np

    from phasebit.emulator import observing

    where = f"schedule {schedule}"
    draw = np.random.default_rng(random.randrange(1 << 30))
    x = draw.standard_normal((128, 64)).astype(np.float32)
    factor = draw.standard_normal(128).astype(np.float32)
    y = np.full_like(x, np.nan)
    seen: set[tuple[str, int]] = set()
    with running(where), observing(_group_watcher(seen)):
        run = kernel.launch(1, 256, [x, factor, y], device="emulator", schedule=schedule, seed=seed)
    clean(run, where)
    if not np.array_equal(y, x * factor[:, None]):
        raise Wrong(f"{where}: y is not x with each row multiplied by its factor")
    if run.counters["bytes.global.load"] > 2 * x.nbytes:
        raise Wrong("x is loaded more than once: y comes from tensor memory")
    expected = {(what, group) for what in ("loads", "stores") for group in (0, 1)}
    for what, group in sorted(expected - seen):
        raise Wrong(f"warps {4 * group} to {4 * group + 3} have no {what} of tensor memory")
    for what, count in (("loads", "tcgen05.ld.registers"), ("stores", "tcgen05.st.registers")):
        if run.counters.get(count, 0) != 2 * x.size:
            raise Wrong(f"{what} of tensor memory fill {run.counters.get(count, 0)} registers, and "
                        f"{2 * x.size} do: every number twice")  # fmt: skip


def _group_watcher(seen: set[tuple[str, int]]) -> object:
    """Who writes down which group of four warps loads, and which stores."""
    from phasebit.emulator import TensorObserver

    class Watcher(TensorObserver):
        def loads_columns(self, g: Any, regions: Any, registers: int) -> None:
            self.note("loads", g, regions)

        def stores_columns(self, g: Any, regions: Any, registers: int) -> None:
            self.note("stores", g, regions)

        def note(self, what: str, g: Any, regions: Any) -> None:
            for lanes, _ in regions:
                seen.add((what, int(g.batch.warp_of[lanes[0]]) % g.batch.warps // 4))

    return Watcher()
