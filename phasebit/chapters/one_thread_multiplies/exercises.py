"""Checks of *One thread multiplies*."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence, Set
from itertools import islice, product
from typing import Any, NamedTuple

from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import Wrong, ask, judged, shown, whole
from phasebit.exercises.written import clean, compiled, fenced, running, written


@judged
def instruction(answer: Callable[[int, int], int]) -> str:
    """``answer(m, n)``: the instruction descriptor for bf16 into f32, all K-major."""
    from phasebit.emulator import instruction_descriptors

    draw = random.Random(161)

    def cases() -> Iterator[Case]:
        for m, n in [(128, 128), (64, 8), *((draw.choice((64, 128)), 8 * draw.randint(1, 32))
                     for _ in range(40))]:  # fmt: skip
            yield (m, n), instruction_descriptors.encode("f16", m, n, "bf16", "bf16", "f32")

    return agree(answer, cases(), lambda m, n: f"{m} × {n}", "shapes")


Cells = frozenset[int]
Operation = tuple[str, Cells, Cells]
"""Kind, cells that it reads, cells that it writes."""
KINDS = ("cp", "mma", "shift")


def _in_order(first: Operation, then: Operation, listed: Set[tuple[str, str]]) -> bool:
    """Whether an operation may be issued behind another without a wait."""
    (kind, reads, writes), (other, its_reads, its_writes) = first, then
    if not (writes & (its_reads | its_writes) or reads & its_writes):
        return True
    same = (kind, other) != ("mma", "mma") or writes == its_writes
    return same and (kind, other) in listed


def least_waits(operations: Sequence[Operation], listed: Set[tuple[str, str]]) -> list[int]:
    """Before which operations a thread waits, as seldom and as late as it may."""
    found: list[int] = []
    since = 0
    for number, then in enumerate(operations):
        if not all(_in_order(first, then, listed) for first in operations[since:number]):
            found.append(number)
            since = number
    return found


def _queues() -> Iterator[tuple[list[Operation], set[tuple[str, str]]]]:
    """What threads give to the tensor core; first the kernel of the chapter without its wait."""
    from phasebit.chapters.one_thread_multiplies.ordering import LISTED

    a, b, none = frozenset({8, 9}), frozenset({20}), frozenset[int]()
    first, moved = frozenset(range(4)), frozenset(range(4, 8))
    yield [("cp", none, a), ("mma", a, first), ("shift", a, a), ("mma", a, moved)], LISTED
    yield [("mma", a, first), ("mma", a, moved), ("cp", none, a)], LISTED
    yield [("mma", b, first), ("mma", b, first | moved), ("mma", b, first)], LISTED
    draw = random.Random()
    every = list(product(KINDS, KINDS))
    while True:
        sets = [frozenset(draw.sample(range(6), draw.randint(1, 2))) for _ in range(4)]
        queue = []
        for _ in range(draw.randint(2, 9)):
            kind = draw.choice(KINDS)
            one, other = draw.choice(sets), draw.choice(sets)
            queue.append({"cp": (kind, none, one), "mma": (kind, one, other),
                          "shift": (kind, one, one)}[kind])  # fmt: skip
        some = {pair for pair in every if draw.random() < 0.5}
        yield queue, draw.choice((LISTED, some))


@judged
def waits(answer: Callable[[list[Operation], set[tuple[str, str]]], list[int]]) -> str:
    """``answer(operations, listed)``: the operations before which their thread has to wait."""
    queues = list(islice(_queues(), 150))
    for queue, listed in queues:
        _ordered(queue, listed, ask(answer, list(queue), set(listed), words=_told(queue)))
    return f"{len(queues)} queues"


def _told(queue: Sequence[Operation]) -> str:
    def cells(some: Cells) -> str:
        return "{" + ", ".join(map(str, sorted(some))) + "}"

    return "; ".join(f"{kind} reads {cells(reads)}, writes {cells(writes)}"
                     for kind, reads, writes in queue)  # fmt: skip


def _ordered(queue: Sequence[Operation], listed: set[tuple[str, str]], got: object) -> None:
    """Raises :class:`Wrong` where the waits leave a pair in no order, or are too many."""
    where = f"for {_told(queue)}, listed {sorted(listed)},"
    if not isinstance(got, list | tuple | set) or not all(whole(each) for each in got):
        raise Wrong(f"{where} it gives {shown(got)}: give a list of numbers of operations")
    numbers = sorted(map(int, got))
    if strange := [each for each in numbers if not 0 <= each < len(queue)]:
        raise Wrong(f"{where} it waits before operation {strange[0]}, which there is not")
    for then in range(len(queue)):
        since = max((each for each in numbers if each <= then), default=0)
        for first in range(since, then):
            if not _in_order(queue[first], queue[then], listed):
                later, sooner = (f"operation {n}, {queue[n][0]}" for n in (then, first))
                raise Wrong(f"{where} it waits before {numbers}: nothing orders {later}, behind "
                            f"{sooner}")  # fmt: skip
    least = least_waits(queue, listed)
    if len(numbers) > len(least):
        raise Wrong(f"{where} it waits {len(numbers)} times, before {numbers}; {len(least)} will "
                    "do")  # fmt: skip


class Tile(NamedTuple):
    """A tile of bf16 as the copy engine leaves it: boxes of lines as long as the swizzle."""

    address: int
    rows: int
    depth: int
    major: str
    """``"K"``: a line holds neighbours along k; ``"MN"``: neighbours along the rows."""
    span: int
    """Bytes of a line, over which it is swizzled: 128, 64 or 32."""

    def __str__(self) -> str:
        return (f"{self.rows} × {self.depth} at {self.address:#x}, {self.major}-major, swizzled "
                f"over {self.span} bytes")  # fmt: skip


@judged
def descriptor(answer: Callable[[int, int, int, str, int], int]) -> str:
    """``answer(address, rows, depth, major, span)``: a matrix descriptor for ``tcgen05``.

    The tile is filled with random numbers, box by box as the copy engine would, and read through
    the descriptor, as the emulator's tensor core does. See :class:`Tile`.
    """
    draw = random.Random()
    tiles = [Tile(0x8400, 128, 64, "K", 128), Tile(0x8400, 128, 64, "MN", 128)]
    for _ in range(40):
        span, major = draw.choice((128, 64, 32)), draw.choice(("K", "MN"))
        rows = draw.choice((64, 128) if major == "K" else range(span // 2, 257, span // 2))
        depth = span // 2 if major == "K" else 16 * draw.randint(1, 4)
        tiles.append(Tile(1024 * draw.randrange(190), rows, depth, major, span))
    for tile in tiles:
        got = ask(answer, *tile)
        if not whole(got):
            raise Wrong(f"for {tile} it gives {shown(got)}: give a whole number, the 64 bits")
        _read_through(int(got), tile, draw)
    return f"{len(tiles)} tiles, filled with random numbers and read through it"


def _read_through(bits: int, tile: Tile, draw: random.Random) -> None:
    """Raises :class:`Wrong` when a descriptor does not lead to a tile's elements."""
    import numpy as np

    from phasebit.emulator import matrix_descriptors as descriptors
    from phasebit.emulator import swizzle

    wrong = f"{bits:#018x} for {tile}"
    if not 0 <= bits < 1 << 64:
        raise Wrong(f"{wrong}: it has more than 64 bits, or is negative")
    try:
        said = descriptors.decode(bits, "tcgen05")
    except descriptors.DescriptorError as error:
        raise Wrong(f"for {tile}: {error}") from error
    if said.start != tile.address:
        raise Wrong(f"{wrong}: it begins at {said.start:#x}; addresses are written divided by 16")
    if said.swizzle.name != f"{tile.span}B":
        raise Wrong(f"{wrong}: its swizzle is {said.swizzle.name}; see the codes in bits 61 to 63")
    if said.base_offset:
        raise Wrong(f"{wrong}: its base offset is {said.base_offset}; the tile begins where the "
                    "pattern does, so bits 49 to 51 are 0")  # fmt: skip
    numbers = np.random.default_rng(draw.getrandbits(32)).integers(
        0, 1 << 16, (tile.rows, tile.depth), np.uint16
    )
    lines = numbers if tile.major == "K" else numbers.T
    boxes = lines.reshape(len(lines), -1, tile.span // 2).swapaxes(0, 1)
    pieces = boxes.reshape(-1, 8)  # of 16 bytes, in the order in which the boxes hold them
    memory = np.empty_like(pieces)
    memory[swizzle.SPANS[tile.span](np.arange(0, pieces.nbytes, 16)) // 16] = pieces
    places = descriptors.places(said, tile.rows, tile.depth, 2, tile.major == "MN") - tile.address
    inside = (places >= 0) & (places < memory.nbytes)
    seen = np.where(inside, memory.ravel()[np.where(inside, places, 0) // 2], -1)
    if np.array_equal(seen, numbers):
        return
    row, k = (int(n[0]) for n in np.nonzero(seen != numbers))
    eight = 8 * tile.span
    if said.stride != eight:
        why = f"the stride offset is {said.stride} bytes, and eight lines have {eight}"
    else:
        why = f"the leading offset is {said.leading} bytes, and a box has {tile.depth * tile.span}"
    raise Wrong(f"{wrong}: it finds another number for row {row}, k {k}: {why}")


_KEEP = ("constexpr int M = 128, N = 128, K = 64;",)
_RUNS = (("late", 0), ("eager", 0), ("random", 5))


@judged
def multiply(answer: str) -> str:
    """A kernel ``multiply(A, B, C)`` whose product one thread issues, written from a skeleton.

    C (128, 128) = A (128, 64) · B (64, 128), both row-major, bf16 in f32, by 128 threads.  Run on
    the emulator with every check under all schedules, on whole numbers; products are counted.
    """
    kernel = compiled(written(answer, _KEEP), "multiply", "sm_100a")["multiply"]
    for schedule, seed in _RUNS:
        _multiplied(kernel, schedule, seed)
    fenced(kernel)
    return "exact, no finding, four products of one thread"


def _multiplied(kernel: Any, schedule: str, seed: int) -> None:
    """Run it once and judge the run."""
    import numpy as np

    from phasebit.emulator import formats

    where = f"schedule {schedule}"
    draw = np.random.default_rng(random.randrange(1 << 30))
    a, b = (draw.integers(-4, 5, shape).astype(np.float64) for shape in ((128, 64), (64, 128)))
    c = np.full((128, 128), np.nan, np.float32)
    bits = [np.asarray(formats.encode("bf16", x)) for x in (a, b)]
    with running(where):
        run = kernel.launch(1, 128, [*bits, c], device="emulator", schedule=schedule, seed=seed)
    clean(run, where)
    wrong = np.argwhere(c != a @ b)
    if len(wrong):
        raise Wrong(f"{where}: C is wrong at {len(wrong)} places, first at row {wrong[0][0]}, "
                    f"column {wrong[0][1]}")  # fmt: skip
    if run.counters.get("tcgen05.mma", 0) != 4:
        raise Wrong(f"{run.counters.get('tcgen05.mma', 0)} products are issued, and four do")
