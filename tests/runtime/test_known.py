"""Known findings: suppressed by rule and place, or kept in a baseline; what is left counts."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from phasebit.emulator import rulebook
from phasebit.emulator.digest import site_of
from phasebit.emulator.findings import Call, Finding, Place, Sentence, Threads, Wait, say
from phasebit.runtime.known import (
    KnownError,
    Sieve,
    Suppression,
    baseline,
    suppressions,
    write_baseline,
)
from phasebit.runtime.report import End, ForPeople

AT = Place(20, "ld", "scan.cuh", (Call(41), Call(12, 5, "wait")))
OTHER = Place(9, "st", "scan.cuh", (Call(30),))
RACE = Finding("race", say("reads {}, written {}", AT, OTHER), AT, kernel="scan<4>", launch=1)
LEFT = Finding("bulk-in-flight-at-exit", say("it leaves at {}", OTHER), OTHER, kernel="copy")
DEAD = Finding(
    "deadlock", say("all wait"), None, (Wait(Threads.of(0, [0], 32), "full", AT, ""),), "ring"
)


@pytest.mark.parametrize("text", [
    "race", "r*", "*", "race@scan.cuh", "race@scan.cuh:12", "race@scan.cuh:41", "race@scan.cuh:30",
    "race@wait", "race@scan<4>", "race@scan*", " race@*.cuh ",
])  # fmt: skip
def test_a_suppression_matches(text: str) -> None:
    assert Suppression.of(text).matches(RACE)


@pytest.mark.parametrize("text", [
    "deadlock", "race@scan.cu", "race@scan.cuh:13", "race@copy", "race-in-one-store", "no-promise",
])  # fmt: skip
def test_a_suppression_does_not_match(text: str) -> None:
    assert not Suppression.of(text).matches(RACE)


def test_a_grade_stands_for_its_rules_and_a_deadlock_has_the_places_of_its_waits() -> None:
    assert Suppression.of("no-promise").matches(LEFT)
    assert rulebook.rule(LEFT.rule).grade == rulebook.NO_PROMISE
    assert Suppression.of("deadlock@scan.cuh:12").matches(DEAD)
    assert not Suppression.of("deadlock@scan.cuh:13").matches(DEAD)


@pytest.mark.parametrize(("text", "says"), [("rase", "'rase' is no rule"), ("race@", "say where")])
def test_a_suppression_that_cannot_be(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(KnownError, match=f"--suppress {text}: {says}"):
        Suppression.of(text)
    file = tmp_path / "file"
    file.write_text(f"# a comment\nrace  # as known\n\n{text}\n")
    with pytest.raises(KnownError, match=f"file:4: .*{says}"):
        suppressions([], [str(file)])


def test_a_file_of_suppressions(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("# a comment\nrace@a.cu:3  # as known\n\n  deadlock\n")
    assert [each.text for each in suppressions(["trap"], [str(file)])] == [
        "trap", "race@a.cu:3", "deadlock"
    ]  # fmt: skip
    with pytest.raises(KnownError, match="cannot read"):
        suppressions([], [str(tmp_path / "none")])


def told(*findings: Finding, hidden: tuple[str, ...] = (), known: Path | None = None) -> list[str]:
    log = io.StringIO()
    sieve = Sieve(
        ForPeople(log), suppressions(hidden, []), baseline(str(known)) if known else frozenset()
    )
    sieve.found(findings)
    sieve.ended(End(0), None)
    lines = [line.removeprefix("phasebit: ") for line in log.getvalue().splitlines()]
    return [*lines, str(sieve.new)]


def test_suppressed_findings_are_counted_and_not_told() -> None:
    assert told(RACE, RACE, LEFT, hidden=("race", "no-promise")) == ["3 findings suppressed", "0"]


def test_a_suppression_that_matches_nothing_is_said() -> None:
    assert told(LEFT, hidden=("race@scan.cuh:12",)) == [
        "kernel copy: async: it leaves at PTX line 9 (scan.cuh:30)",
        "suppression race@scan.cuh:12 matches nothing", "1",
    ]  # fmt: skip


def test_a_baseline_holds_what_was_found_and_no_more(tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    write_baseline(str(file), [site_of(RACE), site_of(RACE), site_of(DEAD)])
    assert baseline(str(file)) == {site_of(RACE), site_of(DEAD)}
    assert str(tmp_path) not in file.read_text()
    moved = Finding("race", Sentence(("elsewhere",)), OTHER, kernel="scan<4>", launch=1)
    assert told(RACE, moved, known=file) == [
        "kernel scan<4>: race: elsewhere", "1 finding known from the baseline",
        "1 entry of the baseline not found in this run", "1",
    ]  # fmt: skip


@pytest.mark.parametrize("text", [
    "", "[]", '{"version": 0, "findings": []}',
    '{"version": 2, "findings": []}', '{"version": 1, "findings": [{"rule": "rase"}]}',
    '{"version": 1, "findings": [{"rule": "rase", "kernel": "", "lines": []}]}',
    '{"version": 1, "findings": [{"rule": "race", "kernel": "", "lines": [["a", Infinity]]}]}',
    "[" * 100_000,
])  # fmt: skip
def test_what_is_no_baseline_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    file.write_text(text)
    with pytest.raises(KnownError, match="is no baseline of this version: write it anew"):
        baseline(str(file))


@pytest.mark.parametrize(("text", "matches"), [
    ("race@a.cu", True), ("race@a.cu:1", True), ("race@f", True), ("race@a.cu:2", True),
    ("race@a.cu:3", True), ("race@b.cu", False), ("race@:7", False), ("race@", None),
])  # fmt: skip
def test_a_suppression_looks_at_all_places_whose_lines_are_known(
    text: str, matches: bool | None
) -> None:
    unknown = Place(7, "ld")  # PTX alone
    sentence = say("{} {}", unknown, Place(8, "ld", "a.cu", (Call(1, 0, "f"), Call(2))))
    one = Finding("race", sentence, Place(9, "st", "a.cu", (Call(3),)))
    if matches is None:
        with pytest.raises(KnownError, match=r"^--suppress race@: say where, as race@kernel.cu:12, "
                                             r"or leave @ out$"):  # fmt: skip
            Suppression.of(text)
        return
    assert Suppression.of(text).matches(one) == matches


def test_what_begins_a_comment_and_what_does_not(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("#race\nrace@a#b.cu\nrace@c.cu\t# why\n \n")
    assert [each.text for each in suppressions([], [str(file)])] == ["race@a#b.cu", "race@c.cu"]


def test_several_suppressions_of_one_finding_all_match_and_count_it_once() -> None:
    assert told(RACE, hidden=("race", "race@wait")) == ["1 finding suppressed", "0"]


def test_where_a_kernel_stood_is_a_finding_like_others(tmp_path: Path) -> None:
    standing = Finding("time-limit", say("was running"), kernel="k")
    for hidden, new, said in (((), 1, 1), (("time-limit",), 0, 0)):
        log = io.StringIO()
        sieve = Sieve(ForPeople(log), suppressions(hidden, []))
        sieve.ended(End(124, limit=1.0), standing)
        assert (sieve.new, log.getvalue().count("was running")) == (new, said)
        assert sieve.sites == ({site_of(standing)} if new else set())
    assert sieve.apart


def test_entries_of_a_baseline_that_were_not_found_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    write_baseline(str(file), [site_of(RACE), site_of(LEFT), site_of(DEAD)])
    assert told(RACE, RACE, known=file) == [
        "2 findings known from the baseline",
        "2 entries of the baseline not found in this run", "0",
    ]  # fmt: skip
    assert told(RACE, LEFT, DEAD, known=file) == ["3 findings known from the baseline", "0"]


def test_a_baseline_that_cannot_be_written(tmp_path: Path) -> None:
    where = tmp_path / "none" / "file"
    with pytest.raises(KnownError, match=f"^cannot write {where}: No such file or directory$"):
        write_baseline(str(where), [])


def test_the_form_of_a_baseline(tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    write_baseline(str(file), [("race", "k", (("\N{GREEK SMALL LETTER MU}.cu", 3), ("PTX", 2)))])
    lines = [["\N{GREEK SMALL LETTER MU}.cu", 3], ["PTX", 2]]
    assert json.loads(file.read_text(encoding="utf-8")) == {
        "version": 1, "findings": [{"rule": "race", "kernel": "k", "lines": lines}],
    }  # fmt: skip
    text = file.read_text(encoding="utf-8")
    assert "\N{GREEK SMALL LETTER MU}" in text and text.startswith('{\n "version": 1,\n "find')


def test_counters_and_notes_go_through_a_sieve() -> None:
    log = io.StringIO()
    sieve = Sieve(ForPeople(log))
    sieve.counted("k", 1, {"a": 1})
    sieve.note("n")
    sieve.ended(End(0), None)
    assert log.getvalue() == (
        "phasebit: n\nphasebit: kernel k, 1 launch:\nphasebit:                1  a\n"
    )
