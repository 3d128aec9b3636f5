"""The checks of the page of trials accept what is right, refuse what people write."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import combinations
from math import log
from statistics import fmean, median
from typing import Any

import pytest

from phasebit import measure
from phasebit.chapters.every_shape import trial_tables
from phasebit.chapters.every_shape.exercises import as_written, keep, turns
from phasebit.chapters.every_shape_trials import exercises as check
from phasebit.edits import replace_once
from tests.book.notebooks import ROOT
from tests.chapters.answers import solved

PAGE = ROOT / "book/part5_hopper/every_shape_trials.ipynb"


def test_no_answer_yet() -> None:
    for each in (as_written, keep, check.helpers):
        assert each.verdict(lambda *a: ...).endswith("not answered yet")
    assert turns.verdict("// yours").endswith("not answered yet")


def test_the_solutions_of_arithmetic_are_right() -> None:
    said = check.helpers.verdict(solved(PAGE)["helpers"])
    assert "helpers: OK" in said and "up to 16 others with one wave cut, of 1 with two" in said
    assert "keep: OK" in keep.verdict(solved(PAGE)["keep"])
    said = as_written.verdict(solved(PAGE)["as_written"])
    assert "as_written: OK" in said
    trials = re.findall(r": ([a-z ]+), was ([a-z ]+)", said)
    assert len(trials) == 6 and sum(word == was for word, was in trials) == 4


Rounds = dict[str, list[float]]


def judged(
    longer: Callable[[Rounds, str, str], float], level: float = 0.02
) -> Callable[[Rounds, str, dict[str, str]], dict[str, bool]]:
    def answer(times: Rounds, base: str, expected: dict[str, str]) -> dict[str, bool]:
        def came(more: float) -> str:
            return "the same" if abs(more) < level else "slower" if more > 0 else "faster"

        return {plan: came(longer(times, plan, base)) == word for plan, word in expected.items()}

    return answer


@pytest.mark.parametrize(
    "wrong",
    [
        judged(lambda t, plan, base: fmean(t[plan]) / fmean(t[base]) - 1),
        judged(lambda t, plan, base: max(t[plan]) / max(t[base]) - 1),
        judged(lambda t, plan, base: t[plan][0] / t[base][0] - 1),
        judged(lambda t, plan, base: median(t[base]) / median(t[plan]) - 1),
        judged(lambda t, plan, base: median(t[plan]) - median(t[base])),  # µs, no part
        judged(lambda t, plan, base: median(t[plan]) / median(t[base]) - 1, level=0.001),
        judged(lambda t, plan, base: median(t[plan]) / median(t[base]) - 1, level=0.03),
        lambda t, base, expected: dict.fromkeys(expected, True),
        lambda t, base, expected: dict.fromkeys(t, True),
        lambda t, base, expected: 4,
    ],
)
def test_as_written_refuses(wrong: Callable[..., Any]) -> None:
    said = as_written.verdict(wrong)
    assert "not right yet" in said and "raises" not in said, said


Times = dict[str, dict[str, float]]


def every(times: Times) -> list[str]:
    return sorted({plan for row in times.values() for plan in row})


def among(times: Times, count: int, total: Callable[[Times, tuple[str, ...]], float]) -> list[str]:
    """The plans with the least total, of those with which each shape has one."""
    sets = [kept for kept in combinations(every(times), count)
            if all(any(plan in row for plan in kept) for row in times.values())]  # fmt: skip
    return [*min(sets, key=lambda kept: total(times, kept))]


def fastest(row: dict[str, float], kept: Iterable[str]) -> float:
    return min(row[plan] for plan in kept if plan in row)


def ratios(times: Times, kept: Iterable[str]) -> list[float]:
    return [fastest(row, kept) / min(row.values()) for row in times.values()]


def greedy(times: Times, count: int) -> list[str]:
    """The best one, then what goes best with it, and on; a shape without one counts a lot."""
    kept: list[str] = []
    for _ in range(count):
        kept.append(min((plan for plan in every(times) if plan not in kept), key=lambda new: sum(
            log(min((row[plan] for plan in (*kept, new) if plan in row), default=1e9))
            for row in times.values())))  # fmt: skip
    return kept


def alone(times: Times, count: int) -> list[str]:
    """The plans that are best each by itself, where they were timed."""
    return sorted(every(times), key=lambda plan: fmean(
        log(row[plan] / min(row.values())) for row in times.values() if plan in row))[:count]


def wins(times: Times, count: int) -> list[str]:
    first = [min(row, key=row.__getitem__) for row in times.values()]
    return sorted(every(times), key=lambda plan: -first.count(plan))[:count]


def right(times: Times, count: int) -> list[str]:
    return among(times, count, lambda t, kept: sum(map(log, ratios(t, kept))))


@pytest.mark.parametrize(
    "wrong",
    [
        greedy,
        alone,
        wins,
        lambda t, n: among(t, n, lambda t, k: sum(fastest(row, k) for row in t.values())),
        lambda t, n: among(t, n, lambda t, k: max(ratios(t, k))),
        lambda t, n: among(t, n, lambda t, k: fmean(ratios(t, k))),
        lambda t, n: among(t, n, lambda t, k: median(ratios(t, k))),
        lambda t, n: among(t, n, lambda t, k: -sum(each < 1.000001 for each in ratios(t, k))),
        lambda t, n: among(t, n, lambda t, k: -sum(map(log, ratios(t, k)))),  # the worst
        lambda t, n: min(combinations(every(t), n), key=lambda k: sum(  # who was not timed is free
            log(min((row[plan] for plan in k if plan in row), default=1)) for row in t.values())),
        lambda t, n: every(t)[:n],
        lambda t, n: [*next(iter(t.values()))][:n],
        lambda t, n: right(t, n)[:1] * n,
        lambda t, n: [*right(t, n), every(t)[-1]],  # one too many
        lambda t, n: right(t, max(1, n - 1)),  # one too few
        lambda t, n: right(t, n)[0],
        lambda t, n: [f"{plan} " for plan in right(t, n)],
        lambda t, n: len(right(t, n)),
    ],
)  # fmt: skip
def test_keep_refuses(wrong: Callable[..., Any]) -> None:
    said = keep.verdict(wrong)
    assert "not right yet" in said and "raises" not in said, said


def test_keep_takes_the_right_plans_in_any_order() -> None:
    assert "keep: OK" in keep.verdict(lambda t, n: tuple(reversed(right(t, n))))


def test_what_keep_says_of_the_record() -> None:
    """Two plans lose far less than one; and who is greedy does not find them."""
    times = trial_tables.warm(measure.read("every_shape"))
    said = keep.verdict(solved(PAGE)["keep"])
    assert f"of the record's {len(every(times))} plans take" in said
    one, two, three = (float(each) / 100 for each in re.findall(r"([\d.]+)%", said))
    assert three < two < one / 3
    assert fmean(map(log, ratios(times, greedy(times, 2)))) > log(1 + two)


def begun(tiles: int, steps: int, workers: int) -> list[int]:
    return [tiles * steps * w // workers for w in range(workers)]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda t, s, w: -(-w // t),
        lambda t, s, w: w // t,
        lambda t, s, w: w // t - 1,
        lambda t, s, w: 1,
        lambda t, s, w: max(sum(i * s <= b < (i + 1) * s for b in begun(t, s, w))
                            for i in range(t)),  # the owner too
        lambda t, s, w: sum(0 < b < s for b in begun(t, s, w)),  # of the first tile
        lambda t, s, w: min(sum(i * s < b < (i + 1) * s for b in begun(t, s, w))
                            for i in range(t)),
    ],
)  # fmt: skip
def test_helpers_refuses(wrong: Callable[..., Any]) -> None:
    assert "not right yet" in check.helpers.verdict(wrong)


def test_one_wave_at_5000_has_sixteen_helpers() -> None:
    assert solved(PAGE)["helpers"](4, 79, 66) == 16


@pytest.mark.nvcc
def test_the_turns_of_the_page_are_right() -> None:
    assert "turns: OK (3 products" in turns.verdict(solved(PAGE)["two_turns"])


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("(made / 2 + group + 1) % 2", "(made / 2 + group) % 2"),
        ("(made / 2 + group + 1) % 2", "(made / 2 + 1) % 2"),  # both alike
        ("(made / 2 + group + 1) % 2", "(made + group + 1) % 2"),
        ("ring.turn[1 - group]", "ring.turn[group]"),
        ("if (threadIdx.x % 32 == 0) ", ""),
        ("if (threadIdx.x % 32 == 0)", "if (threadIdx.x % 128 == 0)"),
    ],
)
def test_the_turns_refuse(right: str, wrong: str) -> None:
    text = replace_once(str(solved(PAGE)["two_turns"]), right, wrong)
    said = turns.verdict(text)
    assert "not right yet" in said, said
