"""The checks of the ways to be almost right accept what is right and refuse wrong answers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from phasebit import bugs, casebook, score
from phasebit.chapters.almost_right import exercises as check
from phasebit.chapters.almost_right import view
from phasebit.exercises import repairs
from phasebit.exercises.judge import Wrong
from tests.book.notebooks import ROOT, code, prose, solutions, source

CHAPTER = ROOT / "book" / "appendix" / "almost_right.ipynb"
PHASES, WEIGHTS = bugs.bug(check.PHASES).code, bugs.bug(check.WEIGHTS).code
PUT, FENCE, MEET = "    put(p, weights, M);\n", "    ptx::fence_proxy_async_shared();\n", (
    "    __syncthreads();\n"
)  # fmt: skip


def test_no_answer_yet() -> None:
    for each in JUDGES:
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
        (("phase", 31), "that is not its kind"),
        (("hand-over", 32), "nothing collides in line 32"),
        (("hand-over", 33), "nothing collides in line 33"),
    ],
)
def test_untold_refuses(answer: Any, why: str) -> None:
    assert why in check.untold.verdict(answer)


@pytest.mark.nvcc
@pytest.mark.parametrize(
    "change",
    [
        ("if (threadIdx.x == 0) ptx", "if (threadIdx.x == 32) ptx"),
        ("const int value = slot;", "const int value = slot; __syncwarp();"),
        ("ptx::mbarrier_wait(&full, round % 2);",
         'ptx::mbarrier_wait(&full, round % 2); asm volatile("bar.sync 1, 64;" ::: "memory");'),
        ("if (threadIdx.x == 0) ptx::mbarrier_arrive(&empty);", ""),
    ],
)  # fmt: skip
def test_leader_refuses(change: tuple[str, str]) -> None:
    text = bugs.bug(check.LEADER).code
    assert text.count(change[0]) == 1
    assert "not right yet" in check.leader.verdict(text.replace(*change))


@pytest.mark.nvcc
def test_leader_accepts_an_arrival_of_each_warp() -> None:
    text = bugs.bug(check.LEADER).code
    each = text.replace("&empty, 1", "&empty, 2").replace(
        "            if (threadIdx.x == 0) ptx::mbarrier_arrive(&empty);",
        "            __syncwarp();\n"
        "            if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&empty);",
    )
    said = check.leader.verdict(each)
    assert said == "leader: OK (eager, late, 50 random orders, every order: no finding)"


@pytest.mark.nvcc
def test_what_only_another_order_shows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repair that three runs let pass: the random orders, or all of them, are looked at too."""
    text = bugs.bug(check.PHASES).text("fixed")
    real = bugs.emulate

    def under(which: str) -> Any:
        def emulate(program: Path, *, schedule: str, **options: int) -> Any:
            if schedule == which and (options or which == "every"):
                return bugs.bug(check.PHASES).run("broken")
            return real(program, schedule=schedule)

        return emulate

    for which, word in (("random", "a random order, of 50"), ("every", "one of all orders")):
        monkeypatch.setattr(bugs, "emulate", under(which))
        with pytest.raises(Wrong, match=word):
            repairs.scored(check.PHASES, text)


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
    monkeypatch.setattr(check, "scored", lambda name, answer: "no finding")
    assert "multiplies no longer" in check.weights.verdict("int main() {}")


def test_only_a_bug_can_be_repaired() -> None:
    assert "is no folder of bugs/" in check.repair.verdict("luck", "int main() {}")


JUDGES = (check.signals, check.reaches,
          check.diagnosis, check.untold, check.phases, check.leader, check.weights)  # fmt: skip
LAST = "every_warp_group_initialises"


@pytest.mark.nvcc
@pytest.mark.parametrize("index", range(len(JUDGES) + 1))
def test_the_solution_is_accepted(index: int) -> None:
    names: dict[str, Any] = {"bugs": bugs, "check": check, "name": LAST}
    exec(solutions(CHAPTER)[index], names)
    answer = names[f"answer_{index + 1}"]
    if index == len(JUDGES):
        assert "OK" in check.repair.verdict(LAST, answer)
    else:
        assert "OK" in JUDGES[index].verdict(answer)


def test_the_page_has_a_word_for_each_report_of_a_repaired_program() -> None:
    text = prose(CHAPTER)
    told = text[text.index("All of these follow the rules") : text.index("## Exercises")]
    assert set(re.findall(r"`([a-z_]+)`", told)) - {"__syncwarp"} == {
        row[2] for row in view.alarms(score.read()).rows
    }


def _solution(index: int) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(solutions(CHAPTER)[index], names)
    return names


CASES = {
    "elected_lane_arrives_early", "operand_of_two_groups", "copies_left_in_flight",
    "parity_of_the_loop", "every_lane_arrives", "read_and_loaded_again", "fence_in_a_loop_not_run",
    "semaphore_without_device_fence", "arrival_of_block_scope", "one_warp_without_wait",
    "buffer_taken_before_the_wait", "stage_released_under_a_load", "pair_freed_too_early",
}  # fmt: skip
"""The cases of the page: shown by it, or named by its reader in an exercise."""


def test_each_case_comes_once_shown_by_the_page_or_named_by_its_reader() -> None:
    shown = re.findall(r'casebook\.kernel\("([^"]+)"', "\n".join(map(source, code(CHAPTER))))
    cases = [*shown, *check.SIGNALS, *check.REACHES]
    assert len(cases) == len(set(cases)) and set(cases) == CASES
    assert {bugs.bug(name).kind for name in cases} >= set(view.QUESTIONS) - {
        "wgmma", "descriptor", "exit"}  # fmt: skip


def test_each_case_is_one_whose_line_the_emulator_names() -> None:
    """That it does, :mod:`tests.test_bugs` holds, for every bug that has a line."""
    assert all(bugs.bug(name).line for name in CASES)


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"operand_of_two_groups": ("hand-over", 10)}, "operand_of_two_groups: that is not its"),
        ({"pair_freed_too_early": ("allocation", 14)}, "nothing collides in line 14"),
        ({"pair_freed_too_early": 14}, "pair_freed_too_early: give a kind and a line"),
        ({"luck": ("reuse", 1)}, "give a kind and a line for each of operand_of_two_groups, pair"),
    ],
)
def test_signals_refuses(change: dict[str, Any], why: str) -> None:
    answer = _solution(0)["answer_1"]
    said = check.signals.verdict({**answer, **change})
    assert "not right yet" in said and why in said, said


@pytest.mark.nvcc
@pytest.mark.parametrize("name", check.REACHES)
def test_reaches_refuses_the_line_of_another(name: str) -> None:
    answer = _solution(1)["answer_2"]
    for wrong in (("reuse", 1), (bugs.bug(name).kind, 1)):
        said = check.reaches.verdict({**answer, name: wrong})
        assert "not right yet" in said and name in said, said
    assert "not right yet" in check.reaches.verdict(answer[name])


def test_a_program_is_printed_up_to_its_main_with_the_same_numbers() -> None:
    for name in (*check.SIGNALS, *check.REACHES):
        whole, part = casebook.numbered(name), casebook.numbered(name, main=False)
        assert whole.startswith(part) and "int main" in whole and "int main" not in part


@pytest.mark.nvcc
def test_the_picture_of_the_rounds_follows_the_count() -> None:
    """One phase an arrival, a last look that fails; planted counts of 16 and 32 make 2 and 1."""
    picture = view.rounds()
    assert [span.label for span in picture.spans if span.row == "as it is"] == [
        str(phase) for phase in range(33)]  # fmt: skip
    assert [span.label for span in picture.spans if span.row == "repaired"] == ["0", "1"]
    assert [(mark.at, mark.label[-3:].strip()) for mark in picture.marks] == [
        (32, "no"),
        (1, "yes"),
    ]
    for count, phases, answer in ((16, ["0", "1", "2"], "no"), (32, ["0", "1"], "yes")):
        planted = view.rounds(count)
        assert [span.label for span in planted.spans if span.row == "as it is"] == phases
        assert planted.marks[0].label.endswith(answer)
        assert [span.label for span in planted.spans if span.row == "repaired"] == ["0"]


def test_what_stands_before_the_guess_is_counted_from_the_record() -> None:
    rows = {bug.name: {"broken": score.SILENT, "fixed": score.CLEAN} for bug in bugs.every()[:4]}
    names = list(rows)
    tools = {name: {"title": name, "bugs": dict(rows)} for name in view.SANITIZER}
    tools["racecheck"]["bugs"][names[0]] = {"broken": score.FOUND}
    tools["memcheck"]["bugs"][names[1]] = {"broken": score.OTHER}
    tools["initcheck"]["bugs"][names[3]] = {}
    bare = {names[0]: {"broken": score.OTHER, "note broken": "wrong: 2 of 1000"},
            names[1]: {"broken": score.OTHER, "note broken": "wrong: 1000 of 1000"},
            names[2]: {"broken": score.SILENT, "note broken": "right: 1000 of 1000"}}  # fmt: skip
    record = {"tools": {**tools, "bare_run": {"title": "results", "bugs": bare}}}
    assert f"{len(bugs.every())} bugs; 3 of them ran" in view.ran(record)
    table = view.named(record)
    assert [row[2] for row in table.rows] == ["racecheck"] and "1 of 3" in table.heading[1]
    assert "of 3 broken programs" in view.results(record)
    assert "nothing in 1; of the others 1 are wrong in fewer" in view.results(record)


def test_every_common_kind_has_a_question() -> None:
    kinds = [bug.kind for bug in bugs.every()]
    common = {kind for kind in kinds if kinds.count(kind) > 1}
    assert common - {"result", "bounds"} == set(view.QUESTIONS), "neither is about an order"


def test_the_page_asks_as_many_questions_as_it_says() -> None:
    text = prose(CHAPTER)
    assert len(view.QUESTIONS) == 12 and text.lower().count("twelve questions") == 2
    for ask in ("hand-over", "reuse", "proxy", "scope", "between kernels"):
        assert f"> {view.QUESTIONS[ask]}" in text


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


def test_a_helper_of_assembler_is_folded_and_every_other_line_keeps_its_number(
    capsys: pytest.CaptureFixture[str],
) -> None:
    casebook.kernel("arrival_of_block_scope")
    whole = capsys.readouterr().out.splitlines()
    casebook.kernel("arrival_of_block_scope", helpers=False)
    folded = capsys.readouterr().out.splitlines()
    heads = [line for line in folded if line not in whole]
    assert len(heads) == 2 and "asm" in "".join(whole) and "asm" not in "".join(folded)
    assert all(head.endswith("{ … }") and head.removesuffix(" … }") in whole for head in heads)
