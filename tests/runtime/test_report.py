"""What `phasebit run` reports as data, on a channel that the program does not write to."""

from __future__ import annotations

import io
import json
import signal
from pathlib import Path

import pytest

from phasebit.emulator.digest import told
from phasebit.emulator.findings import Finding, say
from phasebit.runtime.report import (
    AsJson,
    AtTheEnd,
    CannotTell,
    End,
    ForPeople,
    Report,
    Several,
    of_program,
    read,
    write_line,
)
from tests.runtime.test_emulated import phasebit

RACE = """
#include <cstdio>
__global__ void race(int *out) {
    __shared__ int a[64];
    a[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = a[63 - threadIdx.x];
}
int main() {
    int *p;
    cudaMalloc(&p, 256);
    SAY
    race<<<1, 64>>>(p);
    cudaDeviceSynchronize();
    puts("done");
}
"""
LIE = r'fputs("phasebit: race: a lie\nphasebit: kernel race: race: another\n", stderr);'


def build(tmp_path: Path, source: str) -> Path:
    path = tmp_path / "program.cu"
    path.write_text(source)
    assert phasebit("nvcc", path, "-o", tmp_path / "program").returncode == 0
    return tmp_path / "program"


@pytest.mark.nvcc
def test_findings_come_apart_from_what_the_program_prints(tmp_path: Path) -> None:
    program, file = build(tmp_path, RACE.replace("SAY", LIE)), tmp_path / "f"
    done = phasebit("run", "--quiet", "--report", file, program)
    assert done.stdout == "done\n"
    assert done.stderr == "phasebit: race: a lie\nphasebit: kernel race: race: another\n"
    report = read(file)
    (finding,) = report.findings
    assert (finding.kind, finding.kernel, finding.launch) == ("race", "race", 1)
    assert finding.places[0].file == "program.cu" and finding.lines == (6, 5)
    assert report.end == End(0)
    shown = phasebit("run", "--json", program)
    assert shown.stderr == done.stderr + "done\n"
    lines = [json.loads(line) for line in shown.stdout.splitlines()]
    assert Finding.from_json(lines[0]["finding"]) == finding
    assert lines[1:] == [{"end": {"status": 0, "signal": "", "limit": 0.0}}]
    people = phasebit("run", program).stderr.splitlines()
    assert people[2:] == [f"phasebit: {line}" for line in told(report.findings)]


@pytest.mark.nvcc
def test_what_the_host_half_says_and_how_the_program_ends(compiled, tmp_path: Path) -> None:
    done = phasebit("run", "--quiet", "--report", tmp_path / "f", compiled("trouble"), "touch")
    report = read(tmp_path / "f")
    assert done.returncode == 128 + signal.SIGSEGV and done.stderr == ""
    assert report.end == End(128 + signal.SIGSEGV, "SIGSEGV")
    (finding,) = report.findings
    assert finding.kind == "program"
    assert finding.message.startswith("host code touched device memory at 0x7000")
    quiet = ("--quiet", "--report", tmp_path / "f", "--limit", "1")
    phasebit("run", *quiet, compiled("trouble"), "endless")
    report = read(tmp_path / "f")
    assert report.end == End(124, limit=1.0)


def test_what_cannot_run_is_reported_too(tmp_path: Path) -> None:
    done = phasebit("run", "--json", tmp_path / "absent")
    first, last = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 2 and last["end"]["status"] == 2 and done.stderr == ""
    assert first["finding"]["message"].startswith("no program")


def found(count: int, launch: int = 1) -> list[Finding]:
    return [Finding("race", say("number {}", i), kernel="k", launch=launch) for i in range(count)]


def test_people_are_told_where_a_kernel_stood_that_was_ended() -> None:
    log = io.StringIO()
    standing = Finding("time-limit", say("was running: all wait"), kernel="k")
    ForPeople(log).ended(End(124, limit=2.5), standing)
    assert log.getvalue() == (
        "phasebit: ended after 2.5 s, the time limit\nphasebit: kernel k was running: all wait\n"
    )


def test_a_report_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "report"
    assert read(path) == Report()
    with path.open("w") as file:
        AsJson(file).found(found(2))
        file.write('{"finding": {"kind": "ra')
    assert read(path) == Report(tuple(found(2)))


def test_a_line_of_a_report_ends_where_the_next_begins_and_nowhere_else(tmp_path: Path) -> None:
    path = tmp_path / "report"
    odd = Finding("race", say("a\u2028b\x85c\u2029d"), kernel="k")
    with path.open("w", encoding="utf-8") as file:
        AsJson(file).found([odd, *found(1)])
    assert read(path) == Report((odd, *found(1)))


STANDING = Finding("time-limit", say("was running: all wait"), kernel="k")


def test_people_are_told_of_a_signal_of_counters_and_of_each_line_of_a_note() -> None:
    log = io.StringIO()
    people = ForPeople(log)
    people.counted("b", 1, {"z": 1234567, "a": 0.5})
    people.counted("a", 2, {"z": 1})
    people.counted("b", 3, {"z": 1, "y": 2})
    people.note("one\ntwo")
    people.note("")
    people.ended(End(139, "SIGSEGV"), None)
    assert log.getvalue() == (
        "phasebit: one\nphasebit: two\nphasebit: \nphasebit: the program died of SIGSEGV\n"
        "phasebit: kernel b, 2 launches:\n"
        "phasebit:              0.5  a\n"
        "phasebit:                2  y\n"
        "phasebit:        1,234,568  z\n"
        "phasebit: kernel a, 1 launch:\n"
        "phasebit:                1  z\n"
    )


@pytest.mark.parametrize(("most", "told_at_once", "at_the_end"), [
    (None, 7, 0), (5, 5, 1), (1, 1, 1),
])  # fmt: skip
def test_people_are_told_so_many_sites_of_a_rule(
    most: int | None, told_at_once: int, at_the_end: int
) -> None:
    log = io.StringIO()
    people = ForPeople(log, most)
    people.found(found(7))
    assert log.getvalue().count("\n") == told_at_once
    people.ended(End(0), None)
    assert log.getvalue().count("\n") == told_at_once + at_the_end
    usual = io.StringIO()
    ForPeople(usual).found(found(7))
    assert usual.getvalue().count("\n") == 5


def test_json_has_a_line_for_each_thing_that_is_told() -> None:
    file = io.StringIO()
    json_lines = AsJson(file)
    json_lines.found(found(2))
    json_lines.note("\N{GREEK SMALL LETTER MU}")
    json_lines.counted("k", 3, {"a": 1})
    json_lines.ended(End(124, limit=2.0), STANDING)
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    assert [Finding.from_json(each["finding"]) for each in lines[:2]] == found(2)
    assert lines[2:4] == [
        {"note": "\N{GREEK SMALL LETTER MU}"},
        {"counters": {"kernel": "k", "launch": 3, "values": {"a": 1}}},
    ]
    assert Finding.from_json(lines[4]["finding"]) == STANDING
    assert lines[5:] == [{"end": {"status": 124, "signal": "", "limit": 2.0}}]


@pytest.mark.parametrize(("encoding", "written"), [
    ("ascii", "\\u03bc"), ("utf-8", "\N{GREEK SMALL LETTER MU}"),
    ("UTF-8", "\N{GREEK SMALL LETTER MU}"),
])  # fmt: skip
def test_json_has_only_letters_that_its_file_can_hold(encoding: str, written: str) -> None:
    under = io.BytesIO()
    file = io.TextIOWrapper(under, encoding=encoding)
    AsJson(file).note("\N{GREEK SMALL LETTER MU}")
    assert under.getvalue().decode(encoding) == f'{{"note": "{written}"}}\n'


def test_a_report_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "report"
    with path.open("w") as file:
        written = AsJson(file)
        written.found(found(1))
        written.note("a")
        written.counted("k", 1, {})
        written.note("b")
        written.ended(End(1, "x", 2.0), None)
    assert read(path) == Report(tuple(found(1)), End(1, "x", 2.0), ("a", "b"))
    path.write_text('{"note": "a"}\n{"note": "b"}')
    assert read(path) == Report(notes=("a",))


def test_what_is_written_at_the_end_has_all_findings_and_where_a_kernel_stood() -> None:
    seen: list[object] = []
    for standing in (None, STANDING):
        gathered = AtTheEnd(lambda findings, end: seen.append((list(findings), end)))
        gathered.found(found(2))
        gathered.counted("k", 1, {})
        gathered.note("nothing")
        gathered.found(found(1))
        assert len(seen) == bool(standing)
        gathered.ended(End(3), standing)
    assert seen == [
        ([*found(2), *found(1)], End(3)), ([*found(2), *found(1), STANDING], End(3)),
    ]  # fmt: skip


def test_several_reporters_are_told_the_same() -> None:
    logs = [io.StringIO(), io.StringIO()]
    several = Several([AsJson(log) for log in logs])
    several.found(found(1))
    several.counted("k", 1, {"a": 1})
    several.note("n")
    several.ended(End(0), STANDING)
    one, two = (log.getvalue() for log in logs)
    assert one == two and one.count("\n") == 5
    people, data = ForPeople(io.StringIO()), AsJson(io.StringIO())
    assert [Several(each).apart for each in ([people, data], [people], [data], [])] == [
        True, False, True, False
    ]  # fmt: skip
    assert AtTheEnd(lambda findings, end: None).apart


class Full(io.StringIO):
    """A file on a disk that is full, or whose reader is gone."""

    name = "found.json"

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str) -> int:
        raise self.error


def test_a_report_that_cannot_be_written_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, channel in (("stdout", "standard output"), ("stderr", "standard error"), ("", "")):
        file = Full(OSError(28, "No space left on device"))
        if name:
            monkeypatch.setattr(f"sys.{name}", file)
        with pytest.raises(CannotTell) as raised:
            write_line(file, "text")
        where = channel or "found.json"
        assert str(raised.value) == f"cannot write the report to {where}: No space left on device"
        assert file.closed == (not name)
        monkeypatch.undo()
    with pytest.raises(BrokenPipeError):
        write_line(Full(BrokenPipeError()), "text")


def test_what_is_no_kernels_doing() -> None:
    made = of_program("text {}")
    assert (made.rule, made.message, made.kernel) == ("program", "text {}", "")
    assert of_program("t", "invalid-ptx").rule == "invalid-ptx"
