"""The checks of warp specialisation accept what is right and refuse planted wrong answers."""

from __future__ import annotations

import pytest

from phasebit.chapters.warp_specialisation import clinic
from phasebit.chapters.warp_specialisation import exercises as check
from tests.book.notebooks import ROOT, code, solutions, source

CHAPTER = next(ROOT.glob("book/*/??_warp_specialisation.ipynb"))


def test_no_answer_yet() -> None:
    assert check.budget.verdict(lambda *a: ...).endswith("not answered yet")
    for each in (check.diagnosis, check.one_arrival, check.two_groups):
        assert each.verdict(...).endswith("not answered yet")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda r, p, c, kept: 240,  # only this kernel
        lambda r, p, c, kept: (r * (p + c) - kept * p) // c,  # no multiple of 8
        lambda r, p, c, kept: (r * (p + c) - kept * p) // c // 8 * 8,  # more than there may be
        lambda r, p, c, kept: min(256, (65536 // 128 - kept * p) // c // 8 * 8),  # not launched
        lambda r, p, c, kept: min(256, (r - kept) // c // 8 * 8),
        lambda r, p, c, kept: "240",
    ],
)
def test_budget_refuses(wrong: object) -> None:
    assert "not right yet" in check.budget.verdict(wrong)


@pytest.mark.nvcc
@pytest.mark.parametrize(
    "wrong", [("race", 20), ("async", 1), ("async", "20"), ("finding", 20), "async", ("async",), 20]
)
def test_diagnosis_refuses(wrong: object) -> None:
    assert "not right yet" in check.diagnosis.verdict(wrong)


@pytest.mark.nvcc
def test_diagnosis_takes_either_end() -> None:
    for line, kinds in clinic.marks(check.DIAGNOSE).items():
        assert "OK" in check.diagnosis.verdict(("async", line)), kinds


ARRIVE = "if (x == 0) arrive(empty[at.slot]);  // once for the warp"


@pytest.mark.nvcc
@pytest.mark.parametrize(
    "change",
    [
        (ARRIVE, ARRIVE),  # nothing
        (ARRIVE, f"{ARRIVE} __syncwarp();"),  # too late
        (ARRIVE, "arrive(empty[at.slot]);"),  # 32 times as many as expected
        (ARRIVE, f"__syncthreads(); {ARRIVE}"),
        (ARRIVE, ""),
        ("K = 256;", "K = 32;"),
        ("wait(full[at.slot], at.phase);", ""),
        ("arrive(full[at.slot]);", "nonsense"),
    ],
)
def test_one_arrival_refuses(change: tuple[str, str]) -> None:
    text = clinic.source(check.ONE_ARRIVAL)
    assert change[0] in text
    assert "not right yet" in check.one_arrival.verdict(text.replace(*change))


@pytest.mark.nvcc
def test_one_arrival_takes_both_repairs() -> None:
    assert "OK" in check.one_arrival.verdict(clinic.source(check.ONE_ARRIVAL, repaired=True))
    assert "OK" in check.one_arrival.verdict(clinic.variant(check.ONE_ARRIVAL, "syncwarp"))


@pytest.mark.nvcc
@pytest.mark.parametrize(
    "change",
    [
        ("    sync(1, 2 * GROUP);", "    sync(1, 2 * GROUP);\n    sync(2, 2 * GROUP);"),  # after it
        ("    if (group == 1)", "    sync(2, GROUP);\n    if (group == 1)"),  # each group alone
        ("    if (group == 1)", "    __syncwarp();\n    if (group == 1)"),
        ("= a[0];", "= a[1];"),  # the other slot
        ("    sync(1, 2 * GROUP);", ""),
        ("    float (&part)[M][N] = a[0];", "    __shared__ float part[M][N];"),  # larger
        ("C[(y + 2 * i) * N + x] = c[i] + part", "C[(y + 2 * i) * N + x] = part"),
    ],
)
def test_two_groups_refuses(change: tuple[str, str]) -> None:
    text = clinic.source(check.TWO_GROUPS)
    assert change[0] in text
    assert "not right yet" in check.two_groups.verdict(text.replace(*change))


@pytest.mark.nvcc
def test_the_solutions_of_the_chapter() -> None:
    names: dict[str, object] = {"clinic": clinic, "check": check}
    for text in solutions(CHAPTER):
        exec(text, names)
    for exercise, answer in (
        ("budget", "budget"), ("diagnosis", "answer_1"), ("one_arrival", "answer_2"),
        ("two_groups", "answer_3"),
    ):  # fmt: skip
        said = getattr(check, exercise).verdict(names[answer])
        assert "OK" in said, said


def test_the_healthy_kernel_is_its_file() -> None:
    cells = [source(cell) for cell in code(CHAPTER)]
    assert "%%cuda\n" + clinic.source("00_healthy").rstrip("\n") in cells
