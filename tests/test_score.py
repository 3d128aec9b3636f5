"""What a score says of a tool, and that the page of the book shows the record."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from phasebit import bugs, score
from phasebit.__main__ import main
from phasebit.process import Finished
from phasebit.runtime import apart
from phasebit.score import Absent, Seen
from phasebit.score.on_the_emulator import ended
from phasebit.score.tools import bare_run, consan, phasebit_every, phasebit_random

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import score_page

BUG = bugs.bug("lane_behind_the_copy")


@pytest.mark.parametrize(
    ("twin", "reports", "lines", "word"),
    [
        ("broken", 1, {BUG.number}, "found"),
        ("broken", 2, {BUG.number + 1}, "other"),
        ("broken", 0, set(), "silent"),
        ("fixed", 1, {BUG.number}, "false alarm"),
        ("fixed", 0, set(), "clean"),
    ],
)
def test_one_word_for_what_a_tool_says(twin: str, reports: int, lines: set[int], word: str) -> None:
    assert score.verdict(a_tool({}), BUG, twin, Seen(reports, frozenset(lines))) == word


def test_a_line_that_the_repair_changes_counts_as_one_that_it_protects() -> None:
    bug = bugs.bug("parity_of_the_loop")
    lines = bug.text("broken").splitlines()
    read, wait = bug.number, bug.number - 1
    assert "mbarrier_wait" in lines[wait - 1] and wait in bug.numbers
    load = next(n for n, line in enumerate(lines, 1) if "bulk_load" in line)
    assert {read, wait, load} == bug.numbers


def test_a_record_is_judged_again_where_it_kept_the_lines() -> None:
    row = {"broken": "other", "fixed": "clean"}
    line = max(consan.numbers(bugs.bug("mailbox_overwritten")))
    rows = {"mailbox_overwritten": row | {"lines": [line]}, "parity_of_the_loop": row}
    again = score.judged_again("consan", rows)
    assert again["mailbox_overwritten"]["broken"] == "found"
    assert again["parity_of_the_loop"] == row
    other = score.judged_again("racecheck", rows)["mailbox_overwritten"]["broken"]
    assert other == "other", "racecheck runs another file, broken.cu, with lines of its own"
    rows["mailbox_overwritten"]["lines"] = [1]
    assert score.judged_again("consan", rows)["mailbox_overwritten"]["broken"] == "other"
    one = {"title": "racecheck", "bugs": rows}
    assert [bug.name for _, bug in score.by_one_line({"tools": {"racecheck": one}})] == [
        "parity_of_the_loop"
    ]
    assert not list(score.by_one_line({"tools": {"bare_run": one}}))


def test_the_verdicts_of_the_record_are_those_of_the_rule() -> None:
    for name, one in score.read()["tools"].items():
        assert score.judged_again(name, one["bugs"]) == one["bugs"], f"{name}: score --write"


def test_where_there_is_no_line_to_name_nothing_is_found() -> None:
    bug = bugs.bug("swapped_extents")
    assert not bug.line
    assert not bug.numbers and bug.repaired
    touched = frozenset(range(200))
    assert score.verdict(a_tool({}), bug, "broken", Seen(1, touched)) == "other"


def test_every_tool_has_a_title_and_says_what_it_is_or_why_it_is_absent() -> None:
    assert {"phasebit_late", "phasebit_random", "racecheck", "bare_run"} <= set(score.names())
    for name in score.names():
        tool = score.tool(name)
        assert tool.TITLE
        try:
            assert tool.version()
        except Absent as why:
            assert str(why)
    with pytest.raises(ValueError, match="no tool is called 'luck': choose from bare_run, "):
        score.tool("luck")


def a_tool(seen: dict[str, Seen] | None) -> Any:
    def version() -> str:
        if seen is None:
            raise Absent("no such machine")
        return "1.0"

    return SimpleNamespace(
        TITLE="a tool", version=version, runs=lambda bug: bug is BUG,
        look=lambda bug, twin: (seen or {})[twin],
    )  # fmt: skip


def test_a_record_has_a_row_for_each_bug_and_keeps_what_an_absent_tool_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = {"broken": Seen(1, frozenset({BUG.number})), "fixed": Seen(1, frozenset())}
    told: list[str] = []
    monkeypatch.setattr(score, "tool", lambda name: a_tool(seen))
    before = score.measure(["one"], [BUG, bugs.bug("mailbox_overwritten")], told.append)
    assert told == ["a tool, lane_behind_the_copy: found, false alarm",
                    "a tool, mailbox_overwritten: –"]  # fmt: skip
    assert ("lane_behind_the_copy", "phase", "found, false alarm") in list(score.rows(before))
    assert list(score.sums(before)) == [("a tool", "1", "1", "0", "0", "1")]
    monkeypatch.setattr(score, "tool", lambda name: a_tool(None))
    now = score.measure(["one", "two"], [BUG], told.append)
    assert told[-1] == "a tool: no such machine"
    both = score.merged(before, now)
    assert both["tools"]["one"] == before["tools"]["one"]
    assert list(score.sums(both))[1] == ("a tool", *"–––––")


@pytest.mark.parametrize(
    ("twin", "named_under", "runs", "word"),
    [
        ("broken", 0, [1], "found"),
        ("broken", 3, [1, 50], "found"),
        ("broken", None, [1, 50], "other"),
        ("fixed", None, [50], "clean"),
        ("fixed", 3, [50], "false alarm"),
    ],
)
def test_the_first_seed_may_decide_of_a_broken_program_and_all_of_a_fixed_one(
    monkeypatch: pytest.MonkeyPatch, twin: str, named_under: int | None, runs: list[int], word: str
) -> None:
    asked = []

    def emulate(program: Path, *, schedule: str, seeds: int = 1) -> Any:
        asked.append(seeds)
        told = named_under is not None and named_under < seeds
        other = twin == "broken"
        return SimpleNamespace(
            findings=["one"] * (told or other), notes=(), result="right",
            lines=frozenset({BUG.number} if told else {BUG.number + 1} if other else ()),
        )  # fmt: skip

    monkeypatch.setattr(phasebit_random, "SEEDS", 50)
    monkeypatch.setattr(bugs, "emulate", emulate)
    monkeypatch.setattr(bugs.Bug, "build", lambda self, twin: Path(twin))
    seen = phasebit_random.look(BUG, twin)
    assert score.verdict(score.tool("phasebit_random"), BUG, twin, seen) == word
    assert asked == runs


def test_a_program_that_did_not_run_is_not_silent() -> None:
    for printed, status in (("right\n", 0), ("wrong: 3 of 40\n", 2)):
        assert ended(bugs.Outcome(printed, status, ())).status == status
    for printed in ("", "ImportError: no such module\n", "not right\n"):
        with pytest.raises(RuntimeError, match="came to no end"):
            ended(bugs.Outcome(printed, 1, ()))


def finished(stdout: str = "", *, stderr: str = "", status: int = 0, stopped: str = "") -> Finished:
    return Finished(stdout, stderr, status, 1.0, stopped)


def test_runs_are_counted_past_errors_and_given_up_where_they_do_not_end() -> None:
    ends = [
        finished("right\n" * 400 + "wrong: 3 of 40\n" * 100),
        finished("right\n" * 20, status=1),
        finished("right\n" * 479),
    ]
    asked = []

    def times(count: int) -> Finished:
        asked.append(count)
        return ends[len(asked) - 1]

    seen = bare_run.tally(times)
    assert asked == [500, 500, 479]
    assert seen == {"right": 899, "wrong": 100, "ended by an error": 1}
    hangs = bare_run.tally(lambda count: finished("right\n", stopped="time"))
    assert hangs == {"right": 2, "did not end": 2}


@pytest.mark.nvcc
def test_a_program_that_is_repeated_is_right_each_time() -> None:
    program = bare_run.build(BUG, "fixed", BUG.arch, emulated=True)
    done, told = apart.run([program, "3"], 60, 120)
    assert done.stdout.split() == ["right"] * 3 and not told.findings


SAID = "/x/gluon.py:{}: unknown: block: [0,0,0], thread: [3,0,0] Assertion `{}` failed."


@pytest.mark.parametrize(
    ("twin", "done", "word"),
    [
        ("broken", finished(stderr=SAID.format("{read}", "outstanding writes"), status=1), "found"),
        ("broken", finished(stderr=SAID.format("{store}", "more writes"), status=1), "found"),
        ("broken", finished(stderr=SAID.format("1", "outstanding reads"), status=1), "other"),
        ("broken", finished("right\n"), "silent"),
        ("broken", finished("wrong: 3 of 40\n", status=2), "silent"),
        ("broken", finished(stopped="time"), "other"),
        ("fixed", finished("right\n"), "clean"),
        ("fixed", finished(stderr=SAID.format("1", "outstanding reads"), status=1), "false alarm"),
    ],
)
def test_what_checks_in_a_kernel_say_is_read(twin: str, done: Finished, word: str) -> None:
    bug = bugs.bug("mailbox_overwritten")
    read, store = sorted(consan.numbers(bug))
    text = done.stderr.replace("{read}", str(read)).replace("{store}", str(store))
    seen = consan.judge(bug, replace(done, stderr=text))
    assert score.verdict(score.tool("consan"), bug, twin, seen) == word


def test_another_end_of_a_program_in_gluon_is_no_report() -> None:
    with pytest.raises(RuntimeError, match=r"gluon\.py ended with status 1: No module named torch"):
        consan.judge(BUG, finished(stderr="No module named torch", status=1))


def test_each_program_in_gluon_names_lines_of_its_own() -> None:
    written = [bug for bug in bugs.every() if consan.path(bug).is_file()]
    assert len(written) >= 9
    for bug in written:
        assert consan.numbers(bug), bug.name


def test_an_unknown_tool_or_bug_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "--tool", "luck"]) == 2
    assert main(["score", "--tool", "phasebit_late", "slip"]) == 2
    assert capsys.readouterr().err.count("choose from") == 2


def test_the_page_names_the_programs_that_no_gpu_has_run() -> None:
    record = score.read()
    assert not {bug.name for bug in score_page.unasked(record)} & {
        of for of, row in record["tools"]["bare_run"]["bugs"].items() if row
    }
    rows = {bug.name: {"broken": "silent"} for bug in bugs.every() if bug is not BUG}
    assert score_page.unasked({"tools": {"bare_run": {"bugs": rows}}}) == [BUG]


def test_the_page_shows_the_record() -> None:
    text = score_page.PAGE.read_text(encoding="utf-8")
    assert score_page.written(text, score.read()) == text, "run tools/score_page.py"
    with pytest.raises(ValueError, match="no place for sums"):
        score_page.written("", score.read())


def test_the_emulator_finds_nearly_all_and_accuses_no_repaired_program() -> None:
    record = score.read()
    for name in ("phasebit_late", "phasebit_random", "phasebit_every"):
        rows = record["tools"][name]["bugs"]
        assert rows.keys() == set(bugs.names())
        assert {row["fixed"] for row in rows.values()} == {"clean"}
        wanted = [bug for bug in bugs.every() if bug.line]
        found = [bug for bug in wanted if rows[bug.name]["broken"] == "found"]
        assert len(found) >= 0.95 * len(wanted)


def test_the_search_of_every_order_ends_within_a_minute_for_at_least_thirty() -> None:
    """A program has less than a minute for it, and what was stopped says that it is incomplete."""
    assert phasebit_every.SECONDS < 60
    rows = score.read()["tools"]["phasebit_every"]["bugs"].values()
    for twin in bugs.TWINS:
        notes = [row[f"note {twin}"].split("; ") for row in rows]
        whole = [all(head.startswith(phasebit_every.COMPLETE) for head in note) for note in notes]
        assert sum(whole) >= 30


def test_a_search_that_was_stopped_is_not_counted_as_complete() -> None:
    rows = {
        "one": {"note broken": "complete: 2 orders run", "note fixed": "complete: 1 order run"},
        "two": {"note broken": "complete: 1 order run; incomplete: 9 orders run",
                "note fixed": "incomplete: 9 orders run"},
        "three": {"note fixed": "complete: 1 order run; complete: 1 order run"},
    }  # fmt: skip
    record = {"tools": {"phasebit_every": {"title": "phasebit, every", "bugs": rows}}}
    said = score_page.orders(record)
    assert "complete for 1 of 3 broken programs and 2 of 3 fixed programs." in said
    assert "For 0 of the broken programs that is a single order" in said
    rows["three"]["note broken"] = "complete: 1 order run"
    assert "For 1 of the broken programs" in score_page.orders(record)


def test_what_a_tool_says_of_its_runs_is_kept() -> None:
    seen = {"broken": Seen(1, frozenset({BUG.number}), note="complete: 2 orders run"),
            "fixed": Seen(0, frozenset(), note="complete: 1 order run")}  # fmt: skip
    assert score.judge(a_tool(seen), BUG) == {
        "broken": "found", "fixed": "clean", "lines": [BUG.number],
        "note broken": "complete: 2 orders run",
        "note fixed": "complete: 1 order run",
    }  # fmt: skip
