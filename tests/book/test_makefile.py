"""The commands: each explains itself, and refuses in a sentence what it cannot do."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from .notebooks import ROOT


def make(*words: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "--no-print-directory", *words],
        cwd=cwd,
        env={**os.environ, "MAKEFLAGS": "", **environment},
        capture_output=True,
        text=True,
    )


def test_help_lists_every_target_in_one_line() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert phony
    lines = make("help").stdout.splitlines()
    assert [line.split()[1] for line in lines] and all(len(line) < 100 for line in lines)
    assert {line.split()[1] for line in lines} == set(phony[1].split())


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """An empty checkout: the Makefile and the files that it reads."""
    for name in ("Makefile", "requirements.txt", "requirements-cuda.txt", "pyproject.toml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    for name in ("book", "phasebit", "kernels", "records"):
        (tmp_path / name).mkdir()
    return tmp_path


def test_an_old_python_is_refused_in_a_sentence(checkout: Path) -> None:
    old = checkout / "python3.8"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.8.1\nexit 1\n')
    old.chmod(0o755)
    answer = make("setup", f"PYTHON={old}", cwd=checkout)
    assert answer.returncode != 0
    assert "needs Python 3.11 or newer" in answer.stderr and "Python 3.8.1" in answer.stderr
    assert "PYTHON=" in answer.stderr
    assert not (checkout / ".venv").exists()


def test_a_python_without_venv_is_told_the_remedy(checkout: Path) -> None:
    bare = checkout / "python3"
    bare.write_text('#!/bin/sh\ncase "$1" in -m) exit 1;; *) exit 0;; esac\n')
    bare.chmod(0o755)
    answer = make("setup", f"PYTHON={bare}", cwd=checkout)
    assert answer.returncode != 0
    assert "apt-get install python3-venv" in answer.stderr


def test_a_second_setup_does_nothing_twice() -> None:
    if not (ROOT / ".vendor" / ".done").exists():
        pytest.skip("not set up by make")
    answer = make("-n", "setup")
    assert "pip install" not in answer.stdout and "npm" not in answer.stdout


def test_record_without_a_gpu_is_refused_in_a_sentence() -> None:
    if not (ROOT / ".vendor" / ".done").exists():
        pytest.skip("not set up by make")
    answer = make("record", CUDA_VISIBLE_DEVICES="")
    assert answer.returncode != 0
    assert "needs an NVIDIA GPU" in answer.stderr + answer.stdout
    assert "Traceback" not in answer.stderr
