"""The checks of the ways to be almost right accept what is right and refuse wrong answers."""

from __future__ import annotations

from typing import Any

import pytest

from phasebit import bugs, casebook, score
from phasebit.chapters.almost_right import exercises as check
from phasebit.chapters.almost_right import view
from tests.book.notebooks import ROOT, solutions

CHAPTER = ROOT / "book" / "appendix" / "almost_right.ipynb"
PHASES, WEIGHTS = bugs.bug(check.PHASES).code, bugs.bug(check.WEIGHTS).code
PUT, FENCE, MEET = "    put(p, weights, M);\n", "    ptx::fence_proxy_async_shared();\n", (
    "    __syncthreads();\n"
)  # fmt: skip


def test_no_answer_yet() -> None:
    for each in (check.diagnosis, check.phases, check.weights):
        assert each.verdict(...).endswith("not answered yet")
    assert check.repair.verdict("mailbox_overwritten", ...).endswith("not answered yet")


@pytest.mark.parametrize("wrong", [("race", 11), ("scope", 11), "reuse", ("reuse",), 11])
def test_diagnosis_refuses_a_wrong_kind(wrong: object) -> None:
    assert "not right yet" in check.diagnosis.verdict(wrong)


@pytest.mark.nvcc
@pytest.mark.parametrize("line", [1, 9, 13, "11", 0])
def test_diagnosis_refuses_a_wrong_line(line: object) -> None:
    assert "nothing collides" in check.diagnosis.verdict(("reuse", line))


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (PHASES, "that is the broken program"),
        (7, "give the whole text"),
        ("int main() { return 0; }", "leave main as it is"),
        (PHASES.replace("k % 2", "(k + 1) % 2"), "schedule"),
        (PHASES.replace("k % 2", "tile % 2"), "schedule"),
        (PHASES.replace("k % 2", "(tile + k) / 2 % 2"), "schedule"),
        (PHASES.replace("k % 2", "step / 2 % 2"), "schedule"),
        (PHASES.replace("ptx::mbarrier_wait(&full, k % 2);", ""), "schedule"),
        (PHASES.replace("k % 2", "step % 2").replace("__syncthreads();\n        }", "}"), "race"),
        (PHASES.replace("k % 2)", "step % 2"), "expected"),
    ],
)
def test_phases_refuses(answer: Any, why: str) -> None:
    said = check.phases.verdict(answer)
    assert "not right yet" in said and why in said, said


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (WEIGHTS.replace(PUT, PUT + FENCE), "schedule"),
        (WEIGHTS.replace(PUT, PUT + MEET), "missing-proxy-fence"),
        (WEIGHTS.replace(PUT, FENCE + MEET + PUT), "schedule eager"),
        (WEIGHTS.replace(PUT, FENCE + PUT + MEET), "missing-proxy-fence"),
        (WEIGHTS.replace(PUT, PUT + "    __threadfence_block();\n" + MEET), "missing-proxy-fence"),
        (WEIGHTS.replace(PUT, PUT + FENCE + "    __syncwarp();\n"), "schedule"),
        (WEIGHTS.replace(PUT, PUT + "    if (threadIdx.x == 0) ptx::fence_proxy_async_shared();\n"
                         + MEET), "missing-proxy-fence"),
        (WEIGHTS.replace(PUT, ""), "schedule"),
        (WEIGHTS.replace("s < K / 16", "s < 1"), "schedule"),
    ],
)  # fmt: skip
def test_weights_refuses(answer: str, why: str) -> None:
    said = check.weights.verdict(answer)
    assert "not right yet" in said and why in said, said


def test_the_tensor_core_multiplies_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "healthy", lambda name, answer: "3 runs, no finding")
    assert "multiplies no longer" in check.weights.verdict("int main() {}")


def test_only_a_bug_can_be_repaired() -> None:
    assert "is no folder of bugs/" in check.repair.verdict("luck", "int main() {}")


@pytest.mark.nvcc
@pytest.mark.parametrize("index", range(4))
def test_the_solution_is_accepted(index: int) -> None:
    names: dict[str, Any] = {"bugs": bugs, "check": check, "name": "mailbox_overwritten"}
    exec(solutions(CHAPTER)[index], names)
    answer = names[f"answer_{index + 1}"]
    if index == 3:
        assert "OK" in check.repair.verdict(names["name"], answer)
    else:
        assert "OK" in (check.diagnosis, check.phases, check.weights)[index].verdict(answer)


def test_every_common_kind_has_a_question() -> None:
    kinds = [bug.kind for bug in bugs.every()]
    assert {kind for kind in kinds if kinds.count(kind) > 1} - {"result"} == set(view.QUESTIONS)


def test_the_picture_counts_what_the_record_says() -> None:
    names = [bug.name for bug in bugs.every() if bug.kind == "reuse"]
    rows = {name: {"broken": score.FOUND, "fixed": score.CLEAN} for name in names[:2]}
    rows[names[2]] = {"broken": score.OTHER, "fixed": score.ALARM}
    record = {"tools": {
        "one": {"title": "one", "date": "2026-01-01", "bugs": rows},
        "none": {"title": "none", "absent": "not here"}}}  # fmt: skip
    text = str(view.found_by_kind(record))
    assert "2 of 3 +1" in text and "none" not in text
    (alarm,) = view.alarms(record).rows
    assert (alarm[0], *alarm[2:]) == ("one", names[2], "2026-01-01")


@pytest.mark.nvcc
def test_what_an_early_copy_and_a_late_one_make_of_a_parity() -> None:
    lines = str(view.parities()).splitlines()[1:]
    assert [line.split("|")[1].split() for line in lines[1:]] == [
        ["right", "wrong", "right", "wrong"], ["right"] * 4, ["right"] * 4,
    ]  # fmt: skip
    assert lines[0].count("never written") == 3


@pytest.mark.nvcc
def test_a_line_in_a_function_is_that_of_its_caller_when_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    casebook.find("arrival_of_block_scope", callers=True)
    assert " 37  arrive_at(&full, 0);" in capsys.readouterr().out
