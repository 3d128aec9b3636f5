"""The doors for other packages' kernels, where those packages are not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import phasebit.cute
import phasebit.triton
from phasebit.doors import whole_programs
from phasebit.emulator import LaunchError
from phasebit.emulator.findings import Finding, say
from phasebit.runtime import in_process, library
from phasebit.runtime.in_process import Runs


@pytest.mark.parametrize(
    ("door", "module", "words"),
    [
        (phasebit.triton, "triton", "phasebit.triton needs Triton, .* pip install triton"),
        (phasebit.cute, "cuda.bindings", "phasebit.cute needs CuTe DSL, .* nvidia-cutlass-dsl"),
    ],
    ids=["triton", "cute"],
)
def test_a_package_that_is_missing_is_named_with_the_remedy(door, module, words, monkeypatch):
    for name in (module, module.partition(".")[0]):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match=words), door.emulated():
        raise AssertionError("it was entered")


# -- whole programs ------------------------------------------------------------------------


@contextmanager
def door(target: str, *, schedules: str) -> Iterator[Runs]:
    """One that needs no package; what is found is known when the block is left."""
    runs = Runs()
    try:
        yield runs
    finally:
        runs.found([Finding("race", say("found"))])


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """run(text, *words): the status of a program, behind that door."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(in_process, "process", lambda: None)
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(sys, "path", [*sys.path])

    def start(text: str, *words: str, through=door) -> int:
        Path("program.py").write_text(text)
        return whole_programs.run("phasebit.door", through, "sm_90a", words or ["program.py"])

    return start


@pytest.mark.parametrize(("text", "status", "said"), [
    ("", 0, ""), ("raise SystemExit", 0, ""), ("raise SystemExit(3)", 3, ""),
    ("raise SystemExit(False)", 0, ""), ("raise SystemExit('no GPU here')", 1, "no GPU here\n"),
    ("raise KeyboardInterrupt", 130, ""),
])  # fmt: skip
def test_how_a_program_ends_is_how_it_would_without_the_door(text, status, said, run, capsys):
    assert run(text) == status
    assert capsys.readouterr() == ("", f"{said}phasebit: race: found\n")


def test_a_program_that_fails_shows_its_own_stack_of_frames(run, capsys):
    assert run("import nowhere_at_all") == 1
    said = capsys.readouterr().err
    assert "ModuleNotFoundError: No module named 'nowhere_at_all'\nphasebit: race: found" in said


REFUSED = {
    "--report program.py program.py": "that is the program: name another file",
    "--report ./program.py program.py": "that is the program: name another file",
    "--report program.py 100": "100 cannot be read: No such file or directory",
    "--report program.py --target hopper program.py": "name it as nvcc does",
    "--report . program.py": "the report cannot be written: Is a directory",
}


@pytest.mark.parametrize("words", REFUSED)
def test_a_program_outlives_a_command_that_is_refused(words, run, capsys):
    with pytest.raises(SystemExit, match="2"):
        run("text = 1\n", *words.split())
    assert REFUSED[words] in capsys.readouterr().err.splitlines()[-1]
    assert Path("program.py").read_text() == "text = 1\n"


@pytest.mark.parametrize("error", [LaunchError("why"), library.BuildError("why")])
def test_what_a_door_cannot_do_is_a_sentence(error, run, capsys, monkeypatch):
    def fail() -> None:
        raise error

    monkeypatch.setattr(in_process, "process", fail)
    with pytest.raises(SystemExit, match="2"):
        run("")
    assert capsys.readouterr().err.splitlines()[-1].endswith("error: why")


def test_a_door_without_its_package_is_a_sentence(run, capsys):
    def absent(*_, **__):
        raise ModuleNotFoundError("phasebit.door needs a package: pip install it")

    with pytest.raises(SystemExit, match="2"):
        run("", through=absent)
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.endswith("error: phasebit.door needs a package: pip install it")
