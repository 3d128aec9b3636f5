"""Exercises in the page, for the chapters whose judges need no more than the standard library.

``exercises.js`` finds the cells; what this gives the page is what an answer may use: the imports of
the chapter's code cells, and the cell in which its judge is imported. Every page gets the names of
all of them, to count those that were solved.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from .written import write_script

PART = "part1_pipelines"
NAMES = "exercise_names.js"
"""Which exercises a page has: what :file:`progress.js` counts."""

_EXERCISE = re.compile(r"(\w+): not answered yet\s*$")


def before(notebook: Path) -> str:
    """What runs before each answer of a chapter, as Python; empty where it has no judge."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    imports: list[str] = []
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] != "code" or source.lstrip().startswith(("%", "try:")):
            continue
        try:
            tree = ast.parse(source)
        except SyntaxError:  # a magic
            continue
        found = [each for each in tree.body if isinstance(each, ast.Import | ast.ImportFrom)]
        if any(isinstance(each, ast.ImportFrom) and any(name.name == "exercises"
               for name in each.names) for each in found):  # fmt: skip
            judge = [each for each in tree.body if not isinstance(each, ast.Expr)]
            return "\n".join(["import phasebit as pb", *imports, *map(ast.unparse, judge)])
        imports += [f"try:\n    {ast.unparse(each)}\nexcept ImportError:\n    pass"
                    for each in found]  # fmt: skip
    return ""


def names(notebook: Path) -> list[str]:
    """The exercises of a chapter, by the names under which their judges speak.

    As :file:`exercises.js` finds them: the last words of a cell's output.
    """
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    said = ("".join("".join(one.get("text", "")) for one in cell.get("outputs", []))
            for cell in cells)  # fmt: skip
    return [found[1] for text in said if (found := _EXERCISE.search(text))]


def write_names(app: Sphinx) -> None:
    """Write which exercises each page of Part I has."""
    source = Path(app.srcdir)
    chapters = sorted(source.glob(f"book/{PART}/*.ipynb"))
    found = {
        path.relative_to(source).with_suffix(".html").as_posix(): names(path)
        for path in chapters if before(path)
    }  # fmt: skip
    write_script(app, NAMES, phasebitExercises=found)


def add_exercises(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Give a page of Part I what its exercises need."""
    source = Path(app.srcdir) / f"{page}.ipynb"
    if f"/{PART}/" not in f"/{page}" or not source.is_file() or not (text := before(source)):
        return
    given = json.dumps(text).replace("</", "<\\/")
    context["body"] += f'<script type="application/json" id="phasebit-before">{given}</script>'
    app.add_js_file("python.js", loading_method="defer")
    app.add_js_file("exercises.js", loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_js_file(NAMES, loading_method="defer")
    app.connect("builder-inited", write_names)
    app.connect("html-page-context", add_exercises)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
