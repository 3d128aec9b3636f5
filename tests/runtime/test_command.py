"""The words of `phasebit run`, `nvcc` and `mutate`: what they are taken for. No program runs."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from phasebit import toolchain
from phasebit.emulator import search_limits
from phasebit.emulator.findings import Finding, say
from phasebit.runtime import command, emulated, library, mutation
from phasebit.runtime.deletions import Deletion
from phasebit.runtime.report import End
from phasebit.runtime.run_program import ProgramError


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add_commands(parser.add_subparsers())
    return parser.parse_args(["".join([*word]) for word in words])  # none is in this file


def test_what_is_meant_where_nothing_is_said() -> None:
    given = vars(parsed("run", "./p"))
    assert given.pop("run") is command.run
    assert given == {
        "limit": 60.0, "memory": 0, "fast": False, "schedule": "late",
        "most_runs": search_limits.MOST_RUNS,
        "seed": 0, "seeds": 1, "devices": 1, "counters": False, "all": False, "quiet": False,
        "json": False, "report": None, "report_format": None, "error_exitcode": 99, "suppress": [],
        "suppressions": [], "baseline": None, "write_baseline": None, "ptx": None,
        "program": "./p", "arguments": [],
    }  # fmt: skip
    mutate = vars(parsed("mutate", "./p", "--limit", "3"))
    assert (mutate["limit"], mutate["schedule"], mutate["arguments"]) == (
        60.0, None, ["--limit", "3"]
    )  # fmt: skip
    assert mutate["run"] is command.mutate and parsed("nvcc", "-O3", "x").run is command.nvcc
    commands = argparse.ArgumentParser().add_subparsers()
    command.add_commands(commands)
    assert "\0" not in commands.choices["nvcc"].format_help()  # it has no option of its own
    assert parsed("nvcc", "-O3", "--help", "x").options == ["-O3", "--help", "x"]


@pytest.mark.parametrize(("option", "good", "bad", "says"), [
    ("--limit", {"0": 0.0, "1e6": 1e6, "2.5": 2.5}, ["-1", "1000001", "x", "nan", ""],
     "is no time: 0 to 1e+06 s, 0: never ends"),
    ("--memory", {"1": 1, "32768": 32768}, ["0", "32769", "-1", "1.5", "x"],
     "is no amount of memory: 1 to 32768 MiB"),
    ("--most-runs", {"1": 1, "7": 7}, ["0", "-1", "x"], "is no number of runs: give one from 1"),
    ("--seeds", {"1": 1, "7": 7}, ["0", "-1", "x"], "is no number of runs: give one from 1"),
    ("--seed", {"0": 0, "7": 7}, ["-1", "x", "1.0"], "is no seed: give a whole number from 0"),
    ("--error-exitcode", {"0": 0, "255": 255}, ["256", "-1", "x"],
     "is no exit status: 0 to 255"),
    ("--devices", {"1": 1, "8": 8}, ["0", "9", "x"], "invalid"),
    ("--schedule", {each: each for each in ("eager", "late", "random", "every")}, ["all"],
     "invalid choice"),
    ("--report-format", {each: each for each in ("json", "sarif", "junit")}, ["xml"], "invalid"),
    ("--ptx", {"a": "a"}, [""], "a file has a name: give one"),
    ("--report", {"a": "a"}, [""], "a file has a name: give one"),
    ("--baseline", {"a": "a"}, [""], "a file has a name: give one"),
    ("--write-baseline", {"a": "a"}, [""], "a file has a name: give one"),
    ("--suppressions", {"a": ["a"]}, [""], "a file has a name: give one"),
    ("--suppress", {"a": ["a"], "": [""]}, [], ""),
])  # fmt: skip
def test_the_values_of_an_option(
    option: str, good: dict[str, object], bad: Sequence[str], says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    name = option[2:].replace("-", "_")
    for text, value in good.items():
        assert getattr(parsed("run", option, text, "p"), name) == value
    for text in bad:
        with pytest.raises(SystemExit):
            parsed("run", f"{option}={text}", "p")
        said = capsys.readouterr().err
        assert f"argument {option}: " in said and says in said


@pytest.mark.parametrize("word", ["--lim=3", "--mem=3", "--fas", "--m=256", "--see=1"])
def test_options_have_no_short_forms(word: str) -> None:
    with pytest.raises(SystemExit):
        parsed("run", word, "p")
    assert parsed("run", "p", word).arguments == [word]


def test_options_that_exclude_each_other_and_those_that_may_be_repeated() -> None:
    for one, two in (("--all", "--quiet"), ("--quiet", "--json"), ("--json", "--all")):
        with pytest.raises(SystemExit):
            parsed("run", one, two, "p")
    assert parsed("run", "--suppress", "a", "--suppress", "b", "p").suppress == ["a", "b"]
    assert parsed("mutate", "--schedule", "late", "--schedule", "eager", "p").schedule == [
        "late", "eager"
    ]  # fmt: skip
    with pytest.raises(SystemExit):
        parsed("mutate", "--schedule", "every", "p")


# -- run -----------------------------------------------------------------------------------


class Backend:
    """Stands for the emulator; what it was made with."""

    made: list[tuple[tuple[Any, ...], dict[str, Any]]]

    def __init__(self, *given: Any, **named: Any) -> None:
        self.made.append((given, named))
        self.searches: list[tuple[str, str]] = [("k", "seen")]


Run = Callable[..., int]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What `run_program` is asked for; it finds what `finds` holds and ends with `status`."""
    asked: list[dict[str, Any]] = []
    Backend.made = []

    def run_program(words: Sequence[str], backend: Backend, **named: Any) -> int:
        asked.append(named | {"words": words})
        plan = PLANS.pop(0) if PLANS else (0, 0)
        if isinstance(plan, BaseException):
            raise plan
        status, count = plan
        named["reporter"].found([Finding("race", say("n {}", i), kernel="k") for i in range(count)])
        end = status if isinstance(status, End) else End(status)
        named["reporter"].ended(end, None)
        return end.status

    monkeypatch.setattr(command, "run_program", run_program)
    monkeypatch.setattr(emulated, "EmulatorBackend", Backend)
    monkeypatch.setattr(command.gc, "set_threshold", lambda *given: THRESHOLDS.append(given))
    PLANS.clear()
    THRESHOLDS.clear()
    return asked


PLANS: list[tuple[int | End, int] | BaseException] = []
THRESHOLDS: list[tuple[int, ...]] = []


def test_what_the_options_mean_to_the_run(runs: list[dict[str, Any]], tmp_path: Path) -> None:
    ptx = tmp_path / "x.ptx"
    ptx.write_text("text")
    arguments = parsed("run", "--quiet", "--limit", "8", "--memory", "3", "--fast",
                       "--devices", "2", "--seed", "5", "--schedule", "random", "--counters",
                       "--report", str(tmp_path / "r.json"), "--ptx", str(ptx),
                       "p", "a", "--b")  # fmt: skip
    assert command.run(arguments) == 0
    (asked,) = runs
    del asked["reporter"]
    assert asked == {
        "words": ["p", "a", "--b"], "limit": 8.0, "memory_bytes": 3 << 20, "devices": 2,
        "stdout": None,
    }  # fmt: skip
    assert Backend.made == [
        ((False, "random"),
         {"ptx": "text", "seed": 5, "counters": True, "most_runs": search_limits.MOST_RUNS,
          "seconds": 6.0})
    ]  # fmt: skip
    assert THRESHOLDS == [(50_000, 20, 50)]
    words = ("--limit", "0", "--schedule", "every", "--most-runs", "9")
    command.run(parsed("run", "--quiet", *words, "p"))
    assert Backend.made.pop()[1]["most_runs"] == 9 and runs.pop()["limit"] is None
    command.run(parsed("run", "--quiet", "--limit", "0", "p"))
    assert runs[1]["limit"] is None and not runs[1]["memory_bytes"]
    assert Backend.made[1][0] == (True, "late") and Backend.made[1][1]["seconds"] == math.inf


@pytest.mark.parametrize(("words", "plan", "status"), [
    ((), (0, 0), 0), ((), (3, 0), 3), ((), (0, 1), 99), ((), (3, 2), 99),
    (("--error-exitcode", "7"), (3, 1), 7), (("--error-exitcode", "0"), (3, 1), 3),
    ((), (124, 1), 124), ((), (2, 1), 2), ((), (127, 1), 99), ((), (128, 1), 128),
    ((), (139, 1), 139), (("--suppress", "race"), (0, 2), 0), (("--suppress", "race"), (4, 2), 4),
    (("--fast", "--schedule", "eager"), (3, 0), 3),
    (("--schedule", "random", "--seeds", "1"), (3, 0), 3),
    ((), KeyboardInterrupt(), 130), ((), ProgramError("no such thing"), 2),
    ((), library.BuildError("no gcc"), 2),
])  # fmt: skip
def test_the_exit_status(
    words: tuple[str, ...], plan: tuple[int, int] | BaseException, status: int,
    runs: list[dict[str, Any]], capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    PLANS.append(plan)
    assert command.run(parsed("run", *words, "p")) == status
    said = capsys.readouterr().err
    if isinstance(plan, Exception):
        assert said == f"phasebit: {plan}\n"


@pytest.mark.parametrize(("words", "says"), [
    (("--fast", "--schedule", "every"), "--schedule every looks for races: leave out --fast"),
    (("--seeds", "2"), "--seeds counts orders of --schedule random: ask for that too"),
    (("--seed", "2"), "--seed picks an order of --schedule random: ask for that too"),
    (("--most-runs", "2"), "--most-runs bounds --schedule every: ask for that too"),
    (("--counters", "--quiet"), "--quiet tells nobody of --counters: leave it out, or ask for "
     "--report FILE.json"),
    (("--counters", "--quiet", "--report", "x.sarif"), "--quiet tells nobody of --counters"),
    (("--suppress", "rase"), "--suppress rase: 'rase' is no rule"),
    (("--baseline", "/none/x"), "cannot read /none/x: No such file or directory"),
    (("--report", "/none/x"), "cannot write /none/x: No such file or directory"),
    (("--ptx", "/none/x"), "cannot read /none/x: No such file or directory: --ptx takes PTX, not "
     "machine code"),
    (("--write-baseline", "/none/x"), "cannot write /none/x: No such file or directory"),
])  # fmt: skip
def test_what_cannot_be_is_refused_in_one_sentence(
    words: tuple[str, ...], says: str, runs: list[dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert command.run(parsed("run", *words, "p")) == command.REFUSED == 2
    assert f"phasebit: {says}" in (said := capsys.readouterr().err)
    assert "k: seen" in said or said.count("\n") == 1


@pytest.mark.parametrize("words", [
    "--report program 100", "--report script 100", "--report ./texts --suppressions texts p",
    "--report ptx --ptx ptx p", "--report base --baseline base p", "--report p p",
    "--report new --write-baseline ./new p", "--write-baseline program p",
    "--write-baseline p p", "--write-baseline link --ptx ptx p",
])  # fmt: skip
def test_nothing_is_written_over_what_a_run_reads(
    words: str, runs: list[dict[str, Any]], capsys: pytest.CaptureFixture[str],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    kept = {"program": b"\x7fELF...", "script": b"#!/bin/sh\n", "texts": b"race", "ptx": b"text",
            "base": b'{"version": 1, "findings": []}', "p": b"a program"}  # fmt: skip
    for name, content in kept.items():
        Path(name).write_bytes(content)
    Path("link").symlink_to("ptx")
    assert command.run(parsed("run", *words.split())) == 2 and not runs
    said = capsys.readouterr().err
    assert "that is a program, or another file of this run: name a new one" in said
    assert {name: Path(name).read_bytes() for name in kept} == kept and not Path("new").exists()


def test_a_baseline_is_renewed_in_its_place(runs: list[dict[str, Any]], tmp_path: Path) -> None:
    base = str(tmp_path / "base")
    assert command.run(parsed("run", "--write-baseline", base, "p")) == 0
    PLANS.append((0, 1))
    again = ("--baseline", base, "--write-baseline", base, "--report", os.devnull, "p")
    assert command.run(parsed("run", *again)) == 0
    assert "race" in Path(base).read_text()


@pytest.mark.parametrize("words", [
    ("--suppress", "rase"), ("--ptx", "/none/x"), ("--baseline", "/none/x"), ("--seed", "3"),
])  # fmt: skip
def test_an_earlier_report_outlives_a_command_that_is_refused(
    words: tuple[str, ...], runs: list[dict[str, Any]], tmp_path: Path
) -> None:
    report = tmp_path / "old.sarif"
    report.write_text("old")
    assert command.run(parsed("run", *words, "--report", str(report), "p")) == 2
    assert report.read_text() == "old"


def test_a_report_that_cannot_be_written_where_the_program_cannot_be_run(
    runs: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    PLANS.append(ProgramError("no such thing"))
    assert command.run(parsed("run", "--report", "/dev/full", "p")) == 2
    assert capsys.readouterr().err.splitlines() == [
        "phasebit: no such thing",
        "phasebit: cannot write the report to /dev/full: No space left on device",
    ]


@pytest.mark.parametrize(("stop", "number"), [
    (KeyboardInterrupt(), 2), (SystemExit(143), 15),
])  # fmt: skip
def test_what_was_found_is_reported_when_a_run_is_stopped(
    stop: BaseException, number: int, runs: list[dict[str, Any]], tmp_path: Path
) -> None:
    PLANS.extend([(0, 1), stop])
    report = tmp_path / "r.sarif"
    words = ("--schedule", "random", "--seeds", "3", "--report", str(report), "p")
    assert command.run(parsed("run", *words)) == 128 + number
    (told,) = json.loads(report.read_text())["runs"]
    assert [each["ruleId"] for each in told["results"]] == ["race"]
    assert told["invocations"][0]["exitCode"] == 128 + number


def test_a_program_that_cannot_be_run_has_no_baseline(
    runs: list[dict[str, Any]], tmp_path: Path
) -> None:
    PLANS.append(ProgramError("no such thing"))
    assert command.run(parsed("run", "--write-baseline", str(tmp_path / "base"), "p")) == 2
    assert not (tmp_path / "base").exists()


@pytest.mark.parametrize(("end", "says"), [
    (End(139, "SIGSEGV"), "the program died of SIGSEGV"),
    (End(124, limit=5.0), "ended after 5 s, the time limit"),
])  # fmt: skip
def test_how_the_first_seed_ends_that_does_not_end_well(
    end: End, says: str, runs: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    PLANS.extend([(0, 0), (end, 0), (3, 0)])
    words = ("--schedule", "random", "--seeds", "3", "p")
    assert command.run(parsed("run", *words)) == end.status
    said = capsys.readouterr().err.splitlines()
    assert said[-2:] == ["phasebit: under seed 1:", f"phasebit: {says}"]


def test_seeds_are_counted_from_the_first(
    runs: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    PLANS.extend([(0, 0), (5, 2), (6, 1)])
    words = ("--schedule", "random", "--seed", "3", "--seeds", "3", "--error-exitcode", "0")
    assert command.run(parsed("run", *words, "p")) == 5
    assert [named["seed"] for _, named in Backend.made] == [3, 4, 5]
    said = capsys.readouterr().err
    assert "phasebit: seeds 3 to 5: found something under 2 of 3, first under 4\n" in said
    assert said.count("every order of k: seen") == 3
    assert all(asked["reporter"].apart for asked in runs)  # what its own half says counts, too
    PLANS.extend([(0, 0), (0, 0)])
    assert command.run(parsed("run", "--schedule", "random", "--seeds", "2", "p")) == 0
    assert "phasebit: seeds 0 to 1: found something under 0 of 2\n" in capsys.readouterr().err


def test_a_program_s_output_goes_out_of_the_way_of_json(
    runs: list[dict[str, Any]], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", sys.__stderr__)
    PLANS.append((0, 1))
    assert command.run(parsed("run", "--json", "p")) == 99
    assert runs[0]["stdout"] == 2
    assert [line[:10] for line in capfd.readouterr().out.splitlines()] == [
        '{"finding"', '{"end": {"', '{"note": "',
    ]  # fmt: skip


@pytest.mark.parametrize(("words", "lines"), [
    ((), 6), (("--all",), 7), (("--quiet",), 0),
])  # fmt: skip
def test_how_much_people_are_told(
    words: tuple[str, ...], lines: int, runs: list[dict[str, Any]],
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    PLANS.append((0, 7))
    assert command.run(parsed("run", *words, "p")) == 99
    said = [line for line in capsys.readouterr().err.splitlines() if "every order" not in line]
    assert len(said) == lines


@pytest.mark.parametrize(("name", "form", "begins"), [
    ("f", None, '{"finding"'), ("f.json", None, '{"finding"'), ("f.SARIF", None, "{\n"),
    ("f.xml", None, "<?xml"), ("f", "junit", "<?xml"), ("f.xml", "sarif", "{\n"),
    ("f.xml", "json", '{"finding"'), ("xml", None, '{"finding"'),
])  # fmt: skip
def test_the_form_of_a_report_is_that_of_its_name(
    name: str, form: str | None, begins: str, runs: list[dict[str, Any]], tmp_path: Path
) -> None:
    PLANS.append((0, 1))
    file = tmp_path / name
    words = ["--report", str(file), *(["--report-format", form] if form else [])]
    command.run(parsed("run", "--quiet", *words, "p"))
    text = file.read_text()
    assert text.startswith(begins) and text.endswith("\n") and not text.endswith("\n\n")


def test_a_report_can_be_read_by_people_too(runs: list[dict[str, Any]], tmp_path: Path) -> None:
    file = tmp_path / "f.sarif"
    command.run(parsed("run", "--quiet", "--report", str(file), "größe"))
    text = file.read_text("utf-8")
    assert '\n "version": "2.1.0",\n' in text and "phasebit/größe" in text


# -- nvcc ----------------------------------------------------------------------------------


@pytest.fixture
def nvcc(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[list[str], list[str]]]:
    """nvcc(*options): the targets and the options that nvcc is given."""

    class Found:
        major = 13

    def made(what: str, *targets: str, options: Sequence[str], include: bool) -> list[str]:
        assert what == "program of PTX" and not include
        return ["nvcc", *targets, "|", *options]

    monkeypatch.setattr(toolchain, "nvcc", Found)
    monkeypatch.setattr(toolchain, "nvcc_command", made)
    monkeypatch.setattr(library, "for_linking", lambda major: Path(f"/for/{major}"))

    def ask(*options: str) -> tuple[list[str], list[str]]:
        words = command.nvcc_command(options)
        at = words.index("|")
        return words[1:at], words[at + 1 :]

    return ask


OWN = ["--no-compress", "-lineinfo", "-Xcompiler", "-g1", "-cudart", "shared", "-cudadevrt", "none",
       "-L/for/13"]  # fmt: skip


@pytest.mark.parametrize(("options", "targets", "rest"), [
    (["x.cu"], ["sm_90a"], ["x.cu"]),
    (["-arch=sm_80", "x.cu"], ["sm_80"], ["x.cu"]),
    (["-arch", "compute_100f", "x.cu"], ["sm_100f"], ["x.cu"]),
    (["--gpu-architecture=sm_80", "-arch=sm_90a", "-arch=sm_80"], ["sm_80", "sm_90a"], []),
    (["-gencode", "arch=compute_80,code=sm_80", "--generate-code=arch=compute_90a,code=[a,b]"],
     ["sm_80", "sm_90a"], []),
    (["-arch=sm_80", "-code=sm_80", "--gpu-code", "sm_90", "-O3"], ["sm_80"], ["-O3"]),
    (["-lcudadevrt", "-lcuda"], ["sm_90a"], ["-lcuda"]),
    (["-Da=b"], ["sm_90a"], ["-Da=b"]),
])  # fmt: skip
def test_the_targets_among_nvcc_s_options(
    options: list[str], targets: list[str], rest: list[str],
    nvcc: Callable[..., tuple[list[str], list[str]]],
) -> None:  # fmt: skip
    assert nvcc(*options) == (targets, [*OWN, *rest])


@pytest.mark.parametrize(("options", "says"), [
    (["-arch=volta"], "-arch=volta is not a target: write -arch=sm_90a"),
    (["-arch"], "-arch= is not a target: write -arch=sm_90a"),
    (["-gencode", "arch=compute_90,code=lto_90"], "-gencode=arch=compute_90,code=lto_90 is not a "
     "target: write -arch=sm_90a"),
    (["-arch=sm_90b"], "-arch=sm_90b is not a target"),
    (["-dlto"], "-dlto: this leaves no PTX, which is what the emulator reads; -rdc=true "
     "without it does"),
    (["--dlink-time-opt"], "--dlink-time-opt: this leaves no PTX"),
    (["-optf", "/none/x"], "-optf: cannot read /none/x: No such file or directory: name a file of"),
    (["--options-file"], "--options-file: cannot read : No such file or directory: name a file of"),
])  # fmt: skip
def test_options_that_nvcc_is_not_given(
    options: list[str], says: str, nvcc: Callable[..., tuple[list[str], list[str]]],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    with pytest.raises(ValueError) as raised:
        nvcc(*options)
    assert str(raised.value).startswith(says)
    assert command.nvcc(argparse.Namespace(options=options)) == 2
    assert capsys.readouterr().err.startswith(f"phasebit: {says}")


def test_options_in_files(nvcc: Callable[..., tuple[list[str], list[str]]], tmp_path: Path) -> None:
    one, two, round_ = (tmp_path / name for name in ("one", "two", "round"))
    one.write_text(f"-arch=sm_80 '-DA=a b'\n-optf {two}")
    two.write_text("-DB")
    round_.write_text(f"--options-file={round_}")
    assert nvcc("-DX", "-optf", f"{one},{two}", "-DY") == (
        ["sm_80"], [*OWN, "-DX", "-DA=a b", "-DB", "-DB", "-DY"],
    )  # fmt: skip
    with pytest.raises(ValueError, match=f"--options-file: {round_} names itself: leave that out"):
        nvcc("-optf", str(round_))


def test_the_status_of_nvcc_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "nvcc_command", lambda options: ["sh", "-c", *options])
    assert command.nvcc(argparse.Namespace(options=["exit 3"])) == 3
    assert command.nvcc(argparse.Namespace(options=["kill -9 $$"])) == 137


# -- mutate --------------------------------------------------------------------------------


def verdict(kernel: str, line: int, **what: Any) -> mutation.Verdict:
    return mutation.Verdict(Deletion(0, 1, line, "bar.sync 0;", "", kernel), **what)


def test_the_table_of_deletions() -> None:
    one = verdict("k", 4, rules=("a", "b"), schedule="late")
    two = verdict("k", 5)
    three = verdict("", 12345, otherwise="other output", schedule="eager")
    assert [each.silent for each in (one, two, three)] == [False, True, False]
    assert [str(each) for each in (one, two, three)] == [
        "a, b (late)", "silent", "other output (eager)"
    ]  # fmt: skip
    assert mutation.table([one, two, three]).splitlines() == [
        "kernel k",
        f"  PTX line      4  {'bar.sync 0;':<60}  a, b (late)",
        f"  PTX line      5  {'bar.sync 0;':<60}  silent",
        "functions",
        f"  PTX line  12345  {'bar.sync 0;':<60}  other output (eager)",
        "2 of 3 deletions are noticed",
        "1 are silent: redundant in this run, or not looked for",
    ]
    assert mutation.table([one]).splitlines()[-1] == "1 of 1 deletions are noticed"
    assert mutation.table([]) == "0 of 0 deletions are noticed"


def test_what_mutate_asks_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[object, ...]] = []

    def survey(*given: object) -> list[mutation.Verdict]:
        asked.append(given)
        return [verdict("k", 4)]

    monkeypatch.setattr(mutation, "survey", survey)
    assert command.mutate(parsed("mutate", "p", "a")) == 0
    assert command.mutate(parsed("mutate", "--limit", "0", "--schedule", "random", "p")) == 0
    assert asked == [(["p", "a"], ["late", "eager", "random"], 60.0), (["p"], ["random"], None)]
    assert capsys.readouterr() == (f"{mutation.table([verdict('k', 4)])}\n" * 2, "")

    def interrupted(*given: object) -> list[mutation.Verdict]:
        raise KeyboardInterrupt

    def refused(*given: object) -> list[mutation.Verdict]:
        raise ProgramError("why")

    for instead, status in ((interrupted, 130), (refused, 2)):
        monkeypatch.setattr(mutation, "survey", instead)
        assert command.mutate(parsed("mutate", "p")) == status
    assert capsys.readouterr() == ("", "phasebit: why\n")

    def interrupted_later(*given: object) -> Iterator[mutation.Verdict]:
        yield verdict("k", 4)
        raise KeyboardInterrupt

    monkeypatch.setattr(mutation, "survey", interrupted_later)
    assert command.mutate(parsed("mutate", "p")) == 130  # and what it knew is not lost
    assert capsys.readouterr() == (f"{mutation.table([verdict('k', 4)])}\n", "")
