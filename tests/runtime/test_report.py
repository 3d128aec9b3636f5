"""What `phasebit run` reports as data, on a channel that the program does not write to."""

from __future__ import annotations

import io
import json
import signal
from pathlib import Path

import pytest

from phasebit.emulator.digest import told
from phasebit.emulator.findings import Finding, say
from phasebit.runtime.report import AsJson, End, ForPeople, Report, read
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
    return [
        Finding("race", say("number {}", i), kernel="k", launch=launch) for i in range(count)
    ]


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
