"""The checks of *Double buffering with barriers* accept what is right and refuse wrong answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import pytest

from phasebit import files
from phasebit.chapters.double_buffering import exercises as check
from tests.book.notebooks import ROOT, code, solutions, source

CHAPTER = next(ROOT.glob("book/*/??_double_buffering.ipynb"))


def test_no_answer_yet() -> None:
    for each in (check.end_of_run, check.floor, check.sixteen_lanes, check.choose_team):
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


@pytest.mark.parametrize(
    "wrong",
    [
        lambda lane: (lane // 4, lane % 4),  # b's lanes have no partner
        lambda lane: (lane % 4, lane // 4),  # likewise a's
        lambda lane: (lane >> 2, lane >> 1 & 1),  # two lanes in one place
        lambda lane: (lane, 0),
        lambda lane: lane,
    ],
)
def test_sixteen_lanes_refuses(wrong: object) -> None:
    assert "not right yet" in check.sixteen_lanes.verdict(wrong)


def team(
    p: int, c: int, h: int, warps: int, room: int, order: Callable[[int, int, int], tuple[int, ...]]
) -> tuple[int, int, int]:
    """The fastest team by the law; of equally fast ones the least in that order."""
    teams = [
        (P, C, B)
        for P in range(1, warps)
        for C in range(1, warps - P + 1)
        for B in range(math.lcm(P, C), room + 1, math.lcm(P, C))
    ]
    return min(teams, key=lambda t: (-min(t[0] / p, t[1] / c, t[2] / (p + c + h)), *order(*t)))


def test_equally_fast_teams() -> None:
    """Fewest warps, then fewest slots, leave one team: whose producers are fewest is no matter."""
    right = lambda *system: team(*system, order=lambda P, C, B: (P + C, B, -P))  # noqa: E731
    assert "choose_team: OK" in check.choose_team.verdict(right)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda p, c, h, warps, room: (4, 8, 16),  # the kernel's
        lambda p, c, h, warps, room: (1, warps - 1, warps - 1),  # consumers only
        lambda p, c, h, warps, room: check.best_team(p, c, 0, warps, room),  # no hand-off
        lambda p, c, h, warps, room: check.best_team(p, c, h, warps, room)[::-1],
        lambda *system: team(*system, order=lambda P, C, B: (B, P + C)),  # slots before warps
        lambda *system: team(*system, order=lambda P, C, B: (P + C, P)),  # slots do not count
        lambda *system: team(*system, order=lambda P, C, B: ()),  # the first that is as fast
        lambda p, c, h, warps, room: None,
    ],
)
def test_choose_team_refuses(wrong: object) -> None:
    assert "choose_team: OK" not in check.choose_team.verdict(wrong)


@pytest.mark.nvcc
@pytest.mark.parametrize(("line", "right"), list(enumerate([False, False, False, True, True])))
def test_missing_line(line: int, right: bool) -> None:
    said = check.missing_line.verdict(line)
    assert said.startswith("missing_line: OK" if right else "missing_line: not right yet"), said


@pytest.mark.nvcc
def test_the_solutions_of_the_chapter() -> None:
    names: dict[str, object] = {}
    for text in solutions(CHAPTER):
        exec(text, names)
    assert "OK" in check.end_of_run.verdict(names["end_of_run"])
    assert "OK" in check.floor.verdict(names["floor"])
    assert "OK" in check.missing_line.verdict(names["choice"])
    assert "OK" in check.sixteen_lanes.verdict(names["place"])
    assert "OK" in check.choose_team.verdict(names["team"])


# The chapter and the files it shows


@pytest.mark.parametrize("kernel", ["tiled", "barrier_double_buffer"])
def test_a_cell_is_its_file(kernel: str) -> None:
    cells = [source(cell) for cell in code(CHAPTER)]
    assert "%%cuda\n" + files.kernel(f"double_buffering/{kernel}").rstrip("\n") in cells
