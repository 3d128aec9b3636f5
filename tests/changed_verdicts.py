"""nbval would see another verdict: asked of each cell of a notebook when it has passed.

What the cell printed is compared once more, with a word added to the first line that was saved
and does not depend on the machine. So no notebook is executed again to see that.
"""

from __future__ import annotations

import copy
from typing import Any


def unnoticed(cell: Any) -> str:
    """The line of a cell of nbval's, executed, that might as well say something else; or ''."""
    saved = copy.deepcopy(cell.cell.outputs)
    line = change(saved)
    if not line:
        return ""
    told, cell.format_output_compare = cell.format_output_compare, lambda *_: None
    try:
        same = cell.compare_outputs(cell.test_outputs, saved)
    finally:
        cell.format_output_compare = told
    return line if same or not cell.options["check"] else ""


def change(outputs: list[Any]) -> str:
    """Change the first printed line that is no ⏱ line, in place, and return what it was; or ''."""
    for output in outputs:
        if output.output_type != "stream":
            continue
        lines = output.text.splitlines(keepends=True)
        for number, line in enumerate(lines):
            if line.strip() and not line.startswith("⏱"):
                lines[number] = line.rstrip("\n") + " (changed)\n"
                output.text = "".join(lines)
                return line.strip()
    return ""
