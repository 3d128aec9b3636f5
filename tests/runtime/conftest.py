"""Compile the test programs with nvcc, run them on the fake backend."""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from phasebit import toolchain
from phasebit.runtime.backend import Backend
from phasebit.runtime.command import nvcc_command
from phasebit.runtime.program import run_program

from .fake import FakeBackend

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Ran:
    """What a run left: exit status, standard output, and what the device half said."""

    status: int
    output: str
    said: str


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """compiled(name, *nvcc options): the program, built once."""
    folder = tmp_path_factory.mktemp("programs")
    built: dict[tuple[str, ...], Path] = {}

    def compile_program(name: str, *options: str) -> Path:
        if (name, *options) not in built:
            try:
                command = nvcc_command([str(PROGRAMS / f"{name}.cu"), *options])
            except toolchain.ToolMissing as error:
                pytest.skip(str(error))
            program = folder / f"{name}{len(built)}"
            done = subprocess.run([*command, "-o", program], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            built[name, *options] = program
        return built[name, *options]

    return compile_program


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """run(program, *arguments): run it on the fake backend."""

    def run_it(
        program: Path,
        *arguments: str,
        backend: Backend | None = None,
        limit: float = 30,
        **more: object,
    ) -> Ran:
        log = io.StringIO()
        capfd.readouterr()
        status = run_program(
            [program, *arguments], backend or FakeBackend(), limit=limit, log=log, **more
        )
        out, err = capfd.readouterr()
        return Ran(status, out, log.getvalue() + err)

    return run_it


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_LAUNCH_BLOCKING", raising=False)
    os.environ.pop("PHASEBIT_DEVICE", None)
