"""Tables and pictures of packed operands say what their records say."""

from __future__ import annotations

import re
from statistics import median

import pytest

from phasebit import measure
from phasebit.chapters.layouts import packed_tables
from phasebit.chapters.layouts.layouts_interleaved import ANEW, COPY, FIRST, PACKED


def took(together: int, n: int, name: str) -> float:
    """A median, µs, read from the record without the tables' help."""
    (entry,) = (
        each
        for each in measure.read("layouts_interleaved")["interleaved"]
        if (each["interleaved"], each["shape"][1]) == (together, n)
    )
    return float(median(entry["times"][name]["times_us"]))


def test_a_curve_is_the_time_with_the_copy_over_that_of_the_better_loop(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = packed_tables.when_it_pays(measure.read("layouts_interleaved")).alt.splitlines()[1:]
    assert [line.split(" interleaved: ")[0] for line in said] == ["1", "2", "4", "8", "16"]
    for line in said:
        name, values = line.split(" interleaved: ")
        for n, value in zip((128, 256, 512, 1024, 2048), values.split(), strict=True):
            assert value == f"{took(int(name), n, PACKED) / took(int(name), n, ANEW):.2f}"
    printed = capsys.readouterr().out.splitlines()
    for line, s in zip(printed, (1, 2, 4, 8, 16), strict=False):
        saved = (took(s, 2048, ANEW) - took(s, 2048, PACKED) + took(s, 2048, COPY)) / 16
        assert f"from {took(s, 2048, COPY) / saved:4.1f} columns on" in line
    assert re.search(r"right in 19 of 20 cases; never to pack, in 17$", printed[-1])


def test_slower_is_beside_a_dense_a_and_without_the_copy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    drawn = packed_tables.slower(measure.read("layouts_interleaved")).alt.splitlines()[1:]
    last = capsys.readouterr().out.splitlines()[-1]

    def more(name: str) -> str:
        copies = [took(s, 1024, COPY) if name == PACKED else 0 for s in (16, 1)]
        return f"{(took(16, 1024, name) - copies[0]) / (took(1, 1024, name) - copies[1]) - 1:.1%}"

    assert re.findall(r"[\d.]+%", last) == [more(FIRST), more(ANEW), more(PACKED)]
    for line, name in zip(drawn, (FIRST, ANEW), strict=False):
        ratios = [f"{took(s, 1024, name) / took(1, 1024, name):.2f}" for s in (1, 2, 4, 8, 16)]
        assert line.split(": ")[1].split() == ratios


def test_lines_are_counted_in_millions() -> None:
    record = measure.read("layouts_lines")
    table = packed_tables.lines(record)
    assert [row[0] for row in table.rows] == list(record["cases"])
    assert table.rows[0] == ("8", "1156", "37.7", "34.1", "135.2", "0.42", "1.17")
    assert {len(row) for row in table.rows} == {len(table.heading)}


def test_the_vendor_is_beside_the_better_loop(capsys: pytest.CaptureFixture[str]) -> None:
    said = packed_tables.beside_the_vendor(measure.read("layouts_interleaved")).alt
    ratio = took(16, 128, "cuBLAS") / took(16, 128, ANEW)
    assert said.splitlines()[1].endswith(f"{ratio:.2f}")
    wins = [line for line in capsys.readouterr().out.splitlines() if "in place" in line]
    for line in wins:
        ours, vendor, copy = (int(each) for each in re.findall(r"(\d+)(?: µs|$)", line))
        assert ours < vendor > copy
    assert len(wins) == 3


def test_four_ways_to_lie_are_printed_as_least_and_most(
    capsys: pytest.CaptureFixture[str],
) -> None:
    record = measure.read("layouts")
    packed_tables.rows_far_apart(record)
    times = [median(each["times"]["cuBLAS"]["times_us"]) for each in record["alone"]]
    assert f"cuBLAS: {min(times):.0f} to {max(times):.0f} µs" in capsys.readouterr().out
