"""The pictures of *The anatomy of a fast GEMM* say what the loops and the TLB do."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.chapters.gemm import view
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
