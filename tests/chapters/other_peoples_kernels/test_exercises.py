"""The checks of other people's kernels accept what is right and refuse planted wrong answers."""

from __future__ import annotations

from typing import Any

import pytest

from phasebit import bugs
from phasebit.chapters.other_peoples_kernels import exercises as check
from phasebit.chapters.other_peoples_kernels import view
from tests.book.notebooks import ROOT, solutions

CHAPTER = ROOT / "book" / "appendix" / "other_peoples_kernels.ipynb"
FREED, LEFT = bugs.bug(check.FREED).code, bugs.bug(check.LEFT).code
MEET = 'if (threadIdx.x < 128) asm volatile("bar.sync 1, 128;" ::: "memory");'


def test_no_answer_yet() -> None:
    for each in (check.diagnosis, check.last_reader, check.no_barrier):
        assert each.verdict(...).endswith("not answered yet")


@pytest.mark.parametrize(
    "wrong", [("race", 11), ("proxy", 11), "reuse", ("reuse",), 11, ("count", 11), ("exit", 15)]
)
def test_diagnosis_refuses_a_wrong_kind(wrong: object) -> None:
    assert "not right yet" in check.diagnosis.verdict(wrong)


@pytest.mark.nvcc
@pytest.mark.parametrize("line", [1, 10, 13, 19, "11", 11.5])
def test_diagnosis_refuses_a_wrong_line(line: object) -> None:
    assert "nothing collides" in check.diagnosis.verdict(("reuse", line))


@pytest.mark.nvcc
@pytest.mark.parametrize("line", [11, 15])
def test_diagnosis_takes_either_access(line: int) -> None:
    assert "OK" in check.diagnosis.verdict(("reuse", line))


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (FREED, "that is the broken program"),
        ("int main() { return 0; }", "leave main as it is"),
        (FREED.replace("run(product, 256)", "run(product, 128)"), "leave main as it is"),
        (FREED.replace(MEET, "__syncthread();"), "__syncthread"),
        (FREED.replace(MEET, ""), "race"),
        (FREED.replace(MEET, "__syncwarp();"), "race"),
        (FREED.replace("if (threadIdx.x < 32) ptx::tcgen05_dealloc<32>(d);", ""), "schedule"),
        (FREED.replace("if (threadIdx.x >= 128) store(d, C);", ""), "the result is wrong"),
        (7, "give the whole text"),
    ],
)
def test_last_reader_refuses(answer: Any, why: str) -> None:
    said = check.last_reader.verdict(answer)
    assert "not right yet" in said and why in said


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (LEFT.replace("out[block] = total;", "out[block] = total;\n    ptx::cluster_arrive();\n"
                      "    ptx::cluster_wait();"), "2 barriers of the cluster"),
        (LEFT.replace("< BLOCKS)", "< BLOCKS && job > 0)"), "schedule"),
        (LEFT.replace("< BLOCKS)", "< BLOCKS && job + 2 < JOBS)"), "schedule"),
        (LEFT.replace("out[block] = total;", "out[block] = total;\n    __nanosleep(1000);"),
         "block-leaves-too-early"),
    ],
)  # fmt: skip
def test_no_barrier_refuses(answer: str, why: str) -> None:
    said = check.no_barrier.verdict(answer)
    assert "not right yet" in said and why in said


@pytest.mark.nvcc
@pytest.mark.parametrize("index", range(3))
def test_the_solution_is_accepted(index: int, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"bugs": bugs, "check": check}
    exec(solutions(CHAPTER)[index], names)
    each = (check.diagnosis, check.last_reader, check.no_barrier)[index]
    assert "OK" in each.verdict(names[f"answer_{index + 1}"])


def test_a_record_of_a_gpu_is_shown_by_bug_and_tool() -> None:
    tool = {"verdict": "nothing", "said": [], "lines": []}
    found = {"verdict": "found", "said": ["Race"], "lines": [15]}
    tools = {"memcheck": tool, "racecheck": found, "initcheck": tool, "synccheck": tool}
    twin = {"runs": {"right": 19, "wrong": 1}, "tools": tools}
    programs = {f"reduction_scratch_reused {which}": twin for which in bugs.TWINS}
    record = {"gpu": "GPU", "driver": "1", "cuda": "13", "date": "2026-01-01",
              "programs": programs}  # fmt: skip
    name = "reduction_scratch_reused"
    seen = {name: bugs.Outcome("right", 0, ())}
    (row,) = [line for line in view.on_gpu(record, seen).alt.splitlines() if "|" in line]
    title, cells = row.split("|")
    assert title.strip() == "Two reductions, one scratch"
    assert " ".join(cells.split()) == "right in 19, wrong in 1 – found – – –"
