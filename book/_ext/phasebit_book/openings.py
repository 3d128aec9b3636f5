"""``{phasebit-opening} part1``: the picture with which a part opens, drawn while the book is built.

Each is drawn from data: a run of the simulator or of the explorer, or a record. The content is the
caption.
"""

from __future__ import annotations

from collections.abc import Callable

from docutils import nodes
from sphinx.application import Sphinx

from phasebit import draw, measure, score
from phasebit.chapters.almost_right import view as almost_right
from phasebit.chapters.chain import model
from phasebit.chapters.double_buffering import clock_stamps
from phasebit.chapters.hopper_ring import variants
from phasebit.chapters.hopper_ring import view as hopper_ring
from phasebit.draw import Cell, Picture
from phasebit.palette import HUES
from phasebit.pipeline.interleaving import walk
from phasebit.pipeline.ring import Ring, consumer, producer
from phasebit.timeline import Timeline

from .figure import FigureDirective


def built() -> Picture:
    """The kernels that the book ends with on Hopper, and the vendor's library."""
    recorded = measure.read("hopper_ring")
    size = variants.SIZES[0]
    (row,) = [row for row in recorded["ladder"] if row["size"] == size]
    return draw.bars(
        {name: hopper_ring.rate(size, times) for name, times in row["times_us"].items()},
        x_label=f"TFLOP/s, bf16, {size} × {size} × {size}",
        title=f"Part V's kernels and the vendor's library, {measure.source(recorded)}",
        hues={"cuBLAS": "grey"},
    )


def part1() -> Timeline:
    """One run of the ring with its barriers."""
    return walk(Ring(stages=2, items=3).system(producer, consumer), seed=4).timeline


def part2() -> Picture:
    """The roofs of a GPU, and where kernels of later parts come to lie under them."""
    roof = measure.roofline()
    places = []

    def place(name: str, size: int, bytes_each: int, times_us: list[float]) -> None:
        seconds = measure.summary(times_us).median * 1e-6
        moved = 3.0 * size * size * bytes_each
        places.append(measure.place(name, measure.matmul_flop(size, size, size), moved, seconds))

    tiling = measure.read("tiling_on_the_gpu")["products"]
    size = max(map(int, tiling))
    for rung in ("naive", "tuned"):
        place(f"f32, {rung}", size, 4, tiling[str(size)][rung])
    (row,) = [row for row in measure.read("hopper_ring")["ladder"]
              if row["size"] == variants.SIZES[0]]  # fmt: skip
    rung = "a ring of 4 slots"
    place(f"bf16, {rung}", row["size"], 2, row["times_us"][rung])
    return draw.roofline(
        roof.bandwidth,
        {name: rate for name, rate in roof.rates.items() if "zeros" not in name},
        {each.name: (each.intensity, each.tflops) for each in places},
        title=f"Roofline, {roof.source}",
    )


def part3() -> Picture:
    """Where the numbers of a matrix lie: which of them come together, row by row and in tiles."""
    height, width, line, tile = len(HUES), 8, 8, (2, 4)  # a line a row, and each has its colour

    def in_rows(row: int, column: int) -> int:
        return row * width + column

    def in_tiles(row: int, column: int) -> int:
        down, right = row // tile[0], column // tile[1]
        inside = row % tile[0] * tile[1] + column % tile[1]
        return (down * (width // tile[1]) + right) * line + inside

    def cells(place: Callable[[int, int], int], row: int) -> list[Cell]:
        """A row of the matrix: each number's place in memory, a colour for each line of it."""
        numbers = [place(row, column) for column in range(width)]
        return [Cell(str(each), HUES[each // line]) for each in numbers]

    gap = 4  # so that every fourth column, which is numbered, is 0 or 4 on the right, too
    rows = [[*cells(in_rows, row), *[None] * gap, *cells(in_tiles, row)] for row in range(height)]
    columns = [*map(str, range(width)), *[""] * gap, *map(str, range(width))]
    return draw.chart(
        rows, rows=[*map(str, range(height))], columns=columns, row_label="row",
        column_label="column", title="Places in memory: row by row, and in tiles of 2 × 4",
    )  # fmt: skip


def part4() -> Timeline:
    """Two slots and two roles in a block of an H200, by its own clock."""
    inside = measure.read("clock_stamps")
    stamps = clock_stamps.load(inside, "barrier_double_buffer", "warm")
    title = f"Two slots between warps, tiles 60 to 65, {measure.source(inside)}"
    return clock_stamps.timeline(stamps, 60, 65, title)


def part5() -> Timeline:
    """The ring that the copy engine fills, on an H200."""
    recorded = measure.read("hopper_ring")
    stamps = hopper_ring.stamps(recorded, variants.RING)
    title = f"A ring of 4 slots, steps 60 to 65, {measure.source(recorded)}"
    return hopper_ring.timeline(stamps, 60, 65, title)


def part6() -> Timeline:
    """Two rings in a row, in the model."""
    roles = [
        model.Role("copy engine", 4, 2),
        model.Role("tensor core", 4, 3),
        model.Role("epilogue", 1, 9),
    ]
    chain = model.Chain(roles, [model.Ring("slices", 4, 4), model.Ring("sums", 2, 1)])
    return model.draw(chain, 4, "Two rings in a row: a model, no time")


def found() -> Picture:
    """What each tool finds in the collection of bugs, by kind."""
    return almost_right.found_by_kind(score.read())


OPENINGS: dict[str, Callable[[], Picture | Timeline]] = {
    each.__name__: each for each in (built, part1, part2, part3, part4, part5, part6, found)
}
"""The picture's name -> what draws it."""


class Opening(FigureDirective):
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        if name not in OPENINGS:
            raise self.error(f"no picture is called {name!r}: choose from {', '.join(OPENINGS)}")
        return [self.figure(OPENINGS[name]())]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("phasebit-opening", Opening)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
