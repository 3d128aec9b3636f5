"""Exercises in the page, for the chapters whose judges need no more than the standard library.

``exercises.js`` finds the cells; what this gives the page is what an answer may use: the imports of
the chapter's code cells, and the cell in which its judge is imported.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

PART = "part1_pipelines"


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
    app.connect("html-page-context", add_exercises)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
