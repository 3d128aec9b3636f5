"""The pictures of *The anatomy of a fast GEMM* say what the loops and the TLB do."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.chapters.gemm import cpu_ladder, view
from phasebit.chapters.gemm.cpu_ladder import Block


def test_each_loop_fixes_more() -> None:
    picture = view.five_loops(96, 80, 64, Block(48, 32, 40), (8, 16), (32, 48, 40, 16, 16))
    lines = picture.alt.splitlines()
    assert lines[1] == "p0 by kc: A 96 × 32 B 32 × 80 (memory)"
    assert lines[5] == "j by NR: A 8 × 32 B 32 × 16 C 8 × 16 (C: registers; B passes by)"
    assert picture.svg.count("<rect") == 2 * 3 * 5


def test_a_tlb_misses_each_page_that_has_left() -> None:
    picture = view.tlb_at_work({"far": [0, 4096, 8192, 0], "near": [0, 8, 16, 24]}, entries=2)
    assert "far: 4, near: 1" in picture.alt


def test_a_panel_is_drawn_as_it_lies() -> None:
    numbers = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    picture = view.panels(numbers, rows=5)
    rows = [line.split("|")[1].split() for line in picture.alt.splitlines()[1:]]
    assert rows == [list("012345"), ["6", "7", "8", "9", "10", "11"]]


def test_threads_are_shown_where_a_record_has_them() -> None:
    assert view.threads_measured({}) == []
    times = {"1 j0": [1.0] * 3, "1 i": [1.0] * 3, "2 j0": [0.5] * 3, "2 i": [0.8] * 3}
    said = view.threads_measured({"threads": {"1024": times}})
    assert said[0] == "⏱ 1024³, 2 threads divide j0: 2.00 times as fast"
    assert len(said) == 2


def test_a_step_meets_a_column_of_a_and_a_row_of_b() -> None:
    assert "14 elements of A, one below the other, and 32 of B" in view.one_step(14, 32).alt
    with pytest.raises(ValueError, match="has no part"):
        view.one_step(14, 32, depth=2, step=2)


def test_two_sums_start_twice_in_four_cycles_and_eight_fill_both_units() -> None:
    lines = view.in_flight((2, 8), cycles=8).alt.splitlines()[1:]
    began = [line.split("|")[1].split() for line in lines]
    assert began[0] == ["0", "#", "#", "#"] * 2
    assert began[1] == ["1", "#", "#", "#"] * 2
    assert began[2] == ["0", "2", "4", "6"] * 2
    assert began[3] == ["1", "3", "5", "7"] * 2


def test_a_tile_with_sums_on_the_stack_has_another_colour() -> None:
    tile = {"flop": 50, "seconds": [1.0, 2.0]}
    record = {"peak": [100.0], "date": "2026-01-01", "cpu": "a core",
              "tiles": {"15 2": tile | {"stack": 2}, "14 2": tile | {"stack": 0}}}  # fmt: skip
    picture = view.tiles_alone(record)
    assert "14 × 2, 31 registers: 0.50\n15 × 2, 33 registers: 0.50" in picture.alt


@pytest.mark.nvcc
def test_the_first_of_two_threads_makes_half_of_the_tiles() -> None:
    made = {}
    a = np.ones((64, 64), np.float32)
    for loop in cpu_ladder.LOOPS:
        made[loop] = np.full((64, 64), -0.0, np.float32)
        cpu_ladder.watched("registers", a, a, made[loop], Block(64, 32, 32), (8, 16),
                           threads=2, loop=loop)  # fmt: skip
    said = view.first_of_two(made, (8, 16)).alt
    assert "divided by j0: 8 rows of tiles, columns 0 1;" in said
    assert "divided by i: 4 rows of tiles, columns 0 1 2 3;" in said
    assert "divided by j: 8 rows of tiles, columns 0 2." in said
