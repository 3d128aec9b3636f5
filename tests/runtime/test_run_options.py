"""What `phasebit run` ends with, and what it writes, for one program with faults to choose."""

from __future__ import annotations

import gc
import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as xml

import pytest

from phasebit.__main__ import main
from phasebit.emulator import rulebook
from phasebit.runtime.command import FOUND
from phasebit.runtime.report import read
from tests.runtime.test_emulated import phasebit

Run = Callable[..., "Ran"]
pytestmark = pytest.mark.nvcc

SOURCE = """\
#include <cstdio>
#include <cstdlib>
#include <cstring>
__global__ void race(int *out) {
    __shared__ int a[64];
    a[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = a[63 - threadIdx.x];
}
__global__ void early(const int *in, int *out) {
    __shared__ alignas(16) int a[128];
    unsigned to = __cvta_generic_to_shared(a) + 16 * threadIdx.x;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(in + 4 * threadIdx.x));
    out[threadIdx.x] = a[4 * threadIdx.x];
}
__global__ void endless(volatile int *p) {
    while (*p += 1) {}  // its count decides: nobody can say that it goes round in circles
}
__global__ void sleepy(int *p) {  // ready, asleep, woken
    if (threadIdx.x == 0) {
        atomicExch(p, 1);
        if (atomicAdd(p + 1, 0)) atomicExch(p + 2, 1);
    } else if (threadIdx.x == 32 && !atomicAdd(p, 0)) {
        atomicExch(p + 1, 1);
        while (!atomicAdd(p + 2, 0)) {}
    }
}
#include <csignal>
#include <unistd.h>
static void refused(int *p) {
    race<<<1, 2000>>>(p);
}
int main(int argc, char **argv) {
    const char *what = argv[1];
    int *p, *q;
    cudaMalloc(&p, 512);
    cudaMalloc(&q, 512);
    cudaMemset(p, 1, 512);
    if (!strcmp(what, "race")) for (int i = 0; i < 3; ++i) race<<<1, 64>>>(q);
    if (!strcmp(what, "early")) early<<<1, 32>>>(p, q);
    if (!strcmp(what, "sleepy")) cudaMemset(q, 0, 512), sleepy<<<1, 64>>>(q);
    if (strstr(what, "refused")) refused(p);
    if (!strcmp(what, "refused, asked")) puts(cudaGetErrorName(cudaGetLastError()));
    if (!strcmp(what, "status") && cudaMemcpy(p + 1, q, 512, cudaMemcpyDefault)) exit(3);
    if (!strcmp(what, "endless")) endless<<<1, 1>>>(q);
    if (strstr(what, "unwaited")) race<<<1, 64>>>(q);
    if (strstr(what, "endless, ")) endless<<<1, 1>>>(q);
    if (strstr(what, ", _exit")) _exit(0);
    if (strstr(what, ", quick_exit")) quick_exit(0);
    if (strstr(what, ", killed")) raise(SIGKILL);
    int first = 0;
    cudaMemcpy(&first, q, 4, cudaMemcpyDeviceToHost);
    if (!strcmp(what, "abort")) race<<<1, 64>>>(q), cudaDeviceSynchronize(), abort();
    printf("%d\\n", first);
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("options")
    (folder / "faults.cu").write_text(SOURCE)
    done = phasebit("nvcc", folder / "faults.cu", "-o", folder / "faults")
    assert done.returncode == 0, done.stderr
    return folder / "faults"


class Ran(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """`python -m phasebit run` without a process of its own, which takes longer than a program."""
    monkeypatch.setattr(gc, "set_threshold", lambda *_: None)

    def run(*words: object) -> Ran:
        status = main(["run", *map(str, words)])
        return Ran(status, *capfd.readouterr())

    return run


def line_of(text: str) -> int:
    return SOURCE[: SOURCE.index(text)].count("\n") + 1


def test_a_finding_has_a_status_of_its_own(run: Run, program: Path) -> None:
    assert run(program, "none").returncode == 0
    done = run(program, "race")
    assert done.returncode == FOUND == 99
    assert done.stdout == "63\n" and done.stderr.count("phasebit: kernel race: race: ") == 1
    assert done.stderr.splitlines()[1:] == [
        "phasebit: kernel race: race at faults.cu:7 and faults.cu:6 again, in 2 more launches"
    ]
    assert run("--error-exitcode", "7", program, "race").returncode == 7
    assert run("--error-exitcode", "0", program, "race").returncode == 0
    assert run(program, "status").returncode == FOUND
    assert run("--error-exitcode", "0", program, "status").returncode == 3
    assert run(program, "abort").returncode == 134


def test_the_programs_own_options_are_no_abbreviations_of_ours(run: Run, program: Path) -> None:
    """`--m` could be `--memory` or `--most-runs`, and is neither behind the program's name."""
    done = run("--schedule", "late", program, "none", "--m=256", "--se")
    assert done.returncode == 0 and not done.stderr


def test_what_comes_after_a_refused_launch(run: Run, program: Path) -> None:
    done = run(program, "refused")
    assert done.returncode == FOUND and done.stdout == "0\n"
    line = line_of("race<<<1, 2000")
    assert re.fullmatch(
        rf"phasebit: kernel race: the launch <<<1, 2000>>> at faults.cu:{line} "
        r"was refused with cudaError\w+, and the program never asked: look at cudaGetLastError\(\) "
        r"after a launch\n", done.stderr,
    )  # fmt: skip
    asked = run(program, "refused, asked")
    assert asked.returncode == 0 and asked.stderr == ""
    assert asked.stdout.startswith("cudaErrorInvalid")


@pytest.mark.parametrize("end", ["_exit", "quick_exit"])
@pytest.mark.parametrize("what", ["refused", "unwaited"])
def test_nothing_goes_by_in_silence_where_no_destructor_runs(
    what: str, end: str, run: Run, program: Path
) -> None:
    done = run(program, f"{what}, {end}")
    said = "was refused with" if what == "refused" else "kernel race: race: "
    assert done.returncode == FOUND and done.stderr.count(said) == 1
    several = run("--devices", "2", program, f"{what}, {end}")
    assert several.returncode == FOUND and several.stderr.count(said) == 1


def test_kernels_that_nobody_waits_for_end_with_the_program(run: Run, program: Path) -> None:
    done = run(program, "endless, _exit")
    assert (done.returncode, done.stderr) == (0, "phasebit: the program ended without waiting for "
        "its kernels: what they had not done 2 s later is not checked; end it with "
        "cudaDeviceSynchronize()\n")  # fmt: skip
    killed = run(program, "endless, refused, killed")
    assert killed.returncode == 128 + signal.SIGKILL
    assert "was refused with" in killed.stderr and "ended without" not in killed.stderr


def test_a_kernel_that_runs_when_time_is_up_is_told_of(run: Run, program: Path) -> None:
    done = run("--limit", "1", program, "endless")
    assert done.returncode == 124
    assert "phasebit: kernel endless was running: all threads of block 0 stand at " in done.stderr


def test_copies_finish_late_unless_it_is_said_otherwise(run: Run, program: Path) -> None:
    late, eager = ([*words, "--fast", program, "early"] for words in ([], ["--schedule", "eager"]))
    assert run(*eager).stdout == f"{0x01010101}\n"
    assert run(*late).stdout != f"{0x01010101}\n"
    assert "race: async" not in run(program, "race").stderr
    assert "kernel early: async: " in run(program, "early").stderr


def test_a_seed_is_that_of_the_random_schedule(run: Run, program: Path) -> None:
    random = ["--fast", "--schedule", "random"]
    said = {seed: run(*random, "--seed", seed, program, "early").stdout
            for seed in range(8)}  # fmt: skip
    assert len(set(said.values())) == 2
    assert said[0] == run(*random, program, "early").stdout
    with pytest.raises(SystemExit, match="2"):
        run("--seed", "x", program, "early")


def test_seeds_are_run_one_after_the_other(run: Run, program: Path) -> None:
    random = ["--fast", "--schedule", "random"]
    alone = [run(*random, "--seed", seed, program, "early").stdout for seed in range(2, 5)]
    assert run(*random, "--seed", "2", "--seeds", "3", program, "early").stdout == "".join(alone)
    seen = run("--schedule", "random", "--seeds", "3", program, "early")
    assert seen.returncode == FOUND
    assert "seeds 0 to 2: found something under 3 of 3, first under 0" in seen.stderr
    clean = run("--schedule", "random", "--seeds", "2", program, "nothing")
    assert clean.returncode == 0
    assert clean.stderr.splitlines()[-1] == "phasebit: seeds 0 to 1: found something under 0 of 2"
    own = ("--error-exitcode", "0", "--schedule", "random", "--seeds", "2")
    assert run(*own, program, "status").returncode == 3
    late = run("--seeds", "3", program, "early")
    assert late.returncode == 2
    assert "--seeds counts orders of --schedule random: ask for that too" in late.stderr


def test_every_order_shows_what_one_does_not(run: Run, program: Path) -> None:
    late = run(program, "sleepy")
    assert late.returncode == 0 and late.stdout == "1\n"
    ran = run("--schedule", "every", program, "sleepy")
    assert (ran.returncode, ran.stdout) == (FOUND, "1\n"), "it goes on after the first order"
    assert re.search(r"every order of sleepy: complete: [2-9] orders run", ran.stderr)
    assert ran.stderr.count("livelock: ") == 2, "as a finding, and at the end of its order"
    few = run("--schedule", "every", "--most-runs", "1", program, "sleepy")
    assert few.returncode == 0
    assert "incomplete: 1 order run in 0 s, then stopped: the bound is 1 run;" in few.stderr
    fast = run("--schedule", "every", "--fast", program, "sleepy")
    assert fast.returncode == 2
    assert "--schedule every looks for races: leave out --fast" in fast.stderr
    with pytest.raises(SystemExit):
        run("--schedule", "every", "--most-runs", "0", program, "sleepy")


def test_a_launch_without_an_end_is_not_searched_for_ever(run: Run, program: Path) -> None:
    ran = run("--schedule", "every", program, "endless")
    assert "incomplete: 0 orders run" in ran.stderr
    assert "a run of more than 2,000 steps" in ran.stderr


def test_counters_are_summed_by_kernel(run: Run, program: Path) -> None:
    lines = run("--counters", "--suppress", "race", program, "race").stderr.splitlines()
    assert lines[:2] == ["phasebit: 3 findings suppressed", "phasebit: kernel race, 3 launches:"]
    counters = {line.split()[2]: line.split()[1] for line in lines[2:]}
    assert counters["bytes.global.store"] == "768"
    shown = run("--json", "--counters", program, "race").stdout.splitlines()
    data = [each["counters"] for each in map(json.loads, shown) if "counters" in each]
    assert [each["launch"] for each in data] == [1, 2, 3]
    assert {each["kernel"] for each in data} == {"race"}
    assert {each["values"]["bytes.global.store"] for each in data} == {256}


def test_known_findings_do_not_fail(run: Run, program: Path, tmp_path: Path) -> None:
    def told(*words: object, what: str = "race") -> tuple[int, list[str]]:
        done = run(*words, program, what)
        return done.returncode, done.stderr.replace("phasebit: ", "").splitlines()

    assert told("--suppress", "race@faults.cu:7") == (0, ["3 findings suppressed"])
    file = tmp_path / "known"
    file.write_text("race@faults.cu:8\n")
    status, said = told("--suppressions", file)
    assert status == FOUND and said[1] == "suppression race@faults.cu:8 matches nothing"
    status, said = told("--suppress", "rase")
    assert status == 2 and said == [
        "--suppress rase: 'rase' is no rule: `python -m phasebit rules` lists them"
    ]
    known = tmp_path / "known.json"
    status, said = told("--write-baseline", known)
    assert status == 0 and said[0].startswith("kernel race: race: ")
    assert told("--baseline", known) == (0, ["3 findings known from the baseline"])
    status, said = told("--baseline", known, what="early")
    assert status == FOUND and said[-1] == "1 entry of the baseline not found in this run"
    assert told("--baseline", tmp_path / "none")[0] == 2
    assert told("--write-baseline", tmp_path / "none" / "x")[0] == 2


def test_all_tells_each_finding_and_quiet_none(run: Run, program: Path) -> None:
    assert run("--all", program, "race").stderr.count("kernel race: race: ") == 3
    done = run("--quiet", program, "race")
    assert done.stderr == "" and done.returncode == FOUND


def test_sarif_has_what_its_schema_requires(run: Run, program: Path, tmp_path: Path) -> None:
    file = tmp_path / "found.sarif"
    done = run("--report", file, program, "race")
    assert done.stderr.count("kernel race: race: ") == 1
    log = json.loads(file.read_text())
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-2.1.0.json")
    (one,) = log["runs"]
    driver = one["tool"]["driver"]
    assert driver["name"] == "phasebit"
    assert [rule["id"] for rule in driver["rules"]] == ["race"]
    assert one["invocations"][0] == {"executionSuccessful": True, "exitCode": 0}
    (result,) = one["results"]
    assert result["ruleId"] == driver["rules"][result["ruleIndex"]]["id"]
    assert result["level"] == "error" and result["message"]["text"].startswith("kernel race: race")
    assert result["occurrenceCount"] == 3
    (physical,) = (each["physicalLocation"] for each in result["locations"])
    assert physical["artifactLocation"]["uri"].endswith("/faults.cu")
    assert physical["artifactLocation"]["uri"].startswith("file:///")
    assert physical["region"]["startLine"] == 7 and physical["region"]["startColumn"] >= 1
    (related,) = result["relatedLocations"]
    assert related["physicalLocation"]["region"]["startLine"] == 6
    assert set(result["partialFingerprints"]) == {"site/v1"}
    plain = tmp_path / "none.json"
    run("--report", plain, "--report-format", "sarif", program, "none")
    assert json.loads(plain.read_text())["runs"][0]["results"] == []


def test_junit_has_a_case_for_each_site_and_one_for_the_end(
    run: Run, program: Path, tmp_path: Path
) -> None:
    file = tmp_path / "found.xml"
    run("--report", file, program, "race")
    root = xml.parse(file).getroot()
    (suite,) = root
    assert (root.tag, suite.tag, suite.get("name")) == ("testsuites", "testsuite", "faults")
    for each in (root, suite):
        counts = {name: each.get(name) for name in ("tests", "failures", "errors", "skipped")}
        assert counts == {"tests": "2", "failures": "1", "errors": "0", "skipped": "0"}
    end, case = suite
    assert [each.tag for each in suite] == ["testcase"] * 2
    assert all(each.get("classname") and each.get("name") for each in suite)
    (failure,) = case
    assert not list(end) and (failure.tag, failure.get("type")) == ("failure", "race")
    assert (failure.text or "").endswith("\n3 times")
    run("--report", file, program, "abort")
    (end, *_) = xml.parse(file).getroot()[0]
    assert end[0].tag == "error" and end[0].get("message") == "the program died of SIGABRT"


def test_lines_of_json_name_rule_and_grade(run: Run, program: Path, tmp_path: Path) -> None:
    file = tmp_path / "found.jsonl"
    run("--report", file, program, "early")
    (finding,) = read(file).findings
    assert (finding.rule, finding.grade) == ("missing-copy-wait", rulebook.CAN_CORRUPT)
    data = json.loads(file.read_text().splitlines()[0])["finding"]
    assert (data["rule"], data["grade"]) == (finding.rule, finding.grade)


def test_the_help_says_how_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["run", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "99 when something was found" in text and "124 past the time limit" in text
    for option in ("--suppress", "--baseline", "--report-format", "--seed", "--counters"):
        assert option in text
