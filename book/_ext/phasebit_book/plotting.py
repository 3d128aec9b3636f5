"""A cell that does little but draw has its source folded: the picture is what one reads.

It ends with one call of :mod:`phasebit.draw`, of several lines, to which most of its lines belong.
Or it is one call of a module's function, of which a picture comes and nothing else: how that is
drawn stands in the module.
"""

from __future__ import annotations

import ast

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from phasebit import draw

LEAST = 4
"""Lines of a call that is worth folding."""


def draws(source: str) -> bool:
    """Whether most of a cell is a call that draws.

    >>> draws('draw.bars(\\n    rates,\\n    x_label="GB/s",\\n    title="Copies",\\n)')
    True
    >>> draws('rates = measured()\\ndraw.bars(rates, x_label="GB/s", title="Copies")')
    False
    """
    try:
        last = ast.parse(source).body[-1]
    except (SyntaxError, IndexError):  # a magic, or nothing
        return False
    if not isinstance(last, ast.Expr) or not isinstance(last.value, ast.Call):
        return False
    called = last.value.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    lines = (last.end_lineno or 0) - last.lineno + 1
    written = sum(1 for line in source.splitlines() if line.strip())
    return name.islower() and name in draw.__all__ and lines >= max(LEAST, written / 2)


def shows(source: str) -> bool:
    """Whether a cell is one call of a module's function, beside imports and records that it reads.

    >>> shows('import view\\n\\nview.panels(record, rows=7)')
    True
    >>> shows('view.banks(lambda lane: 8 * lane, "one")'), shows('few = 7\\nview.panels(few)')
    (False, False)
    """
    try:
        *before, last = ast.parse(source).body
    except (SyntaxError, ValueError):
        return False
    if not isinstance(last, ast.Expr) or not isinstance(last.value, ast.Call):
        return False
    own = any(isinstance(each, ast.Lambda) for each in ast.walk(last))  # the page's, not a module's
    called = last.value.func
    of_module = isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name)
    return of_module and not own and all(map(_prepares, before))


def _prepares(line: ast.stmt) -> bool:
    """Whether a line imports something or reads a record."""
    if isinstance(line, ast.Import | ast.ImportFrom):
        return True
    return isinstance(line, ast.Assign) and ast.unparse(line.value).startswith("measure.read(")


def _only_a_picture(cell: nodes.container) -> bool:
    """Whether a cell puts out a picture, and prints nothing."""
    printed = [one for one in cell.children[1:]
               for block in one.findall(nodes.literal_block)
               if "stream" in block["classes"]]  # fmt: skip
    return any(next(one.findall(nodes.image), None) for one in cell.children[1:]) and not printed


class FoldPlots(SphinxTransform):
    """Have MyST-NB fold these sources, beside what is folded anyway."""

    default_priority = 100

    def apply(self, **kwargs: object) -> None:
        for cell in self.document.findall(nodes.container):
            if cell.get("nb_element") != "cell_code" or not cell.children:
                continue
            mode, source = cell.get("hide_mode"), cell.children[0]
            text = source.astext()
            folds = draws(text) or (shows(text) and _only_a_picture(cell))
            if mode in (None, "output") and folds:
                cell["hide_mode"] = "input+output" if mode else "input"
                cell["prompt_show"], cell["prompt_hide"] = "Show the {type}", "Hide the {type}"


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(FoldPlots)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
