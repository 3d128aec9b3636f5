"""The chapters of the book, the tier that each one needs, and the chapters before it.

A notebook says it in its own metadata: ``"phasebit": {"needs": ["barriers"], "tier": "sm_75"}``.
The tier is one of :data:`phasebit.hardware.TIERS`; ``needs`` names the chapters without which
this one cannot be read, and leaves out those that they need themselves. The table and the map
in *How to read* and ``python -m phasebit doctor`` read it here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from phasebit.hardware import TIERS


@dataclass(frozen=True)
class Chapter:
    """One notebook of the book."""

    path: Path
    title: str
    tier: str
    needs: tuple[str, ...] = ()
    """The names of the chapters that a reader needs before, without what those need."""

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

    Raises ``ValueError`` when the notebook has no title, names no known tier, or does not say
    which chapters it needs.
    """
    notebook = json.loads(path.read_text(encoding="utf-8"))
    said = notebook["metadata"].get("phasebit", {})
    tier, needs = said.get("tier"), said.get("needs")
    if tier not in TIERS:
        raise ValueError(
            f"{path.name} names no tier: set its metadata to "
            f'"phasebit": {{"tier": …}} with one of {", ".join(TIERS)}'
        )
    if not isinstance(needs, list) or not all(isinstance(one, str) for one in needs):
        raise ValueError(
            f"{path.name} does not say which chapters it needs: set its metadata to "
            f'"phasebit": {{"needs": […]}} with their names, as in "barriers", or with none'
        )
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            for line in "".join(cell["source"]).splitlines():
                if line.startswith("# "):
                    return Chapter(path, line[2:].strip(), tier, tuple(needs))
    raise ValueError(f"{path.name} has no title: begin a markdown cell with '# '")


_FILE = re.compile(r"^\s*- file: (\S+)$", re.MULTILINE)


def notebooks(book: Path) -> list[Path]:
    """The notebooks under the folder ``book/`` that are chapters, in the order of ``_toc.yml``.

    Those that it does not name come last: by their names, those of the appendix behind the others.
    """
    toc = book.parent / "_toc.yml"
    listed = _FILE.findall(toc.read_text(encoding="utf-8")) if toc.is_file() else []
    place = {book.parent / f"{name}.ipynb": k for k, name in enumerate(listed)}
    every = [*sorted(book.glob("part*/*.ipynb")), *sorted(book.glob("appendix/*.ipynb"))]
    return sorted(every, key=lambda path: place.get(path, len(listed)))


def notebook(book: Path, chapter: str) -> Path:
    """The notebook of a chapter, by its name without a number.

    Raises ``ValueError`` when there is none.
    """
    every = {name(path): path for path in notebooks(book)}
    if chapter not in every:
        raise ValueError(f"the book has no chapter {chapter!r}: choose from {', '.join(every)}")
    return every[chapter]


def chapters(book: Path) -> list[Chapter]:
    """All chapters under the folder ``book/``, in the order of :func:`notebooks`."""
    return [read(path) for path in notebooks(book)]


def way(every: Iterable[Chapter], to: str) -> list[Chapter]:
    """The chapters that a reader needs to get to one, in order, that one last.

    >>> one, two, three = (Chapter(Path(f"{n}"), "", "cpu", needs) for n, needs in
    ...                    [("01_a", ()), ("02_b", ()), ("03_c", ("a",))])
    >>> [chapter.name for chapter in way([one, two, three], "c")]
    ['a', 'c']

    Raises ``ValueError`` for a chapter, asked for or needed, that is not among them.
    """
    known = {chapter.name: chapter for chapter in every}
    wanted, todo = set(), [to]
    while todo:
        name = todo.pop()
        if name not in known:
            raise ValueError(f"the book has no chapter {name!r}: choose from {', '.join(known)}")
        if name not in wanted:
            wanted.add(name)
            todo += known[name].needs
    return [chapter for name, chapter in known.items() if name in wanted]


def place(every: Iterable[Chapter], name: str) -> tuple[int, bool]:
    """Where a chapter stands for who reads the numbered ones in order: to sort by.

    One without a number stands behind the last numbered one of those that it needs.

    >>> one, two, more = (Chapter(Path(name), "", "cpu", needs) for name, needs in
    ...                   [("01_a", ()), ("02_b", ()), ("more", ("a",))])
    >>> sorted("b more a".split(), key=lambda name: place([one, two, more], name))
    ['a', 'more', 'b']
    """
    *before, page = way(every, name)
    if page.number is not None:
        return page.number, False
    return max((each.number or 0 for each in before), default=0), True
