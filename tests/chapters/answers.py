"""What the tests of exercises share: why an answer is refused, and the book's own solutions."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import phasebit
from tests.book.notebooks import code, prose, solutions, source

_SOLUTION = re.compile(r"\{solution\} ([\w-]+).*?```python\n(.*?)```", re.DOTALL)


def why_wrong(check: Any, *answers: object) -> str:
    """Why the check refuses the answer, or "" when it does not."""
    return check.verdict(*answers).partition(": not right yet: ")[2]


def solved(notebook: Path) -> dict[str, Any]:
    """What the folded solutions of a chapter define, executed one after the other."""
    names: dict[str, Any] = {}
    for solution in solutions(notebook):
        exec(solution, names)
    return names


def solve(notebook: Path, name: str, module: ModuleType) -> list[str]:
    """Execute each solution of a chapter where the reader would type it, and its check.

    ``name`` is what the notebook calls its module of checks. Returns the exercises' labels.
    """
    written = dict(_SOLUTION.findall(prose(notebook)))
    checks = {}
    for cell in code(notebook):
        if found := re.match(r"# exercise: ([\w-]+)\n", source(cell)):
            checks[found[1]] = source(cell).strip().splitlines()[-1]
    assert written.keys() == checks.keys() and written
    for label, solution in written.items():
        scope = {"pb": phasebit, name: module}
        exec(solution, scope)
        exec(checks[label], scope)
    return [*written]
