"""Findings as JUnit's XML: counts, names, what XML cannot say."""

from __future__ import annotations

from xml.etree import ElementTree as xml

import pytest

from phasebit.emulator.findings import Call, Finding, Place, say
from phasebit.runtime import junit
from phasebit.runtime.report import End

AT = Place(20, "ld", "scan.cuh", (Call(12),))
RACE = Finding("race", say("one {}", AT), AT, kernel="scan", launch=1)
HOST = Finding("program", say("first\nsecond \x00\x1f\ufffe\N{GREEK SMALL LETTER MU}"))


def suite_of(*findings: Finding, end: End | None = None) -> xml.Element:
    text = junit.suites("/a/program", findings, end or End(0))
    assert text.startswith("<?xml version") and text.endswith("</testsuites>\n")
    root = xml.fromstring(text)
    (suite,) = root
    assert root.get("name") == "phasebit" and suite.get("name") == "program"
    assert [root.get(each) for each in ("tests", "failures", "errors", "skipped")] == [
        suite.get(each) for each in ("tests", "failures", "errors", "skipped")
    ]
    return suite


@pytest.mark.parametrize(("end", "says"), [
    (End(3), "the program ended with status 3"),
    (End(139, "SIGSEGV"), "the program died of SIGSEGV"),
    (End(124, limit=2.5), "the program was ended after 2.5 s"),
    (End(124, "SIGKILL", 60.0), "the program was ended after 60 s"), (End(0), None),
])  # fmt: skip
def test_the_programs_end_is_a_case(end: End, says: str | None) -> None:
    suite = suite_of(end=end)
    (case,) = suite
    assert (case.get("classname"), case.get("name")) == ("program", "the program's end")
    assert [(each.tag, each.get("type"), each.get("message")) for each in case] == (
        [("error", "end", says)] if says else []
    )
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors"), suite.get("skipped")) \
        == ("1", "0", "1" if says else "0", "0")  # fmt: skip


def test_each_site_is_a_case_with_its_count() -> None:
    suite = suite_of(RACE, HOST, RACE)
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "2", "0")
    _, race, host = suite
    assert (race.get("classname"), race.get("name")) == ("program.scan", "race at scan.cuh:12")
    assert (host.get("classname"), host.get("name")) == ("program", "program")
    (failure,) = race
    text = "kernel scan: race: one PTX line 20 (scan.cuh:12)"
    assert (failure.get("type"), failure.get("message")) == ("race", text)
    assert failure.text == f"{text}\n2 times"


def test_what_xml_cannot_say_is_a_question_mark() -> None:
    (failure,) = suite_of(HOST)[1]
    assert failure.get("message") == "first"
    assert failure.text == "first\nsecond ???\N{GREEK SMALL LETTER MU}"


def test_a_program_s_name_may_be_anything() -> None:
    root = xml.fromstring(junit.suites("/a/\x01\udcff<&\n", [RACE], End(0)))
    assert root[0].get("name") == "??<&\n" and root[0][1].get("classname") == "??<&\n.scan"
