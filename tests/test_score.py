"""What a score says of a tool, and that the page of the book shows the record."""

from __future__ import annotations

import re
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
from phasebit.score import Absent, Seen, on_a_gpu
from phasebit.score.on_the_emulator import commit, ended
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
        ("broken", None, set(), "did not end"),
        ("fixed", None, set(), "did not end"),
    ],
)
def test_one_word_for_what_a_tool_says(
    twin: str, reports: int | None, lines: set[int], word: str
) -> None:
    seen = Seen(reports or 0, frozenset(lines), ended=reports is not None)
    assert score.verdict(a_tool({}), BUG, twin, seen) == word


def test_a_tool_that_says_nothing_of_a_program_that_hangs_has_reported_nothing() -> None:
    hangs = on_a_gpu.seen({"verdict": "hangs", "said": [], "lines": []})
    assert (hangs.reports, hangs.ended) == (0, False)
    found = on_a_gpu.seen({"verdict": "found", "said": ["a hazard"], "lines": [7]})
    assert found == Seen(1, frozenset({7}), "a hazard")
    placeless = on_a_gpu.seen({"verdict": "said", "said": ["an error"], "lines": []})
    assert (placeless.reports, placeless.said) == (1, "an error")
    assert on_a_gpu.seen({"verdict": "nothing", "said": [], "lines": []}) == Seen(0, frozenset())


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
    assert list(score.sums(before)) == [("a tool", "1", "1", "0", "0", "0", "1")]
    monkeypatch.setattr(score, "tool", lambda name: a_tool(None))
    now = score.measure(["one", "two"], [BUG], told.append)
    assert told[-1] == "a tool: no such machine"
    both = score.merged(before, now)
    assert both["tools"]["one"] == before["tools"]["one"]
    assert list(score.sums(both))[1] == ("a tool", *"––––––")


def test_a_row_keeps_its_day_and_the_version_that_made_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {"broken": Seen(1, frozenset({BUG.number})), "fixed": Seen(0, frozenset())}
    tool = a_tool(seen)
    monkeypatch.setattr(score, "tool", lambda name: tool)
    before = score.measure(["one"], [BUG, bugs.bug("mailbox_overwritten")], lambda _: None)
    row = before["tools"]["one"]["bugs"][BUG.name]
    assert row["date"] == before["tools"]["one"]["date"] and "commit" not in row
    del row["date"]
    before["tools"]["one"]["date"] = "2026-01-02"
    tool.commit, tool.version = lambda: "12345", lambda: "2.0"
    tool.runs = lambda bug: bug.name == "mailbox_overwritten"
    now = score.measure(["one"], [bugs.bug("mailbox_overwritten")], lambda _: None)
    rows = score.merged(before, now)["tools"]["one"]["bugs"]
    assert (rows[BUG.name]["date"], rows[BUG.name]["version"]) == ("2026-01-02", "1.0")
    assert rows["mailbox_overwritten"]["commit"] == "12345"
    assert rows["mailbox_overwritten"]["date"] > "2026-01-02"
    again = score.merged({"tools": {"one": now["tools"]["one"] | {"bugs": rows}}}, now)
    assert again["tools"]["one"]["bugs"][BUG.name] == rows[BUG.name]


def test_the_commit_of_the_emulator_is_that_of_its_files() -> None:
    assert re.fullmatch(r"([0-9a-f]{9}\+?)?", commit())


@pytest.mark.parametrize(
    ("twin", "named_under", "word"),
    [
        ("broken", 50, "found"),
        ("broken", 3, "found"),
        ("broken", 0, "other"),
        ("fixed", 0, "clean"),
        ("fixed", 3, "false alarm"),
    ],
)
def test_all_seeds_are_run_and_those_that_show_it_are_counted(
    monkeypatch: pytest.MonkeyPatch, twin: str, named_under: int, word: str
) -> None:
    def emulate(program: Path, *, schedule: str, seeds: int) -> Any:
        assert (schedule, seeds) == ("random", 50)
        other = twin == "broken"
        return SimpleNamespace(
            findings=["one"] * (other or named_under > 0), result="right",
            notes=(f"seeds 0 to 49: found something under {named_under}, first under 4",),
            lines=frozenset({BUG.number} if named_under else {BUG.number + 1} if other else ()),
        )  # fmt: skip

    monkeypatch.setattr(phasebit_random, "SEEDS", 50)
    monkeypatch.setattr(bugs, "emulate", emulate)
    monkeypatch.setattr(bugs.Bug, "build", lambda self, twin: Path(twin))
    seen = phasebit_random.look(BUG, twin)
    assert score.verdict(score.tool("phasebit_random"), BUG, twin, seen) == word
    assert seen.facts.keys() == {"seeds", "seconds"} and seen.facts["seeds"] == named_under


def test_how_the_orders_end_is_read_from_what_a_search_says() -> None:
    notes = [
        "every order of f: complete: 18 orders run, all that make a difference\n"
        "8 come to their end, 1 ends with deadlock, 9 end with too-many-arrivals\n"
        "found, after 3 steps: deadlock: …\n  block 0  f.cu:3",
        "every order of g: incomplete: 1,024 orders run in 45 s, then stopped: the bound is 45 s",
        "every order of h: complete: 1 order run, all that make a difference; nothing found",
    ]
    assert phasebit_every.ends(notes) == {"deadlock": 1, "end": 1033, "too-many-arrivals": 9}


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


_WORDS = ("right", "wrong", "never", "a failed launch")


def test_what_is_written_of_a_test_of_results_is_what_the_record_has() -> None:
    """A text of ``bug.toml`` that says it in its first word: where nobody else saw it elsewhere."""
    seen = 0
    for name, row in score.read()["tools"]["bare_run"]["bugs"].items():
        test = bugs.bug(name).test
        word = next((word for word in _WORDS if test.startswith(word)), "")
        if not row or not word or "as reported" in test.split(";")[0]:
            continue
        note = row["note broken"]
        share = {
            what: int(count) / int(of)
            for what, count, of in re.findall(r"([a-z][a-z ]+): (\d+) of (\d+)", note)
        }
        seen += 1
        if word == "right":
            assert share.get("right", 0) == 1, f"{name}: {test}, but {note}"
        elif word == "wrong":
            assert share.keys() & {"wrong", "ended by an error"}, f"{name}: {note}"
        else:
            what = "did not end" if word == "never" else "ended by an error"
            assert what in note, f"{name}: {test}, but {note}"
    assert seen >= 20


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
        ("broken", finished(stopped="time"), "did not end"),
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
    with pytest.raises(ValueError, match="no place for result"):
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


def a_record(**tools: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """One in which every tool of the page has a title, a day, and these rows."""
    names = (*score_page.EMULATOR, *score_page.SANITIZER, score_page.BARE, "consan")
    return {"tools": {
        name: {"title": name, "version": "1.0", "date": "2026-01-02", "bugs": tools.get(name, {})}
        for name in names
    }}  # fmt: skip


def test_the_page_begins_with_what_came_out() -> None:
    one, two = "mailbox_overwritten", "parity_of_the_loop"
    found, silent = {"broken": "found", "fixed": "clean"}, {"broken": "silent", "fixed": "clean"}
    theirs = {name: {one: silent, two: silent} for name in score_page.SANITIZER}
    theirs["racecheck"] = {one: found | {"fixed": "false alarm"}, two: silent}
    said = score_page.result(a_record(
        phasebit_late={one: found, two: found}, bare_run={one: silent, two: found},
        consan={two: found}, **theirs))  # fmt: skip
    assert f"names the line in 2 of {len(bugs.every())} broken programs" in said
    assert "2 ran on a GPU" in said and "name the line in 1 of them" in said
    assert "ConSan does in 1 of the 1 that" in said
    assert "1 of 2 broken programs print `right` every time" in said
    assert "the emulator reports none; racecheck 1." in said
    ours = score_page.result(a_record(phasebit_every={one: found | {"fixed": "false alarm"}}))
    assert "the emulator reports 1." in ours


def test_the_page_has_the_ways_to_run_the_emulator_first_and_a_new_tool_last() -> None:
    tools = {name: {} for name in ("another", "consan", "phasebit_every", "phasebit_late")}
    assert list(score_page.in_order({"tools": tools})["tools"]) == [
        "phasebit_late", "phasebit_every", "consan", "another"]  # fmt: skip


def test_what_no_tool_finds_is_listed_and_what_one_alone_does_is_counted_by_kind() -> None:
    one, two = "mailbox_overwritten", "parity_of_the_loop"
    found, silent = {"broken": "found", "fixed": "clean"}, {"broken": "silent", "fixed": "clean"}
    record = a_record(
        phasebit_late={one: found, two: found}, racecheck={one: found, two: silent})  # fmt: skip
    said = score_page.unseen(record)
    assert f"`{one}`" not in said and f"`{two}`" not in said
    assert said.count("- `") == len(bugs.every()) - 2
    assert "1 are named by the emulator alone. By kind: phase 1." in score_page.alone(record)


def test_a_row_says_each_verdict_once_with_its_days() -> None:
    row = {"broken": "found", "fixed": "clean", "date": "2026-02-03"}
    other = {"broken": "silent", "fixed": "false alarm"}
    of = {name: {BUG.name: row} for name in score_page.EMULATOR}
    said = score_page.said(BUG, a_record(racecheck={BUG.name: other}, **of))
    days = "2026-01-02, 2026-02-03"
    assert said == f"found: phasebit; silent: racecheck; false alarm: racecheck ({days})"
    del of["phasebit_every"]
    assert score_page.said(BUG, a_record(**of)) == (
        "found: phasebit_late, phasebit_random (2026-02-03)"
    )
    note = {BUG.name: row | {"note broken": "right: 9 of 9"}}
    assert score_page.tried(BUG, a_record(bare_run=note)) == "; here right 9 of 9"
    assert score_page.tried(BUG, a_record()) == ""


def test_a_bug_comes_with_its_threads_days_and_lines() -> None:
    bug = bugs.bug("output_copied_too_soon")
    said = score_page.origin(bug)
    assert said.startswith("confirmed: [Dao-AILab/flash-attention#1344](https://github.com/")
    assert "issues/1344), 2024-11-20; [flash-attention, epilogue_fwd_sm90_tma.hpp](" in said
    assert score_page.origin(replace(bug, thread=(), dates=(), source=())) == "confirmed"


def test_times_and_versions_are_those_of_the_rows() -> None:
    rows = {"one": {"broken": "found", "seconds broken": 1.0, "seconds fixed": 3.0},
            "two": {"broken": "found", "date": "2026-02-03", "version": "0.9"},
            "three": {}}  # fmt: skip
    record = a_record(racecheck=rows)
    assert "| racecheck | 2 | 2.0 | 3.0 | 4 |" in score_page.cost(record)
    assert score_page.cost(record).count("\n") == 2
    assert "0.0 s in one run on the emulator, and 0.0 to 2.0 s under" in score_page.in_short(record)
    assert "| racecheck | 0.9 | 2026-02-03: 1 |" in score_page.versions(record)
    assert "| racecheck | 1.0 | 2026-01-02: 1 |" in score_page.versions(record)


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
