"""The runs under ``records/runs/`` are those of the book's ``%%cuda`` cells, and of no others."""

from __future__ import annotations

import shlex

import pytest

from phasebit import files, replay

from .notebooks import CHAPTERS, code, source

KEPT = {path.stem for path in (files.records() / "runs").glob("*.json")}


def wanted(cell: str) -> str:
    """The name of the record of a ``%%cuda`` cell."""
    magic, _, program = cell.partition("\n")
    words = shlex.split(magic)
    args = words[words.index("--args") + 1] if "--args" in words else ""
    return replay.key(program, args=args.split())


def programs() -> dict[str, str]:
    """Every cell that runs a program -> the name of its record."""
    return {
        f"{path.stem}[{cell['id']}]": wanted(source(cell))
        for path in CHAPTERS
        for cell in code(path)
        if source(cell).startswith("%%cuda")
    }


@pytest.mark.parametrize("cell", programs())
def test_a_cell_has_its_record(cell: str) -> None:
    """Red after a change of a kernel or a header, until ``make record`` has run on a GPU."""
    assert programs()[cell] in KEPT


def test_no_record_is_left_over() -> None:
    assert set(programs().values()) >= KEPT
