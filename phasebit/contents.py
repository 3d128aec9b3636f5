"""The chapters of the book and the tier each one needs.

A notebook says it in its own metadata: ``"phasebit": {"tier": "sm_75"}``, with one of
:data:`phasebit.hardware.TIERS`. The table in *How to read* and ``python -m phasebit doctor``
both read it here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from phasebit.hardware import TIERS


@dataclass(frozen=True)
class Chapter:
    """One notebook of the book."""

    path: Path
    title: str
    tier: str

    @property
    def number(self) -> int | None:
        """The chapter's number; ``None`` for pages without one."""
        return number(self.path)

    @property
    def name(self) -> str:
        """What the chapter's folders and its record are called."""
        return name(self.path)


def number(notebook: Path) -> int | None:
    """The number in a notebook's file name: 7 of ``07_idea``, or ``None``."""
    head = notebook.stem.partition("_")[0]
    return int(head) if head.isdigit() else None


def name(notebook: Path) -> str:
    """A notebook's file name without its number: ``idea``."""
    head, _, rest = notebook.stem.partition("_")
    return rest if head.isdigit() else notebook.stem


def read(path: Path) -> Chapter:
    """The chapter in a notebook file.

    Raises ``ValueError`` when the notebook has no title or names no known tier.
    """
    notebook = json.loads(path.read_text(encoding="utf-8"))
    tier = notebook["metadata"].get("phasebit", {}).get("tier")
    if tier not in TIERS:
        raise ValueError(
            f"{path.name} names no tier: set its metadata to "
            f'"phasebit": {{"tier": …}} with one of {", ".join(TIERS)}'
        )
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            for line in "".join(cell["source"]).splitlines():
                if line.startswith("# "):
                    return Chapter(path, line[2:].strip(), tier)
    raise ValueError(f"{path.name} has no title: begin a markdown cell with '# '")


def notebooks(book: Path) -> list[Path]:
    """The notebooks under the folder ``book/`` that are chapters, those of the appendix last."""
    return [*sorted(book.glob("part*/*.ipynb")), *sorted(book.glob("appendix/*.ipynb"))]


def notebook(book: Path, chapter: str) -> Path:
    """The notebook of a chapter, by its name without a number.

    Raises ``ValueError`` when there is none.
    """
    every = {name(path): path for path in notebooks(book)}
    if chapter not in every:
        raise ValueError(f"the book has no chapter {chapter!r}: choose from {', '.join(every)}")
    return every[chapter]


def chapters(book: Path) -> list[Chapter]:
    """All chapters under the folder ``book/``, in order; those without a number come last."""
    found = map(read, notebooks(book))
    return sorted(found, key=lambda one: (one.number is None, one.number or 0, one.path))
