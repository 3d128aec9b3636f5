"""The checks of *Double buffering with barriers* accept what is right and refuse wrong answers."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from phasebit import files
from phasebit.chapters.double_buffering import exercises as check
from phasebit.exercises.written import BLANK
from tests.book.notebooks import ROOT, code, solutions, source

CHAPTER = next(ROOT.glob("book/*/??_double_buffering.ipynb"))


def test_no_answer_yet() -> None:
    for each in (check.end_of_run, check.floor):
        assert each.verdict(lambda *a: ...).endswith("not answered yet")
    assert check.missing_line.verdict(...).endswith("not answered yet")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda t, s, p, c: (t, t, p),  # every tile through slot 0
        lambda t, s, p, c: (t // s, t // s, p),  # rounded down
        lambda t, s, p, c: (-(-t // s), -(-t // s) + 1, p),  # the arrivals before the loop
        lambda t, s, p, c: (-(-t // s), -(-t // s), c),  # who is still missing
        lambda t, s, p, c: (-(-t // s), -(-t // s), 0),
        lambda t, s, p, c: (64, 64, 256),  # only this kernel
    ],
)
def test_end_of_run_refuses(wrong: object) -> None:
    assert "not right yet" in check.end_of_run.verdict(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda m, n, k, lanes, ghz: 2 * m * n * k / lanes / ghz * 1e-3,  # operations, not pairs
        lambda m, n, k, lanes, ghz: m * n * k / lanes / ghz,  # nanoseconds
        lambda m, n, k, lanes, ghz: 16.5,
        lambda m, n, k, lanes, ghz: True,
        lambda m, n, k, lanes, ghz: "16.5",
    ],
)
def test_floor_refuses(wrong: object) -> None:
    assert "not right yet" in check.floor.verdict(wrong)


def test_any_number_and_any_sequence_will_do() -> None:
    ended = lambda t, s, p, c: [-(-t // s), -(-t // s), p]  # noqa: E731
    assert "end_of_run: OK" in check.end_of_run.verdict(ended)
    exact = lambda m, n, k, lanes, ghz: Fraction(m * n * k, lanes) / Fraction(ghz) / 1000  # noqa: E731
    assert "floor: OK" in check.floor.verdict(exact)


@pytest.mark.parametrize("wrong", [-1, 5, "3", True, 2.0])
def test_missing_line_refuses_what_is_no_line(wrong: object) -> None:
    assert "give a number from 0 to 4" in check.missing_line.verdict(wrong)


RING = next(text for text in solutions(CHAPTER) if "reverse" in text).split('"""')[1]

RINGS = {
    "the slots never begin empty": (
        "        for (int slot = 0; slot < SLOTS; ++slot) (void)ring.empty[slot].arrive();\n",
        "",
        "deadlock",
    ),
    "full counts one role": (
        "init(&ring.full[threadIdx.x], 2 * TILE)", "init(&ring.full[threadIdx.x], TILE)", "barrier",
    ),
    "the consumer does not wait": (
        "ring.full[slot].arrive_and_wait()", "(void)ring.full[slot].arrive()", "race",
    ),
    "the producer does not wait": (
        "ring.empty[slot].arrive_and_wait()", "(void)ring.empty[slot].arrive()", "finds",
    ),
    "the producer signals at empty": (
        "(void)ring.full[slot].arrive()", "(void)ring.empty[slot].arrive()", "deadlock",
    ),
    "one slot only": ("slot + 1 == SLOTS ? 0 : slot + 1", "0", "at 4 barriers, not 6"),
    "nobody waits for the barriers to exist": ("    __syncthreads();\n", "", "race"),
    "the producer waits at full, too": (
        "(void)ring.full[slot].arrive()", "ring.full[slot].arrive_and_wait()", "more than once",
    ),
    "the last tile is left out": ("tile < tiles;", "tile < tiles - 1;", "not each tile backwards"),
    "it says empty before it reads": (
        "            y[tile * TILE + i] = ring.slot[slot][TILE - 1 - i];\n"
        "            (void)ring.empty[slot].arrive();\n",
        "            (void)ring.empty[slot].arrive();\n"
        "            y[tile * TILE + i] = ring.slot[slot][TILE - 1 - i];\n",
        "race",
    ),
    "not backwards": ("[TILE - 1 - i]", "[i]", "not each tile backwards"),
    "one thread speaks for all": (
        "(void)ring.full[slot].arrive()", "if (i == 0) (void)ring.full[slot].arrive()", "deadlock",
    ),
    "it says full before it writes": (
        "            ring.slot[slot][i] = x[tile * TILE + i];\n            (void)ring.full[slot]",
        "            (void)ring.full[slot].arrive();\n            ring.slot[slot][i] = "
        "x[tile * TILE + i];\n            if (false) (void)ring.full[slot]",
        "race",
    ),
    "a meeting a tile": (
        "ring.slot[slot][i] = x[tile * TILE + i];",
        "ring.slot[slot][i] = x[tile * TILE + i]; __syncthreads();",
        "deadlock|meets|barrier",
    ),
    "no semicolon": ("int i = threadIdx.x % TILE;", "int i = threadIdx.x % TILE", "line"),
}  # fmt: skip


@pytest.mark.nvcc
@pytest.mark.parametrize("name", RINGS)
def test_write_a_ring_refuses(name: str) -> None:
    old, new, why = RINGS[name]
    assert old in RING
    said = check.write_a_ring.verdict(RING.replace(old, new))
    assert said.startswith("write_a_ring: not right yet") and re.search(why, said), said


@pytest.mark.nvcc
def test_write_a_ring_refuses_a_kernel_without_barriers() -> None:
    head = RING[: RING.index("    const int i")]
    body = "    const int t = threadIdx.x;\n    if (t < TILE) for (int k = 0; k < tiles; ++k)"
    text = f"{head}{body} y[k * TILE + t] = x[k * TILE + TILE - 1 - t];\n}}\n"
    said = check.write_a_ring.verdict(text)
    assert re.search("not right yet: .*: 0 arrivals, where tokens take", said), said


def test_write_a_ring_refuses_what_is_no_ring() -> None:
    assert "as a string" in check.write_a_ring.verdict(3)
    assert "SLOTS = 3" in check.write_a_ring.verdict(RING.replace("SLOTS = 3", "SLOTS = 1"))
    assert "not answered yet" in check.write_a_ring.verdict(f"__global__ {BLANK}")


@pytest.mark.nvcc
@pytest.mark.parametrize(("line", "right"), list(enumerate([False, False, False, False, True])))
def test_missing_line(line: int, right: bool) -> None:
    said = check.missing_line.verdict(line)
    assert said.startswith("missing_line: OK" if right else "missing_line: not right yet"), said
    assert (check.LINES[line] == check.LINES[3]) == ("the deleted one" in said), said


@pytest.mark.nvcc
def test_the_solutions_of_the_chapter() -> None:
    names: dict[str, object] = {}
    for text in solutions(CHAPTER):
        exec(text, names)
    assert "OK" in check.end_of_run.verdict(names["end_of_run"])
    assert "OK" in check.floor.verdict(names["floor"])
    assert "OK" in check.missing_line.verdict(names["choice"])
    assert "OK" in check.write_a_ring.verdict(names["ring"])


# The chapter and the files it shows


@pytest.mark.parametrize("kernel", ["tiled", "barrier_double_buffer"])
def test_a_cell_is_its_file(kernel: str) -> None:
    cells = [source(cell) for cell in code(CHAPTER)]
    assert "%%cuda\n" + files.kernel(f"double_buffering/{kernel}").rstrip("\n") in cells
