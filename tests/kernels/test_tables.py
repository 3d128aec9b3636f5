"""The README.md of each folder of kernels says what is in it now."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from phasebit import files

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import kernel_tables


def test_the_tables_are_current() -> None:
    """Red after a change of a first sentence, a length or a record: run tools/kernel_tables.py."""
    assert [*kernel_tables.stale()] == []


def test_a_new_kernel_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "include"
    folder.mkdir()
    (folder / "one.cuh").write_text("// What one holds. And more.\n#pragma once\n")
    monkeypatch.setattr(files, "kernels", lambda: tmp_path)
    (path, text), = kernel_tables.stale().items()  # fmt: skip
    assert path == folder / "README.md" and "| What one holds. | 2 |" in text
    path.write_text(text)
    assert not kernel_tables.stale()
    (folder / "two.cuh").write_text("// Another.\n#pragma once\n")
    assert "two.cuh" in kernel_tables.stale()[path]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("// Rung b. Coalesced: as it\n// is. And more.\nint x;", "Coalesced: as it is."),
        ("// A thing:\n//     an example. With a point.\n// more\n", "A thing"),
        ("// What lies in one. x is a number.\n", "What lies in one."),
        ('# mypy: ignore-errors\n"""A kernel in Python. More."""\n', "A kernel in Python."),
    ],
)  # fmt: skip
def test_the_idea_is_the_first_sentence(text: str, said: str) -> None:
    assert kernel_tables.idea(text) == said
