"""A run that is forked is told from one that was started by nothing but its time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from phasebit import keeper, process
from tests import forked

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has what it needs")


@pytest.mark.parametrize("words", [["missing"], ["text"], ["--no-such-option", "text"], ["--help"]])
def test_arguments_folder_streams_and_status(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text").write_text("no program")
    command = [sys.executable, "-P", "-m", "phasebit", "run", *words]
    environment = {**os.environ, "PYTHONPATH": os.fspath(forked.ROOT), "COLUMNS": "60"}

    def ended() -> tuple[str, str, int]:
        done = process.run(command, timeout=60, cwd=tmp_path, env=environment)
        return done.stdout, done.stderr, done.status

    assert keeper.start is forked.start
    seen = ended()
    monkeypatch.setattr(keeper, "start", forked._started)
    assert seen == ended() and any(seen)


def test_other_commands_are_started() -> None:
    for command in ([sys.executable, "-c", "pass"], ["true"]):
        started = keeper.start(command, **forked.PIPES)
        assert isinstance(started, subprocess.Popen) and started.wait(60) == 0
        keeper.end(started)
        started.communicate()
