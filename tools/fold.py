"""Fold in JupyterLab and Colab what the page folds; write exercises so that both show them.

    python tools/fold.py [NOTEBOOK…]      all notebooks of the book, if none is named

Nothing is executed, and what is folded already stays as it is. The page reads the tags
``hide-output`` and ``hide-input``; JupyterLab and Colab each read a field of their own. Markdown
has no such field in Colab, so a solution stands in ``<details>``, which all three fold. Neither
knows directives: exercises and solutions become plain Markdown, of which the book makes them again
(``book/_ext/phasebit_book/plain.py``).
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))

from phasebit_book.plain import plain  # noqa: E402


def fold(notebook: nbformat.NotebookNode) -> None:
    """Fold each cell of a notebook by its tags, and make its exercises plain Markdown."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            _fold_code(cell)
        elif cell.cell_type == "markdown":
            cell.source = plain(cell.source)


def _fold_code(cell: nbformat.NotebookNode) -> None:
    """JupyterLab reads ``jupyter``; Colab ``collapsed`` for outputs, ``cellView`` for code."""
    tags = cell.metadata.get("tags", [])
    jupyter = {**cell.metadata.pop("jupyter", {})}
    jupyter.pop("outputs_hidden", None)
    jupyter.pop("source_hidden", None)
    cell.metadata.pop("collapsed", None)
    cell.metadata.pop("cellView", None)
    if "hide-output" in tags:
        cell.metadata["collapsed"] = jupyter["outputs_hidden"] = True
    if "hide-input" in tags:
        cell.metadata["cellView"] = "form"
        jupyter["source_hidden"] = True
    if jupyter:
        cell.metadata["jupyter"] = jupyter


if __name__ == "__main__":
    from phasebit import contents

    for path in map(Path, sys.argv[1:] or contents.notebooks(ROOT / "book")):
        notebook = nbformat.read(path, as_version=4)
        before = nbformat.writes(notebook)
        fold(notebook)
        if nbformat.writes(notebook) != before:
            nbformat.write(notebook, path)
            print(f"{path.name}: folded")
