"""Tables of the controls say what their record says."""

from __future__ import annotations

from statistics import median

from phasebit import measure
from phasebit.chapters.tiling_on_the_gpu import tiling_controls, view

CONTROLS = measure.read(tiling_controls.NAME)


def test_squares_and_threads_are_crossed() -> None:
    table = view.crossed(CONTROLS)
    assert [row[0] for row in table.rows] == ["1 × 1", "2 × 2", "4 × 4", "8 × 8"]
    assert [row.count("–") for row in table.rows] == [0, 0, 0, 4]
    times = CONTROLS["squares"]
    free = median(times["2 × 2, 64 threads, usual share"]["times_us"]) / 1000
    limited = median(times["2 × 2, 64 threads, 1024 at once"]["times_us"]) / 1000
    assert (table.rows[1][1], table.rows[1][4]) == (f"{free:.1f}", f"{limited:.1f}")
    alone = median(times["4 × 4, 1024 threads"]["times_us"]) / 1000
    assert table.rows[2][6] == f"{alone:.1f}", "one block of 1024 threads needs no limit"


def test_instructions_start_no_sooner_than_four_at_a_clock() -> None:
    for name, _, start, took in view.meetings(CONTROLS).rows:
        assert 0 < float(start) < float(took), name


def test_without_marks_the_two_orders_come_closer() -> None:
    *_, apart = view.marks(CONTROLS).rows
    marked, bare = (float(each.rstrip("%")) for each in apart[1:])
    assert bare < marked / 3
