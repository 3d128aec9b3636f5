"""What was executed for `make book` is compared as nbval compares what it executes itself."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

import conftest
from tests import changed_verdicts, executed

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = next(ROOT.glob("book/*/??_state_machine.ipynb"))


def kept(folder: Path, change: Any) -> None:
    """Put the notebook, changed, where `make book` puts what it has executed."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    change(notebook)
    file = folder / NOTEBOOK.relative_to(ROOT)
    file.parent.mkdir(parents=True)
    nbformat.write(notebook, file)


def first_line(notebook: Any) -> None:
    """Another word in the first line that some cell printed."""
    codes = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert any(changed_verdicts.change(cell.outputs) for cell in codes)


def compared(folder: Path) -> str:
    words = ["-m", "pytest", "-p", "no:cacheprovider", "-q", "--nbval"]
    words += ["--nbval-sanitize-with=tests/book/sanitize.cfg", str(NOTEBOOK)]
    environment = {**os.environ, executed.VARIABLE: str(folder)}
    answer = subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    return answer.stdout.splitlines()[-1]


@pytest.mark.parametrize(("change", "failed"), [(lambda notebook: None, 0), (first_line, 1)])
def test_the_outputs_of_make_book_are_compared(change: Any, failed: int, tmp_path: Path) -> None:
    kept(tmp_path, change)
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    passed = sum(cell.cell_type == "code" for cell in cells) - failed
    said = f"{failed} failed, {passed} passed" if failed else f"{passed} passed"
    assert compared(tmp_path).startswith(said)


def test_options_of_the_caller_are_not_for_a_run_that_a_test_starts() -> None:
    ask = "import os, conftest; print(os.environ.get('PYTEST_ADDOPTS'))"
    answer = subprocess.run(
        [sys.executable, "-c", ask], cwd=ROOT, env={**os.environ, "PYTEST_ADDOPTS": "-vv"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert answer.stdout == "None\n", answer.stderr


def test_a_notebook_that_was_changed_since_is_executed(tmp_path: Path, monkeypatch: Any) -> None:
    def another(notebook: Any) -> None:
        next(cell for cell in notebook.cells if cell.cell_type == "code").source += "\n1"

    monkeypatch.setenv(executed.VARIABLE, str(tmp_path))
    assert executed.cells(NOTEBOOK, ROOT) == []
    kept(tmp_path, another)
    assert executed.cells(NOTEBOOK, ROOT) == []


def test_without_make_book_nbval_executes(monkeypatch: Any) -> None:
    monkeypatch.delenv(executed.VARIABLE, raising=False)
    assert executed.cells(NOTEBOOK, ROOT) == []


@pytest.mark.parametrize(("fails", "starts"), [(0, 1), (1, 2), (2, 2)])
def test_a_kernel_that_does_not_start_is_started_once_more(fails: int, starts: int) -> None:
    class Collector:
        started = 0

        def setup(self) -> None:
            self.started += 1
            if self.started <= fails:
                raise RuntimeError("Kernel died before replying to kernel_info")

    collector = Collector()
    conftest.start_again(collector)
    with pytest.raises(RuntimeError) if fails == 2 else contextlib.nullcontext():
        collector.setup()
    assert collector.started == starts
