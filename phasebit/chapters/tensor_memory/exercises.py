"""Checks of *Tensor memory*."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from phasebit.chapters.tensor_memory import blackwell
from phasebit.edits import replace_each
from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import Wrong, judged, whole
from phasebit.exercises.written import clean, compiled, fenced, running, written


@judged
def address_for(answer: Callable[[int, int, int], int]) -> str:
    """``answer(base, warp, column)``: the address at which a warp loads a column of a sum."""
    draw = random.Random(160)

    def cases() -> Iterator[Case]:
        yield (0, 5, 32), 0x0020_0020
        for _ in range(60):
            base, warp, column = 32 * draw.randrange(8), draw.randrange(12), draw.randrange(256)
            yield (base, warp, column), base + column + (warp % 4 * 32 << 16)

    return agree(
        answer, cases(), lambda base, warp, column: f"base {base}, warp {warp}, column {column}",
        "addresses",
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
def cell_of(answer: Callable[[int, int], tuple[int, int]]) -> str:
    """``answer(thread, register)``: lane and column that a load of ``16x256b.x8`` puts there."""
    from phasebit.emulator import tcgen05_access

    lanes, columns = tcgen05_access.cells("16x256b", 32, 0)
    every = [(t, j) for t in range(32) for j in range(32)]
    random.Random(164).shuffle(every)
    cases: list[Case] = [((t, j), (int(lanes[t, j]), int(columns[t, j]))) for t, j in every]
    return agree(answer, cases, lambda t, j: f"register {j} of thread {t}", "registers")


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


_LINES = """            if (first + PIECE == TILE_N) {  // in registers: the sum may be overwritten
                ptx::tcgen05_fence_before_thread_sync();
                if (lane == 0) ptx::mbarrier_arrive(&s.sum_empty[from.slot]);
            }
"""

PLACES = (
    "before the loop over the pieces",
    "behind tcgen05_wait_ld of the first piece",
    "before tcgen05_wait_ld of the last piece",
    "behind tcgen05_wait_ld of the last piece",
    "behind the loop, when the last piece is on its way to C",
)
"""Where a warp of the epilogue might say that its part of a sum has been read."""


def moved(place: int) -> str:
    """The ring's kernel with that arrival at ``PLACES[place]``.

    Raises ``ValueError`` for a number that names no place.
    """
    if not whole(place) or not 0 <= place < len(PLACES):
        raise ValueError(f"give a number from 0 to {len(PLACES) - 1}")
    text = blackwell.source(blackwell.RING)
    arrival = (
        "{\n                ptx::tcgen05_fence_before_thread_sync();\n"
        "                if (lane == 0) ptx::mbarrier_arrive(&s.sum_empty[from.slot]);\n"
        "            }\n"
    )
    last, loop = "            if (first + PIECE == TILE_N) ", "        for (int first = 0;"
    wait, end = "            ptx::tcgen05_wait_ld();\n", "        from.advance();\n    });\n"
    there = (
        (loop, f"        {arrival}{loop}"),
        (wait, f"{wait}            if (first == 0) {arrival}"),
        (wait, f"{last}{arrival}{wait}"),
        (wait, f"{wait}{last}{arrival}"),
        (end, f"        {arrival}{end}"),
    )
    return replace_each(text, [(_LINES, ""), there[place]], f"{blackwell.RING}.cu")


@judged
def earliest(answer: int) -> str:
    """The earliest of ``PLACES`` that is right; run on the emulator with every check."""
    try:
        source = moved(answer)
    except ValueError as error:
        raise Wrong(str(error)) from error
    seed = random.randrange(2**32)
    for schedule in ("late", "eager"):
        run, right = blackwell.multiply(source, 512, 256, 64, schedule=schedule, seed=seed)
        if run.findings:
            finding = run.findings[0]
            line = source.splitlines()[finding.lines[0] - 1].strip()
            raise Wrong(f"{PLACES[answer]}, the emulator finds {finding.kind} at {line}")
        if not right:
            raise Wrong(f"{PLACES[answer]}, the result is wrong")
    if answer != 3:
        raise Wrong(f"{PLACES[answer]} is right, but an earlier place is right too")
    return "the result is right, and the emulator finds nothing"
