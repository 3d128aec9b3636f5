"""Products with a B that stays: right on the emulator, each mistake seen."""

from __future__ import annotations

import re

import numpy as np
import pytest

from phasebit.chapters.other_forms import exercises as check
from phasebit.chapters.other_forms import held_weights
from phasebit.edits import replace_once
from phasebit.emulator import EmulatorError
from tests.book.notebooks import ROOT, solutions

CHAPTER = next(ROOT.glob("book/*/other_forms.ipynb"))
SCHEDULES = ("eager", "late", "random")


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("high", held_weights.ROWS)
def test_the_kernel_is_right_at_ragged_sizes(high: int, schedule: str) -> None:
    for m, n in ((4 * high, 128), (3 * high + 5, 100), (1, 1)):
        run, exact = held_weights.multiply(m, n, high, schedule=schedule)
        assert exact and not run.findings and run.counters["tcgen05.mma"] == 16


@pytest.mark.nvcc
def test_the_buffer_is_filled_once_a_step_and_given_up_at_its_end() -> None:
    """In the order in which they are issued: four steps of four tiles."""
    from phasebit.launching.launch import compile

    text = compile(held_weights.source(), "sm_100a").ptx
    uses = re.findall(r"collector::b0::(\w+)", text)
    assert uses == ["fill", "use", "use", "lastuse"] * (len(uses) // 4) and uses


@pytest.mark.nvcc
@pytest.mark.parametrize("name", held_weights.SLIPS)
def test_each_slip_is_seen(name: str) -> None:
    old, new, says = held_weights.SLIPS[name]
    text = replace_once(held_weights.source(), old, new)
    try:
        run, exact = held_weights.multiply(120, 100, text=text, schedule="late")
        said = "\n".join(each.message for each in run.findings) + ("" if exact else "\nWRONG")
    except EmulatorError as error:
        said = str(error)
    assert re.search(says, said), said


@pytest.mark.nvcc
@pytest.mark.parametrize(("m", "n"), [(32, 128), (64, 128), (128, 64)])
def test_cells_are_those_of_the_layout(m: int, n: int) -> None:
    """Layouts D, E and G of the PTX ISA, 9.7.16.10.5: bank after bank of columns."""
    cells, width = held_weights.held(m, n), n * m // 128
    lanes, columns = np.meshgrid(np.arange(128), np.arange(width), indexing="ij")
    assert np.array_equal(cells[..., 0], lanes % m)
    assert np.array_equal(cells[..., 1], lanes // m * width + columns)


@pytest.mark.nvcc
def test_the_picture_names_the_columns() -> None:
    lines = held_weights.rows_in_banks().alt.splitlines()[1:]
    cells = [" ".join(line.split("|")[1].split()).split(" rows ") for line in lines]
    assert [line[0] for line in cells] == [
        f"rows 0–31, columns {n}–{n + 31}" for n in range(0, 128, 32)
    ]
    assert cells[2][1] == "0–31, columns 64–127" and cells[3][2] == "96–127, columns 0–127"


def test_columns_taken() -> None:
    assert held_weights.columns_taken().rows == (
        ("32", "no such shape", "64"), ("64", "256", "128"), ("128", "256", "256"),
    )  # fmt: skip


WRONG = {
    "as an ordinary sum": lambda i, j, m, n: (i, j),
    "rows by turns": lambda i, j, m, n: (i * (128 // m) + j // (n * m // 128), j % (n * m // 128)),
    "32 lanes to a bank": lambda i, j, m, n: (
        i % 32 + j // (n * m // 128) * 32,
        j % (n * m // 128),
    ),
    "columns by turns": lambda i, j, m, n: (i + j % (128 // m) * m, j // (128 // m)),
}


@pytest.mark.nvcc
def test_the_exercise_takes_the_solution_alone() -> None:
    names: dict[str, object] = {}
    exec(next(text for text in solutions(CHAPTER) if "def cell_of" in text), names)
    assert "cell_of: OK" in check.cell_of.verdict(names["cell_of"])
    assert check.cell_of.verdict(lambda *a: ...).endswith("not answered yet")
    for name, wrong in WRONG.items():
        assert "not right yet" in check.cell_of.verdict(wrong), name


@pytest.mark.nvcc
@pytest.mark.parametrize("stays", [False, True])
def test_what_is_timed_adds_up(stays: bool) -> None:
    """Four times the product of 32 rows, bank by bank; from the buffer where B stays."""
    kernel, arguments = held_weights.repeated(128, 4, stays=stays)
    run = kernel.launch(1, 128, arguments)
    draw = np.random.default_rng(128)
    a, b = (draw.integers(-2, 3, (rows, 16)) for rows in (32, 128))
    banks = [4 * (a @ b[first : first + 32].T) for first in range(0, 128, 32)]
    assert np.array_equal(arguments[6].view(np.float32), np.concatenate(banks))
    assert run.findings == [] and ("collector::b0::use" in kernel.ptx) == stays
