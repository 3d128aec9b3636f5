"""The small kernels of *Tensor memory* on the emulator: what lies where, and who may fetch it.

Each function runs a kernel of ``kernels/tensor_memory`` and gives what it found; the pictures are
drawn from those runs.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from phasebit import edits, files
from phasebit.emulator import Schedule

if TYPE_CHECKING:
    from phasebit.draw import Picture
    from phasebit.emulator import Run
    from phasebit.measure import Table

ALL = 6
"""For ``who``: warps 0 to 3 fetch, each from its own quarter."""

SHAPES = {
    "32x32b": ("32x32b.x4", ""), "16x64b": ("16x64b.x4", ""), "16x128b": ("16x128b.x2", ""),
    "16x256b": ("16x256b.x1", ""), "16x32bx2": ("16x32bx2.x4", ", 8"),
}  # fmt: skip
"""Shape -> the instruction that gives a thread four registers in it, and its last operand."""

COPIES = ("128x128b", "64x128b.warpx2::02_13", "64x128b.warpx2::01_23", "32x128b.warpx4")
"""Shapes of ``tcgen05.cp`` with rows of 16 bytes."""


def source(name: str, **macros: object) -> str:
    """A kernel of the chapter, with macros defined before its first line."""
    lines = "".join(f"#define {macro} {value}\n" for macro, value in macros.items())
    return lines + files.kernel(f"tensor_memory/{name}")


def shapes(shape: str = "16x256b") -> str:
    """The kernel ``shapes`` for one of :data:`SHAPES`."""
    if shape not in SHAPES:
        raise ValueError(f"there is no shape {shape!r}: choose from {', '.join(SHAPES)}")
    instruction, apart = SHAPES[shape]
    return source("shapes", SHAPE=f'"{instruction}"', APART=f'"{apart}"')


def fetch(text: str, who: int = ALL, quarter: int = 0, **options: Any) -> tuple[Any, Run]:
    """Run ``shapes``: lane and column in each register [192, 4, 2], -1 for none; and the run."""
    import numpy as np

    from phasebit.launching.launch import compile

    out = np.full((192, 4), -1, np.int32)
    run = compile(text, "sm_100a")["shapes"].launch(1, 192, [out, who, quarter], **options)
    pair = np.stack([out // 1000, out % 1000], axis=2)
    return np.where(out[..., None] < 0, -1, pair), run


class Reach(NamedTuple):
    """Which warp reaches which quarter, and what is said of one that does not."""

    picture: Picture
    refusal: str
    memory: Picture
    """The whole memory with two sums of 256 columns; in each quarter the warps that reach it."""


def reach() -> Reach:
    """Let each of six warps fetch from each quarter: 24 launches, drawn."""
    from phasebit.draw import Cell, chart
    from phasebit.emulator import Fault

    text, refusal = shapes("32x32b"), ""

    def allowed(warp: int, quarter: int) -> Cell:
        nonlocal refusal
        try:
            _, run = fetch(text, warp, quarter)
        except Fault as fault:
            refusal = str(fault)
            return Cell("no", "grey")
        if run.findings:
            refusal = run.findings[0].message
            return Cell("no", "grey")
        return Cell("yes", "blue")

    seen = [[allowed(warp, quarter) for quarter in range(4)] for warp in range(6)]
    drawn = chart(
        seen,
        rows=[f"warp {warp}" for warp in range(6)], columns=[0, 32, 64, 96],
        row_label="fetches", column_label="32 lanes from this one on",
        title="Which warp reaches which lanes: 24 launches on the emulator",
    )  # fmt: skip
    allow = [
        ", ".join(str(warp) for warp in range(6) if seen[warp][quarter].text == "yes")
        for quarter in range(4)
    ]
    memory = chart(
        [[Cell(warps, HUES[first // 256]) for first in range(0, 512, 128)] for warps in allow],
        rows=[f"lanes {first}–{first + 31}" for first in range(0, 128, 32)],
        columns=[f"{first}–{first + 127}" for first in range(0, 512, 128)],
        row_label="a quarter", column_label="columns",
        title="Two sums of 128 × 256 fill tensor memory; in each quarter the warps that reach it",
        legend={hue: f"sum {i}" for i, hue in enumerate(HUES[:2])},
    )  # fmt: skip
    return Reach(drawn, re.sub(r": tcgen05.*?;", ": …;", refusal), memory)


HUES = ("blue", "orange", "green", "pink")
"""Of registers 0 to 3, blocks, sums, quarters."""


def holders(shape: str) -> Picture:
    """Which thread of warp 0 got which cell, by the kernel ``shapes``: lanes down, columns across.

    The text is the thread, the colour the register.
    """
    from phasebit.draw import Cell, chart

    got, _ = fetch(shapes(shape))
    mine = got[:32]
    high, wide = int(mine[..., 0].max()) + 1, int(mine[..., 1].max()) + 1
    cells: list[list[Cell | None]] = [[None] * wide for _ in range(high)]
    for thread in range(32):
        for register in range(4):
            lane, column = mine[thread, register]
            cells[lane][column] = Cell(str(thread), HUES[register])
    return chart(
        cells, rows=[f"lane {lane}" for lane in range(high)], columns=range(wide),
        row_label="of warp 0", column_label="column",
        title=f"{SHAPES[shape][0]}: the thread that gets a cell, and in which register",
        legend={hue: f"register {register}" for register, hue in enumerate(HUES)},
    )  # fmt: skip


LEFT_OUT = (
    "        ptx::tcgen05_wait_st();\n",
    "        ptx::tcgen05_wait_ld();\n",
    "    __syncthreads();  // all see the address\n",
    "    __syncthreads();  // all have fetched\n",
    "        ptx::tcgen05_dealloc<COLUMNS>(base);\n",
)
"""Lines of ``shapes`` without which it is wrong."""


def without_each() -> Table:
    """What the emulator finds in ``shapes`` without each of :data:`LEFT_OUT`, and the numbers.

    The numbers once with loads and stores that finish at once, and once as late as they may.
    """
    from phasebit.edits import replace_once
    from phasebit.emulator import EmulatorError
    from phasebit.measure import Table

    text, rows = shapes("32x32b"), []
    right, _ = fetch(text)
    for line in LEFT_OUT:
        changed = replace_once(text, line, "")
        got, run = fetch(changed, schedule="eager")
        found = run.findings[0]
        place = changed.splitlines()[found.lines[0] - 1]
        called = re.search(r"ptx::(\w+)", place)
        # Compilers differ in which line of an assembler statement they name.
        loads = re.search(r'"tcgen05\.ld|"=r"', place)
        at = called[1] if called else "tcgen05.ld" if loads else "= address"
        call, _, why = line.strip().removeprefix("ptx::").partition(";")
        try:
            late = [got, fetch(changed, schedule="late")[0]]
        except EmulatorError:
            late = [got]
        ends = ["right" if (numbers == right).all() else "wrong" for numbers in late]
        name = call.partition("(")[0].partition("<")[0] + why
        rows.append((name, found.kind, at, *[*ends, "none"][:2]))
    titles = "left out", "found", "at", "numbers, at once", "numbers, late"
    return Table(titles, tuple(rows), "on the emulator")


def excerpt(name: str, first: str, last: str) -> str:
    """The lines of a kernel from the one that holds ``first`` to the one that holds ``last``."""
    return edits.excerpt(files.kernel(f"tensor_memory/{name}"), first, last)


def copied(shape: str = "128x128b", issuer: int = 0, **options: Any) -> tuple[Any, Run]:
    """Run ``copied``: what each lane got [128, 8], 1000 · piece + row or -1, and the run."""
    import numpy as np

    from phasebit.launching.launch import compile

    out = np.full((128, 8), -2, np.int32)
    text = source("copied", SHAPE=f'"{shape}"', ISSUER=issuer)
    run = compile(text, "sm_100a")["copied"].launch(1, 128, [out], **options)
    return out, run


def spreads() -> Picture:
    """Which rows each quarter of the lanes gets from each of :data:`COPIES`, the first to the last.

    Raises ``ValueError`` where the rows of a quarter do not follow each other.
    """
    from phasebit.draw import Cell, chart

    cells: list[list[Cell | None]] = []
    for shape in COPIES:
        lanes = [int(row) for row in copied(shape)[0][:, 0]]
        cells.append([])
        for first in range(0, 128, 32):
            rows = lanes[first : first + 32]
            if rows != [*range(rows[0], rows[0] + 32)]:
                raise ValueError(f"{shape}: lanes from {first} have the rows {rows}")
            cells[-1].append(Cell(f"{rows[0]}–{rows[-1]}", HUES[rows[0] // 32]))
    return chart(
        cells, rows=COPIES, columns=[f"{first}–{first + 31}" for first in range(0, 128, 32)],
        row_label="tcgen05.cp", column_label="lanes",
        title="Which rows of shared memory the lanes get",
    )  # fmt: skip


WIDE = "128x256b", "4x256b"
"""Shapes of ``tcgen05.cp`` whose rows have 32 bytes."""


def wide_rows() -> Picture:
    """What some lanes get from each of :data:`WIDE`: row and piece, in eight columns."""
    from phasebit.draw import Cell, chart

    cells: list[list[Cell | None]] = []
    rows = []
    for shape, lanes in ((WIDE[0], (0, 1, 127)), (WIDE[1], (0, 1, 32, 64, 96))):
        got, _ = copied(shape)
        for lane in lanes:
            cells.append([
                None if x < 0 else Cell(f"{x % 1000}.{x // 1000}", ("blue", "orange")[x // 1000])
                for x in map(int, got[lane])
            ])
            rows.append(f"{shape}, lane {lane}")
    return chart(
        cells, rows=rows, columns=range(8), row_label="tcgen05.cp", column_label="column",
        title="Rows of 32 bytes in tensor memory: the row and the piece of 16 bytes",
        legend={"blue": "a row's first piece", "orange": "its second"},
    )  # fmt: skip


UNPACKED = {4: "b4x16_p64", 6: "b6x16_p32"}
"""Bits of a number -> how 16 of them lie in 16 bytes of shared memory: packed, then padding."""


def unpacked(width: int, **options: Any) -> tuple[bytes, bytes]:
    """The copy that gives each number of ``width`` bits a byte: 16 bytes before, and after it.

    The numbers are 0, 1, … 15; what pads them in shared memory is all ones.
    """
    import numpy as np

    from phasebit.edits import replace_once
    from phasebit.launching.launch import compile

    packed = sum(number << width * i for i, number in enumerate(range(16)))
    packed |= ((1 << 128) - 1) >> 16 * width << 16 * width
    words = [f"{packed >> 32 * i & 0xFFFFFFFF:#x}u" for i in range(4)]
    text = source("copied", SHAPE=f'"128x128b.b8x16.{UNPACKED[width]}"')
    text = replace_once(text, "make_uint4(x, x, x, x)", f"make_uint4({', '.join(words)})")
    text = replace_once(text, "        const unsigned x = 1000 * p + t;\n", "")
    out = np.full((128, 8), -2, np.int32)
    compile(text, "sm_100a")["copied"].launch(1, 128, [out], **options)
    return packed.to_bytes(16, "little"), out[0, :4].tobytes()


def unpackings() -> Table:
    """The bytes of :func:`unpacked`, for numbers of four bits and of six."""
    from phasebit.measure import Table

    rows = []
    for width in UNPACKED:
        before, after = unpacked(width)
        rows += [(f"{width} bits, shared memory", before.hex(" ")),
                 (f"{width} bits, tensor memory", after.hex(" "))]  # fmt: skip
    return Table(("the numbers 0 to 15", "16 bytes"), tuple(rows), "a row, four columns of a lane")


def allocate(first: int, more: int, *, blocks: int = 2, resident: int = 2) -> tuple[Any, Run]:
    """Run ``columns``: the addresses that each block got [blocks, 2], and the run."""
    import numpy as np

    from phasebit.launching.launch import compile

    out = np.full((blocks, 2), -1, np.int32)
    text = source("columns", FIRST=first, MORE=more)
    run = compile(text, "sm_100a")["columns"].launch(blocks, 32, [out], resident=resident)
    return out, run


def held(first: int, more: int, blocks: int = 2) -> Picture:
    """Who holds which columns while up to three blocks run ``columns``: one line for each event."""
    from phasebit.draw import Cell, chart
    from phasebit.emulator import Deadlock, observing

    log: list[tuple[int, str, int, int]] = []
    with observing(_allocations(log)):
        try:
            allocate(first, more, blocks=blocks, resident=blocks)
        except Deadlock:
            log.append((-1, "deadlock", 0, 0))
    now: list[Cell | None] = [None] * (512 // 32)
    events, rows = [], []
    for i, (block, what, begin, end) in enumerate(log):
        after = log[i + 1][:2] if i + 1 < len(log) else (-1, "")
        if what == "asks" and after == (block, "gets"):
            continue
        if what in ("gets", "gives back"):
            cell = Cell(str(block), HUES[block]) if what == "gets" else None
            now[begin // 32 : end // 32] = [cell] * ((end - begin) // 32)
        words = {"asks": f"asks for {end} and waits", "deadlock": "deadlock"}
        events.append(words.get(what, f"{what} {begin} to {end - 1}") if block < 0 else
                      f"block {block} {words.get(what, f'{what} {begin} to {end - 1}')}")
        rows.append(list(now))
    many = ("", "one block allocates", "two blocks allocate", "three blocks allocate")[blocks]
    title = f"Columns of a multiprocessor: {many} {first}, then {more}"
    drawn = chart(
        rows, rows=events, columns=range(0, 512, 32), row_label="what happens",
        column_label="32 columns from this one on", title=title,
        legend={HUES[block]: f"block {block} holds them" for block in range(blocks)},
    )  # fmt: skip
    return replace(drawn, alt=f"{title}.\n" + "\n".join(events))


def _allocations(log: list[tuple[int, str, int, int]]) -> object:
    """Who writes down a block, what it does with columns, and which."""
    from phasebit.emulator import TensorObserver

    class Watcher(TensorObserver):
        def requests_columns(self, g: Any, slot: int, count: int, held: int, where: Any) -> None:
            log.append((int(g.batch.blocks[slot]), "asks", 0, count))

        def allocated(self, g: Any, region: Any) -> None:
            self.note("gets", g, region)

        def deallocates(self, g: Any, lanes: Any, region: Any) -> None:
            self.note("gives back", g, region)

        def note(self, what: str, g: Any, region: Any) -> None:
            block = int(g.batch.blocks[region.slot])
            log.append((block, what, region.columns.start, region.columns.stop))

    return Watcher()


def weigh(text: str, *, schedule: Schedule = "late", seed: int = 16) -> tuple[Run, bool]:
    """Run ``a_in_tensor_memory`` on whole numbers: the run, and whether O is exact."""
    import numpy as np

    draw = np.random.default_rng(seed)
    scores = draw.integers(-2, 3, (128, 64)).astype(np.float32)
    values = draw.integers(-4, 5, (64, 64)).astype(np.float64)
    run, out = _weighed(text, scores, values, schedule)
    return run, bool(np.array_equal(out, np.exp2(scores) @ values))


def _weighed(text: str, scores: Any, values: Any, schedule: Schedule) -> tuple[Run, Any]:
    """The run and O (128, 64), from scores (128, 64) and values (64, 64)."""
    import numpy as np

    from phasebit.emulator import formats
    from phasebit.launching.launch import compile

    out = np.full((128, 64), np.nan, np.float32)
    bits = np.asarray(formats.encode("bf16", values))
    kernel = compile(text, "sm_100a")["weigh"]
    scores = np.ascontiguousarray(scores, np.float32)
    run = kernel.launch(1, 128, [scores, bits, out], schedule=schedule)
    return run, out


def weights_in_lanes(lanes: tuple[int, ...] = (0, 1, 31, 32, 127)) -> Picture:
    """Row and k of A that the tensor core takes from some lanes of P, in its first columns.

    V is the identity, so O shows A. Weights are powers of two: in one run thread t stores 2^t
    everywhere, in the other 2^n as its weight n, which goes to half n % 2 of column n // 2.
    """
    import numpy as np

    from phasebit.draw import Cell, chart

    shape, text = (128, 64), source("a_in_tensor_memory")
    lane, number = (
        np.log2(_weighed(text, np.broadcast_to(scores, shape), np.eye(64), "late")[1]).astype(int)
        for scores in (np.arange(128)[:, None], np.arange(64))
    )
    there = {(int(lane[at]), int(number[at])): at for at in np.ndindex(shape)}
    cells: list[list[Cell | None]] = []
    for each in lanes:
        line: list[Cell | None] = []
        for column in range(8):
            (row, low), (also, high) = (there[each, 2 * column + half] for half in (0, 1))
            assert row == also
            line.append(Cell(f"{row}: {low}, {high}", HUES[each // 32]))
        cells.append(line)
    return chart(
        cells, rows=[f"lane {each}" for each in lanes], columns=range(8), row_label="of P",
        column_label="column, of 32 bits", title="A in tensor memory: the row, two numbers along k",
    )  # fmt: skip
