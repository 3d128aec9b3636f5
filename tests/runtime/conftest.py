"""Compile the test programs with nvcc, run them on the fake backend."""

from __future__ import annotations

import hashlib
import io
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest

from phasebit import build_cache, toolchain
from phasebit.runtime.backend import Backend
from phasebit.runtime.command import nvcc_command
from phasebit.runtime.protocol import ENVIRONMENT
from phasebit.runtime.report import ForPeople
from phasebit.runtime.run_program import run_program

from .fake import FakeBackend

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Ran:
    """What a run left: exit status, standard output, and what the device half said."""

    status: int
    output: str
    said: str


@pytest.fixture(scope="session")
def compiled() -> Callable[..., Path]:
    """compiled(name, *nvcc options): the program, built once for all processes that ask."""

    def compile_program(name: str, *options: str) -> Path:
        source = PROGRAMS / f"{name}.cu"
        try:
            command = nvcc_command([str(source), *options])
        except toolchain.ToolMissing as error:
            pytest.skip(str(error))
        # Where the stand-in lies changes nothing in a program that is linked with it.
        told = [word for word in command if not word.startswith("-L")]
        facts = repr((source.read_text("utf-8"), told, toolchain.nvcc().version))
        key = hashlib.sha256(facts.encode()).hexdigest()[:32]

        def make(folder: Path) -> None:
            folder.mkdir()
            done = subprocess.run([*command, "-o", folder / name], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr

        return build_cache.keep(f"tests/{key}", make) / name

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
            [program, *arguments],
            backend or FakeBackend(),
            limit=limit,
            reporter=ForPeople(log),
            **more,
        )
        out, err = capfd.readouterr()
        return Ran(status, out, log.getvalue() + err)

    return run_it


def pytest_make_parametrize_id(val: object) -> str | None:
    """Names of tests say no number of the protocol's: they stay when one is changed."""
    return type(val).__name__ if isinstance(val, Enum) else None


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_LAUNCH_BLOCKING", raising=False)
    monkeypatch.delenv(ENVIRONMENT, raising=False)
