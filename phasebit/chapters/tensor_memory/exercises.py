"""Checks of *Tensor memory*."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from phasebit.chapters.tensor_memory import blackwell
from phasebit.edits import replace_each
from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import Wrong, ask, judged, shown, whole


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
def instruction(answer: Callable[[int, int], int]) -> str:
    """``answer(m, n)``: the instruction descriptor for bf16 into f32, all K-major."""
    from phasebit.emulator import instruction_descriptors

    draw = random.Random(161)

    def cases() -> Iterator[Case]:
        for m, n in [(128, 128), (64, 8), *((draw.choice((64, 128)), 8 * draw.randint(1, 32))
                     for _ in range(40))]:  # fmt: skip
            if m == 128 and n % 16:
                n += 8
            yield (m, n), instruction_descriptors.encode("f16", m, n, "bf16", "bf16", "f32")

    return agree(answer, cases(), lambda m, n: f"{m} × {n}", "shapes")


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
def clocks_per_tile(answer: Callable[[int, int, int, int], float]) -> str:
    """``answer(slices, product, epilogue, sums)``: clocks a tile; copies are never late."""
    draw = random.Random(163)

    def cases() -> Iterator[Case]:
        yield (4, 3, 9, 1), 21
        yield (4, 3, 9, 2), 12
        for _ in range(60):
            slices, product = draw.randint(1, 9), draw.randint(1, 9)
            epilogue, sums = draw.randint(1, 60), draw.randint(1, 4)
            done = blackwell.chain(
                12 * sums, slices, stages=64, sums=sums, copy=0, product=product,
                epilogue=epilogue,
            )  # fmt: skip
            found = blackwell.per_tile(done)
            assert found == int(found)
            yield (slices, product, epilogue, sums), int(found)

    def words(slices: int, product: int, epilogue: int, sums: int) -> str:
        return f"{slices} slices of {product}, an epilogue of {epilogue} and {sums} sums"

    return agree(answer, cases(), words, "pipelines")


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
