"""The bugs that people had: every broken program is told apart from its fixed twin."""

from __future__ import annotations

import functools
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from phasebit import bugs, files, hardware
from phasebit.emulator import Finding
from tests.kernels import targets

ALL = bugs.every()
FOUND = [bug for bug in ALL if bug.line]
COMMON = (
    ("proxy",), ("scope",), ("tensor memory",), ("reuse",), ("phase", "count"),
    ("between kernels",), ("hand-over",),
)  # fmt: skip
NO_SENTENCE = {
    "expect_without_load", "one_row_too_many", "rows_without_a_warp", "scales_of_a_slice",
    "swapped_extents", "unwritten_accumulator",
}  # fmt: skip
"""Those that no sentence of the PTX ISA makes a mistake."""
STATES = ("found here", "proposed", "confirmed", "closed", "fixed")
AT_ONCE = 4
"""Bugs whose programs are compiled as one: most of the time goes into what all of them include."""


def kin(bug: bugs.Bug) -> list[str]:
    """The architecture of a bug, and what its programs include."""
    return [bug.arch, *sorted(re.findall("^#include .*$", bug.text("broken"), re.MULTILINE))]


@functools.cache
def built(names: tuple[str, ...]) -> Path:
    """Both programs of some bugs that are of a kin, as one that is told which of them to be."""
    texts = {f"{name}_{twin}": bugs.bug(name).text(twin) for name in names for twin in bugs.TWINS}
    choices = (f'if (!std::strcmp(words[1], "{each}")) return {each}::main();' for each in texts)
    main = "\n".join(["int main(int, char** words) {", *choices, "return 1;", "}\n"])
    whole = f"#include <cstring>\n{targets.together(texts)}{main}"
    return bugs.build(whole, "bugs.cu", bugs.bug(names[0]).arch)


def emulate(bug: bugs.Bug, twin: str, **options: Any) -> bugs.Outcome:
    """Run one of a bug's programs on the emulator, all checks on."""
    akin = [each.name for each in ALL if kin(each) == kin(bug)]
    first = akin.index(bug.name) // AT_ONCE * AT_ONCE
    program = built(tuple(akin[first : first + AT_ONCE]))
    return bugs.emulate(program, f"{bug.name}_{twin}", **options)


def test_every_folder_is_a_bug_with_its_two_programs() -> None:
    folders = {path.name for path in files.bugs().iterdir() if path.is_dir()} - {"include"}
    assert folders == set(bugs.names())
    assert all(bug.path(twin).is_file() for bug in ALL for twin in bugs.TWINS)


@pytest.mark.parametrize("bug", ALL, ids=lambda bug: bug.name)
def test_it_is_told_whole(bug: bugs.Bug) -> None:
    for text in (bug.title, bug.test, bug.isa, bug.repair, *bug.where):
        assert text and not text.endswith("."), text
    assert all(re.match(r"https://github\.com/.+/blob/[0-9a-f]{40}/", it) for it in bug.source)
    assert all(re.match(r"https://github\.com/.+/(issues|pull)/\d+$", it) for it in bug.thread)
    assert bug.state in STATES and bool(bug.thread) == (bug.state != "found here")
    assert len(bug.dates) == len(bug.thread)
    assert all(re.match(r"20\d\d-\d\d(-\d\d)?$", it) and it[:7] <= bug.read for it in bug.dates)
    assert bug.text("broken").startswith("//") and bug.repaired
    assert all(len(bug.text(twin).splitlines()) <= 120 for twin in bugs.TWINS)
    assert bool(bug.number) == bool(bug.line)


@pytest.mark.parametrize("bug", ALL, ids=lambda bug: bug.name)
def test_it_quotes_the_isa(bug: bugs.Bug) -> None:
    assert bool(bug.quote) == bool(bug.section) == (bug.name not in NO_SENTENCE)
    if bug.quote:
        assert re.match(r"\d+(\.\d+)+$", bug.section) and len(bug.quote) < 340
        assert bug.quote in bug.report and f"section {bug.section}" in bug.report


def test_there_are_at_least_fifty_five_and_five_of_each_common_kind() -> None:
    count = Counter(bug.kind for bug in ALL)
    assert len(ALL) >= 55
    for kinds in COMMON:
        assert sum(count[kind] for kind in kinds) >= 5, kinds


@pytest.mark.parametrize("kind", bugs.KINDS)
def test_every_kind_has_a_bug(kind: str) -> None:
    assert any(bug.kind == kind for bug in ALL)


def test_a_thread_that_is_said_to_have_no_folder_has_none() -> None:
    text = (files.bugs() / "README.md").read_text(encoding="utf-8")
    (told,) = re.findall(r"that have no folder: (.*?)\. ", text)
    assert re.fullmatch(r"[\w-]+/[\w.-]+#\d+(, [\w-]+/[\w.-]+#\d+)*", told)
    have = {re.sub(r".*github.com/(.+)/(?:issues|pull)/", r"\1#", at)
            for bug in ALL for at in bug.thread}  # fmt: skip
    assert "NVIDIA/Fuser#3680" in have and not have & set(told.split(", "))


def test_a_name_that_none_has_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="'slip': choose from address_read_without_order, "):
        bugs.bug("slip")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('kind = "reuse"', 'kind = "luck"'), "no kind is called 'luck': choose from exit"),
        (('arch = "sm_75"\n', ""), "arch"),
        (('title = "', 'titel = "'), "titel"),
    ],
)
def test_a_description_that_is_off_is_refused(
    change: tuple[str, str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "slip"
    folder.mkdir()
    text = (files.bugs() / "reduction_scratch_reused" / "bug.toml").read_text(encoding="utf-8")
    (folder / "bug.toml").write_text(text.replace(*change), encoding="utf-8")
    monkeypatch.setattr(files, "bugs", lambda: tmp_path)
    with pytest.raises(ValueError, match=said):
        bugs.bug("slip")


@pytest.mark.nvcc
@pytest.mark.parametrize("bug", FOUND, ids=lambda bug: bug.name)
def test_the_broken_program_is_found_with_its_line(bug: bugs.Bug) -> None:
    seen = emulate(bug, "broken")
    assert seen.said(bug), seen.printed


@pytest.mark.nvcc
@pytest.mark.parametrize("bug", [bug for bug in ALL if not bug.line], ids=lambda bug: bug.name)
def test_where_nothing_is_to_be_found_the_result_is_wrong(bug: bugs.Bug) -> None:
    seen = emulate(bug, "broken")
    assert not seen.findings and seen.result.startswith("wrong")


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["eager", "late"])
@pytest.mark.parametrize("bug", ALL, ids=lambda bug: bug.name)
def test_the_fixed_program_is_right_and_clean(bug: bugs.Bug, schedule: str) -> None:
    seen = emulate(bug, "fixed", schedule=schedule)
    assert (seen.result, seen.findings) == ("right", ())


@pytest.mark.nvcc
@pytest.mark.parametrize("bug", FOUND, ids=lambda bug: bug.name)
def test_a_complete_search_finds_what_any_schedule_does(bug: bugs.Bug) -> None:
    """The same mistake, by its rule or by its lines; and the same ends of the program."""
    every = emulate(bug, "broken", schedule="every", most_runs=60)
    if len(every.notes) != 1 or ": complete: " not in every.notes[0]:
        assert every.findings
        return
    (ends,) = re.findall(r"\n(.* ends? with .*)\n", every.notes[0]) or ["1 comes to its end"]
    rules = {finding.rule for finding in every.findings}
    lines = {lines_of(finding) for finding in every.findings}
    for schedule, seeds in (("eager", 1), ("random", 4)):
        other = emulate(bug, "broken", schedule=schedule, seeds=seeds)
        for finding in other.findings:
            assert finding.rule in rules or lines_of(finding) in lines, str(finding)
        if other.result == "right" or other.result.startswith("wrong"):
            assert "to its end" in ends or "to their end" in ends, schedule


def lines_of(finding: Finding) -> frozenset[int]:
    return frozenset(place.ptx_line for place in finding.places)


def test_a_gpu_knows_which_of_them_it_runs() -> None:
    """Each has an architecture that a GPU can be asked about; a Hopper runs all but Blackwell."""
    hopper = hardware.Gpu("a Hopper", (9, 0), "580")
    ran = {bug.arch for bug in ALL if hopper.assembles(bug.arch)}
    assert {bug.arch for bug in ALL} - ran == {"sm_100a"}
