"""The pair of blocks: who fetches what for whom, and the small pair with one mistake each."""

from __future__ import annotations

from phasebit import TensorMap, files
from phasebit.draw import Cell, Picture, chart
from phasebit.edits import replace_once, statement
from phasebit.emulator import EmulatorError, Schedule

KERNEL = "pair"

BROKEN: dict[str, tuple[str, str]] = {
    "as it is": ("", ""),
    "empty counts one block's warps": ("PAIR * CONSUMERS / 32);", "CONSUMERS / 32);"),
    "only one producer is told": (
        "&ring.empty[s], threadIdx.x % 32);", "&ring.empty[s], rank);"),
    "its own half is announced": ("sizeof ring.tile[s]);", "sizeof ring.tile[s] / PAIR);"),
    "full counts both producers": ("full[s], 1);", "full[s], PAIR);"),
    "nobody waits for the barriers": (
        "    ptx::cluster_arrive();  // the other block, too, sees the barriers\n"
        "    ptx::cluster_wait();\n", "    __syncthreads();\n"),
    "the sums are read at once": (
        "    ptx::cluster_arrive();  // the sums are there, and nobody writes into the other any "
        "more\n    ptx::cluster_wait();\n", "    __syncthreads();\n"),
    "a block leaves early": (
        "    ptx::cluster_arrive();  // a block stays while the other reads in it\n"
        "    ptx::cluster_wait();\n", ""),
}  # fmt: skip
"""Mistake -> what stands in the pair's file, and what stands there instead."""


def broken(mistake: str) -> str:
    """The pair with a mistake; raises ``ValueError`` when its file is not what it was."""
    text, (old, new) = files.kernel(f"hopper_ring/{KERNEL}"), BROKEN[mistake]
    return replace_once(text, old, new, f"{KERNEL}.cu") if old else text


def told(mistake: str, schedule: Schedule = "late") -> str:
    """How the pair with that mistake ends on the emulator: right, or the first rule broken."""
    import numpy as np

    from phasebit.launching.launch import compile

    draw = np.random.default_rng(17)
    x = draw.integers(-9, 10, (7 * 8, 64)).astype(np.float32)
    sums = np.full(64, np.nan, np.float32)
    text = broken(mistake)
    kernel = compile(text, "sm_90a")[KERNEL]
    try:
        run = kernel.launch(2, 96, [TensorMap(x, (64, 4)), sums, 7], schedule=schedule)
    except EmulatorError as error:
        found = [*error.findings, error.finding]
    else:
        found = run.findings
        if not found:
            return "right, no finding" if np.array_equal(sums, x.sum(0)) else "a wrong sum"
    first = found[0]
    if not first.lines:
        return first.rule
    return f"{first.rule}, line {statement(text.splitlines(), first.lines[0])}"


def picture() -> Picture:
    """What lies in a slot of each block of ``e_pairs.cu``, and which block has asked for it."""
    hues = ("blue", "orange")
    cells = []
    for block in range(2):
        cells.append([
            Cell(f"A, rows {128 * block}–{128 * block + 127}", hues[block]),
            Cell("B, rows 0–127", hues[0]),
            Cell("B, rows 128–255", hues[1]),
        ])  # fmt: skip
    return chart(
        cells, rows=["block 0", "block 1"], columns=["16 KiB", "16 KiB", "16 KiB"],
        row_label="a slot of", column_label="three boxes",
        title="A step of a pair: what lies in a slot of each block, by who asked for it",
        legend={"blue": "asked for by block 0", "orange": "by block 1"},
    )  # fmt: skip
