"""The checks can fail: planted changes that nbval, the build and the Makefile must catch."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .notebooks import CHAPTERS, ROOT, code, source

Plant = Callable[[dict[str, Any]], None]

SMALL: dict[str, Any] = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        "phasebit": {"needs": [], "tier": "cpu"},
    },
    "cells": [
        {"cell_type": "markdown", "id": "t", "metadata": {}, "source": "# Small\n\nA page."},
        {
            "cell_type": "code",
            "id": "c",
            "metadata": {},
            "execution_count": 1,
            "source": "print('verdict: OK')\nprint('⏱ 1 ms')",
            "outputs": [
                {
                    "output_type": "stream",
                    "name": "stdout",
                    "text": "verdict: OK\n⏱ 7 ms, recorded\n",
                }
            ],
        },
    ],
}


def book(folder: Path, notebook: dict[str, Any], plant: Plant | None = None) -> Path:
    """A book of one chapter, with the real configuration and extension, and a change planted."""
    notebook = json.loads(json.dumps(notebook))
    if plant:
        plant(notebook)
    for name in ("_config.yml", "conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    for name in ("_ext", "_static"):
        shutil.copytree(ROOT / "book" / name, folder / "book" / name)
    shutil.copy(ROOT / "book" / "references.bib", folder / "book")
    (folder / ".vendor").symlink_to(ROOT / ".vendor")
    (folder / "phasebit").symlink_to(ROOT / "phasebit")
    (folder / "_toc.yml").write_text("format: jb-book\nroot: book/part1/01_small\n")
    path = folder / "book" / "part1" / "01_small.ipynb"
    path.parent.mkdir()
    path.write_text(json.dumps(notebook), encoding="utf-8")
    return path


def nbval(path: Path) -> subprocess.CompletedProcess[str]:
    """nbval over one notebook, by the rules of `make test`."""
    rules = f"--nbval-sanitize-with={ROOT / 'tests' / 'book' / 'sanitize.cfg'}"
    folder = path.parents[2]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--nbval", rules]
    return subprocess.run(
        [*command, f"--rootdir={folder}", str(path)], cwd=folder, capture_output=True, text=True
    )


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """`make book` without the set-up."""
    jupyter_book = Path(sys.executable).with_name("jupyter-book")
    return subprocess.run(
        [str(jupyter_book), "build", ".", "-n", "-W", "--keep-going", "--all"],
        cwd=folder,
        env={**os.environ, "PHASEBIT_EXECUTE": "force"},
        capture_output=True,
        text=True,
    )


def change_verdict(notebook: dict[str, Any]) -> None:
    output = notebook["cells"][1]["outputs"][0]
    output["text"] = "".join(output["text"]).replace("OK", "OK.")


@pytest.mark.book
def test_nbval_passes_the_small_notebook_whatever_its_time_line_says(tmp_path: Path) -> None:
    answer = nbval(book(tmp_path, SMALL))
    assert answer.returncode == 0, answer.stdout
    assert "1 passed" in answer.stdout


@pytest.mark.book
def test_nbval_finds_a_changed_verdict(tmp_path: Path) -> None:
    answer = nbval(book(tmp_path, SMALL, change_verdict))
    assert answer.returncode == 1, answer.stdout
    assert "1 failed" in answer.stdout


@pytest.mark.book
def test_a_cell_whose_verdict_is_not_compared_is_found(tmp_path: Path) -> None:
    """As of every cell of every chapter, when it is executed (tests/changed_verdicts.py)."""

    def plant(notebook: dict[str, Any]) -> None:
        notebook["cells"][1]["metadata"]["tags"] = ["nbval-ignore-output"]

    answer = nbval(book(tmp_path, SMALL, plant))
    assert answer.returncode == 1, answer.stdout
    assert "with other words in place of 'verdict: OK'" in answer.stdout


MEETING = """\
import pathlib, time

pathlib.Path("here.{mine}").touch()
late = time.monotonic() + 60
while not pathlib.Path("here.{other}").exists() and time.monotonic() < late:
    time.sleep(0.05)
print("met:", pathlib.Path("here.{other}").exists())"""
"""A cell that ends well where another one runs at the same time."""


@pytest.mark.book
def test_the_small_book_builds_with_its_notebooks_side_by_side(tmp_path: Path) -> None:
    book(tmp_path, SMALL)
    toc = tmp_path / "_toc.yml"
    names = ["01_small"]
    if len(os.sched_getaffinity(0)) > 1:
        names += ["left", "right"]
        toc.write_text(toc.read_text() + "chapters:\n")
    for mine, other in (names[1:], names[:0:-1]) if names[1:] else ():
        notebook = json.loads(json.dumps(SMALL))
        notebook["cells"][1]["source"] = MEETING.format(mine=mine, other=other)
        (tmp_path / f"book/part1/{mine}.ipynb").write_text(json.dumps(notebook))
        toc.write_text(f"{toc.read_text()}- file: book/part1/{mine}\n")
    answer = build(tmp_path)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    pages = [(tmp_path / f"_build/html/book/part1/{name}.html").read_text() for name in names]
    assert "1. Small" in pages[0] and "⏱ 1 ms" in pages[0], "executed here, not the saved output"
    assert all("met: True" in page for page in pages[1:])


@pytest.mark.book
def test_a_failing_cell_fails_the_build(tmp_path: Path) -> None:
    def plant(notebook: dict[str, Any]) -> None:
        notebook["cells"][1]["source"] = "1 / 0"

    book(tmp_path, SMALL, plant)
    answer = build(tmp_path)
    assert answer.returncode != 0
    assert "ZeroDivisionError" in answer.stdout + answer.stderr


@pytest.mark.book
def test_a_warning_fails_the_build(tmp_path: Path) -> None:
    def plant(notebook: dict[str, Any]) -> None:
        notebook["cells"][0]["source"] += "\n\n{doc}`nowhere`"

    book(tmp_path, SMALL, plant)
    assert build(tmp_path).returncode != 0


@pytest.mark.book
@pytest.mark.nvcc
def test_a_syntax_error_in_a_kernel_fails_the_build(tmp_path: Path) -> None:
    """The first %%cuda cell of the CUDA chapter loses a semicolon."""
    path = next((p for p in CHAPTERS if any("%%cuda" in source(c) for c in code(p))), None)
    if path is None:
        pytest.skip("no chapter has a %%cuda cell yet")

    def plant(notebook: dict[str, Any]) -> None:
        for index, cell in enumerate(notebook["cells"]):
            text = source(cell)
            if cell["cell_type"] == "code" and text.startswith("%%cuda") and ";" in text:
                cell["source"] = text.replace(";", "", 1)
                # what comes before matters, what comes after is never reached
                title = {"cell_type": "markdown", "id": "title", "metadata": {}, "source": "# T"}
                before = [c for c in notebook["cells"][:index] if c["cell_type"] == "code"]
                notebook["cells"] = [title, *before, cell]
                return
        raise AssertionError("no %%cuda cell with a semicolon")

    book(tmp_path, json.loads(path.read_text(encoding="utf-8")), plant)
    (tmp_path / "kernels").symlink_to(ROOT / "kernels")
    answer = build(tmp_path)
    assert answer.returncode != 0
    assert "expected a" in answer.stdout + answer.stderr, "nvcc's own words are shown"
