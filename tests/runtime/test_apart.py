"""A run in a process of its own: what is started, and what comes back."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import phasebit
from phasebit import process
from phasebit.runtime import apart
from phasebit.runtime.report import AsJson, End, Report

PACKAGE = str(Path(phasebit.__file__).resolve().parent.parent)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The commands that would have been started; each writes a report where it is told to."""
    asked: list[dict[str, Any]] = []

    def run(
        command: list[str], timeout: float, cwd: Path | None, env: Mapping[str, str]
    ) -> process.Finished:
        file = next(word for word in command if os.path.basename(word) == "report")
        asked.append({
            "command": command, "timeout": timeout, "cwd": cwd, "env": dict(env), "file": file,
        })  # fmt: skip
        with open(file, "w", encoding="utf-8") as out:
            AsJson(out).ended(End(7), None)
        return process.Finished("out", "", 7, 0.5)

    monkeypatch.setattr(apart.process, "run", run)
    return asked


def test_a_program_is_run_by_the_command_and_its_report_is_read(
    started: list[dict[str, Any]],
) -> None:
    done, report = apart.run(
        [Path("p"), "--a"], 2.5, 9.0, "--fast", environment={"B": "c"}, cwd=Path("f")
    )
    assert (done.stdout, done.status, report) == ("out", 7, Report(end=End(7)))
    (asked,) = started
    assert asked["command"] == [
        sys.executable, "-P", "-m", "phasebit", "run", "--limit", "2.5", "--quiet",
        "--error-exitcode", "0", "--report-format", "json", "--report", asked["file"], "--fast",
        Path("p"), "--a",
    ]  # fmt: skip
    assert asked["timeout"] == 9.0 and asked["cwd"] == Path("f")
    assert asked["env"] == {"B": "c", "PYTHONPATH": PACKAGE}
    assert not os.path.exists(asked["file"])


def test_the_child_has_this_package_and_this_environment(
    started: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/more")
    monkeypatch.setenv("OWN", "x")
    apart.reported(lambda file: ["some.module", file], 3.0)
    (asked,) = started
    assert asked["command"] == [sys.executable, "-P", "-m", "some.module", asked["file"]]
    assert asked["env"]["PYTHONPATH"] == f"{PACKAGE}{os.pathsep}/more"
    assert asked["env"]["OWN"] == "x" and asked["timeout"] == 3.0
