"""One product with every bit of its descriptors in the reader's hand, and what is said of them.

:func:`product` runs ``kernels/one_thread_multiplies/described.cu`` on the emulator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from phasebit import edits, files
from phasebit.emulator import Schedule
from phasebit.launching import one_product
from phasebit.launching.devices import Device
from phasebit.launching.one_product import Tile, stretch, tile

if TYPE_CHECKING:
    from phasebit.draw import Picture
    from phasebit.emulator import Run
    from phasebit.measure import Table

def product(
    a: Tile, b: Tile, instruction: int, *, times: int = 1, columns: int = 64,
    text: str = "", **options: Any,
) -> tuple[Any, Run]:  # fmt: skip
    """:func:`one_product.product` by the file's kernel, or by ``text``."""
    return one_product.product(text or files.kernel("one_thread_multiplies/described"), a, b,
                               instruction, times=times, columns=columns, **options)  # fmt: skip


_LANES = [stretch(range(first, first + 16)) for first in range(0, 128, 16)]


def rows_in_lanes() -> Picture:
    """Which rows of the sum the lanes hold, with 128 rows and with 64: from two products."""
    import numpy as np

    from phasebit.draw import Cell, chart
    from phasebit.emulator import instruction_descriptors as descriptors

    columns = []
    for m in (128, 64):
        a, b = np.zeros((m, 16)), np.zeros((32, 16))
        a[:, 0], b[:, 0] = np.arange(m) + 1, 1  # column 0 of row r is r + 1
        instruction = descriptors.encode("f16", m, 32, "bf16", "bf16", "f32")
        out, _ = product(tile(a), tile(b), instruction, columns=32)
        held = out.view(np.float32)[:, 0].reshape(8, 16)
        columns.append([
            Cell(f"rows {stretch(lanes - 1)}", "blue")
            if all(1 <= x <= m and x == int(x) for x in lanes) else Cell("nothing", "grey")
            for lanes in held
        ])  # fmt: skip
    return chart(
        list(zip(*columns, strict=True)), rows=_LANES, columns=["M = 128", "M = 64"],
        row_label="lanes", column_label="rows of the sum",
        title="Which rows of the sum the lanes of tensor memory hold",
    )  # fmt: skip


def rows_of_two(text: str) -> tuple[Run, Picture]:
    """Two products of 64 rows by ``text``, the second of -A: the run, and what the lanes hold."""
    import numpy as np

    from phasebit.draw import Cell, chart
    from phasebit.emulator import instruction_descriptors as descriptors

    a, b = np.zeros((64, 16)), np.zeros((32, 16))
    a[:, 0], b[:, 0] = np.arange(64) + 1, 1  # column 0 of row r is r + 1, or the negative of that
    instruction = descriptors.encode("f16", 64, 32, "bf16", "bf16", "f32")
    out, run = product(tile(a), tile(b), instruction, times=2, columns=32, text=text)
    lines = [
        [Cell(f"rows {stretch(abs(lanes) - 1)}", "blue" if lanes[0] > 0 else "orange")
         if np.isfinite(lanes).all() else Cell("nothing", "grey")]
        for lanes in out.view(np.float32)[:, 0].reshape(8, 16)
    ]  # fmt: skip
    return run, chart(
        lines, rows=_LANES, columns=["columns 0–31"],
        row_label="lanes", column_label="rows held in",
        title="Two sums of 64 rows in the same columns",
        legend={"blue": "of the first sum", "orange": "of the second"},
    )  # fmt: skip


def pair_rows(
    high: int, *, schedule: Schedule = "late", device: Device = "emulator"
) -> tuple[Run, Any]:
    """One product of a pair: the run, and (block, lane, column, 2) the row and the column held.

    The sum of row r and column c is r + 1 + 256 c: every cell says where it belongs.
    """
    import numpy as np

    from phasebit.emulator import formats
    from phasebit.launching.launch import compile

    wide = 32 * 256 // high
    a, b = np.zeros((high, 16)), np.zeros((wide, 16))
    a[:, 0], a[:, 1] = np.arange(high) + 1, 1
    b[:, 0], b[:, 1] = 1, 256 * np.arange(wide)
    bits = [np.asarray(formats.encode("bf16", x)) for x in (a, b)]
    out = np.zeros((2, 128, 32), np.float32)
    text = files.kernel("one_thread_multiplies/pair_rows").replace("HIGH 256", f"HIGH {high}")
    run = compile(text, "sm_100a")["pair_rows"].launch(
        2, 128, [*bits, out], schedule=schedule, device=device
    )
    found = out.astype(np.int64) - 1
    return run, np.stack([found % 256, found // 256], axis=-1)


def rows_of_a_pair() -> Picture:
    """Which rows of a pair's sum each block's lanes hold, and which columns: from two products."""
    from phasebit.draw import Cell, chart

    columns = []
    for high in (256, 128):
        held = pair_rows(high)[1].reshape(8, 32, -1, 2)  # quarters of both blocks
        columns.append([
            Cell(f"rows {stretch(lanes[:, 0, 0])}, columns {stretch(lanes[0, :, 1])}",
                 "orange" if lanes[0, 0, 1] else "blue")
            for lanes in held
        ])  # fmt: skip
    names = [f"block {block}, lanes {stretch(range(first, first + 32))}"
             for block in range(2) for first in range(0, 128, 32)]  # fmt: skip
    return chart(
        list(zip(*columns, strict=True)), rows=names, columns=["M = 256", "M = 128"],
        row_label="block, lanes", column_label="rows and columns of the sum",
        title="What the lanes of each block hold of a pair's sum",
        legend={"blue": "from the first column on", "orange": "the right half of the columns"},
    )  # fmt: skip


def pieces(*, mn_major: bool) -> Picture:
    """Where a tile of bf16, 128 rows × 64 along k, lies: its pieces of 16 bytes, in order.

    A line for each line of shared memory, of 128 bytes, around the places to which the stride and
    the leading offset lead; in a cell the first number that it holds: its row, its k.
    """
    import numpy as np

    from phasebit.draw import Cell, chart
    from phasebit.emulator import matrix_descriptors

    rows, depth = 128, 64
    found = tile(np.zeros((rows, depth)), mn_major=mn_major)
    where = matrix_descriptors.places(
        matrix_descriptors.decode(found.descriptor, "tcgen05"), rows, depth, 2, mn_major
    )
    first = {int(where[r, k]): (r, k) for r in range(rows) for k in range(depth)}
    lines = [0, 1, 2, 7, 8, 9, 64, 65] if mn_major else [0, 1, 2, 7, 8, 9, 127]
    cells = []
    for line in lines:
        held = [first[128 * line + 16 * piece] for piece in range(8)]
        cells.append([Cell(f"{r},{k}", "orange" if (r if mn_major else k) // 8 % 8 == 0 else "blue")
                      for r, k in held])  # fmt: skip
    major = "An N-major" if mn_major else "A K-major"
    return chart(
        cells, rows=[f"byte {128 * line}" for line in lines],
        columns=[16 * piece for piece in range(8)], row_label="line from",
        column_label="byte of the line", title=f"{major} tile: the row and the k of each piece",
        legend={"orange": "the first piece of its line, before the swizzle"},
    )  # fmt: skip


def excerpt(name: str, first: str, last: str) -> str:
    """The lines of a kernel from the one that holds ``first`` to the one that holds ``last``."""
    return edits.excerpt(files.kernel(f"one_thread_multiplies/{name}"), first, last)


def words(instruction: int) -> str:
    """What an instruction descriptor says to kind::f16, or what is wrong with it."""
    from phasebit.emulator import instruction_descriptors as descriptors

    try:
        return str(descriptors.decode(instruction, "f16")).removeprefix("kind::f16: ")
    except descriptors.InstructionDescriptorError as error:
        return str(error).partition(": ")[2]


def _steps(numbers: list[int]) -> str:
    """16, 32, 48, …, 256 as ``16 to 256 by 16``; an irregular beginning is listed."""
    step = numbers[-1] - numbers[-2]
    first = next(i for i in range(len(numbers)) if numbers[i:] == [*range(numbers[i], 257, step)])
    begin = "".join(f"{n}, " for n in numbers[:first])
    return f"{begin}{numbers[first]} to {numbers[-1]} by {step}"


def shapes() -> Table:
    """The shapes of each kind, as the emulator's decoder says when it is asked for all of them."""
    from phasebit.emulator import instruction_descriptors as plain
    from phasebit.emulator import scaled_descriptors as scaled
    from phasebit.measure import Table

    def takes(kind: str, m: int, n: int, group: int) -> bool:
        try:
            if kind in plain.DEPTH:
                a = next(iter(plain.TYPES[kind].values()))
                d = next(iter(plain.RESULTS[kind].values()))
                plain.decode(plain.encode(kind, m, n, a, a, d), kind, group)
            else:
                a = next(iter(scaled.ELEMENTS[kind].values()))
                per_row = next(iter(scaled.VECTORS[kind].values()))
                if m % 128:
                    return False
                scaled.decode(scaled.encode(kind, n, a, a, m=m), kind, per_row, group)
        except plain.InstructionDescriptorError:
            return False
        return True

    kinds: dict[tuple[tuple[str, str, str], ...], list[tuple[str, str]]] = {}
    for kind, k in {**plain.DEPTH, **scaled.K}.items():
        rules = []
        for group in (1, 2):
            heights: dict[str, list[str]] = {}
            for m in (64, 128, 256):
                found = [n for n in range(8, 257, 8) if takes(kind, m, n, group)]
                if found:
                    heights.setdefault(_steps(found), []).append(str(m))
            rules += [(str(group), ", ".join(ms), n) for n, ms in heights.items()]
        kinds.setdefault(tuple(rules), []).append((kind, str(k)))
    rows = []
    for each, named in kinds.items():
        for i, rule in enumerate(each):
            who = [", ".join(part) for part in zip(*named, strict=True)] if i == 0 else ["", ""]
            rows.append((*who, *rule))
    return Table(
        ("kind", "K", "CTAs", "M", "N"), tuple(rows),
        "dense products, as the emulator's decoder takes them",
    )  # fmt: skip


def queued(text: str, *, schedule: Schedule = "late", seed: int = 17) -> tuple[Run, bool]:
    """Run ``queue`` on whole numbers: the run, and whether both sums are exact."""
    import numpy as np

    from phasebit.emulator import formats
    from phasebit.launching.launch import compile

    draw = np.random.default_rng(seed)
    a, b = (draw.integers(-4, 5, (rows, 16)).astype(np.float64) for rows in (128, 32))
    moved = a.copy().reshape(4, 32, 16)
    moved[:, :-1] = moved[:, 1:].copy()  # the last lane of a quarter keeps its row
    out = np.full((128, 64), np.nan, np.float32)
    bits = [np.asarray(formats.encode("bf16", x)) for x in (a, b)]
    run = compile(text, "sm_100a")["queue"].launch(1, 128, [*bits, out], schedule=schedule)
    right = np.hstack([a @ b.T, moved.reshape(128, 16) @ b.T])
    return run, bool(np.array_equal(out, right))


__all__ = [
    "Tile", "excerpt", "pair_rows", "pieces", "product", "queued", "rows_in_lanes",
    "rows_of_a_pair", "rows_of_two", "shapes", "stretch", "tile", "words",
]  # fmt: skip
