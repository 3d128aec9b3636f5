"""The notebooks of the book and what a test wants to know about one."""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from phasebit import contents

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "_ext"))

from phasebit_book.plain import directives  # noqa: E402

CHAPTERS = contents.notebooks(ROOT / "book")

Cell = dict[str, Any]


@cache
def config() -> dict[str, Any]:
    """The book's ``_config.yml``."""
    return yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))


def address() -> str:
    """The repository's address, from the one place that says it."""
    return config()["repository"]["url"]


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def source(cell: Cell) -> str:
    return "".join(cell["source"])


def code(path: Path) -> list[Cell]:
    return [cell for cell in read(path)["cells"] if cell["cell_type"] == "code"]


def prose(path: Path) -> str:
    """All Markdown of a chapter, as Sphinx reads it."""
    cells = [cell for cell in read(path)["cells"] if cell["cell_type"] == "markdown"]
    return "\n\n".join(directives(source(cell)) for cell in cells)


def solutions(path: Path) -> list[str]:
    """The Python of a chapter's folded solutions, in their order."""
    return re.findall(r"~~~python\n(.*?)~~~", prose(path), re.DOTALL)


def texts(cell: Cell) -> list[str]:
    """Everything a cell's saved outputs say, as text."""
    said = []
    for output in cell["outputs"]:
        if output["output_type"] == "stream":
            said.append("".join(output["text"]))
        elif output["output_type"] == "error":
            said.append("\n".join(output["traceback"]))
        else:
            said += [
                "".join(part) for part in output["data"].values() if not isinstance(part, dict)
            ]
    return said
