"""Checks of *Four producers, four consumers*."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any

from phasebit.chapters.chain import kernels, rates, view
from phasebit.chapters.chain.model import Chain, Ring, Role
from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import Wrong, judged
from phasebit.exercises.written import clean, compiling, running, written


@judged
def saves_most(answer: Callable[[list[int]], int]) -> str:
    """``answer(depths)``: the k of a tile of which a second sum saves the largest share."""

    @lru_cache
    def share(k: int) -> float:
        one, two = (float(rates.gemm(k, sums=sums).per_tile()) for sums in (1, 2))
        return 1 - two / one

    def cases() -> Iterator[Case]:
        for depths in [256, 512, 1024, 2048], [512, 640, 768], [2048, 1024]:
            yield (depths,), max(depths, key=share)

    return agree(answer, cases(), lambda depths: f"k of {depths}", "lists of depths")


@judged
def slots_for(answer: Callable[[int, int, int], int]) -> str:
    """``answer(copy, latency, product)``: the fewest slots that keep the tensor core busy.

    A copy keeps the copy engine ``copy`` clocks and has come ``latency`` clocks later; it is never
    slower than the product.
    """
    draw = random.Random(181)

    def cases() -> Iterator[Case]:
        yield (384, 1000, 512), 4
        for _ in range(60):
            product = draw.randint(2, 40)
            copy, latency = draw.randint(1, product), draw.randint(0, 200)
            slots = 1
            while not _busy(copy, latency, product, slots):
                slots += 1
            yield (copy, latency, product), slots

    def words(copy: int, latency: int, product: int) -> str:
        return f"a copy of {copy} clocks that comes {latency} later, and a product of {product}"

    return agree(answer, cases(), words, "rings")


def _busy(copy: int, latency: int, product: int, slots: int) -> bool:
    """Whether the tensor core never waits once it has begun."""
    chain = Chain(
        [Role("copies", 1, copy, latency), Role("tensor core", 1, product)],
        [Ring("slices", slots, 1)],
    )
    begins = [w.begin for w in chain.run(4 * slots + 4) if w.role == "tensor core"]
    return all(b - a == product for a, b in pairwise(begins))


@judged
def newest(answer: Callable[[int, int], int]) -> str:
    """``answer(boxes, meetings)``: how many copies the storing thread may leave unread.

    Pieces go round the boxes, and four warps meet once a piece, or twice.
    """

    def cases() -> Iterator[Case]:
        for boxes in 2, 3, 4, 5, 8:
            for meetings in 1, 2:
                count = 0
                while _safe(boxes, meetings, count + 1):
                    count += 1
                yield (boxes, meetings), count

    def words(boxes: int, meetings: int) -> str:
        return f"{boxes} boxes, {meetings} meeting{'s'[: meetings > 1]} a piece"

    return agree(answer, cases(), words, "ways out")


def _safe(boxes: int, meetings: int, count: int) -> bool:
    """Whether each piece's box has been read before it is filled, ``count`` copies left unread."""
    asked = {1: -2, 2: -1}[meetings]  # of piece i, the last that was asked for before the wait
    return all(i - boxes <= i + asked - count for i in range(boxes, 4 * boxes))


_SHAPES = (257, 232, 200), (130, 12, 64), (513, 300, 72)
"""Several tiles of four slices, a single slice, and tiles that go round both sums twice."""


def with_role(answer: str, name: str, kernel: str = kernels.CHAIN) -> str:
    """A kernel with a role of the reader's in place of its own."""
    text = kernels.source(kernel)
    begin = text.index(f"__device__ void {name}(")
    end = text.index("\n}\n", begin) + 3
    return text[:begin] + answer.strip() + "\n" + text[end:]


@judged
def multiplier(answer: str) -> str:
    """The role ``multiply`` of the chain, written from blank: run on the emulator with every check.

    Ragged shapes, eager and late copies and products, fresh numbers.
    """
    head = "__device__ void multiply(Shared& s, int m, int n, int k)"
    source = with_role(written(answer, [head], "role"), "multiply")
    for shape in _SHAPES:
        for schedule in ("late", "eager"):
            _right(source, shape, schedule)
    return f"{2 * len(_SHAPES)} runs, no finding"


def _right(source: str, shape: tuple[int, int, int], schedule: str) -> None:
    """A product on fresh numbers; ``Wrong`` unless C is right and the emulator finds nothing."""
    where = "{} × {} × {}".format(*shape) + f", {schedule} copies and products"
    with running(where), compiling():
        run, exact = kernels.multiply(
            source, *shape, schedule=schedule, seed=random.randrange(1 << 30)
        )
    clean(run, where)
    if not exact:
        raise Wrong(f"{where}: C is wrong")


@judged
def scheduler(answer: str) -> str:
    """The role ``schedule`` of launch control, from blank: run on the emulator with every check.

    One tile, five and eight; early, late and random answers. Tiles must be handed out: with eight
    of them, fewer than eight blocks may ever run.
    """
    head = "__device__ void schedule(Shared& s)"
    source = with_role(written(answer, [head], "role"), "schedule", kernels.LAUNCH_CONTROL)
    shapes = (100, 12, 64), (600, 232, 72), (1000, 256, 64)
    runs = 0
    for shape in shapes:
        for schedule in ("late", "eager", "random"):
            with kernels.watching() as log:
                _right(source, shape, schedule)
            runs += 1
            ran = len(view.tiles_of_blocks(source, log))
            if schedule == "eager" and ran == 8:
                raise Wrong("each of eight blocks makes its own tile: no launch was cancelled")
    return f"{runs} runs, no finding"


BARRIERS = "full", "empty", "sum full", "sum empty"


def counted(m: int, n: int, k: int) -> list[dict[str, int]]:
    """Of a run of one pair: arrivals at each kind of barrier, in block 0 and in block 1."""
    from phasebit.emulator import MbarrierObserver, TensorObserver, observing

    source = kernels.source(kernels.PAIR)
    names = kernels.Rings.of(source).barriers()
    found = [dict.fromkeys(BARRIERS, 0) for _ in range(2)]

    def note(site: Any, times: int) -> None:
        kind = names[site.name.partition(" of block ")[0]].rpartition(" ")[0]
        found[int(site.batch.blocks[site.slot])][kind] += times

    class Watcher(MbarrierObserver, TensorObserver):
        def arrives(self, g: Any, lanes: Any, site: Any, sem: str, scope: str) -> None:
            note(site, len(lanes))

        def commit_arrives(self, commit: Any) -> None:
            note(commit.site, 1)

    with observing(Watcher()):
        kernels.multiply(source, m, n, k)
    return found


@judged
def arrivals(answer: Callable[[int, int, int], list[dict[str, int]]]) -> str:
    """``answer(m, n, k)``: arrivals at the barriers of block 0 and of block 1, by their names."""

    def cases() -> Iterator[Case]:
        for shape in (256, 256, 64), (257, 260, 200), (500, 12, 72):
            yield shape, counted(*shape)

    def words(m: int, n: int, k: int) -> str:
        return f"C of {m} × {n}, k = {k}"

    return agree(answer, cases(), words, "runs on the emulator")
