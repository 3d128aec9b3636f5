"""Findings as SARIF: levels, places, fingerprints, paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import phasebit
from phasebit.emulator import rulebook
from phasebit.emulator.findings import Call, Finding, Place, Threads, Wait, say
from phasebit.runtime import sarif
from phasebit.runtime.report import End

AT = Place(20, "ld", "scan.cuh", (Call(41), Call(12, 5, "wait")))
OTHER = Place(9, "st", "scan.cuh", (Call(30),))
BARE = Place(3, "bar.sync")
RACE = Finding("race", say("reads {}, written {} {}", AT, OTHER, BARE), AT, kernel="scan", launch=1)
LEFT = Finding("bulk-in-flight-at-exit", say("it leaves at {}", OTHER), kernel="copy")
HOST = Finding("program", say("no line"))


def run_of(*findings: Finding, end: End | None = None) -> dict[str, Any]:
    log = sarif.log("/a/b/program", findings, end or End(0))
    assert log["$schema"] == sarif.SCHEMA and log["version"] == "2.1.0"
    (one,) = log["runs"]
    return dict(one)


@pytest.mark.parametrize(("end", "says"), [
    (End(0), {"executionSuccessful": True, "exitCode": 0}),
    (End(3), {"executionSuccessful": False, "exitCode": 3}),
    (End(139, "SIGSEGV"),
     {"executionSuccessful": False, "exitCode": 139, "exitSignalName": "SIGSEGV"}),
])  # fmt: skip
def test_how_the_program_ended(end: End, says: dict[str, object]) -> None:
    one = run_of(end=end)
    assert one["invocations"] == [says] and one["results"] == []
    assert one["automationDetails"] == {"id": "phasebit/program"}
    assert one["columnKind"] == "utf16CodeUnits"
    assert one["tool"]["driver"] == {
        "name": "phasebit", "version": phasebit.__version__, "rules": []
    }  # fmt: skip


def test_rules_are_described_once_and_results_name_them() -> None:
    one = run_of(RACE, LEFT, RACE, HOST)
    rules = one["tool"]["driver"]["rules"]
    assert [each["id"] for each in rules] == ["bulk-in-flight-at-exit", "program", "race"]
    assert [(each["ruleId"], each["ruleIndex"], each["occurrenceCount"])
            for each in one["results"]] == [
        ("race", 2, 2), ("bulk-in-flight-at-exit", 0, 1), ("program", 1, 1),
    ]  # fmt: skip
    rule = rulebook.rule("race")
    assert rules[2] == {
        "id": "race",
        "shortDescription": {"text": rule.sentence},
        "fullDescription": {"text": f"{rule.sentence} {rule.source}."},
        "defaultConfiguration": {"level": "error"},
        "properties": {"kind": "race", "grade": rulebook.CAN_CORRUPT},
    }
    assert rules[0]["defaultConfiguration"] == {"level": "warning"}
    assert [each["level"] for each in one["results"]][:2] == ["error", "warning"]


def test_a_place_is_the_line_that_noticed_and_others_are_related() -> None:
    (result,) = run_of(RACE)["results"]
    where = [{"fullyQualifiedName": "scan", "kind": "function"}]

    def location(**region: int) -> dict[str, object]:
        return {"artifactLocation": {"uri": "scan.cuh"}, "region": region}

    assert result["locations"] == [
        {"physicalLocation": location(startLine=12, startColumn=5), "logicalLocations": where}
    ]
    assert result["relatedLocations"] == [
        {"id": 1, "physicalLocation": location(startLine=30), "logicalLocations": where}
    ]
    assert result["message"]["text"].startswith("kernel scan: race: reads ")
    (key,) = result["partialFingerprints"].items()
    assert key[0] == "site/v1" and len(key[1]) == 32


def test_without_lines_there_are_no_places() -> None:
    for finding in (HOST, Finding("race", say("{}", BARE), BARE)):
        (result,) = run_of(finding)["results"]
        assert result["locations"] == [] and "relatedLocations" not in result
    (result,) = run_of(LEFT)["results"]
    assert "relatedLocations" not in result
    (result,) = run_of(Finding("race", say("{}", AT)))["results"]
    assert "logicalLocations" not in result["locations"][0]


def test_a_deadlock_is_where_its_threads_wait() -> None:
    threads = Threads.of(0, [0], 32)
    waits = tuple(Wait(threads, "full", place, "") for place in (AT, None, OTHER, AT))
    (result,) = run_of(Finding("deadlock", say("all wait"), None, waits, "ring"))["results"]
    lines = [each["physicalLocation"]["region"]["startLine"]
             for each in (*result["locations"], *result["relatedLocations"])]  # fmt: skip
    assert lines == [12, 30]


def test_fingerprints_are_those_of_sites() -> None:
    moved = Finding("race", say("{}", OTHER), OTHER, kernel="scan")
    one, two = run_of(RACE, moved)["results"]
    again = run_of(
        Finding("race", say("other words: {} {} {}", AT, OTHER, BARE), AT, kernel="scan")
    )
    assert one["partialFingerprints"] != two["partialFingerprints"]
    assert again["results"][0]["partialFingerprints"] == one["partialFingerprints"]


def test_paths_count_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    monkeypatch.chdir(inside)
    for path, uri in (
        ("a.cu", "a.cu"), ("./b/../a.cu", "a.cu"), (f"{inside}/b/a 50%.cu", "b/a%2050%25.cu"),
        (f"{tmp_path}/x.cu", (tmp_path / "x.cu").as_uri()), ("..x.cu", "..x.cu"),
        ("../x.cu", (tmp_path / "x.cu").as_uri()), ("a#b?[c].cu", "a%23b%3F%5Bc%5D.cu"),
        ("größe.cu", "gr%C3%B6%C3%9Fe.cu"), ("c:a.cu", "c%3Aa.cu"), ("\udcff.cu", "%FF.cu"),
    ):  # fmt: skip
        place = Place(1, "ld", "name.cu", (Call(1),), path)
        (result,) = run_of(Finding("race", say("{}", place), place))["results"]
        location = result["locations"][0]["physicalLocation"]["artifactLocation"]
        assert location == {"uri": uri}


def test_paths_where_the_current_folder_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for path, uri in (("/a/b c.cu", "file:///a/b%20c.cu"), ("b c.cu", "b%20c.cu")):
        place = Place(1, "ld", "name.cu", (Call(1),), path)
        (result,) = run_of(Finding("race", say("{}", place), place))["results"]
        assert result["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": uri}
