"""A sparse A: pruned, stored by half, multiplied by ``kernels/other_forms/sparse.cu``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from phasebit import files

if TYPE_CHECKING:
    from phasebit.draw import Picture
    from phasebit.emulator import Run
    from phasebit.launching.launch import Kernel

M, N, K = 128, 64, 128
"""The kernel's product."""

STEP = 32
"""Numbers along k that one instruction takes."""

KERNEL = "other_forms/sparse"


def numbers(seed: int, same: bool = False) -> tuple[Any, Any]:
    """Whole numbers: A (M, K), of which each four in a row have two, and B (N, K).

    ``same``: the first two of each four, everywhere.
    """
    import numpy as np

    draw = np.random.default_rng(seed)
    a = draw.choice([-3, -2, -1, 1, 2, 3], (M, K)).astype(float)
    four = a.reshape(-1, 4)
    order = np.broadcast_to(np.arange(4), four.shape) if same else np.argsort(
        draw.random(four.shape), axis=1
    )  # fmt: skip
    np.put_along_axis(four, order[:, 2:], 0.0, axis=1)
    return a, draw.integers(-4, 5, (N, K)).astype(float)


def metadata(bits: Any) -> Any:
    """The four columns, uint32 (M, 4), from the four bits of each chunk (M, K / 4)."""
    import numpy as np

    from phasebit.emulator import tensor_metadata

    each = STEP // 4
    return np.hstack([tensor_metadata.cells(bits[:, i : i + each], True)
                      for i in range(0, bits.shape[1], each)])  # fmt: skip


def launch(stored: Any, words: Any, b: Any, text: str = "", **options: Any) -> tuple[Any, Run]:
    """C (M, N) from the stored half of A (M, K / 2), the metadata's columns and B, and the run."""
    kernel, arguments = prepare(stored, words, b, text)
    return arguments[3], kernel.launch(1, 128, arguments, **options)


def prepare(
    stored: Any, words: Any, b: Any, text: str = "", times: int = 1
) -> tuple[Kernel, list[Any]]:
    """The kernel and its arguments, of which the fourth is C: the product ``times`` times."""
    import numpy as np

    from phasebit.emulator import formats
    from phasebit.launching.launch import compile

    kernel = compile(text or files.kernel(KERNEL), "sm_100a")["sparse"]
    c = np.full((M, N), np.nan, np.float32)
    left, right = (np.asarray(formats.encode("bf16", x)) for x in (stored, b))
    words = np.ascontiguousarray(words, np.uint32)
    return kernel, [left, words, right, c, times]


def multiply(a: Any, b: Any, text: str = "", **options: Any) -> tuple[bool, Run]:
    """Whether the kernel's product of A (M, K) and B (N, K) is exact, and the run."""
    import numpy as np

    from phasebit.emulator import sparse

    stored, bits = sparse.compress(a, 4)
    c, run = launch(stored, metadata(bits), b, text, **options)
    return bool(np.array_equal(c, a @ b.T)), run


LANES, GROUPS = 16, 8
"""Of tensor memory, and of four bits in a cell of 32."""


def places() -> Picture:
    """Which row and chunk the bits of a cell are for, as seven runs of the kernel tell.

    B is the identity, so the sum shows A as the tensor core has it.  Each four bits of the first
    column, of 16 lanes, have a number; run i moves the chunks in whose number bit i is set.
    """
    import numpy as np

    from phasebit.draw import Cell, chart

    stored, identity = np.ones((M, K // 2)), np.eye(N, K)
    number = np.arange(LANES * GROUPS).reshape(LANES, GROUPS)
    found = np.zeros((LANES, STEP // 4), int)
    for i in range(7):
        nibbles = np.where(number >> i & 1, 0b1110, 0b0100).astype(np.uint32)
        words = np.full((M, 4), 0x44444444, np.uint32)
        words[:LANES, 0] = (nibbles << 4 * np.arange(GROUPS)).sum(axis=1)
        c, _ = launch(stored, words, identity, check=False)
        moved = c[:LANES, :STEP].reshape(LANES, -1, 4)[:, :, 2] == 1  # to the places 2 and 3
        found |= moved << i
    where = {int(found[row, chunk]): (row, chunk) for row, chunk in np.ndindex(found.shape)}
    cells = []
    for lane in range(LANES):
        held = [where[int(number[lane, group])] for group in range(GROUPS)]
        cells.append([Cell(f"{row}, {chunk}", "blue" if chunk < 4 else "orange")
                      for row, chunk in held])  # fmt: skip
    return chart(
        cells, rows=range(LANES), columns=[f"{4 * g}-{4 * g + 3}" for g in range(GROUPS)],
        row_label="lane", column_label="bits of the cell",
        title="The row and the chunk that four bits of metadata are for",
        legend={"blue": "k from 0 to 15", "orange": "k from 16 to 31"},
    )  # fmt: skip
