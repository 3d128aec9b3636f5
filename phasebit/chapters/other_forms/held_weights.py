"""``tcgen05.mma.ws``: B stays, tiles of 32, 64 or 128 rows of A change; where such a sum lies.

:func:`multiply` runs ``kernels/other_forms/stationary.cu``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from phasebit import files
from phasebit.edits import excerpt, replace_once
from phasebit.launching import one_product
from phasebit.launching.devices import Device
from phasebit.launching.one_product import stretch, tile

if TYPE_CHECKING:
    from phasebit.draw import Picture
    from phasebit.emulator import Run
    from phasebit.launching.launch import Kernel
    from phasebit.measure import Table

KERNEL = "other_forms/stationary"
TILES, N, K = 4, 128, 64
"""The kernel's: tiles of A, rows of B, numbers along k."""
ROWS = 32, 64, 128
"""Of a tile of A."""


def source(high: int = 32) -> str:
    """The kernel for tiles of so many rows."""
    return files.kernel(KERNEL).replace("#define HIGH 32", f"#define HIGH {high}")


def with_fetch(function: str, high: int = 32) -> str:
    """The kernel, in which ``function``, a text that defines ``fetch``, fetches the sums."""
    text = source(high)
    begin = text.index("    const int row = t % HIGH")
    end = text.index("    ptx::tcgen05_fence_before_thread_sync();", begin)
    text = text[:begin] + "    fetch(base, C, m, n);\n" + text[end:]
    return replace_once(text, "__global__ void", f"{function}\n__global__ void")


def launch(
    a: Any, b: Any, high: int = 32, text: str = "", *, device: Device = "emulator", **options: Any
) -> tuple[Any, Run]:
    """C (m, n) of A (m, K) and B (n, K), rounded to bf16, and the run; m at most TILES · high."""
    import numpy as np

    from phasebit.emulator import formats
    from phasebit.launching.launch import compile

    (m, _), n = a.shape, len(b)
    c = np.full((m, n), np.nan, np.float32)
    bits = [np.asarray(formats.encode("bf16", x)) for x in (a, b)]
    shared = (N + TILES * high) * K * 2 + 1024
    kernel = compile(text or source(high), "sm_100a")["stationary"]
    run = kernel.launch(1, 128, [*bits, c, m, n], shared=shared, device=device, **options)
    return c, run


def multiply(
    m: int, n: int, high: int = 32, text: str = "", seed: int = 1, **options: Any
) -> tuple[Run, bool]:
    """A launch on whole numbers: the run, and whether each sum is exact."""
    import numpy as np

    draw = np.random.default_rng(seed)
    a, b = (draw.integers(-4, 5, (rows, K)).astype(float) for rows in (m, n))
    c, run = launch(a, b, high, text, **options)
    return run, bool(np.array_equal(c, a @ b.T))


def repeated(wide: int, times: int, *, stays: bool) -> tuple[Kernel, list[Any]]:
    """``described.cu`` with ``.ws``, to multiply 32 rows so many times: kernel and arguments.

    ``stays``: the first product puts B into a buffer, and the others may take it from there. The
    numbers are whole and the sums exact.
    """
    import numpy as np

    from phasebit.emulator import instruction_descriptors

    text = files.kernel("one_thread_multiplies/described")
    text = replace_once(text, "tcgen05.mma.cta", "tcgen05.mma.ws.cta")
    if stays:
        issue = excerpt(text, 'asm volatile("{ .reg .pred p', '"r"(i) : "memory");')
        first, next_ = (replace_once(issue, '" KIND "', f'" KIND ".collector::b0::{use}')
                        for use in ("fill", "use"))  # fmt: skip
        text = replace_once(text, issue, f"if (i == 0)\n{first}\nelse\n{next_}")
    high, draw = min(ROWS), np.random.default_rng(wide)
    a, b = (draw.integers(-2, 3, (rows, 16)) for rows in (high, wide))
    bits = instruction_descriptors.encode("f16", high, wide, "bf16", "bf16", "f32")
    columns = wide * high // 128
    return one_product.prepare(text, tile(a), tile(b), bits, times=times, columns=columns)


def held(high: int, wide: int, schedule: Any = "late") -> Any:
    """One product of ``high`` rows and ``wide`` columns by ``described.cu`` with ``.ws``.

    Gives (lane, column, 2): the row and the column of the sum that a cell holds.
    """
    import numpy as np

    from phasebit.emulator import instruction_descriptors

    text = files.kernel("one_thread_multiplies/described")
    text = text.replace("tcgen05.mma.cta", "tcgen05.mma.ws.cta")
    a, b = np.zeros((high, 16)), np.zeros((wide, 16))
    a[:, 0], a[:, 1] = np.arange(high) + 1, 1
    b[:, 0], b[:, 1] = 1, 256 * np.arange(wide)  # row r, column c: r + 1 + 256 c
    bits = instruction_descriptors.encode("f16", high, wide, "bf16", "bf16", "f32")
    columns = wide * high // 128
    out, _ = one_product.product(text, tile(a), tile(b), bits, columns=columns, schedule=schedule)
    found = out.view(np.float32).astype(np.int64) - 1
    return np.stack([found % 256, found // 256], axis=-1)


def rows_in_banks() -> Picture:
    """Which rows the lanes hold, and which columns of the sum: from a product of each height."""
    from phasebit.draw import Cell, chart

    columns = []
    for high in ROWS:
        quarters = held(high, 128).reshape(4, 32, -1, 2)
        columns.append([
            Cell(f"rows {stretch(lanes[:, 0, 0])}, columns {stretch(lanes[0, :, 1])}",
                 "orange" if lanes[0, 0, 1] else "blue")
            for lanes in quarters
        ])  # fmt: skip
    return chart(
        list(zip(*columns, strict=True)), columns=[f"M = {high}" for high in ROWS],
        rows=[stretch(range(first, first + 32)) for first in range(0, 128, 32)],
        row_label="lanes", column_label="rows and columns of the sum",
        title="What the lanes hold of a sum of .ws, 128 columns wide",
        legend={"blue": "from the first column on", "orange": "later columns"},
    )  # fmt: skip


def columns_taken(wide: int = 256) -> Table:
    """Columns of tensor memory for a sum, ordinary and with .ws: from the layouts, not a run."""
    from phasebit.emulator import instruction_descriptors as descriptors
    from phasebit.measure import Table

    def takes(high: int, weights: bool) -> str:
        try:
            bits = descriptors.encode("f16", high, wide, "bf16", "bf16", "f32")
            descriptors.decode(bits, "f16", weights=weights)
        except descriptors.InstructionDescriptorError:
            return "no such shape"
        return str(wide * high // 128 if weights else wide)

    rows = [(str(high), takes(high, False), takes(high, True)) for high in ROWS]
    return Table(("rows of A", "ordinary", ".ws"), tuple(rows),
                 f"columns of tensor memory for a sum of {wide} columns")  # fmt: skip


SLIPS = {
    "each lane is taken for a row of its own": (
        "bank * WIDTH + column % WIDTH", "column % WIDTH", "WRONG"),
    "the banks are taken for rows": ("row = t % HIGH, bank", "row = t / BANKS, bank", "WRONG"),
    "sums lie half as far apart as they are wide": (
        "base + tile * WIDTH,", "base + tile * WIDTH / 2,", "WRONG"),
    "a sum begins at lane 16": (
        "base + tile * WIDTH,", "base + (tile * WIDTH | 16 << 16),", "begins at lane 16"),
    "a shape that .ws has not": (
        "tcgen05_bf16_f32(HIGH, N)", "tcgen05_bf16_f32(HIGH, 96)", "N = 96"),
    "each step begins the sums anew": ("step > 0, tile)", "false, tile)", "WRONG"),
    "each tile adds to the first one's sum": (
        "base + tile * WIDTH,", "base,", "WRONG|nobody has written"),
    "all tiles multiply the first rows of A": ("a + tile * HIGH * 8", "a", "WRONG"),
    "a warp issues, not a thread": (
        "    if (t == 0) {\n        for", "    if (warp == 0) {\n        for",
        "let one thread do it"),
    "nobody waits for the products": (
        "    ptx::mbarrier_wait(&done, 0);\n", "", "nobody has written|commit"),
    "the tiles are not fenced": (
        "    ptx::fence_proxy_async_shared();  // the tensor core sees the tiles\n", "", "proxy"),
}  # fmt: skip
"""Slip -> what is replaced by what, and what must be said: a regular expression, in which ``WRONG``
is a wrong result."""

__all__ = [
    "SLIPS", "columns_taken", "held", "launch", "multiply", "rows_in_banks", "source", "with_fetch",
]  # fmt: skip
