"""Programs that measure: their file is read, and one that fails is no measurement."""

from __future__ import annotations

from pathlib import Path

import pytest

from phasebit import toolchain
from phasebit.instruments import programs


def script(folder: Path, text: str) -> Path:
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_the_times_are_those_of_the_file_that_the_program_wrote(tmp_path: Path) -> None:
    program = script(tmp_path, '[ "$1" = warm ] && [ "$2" = --json ] && echo \'{"us": [2]}\' > $3')
    assert programs.times(program, "warm") == {"us": [2]}


@pytest.mark.parametrize(
    "ends, says",
    [("echo broken; exit 3", "status 3: broken"), ("sleep 5", "did not end in time")],
)
def test_a_program_that_fails_is_no_measurement(
    ends: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "SECONDS", 0.5)
    with pytest.raises(toolchain.CudaError, match=says):
        programs.times(script(tmp_path, ends))


def test_a_sensor_that_says_no_number_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path, "echo '[N/A]'").rename(tmp_path / "nvidia-smi")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(toolchain.CudaError, match=r"no number for power\.limit: \[N/A\]"):
        programs.sensor("power.limit")
    (tmp_path / "nvidia-smi").unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(toolchain.CudaError, match=r"no nvidia-smi on PATH to ask for power\.limit"):
        programs.sensor("power.limit")
