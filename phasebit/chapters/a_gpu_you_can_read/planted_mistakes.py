"""Planted mistakes: as what the emulator finds them, and what compute-sanitizer says of them.

The kernels are those of ``tests/emulator/planted``, and some of the book's with a mistake in
them; each has a repaired twin. What was found is in ``records/``, written by
``tests/emulator/record.py``.
"""

from __future__ import annotations

import json
from typing import Any

from phasebit import files, measure
from phasebit.instruments.sanitizer import TOOLS

SANITIZER = "sanitizer_h200.json"
EMULATOR = "emulator_findings.json"

_CELL = {"found": "found", "hung": "hangs", "crashed": "fails", "nothing": "–"}
_BOOK = "book_planted"  # the group of the book's kernels


def table() -> measure.Table:
    """A row for each mistake: as what the emulator finds it, and how each tool ended.

    *found*: the tool named a place in the source; *hangs*: it said nothing and the program never
    ended; *fails*: the program failed and the tool did not say where; –: nothing.
    """
    emulator, sanitizer = _records()
    rows = []
    for name, kinds in emulator["planted"].items():
        said = sanitizer["planted"][name]
        mistake = name.partition("/")[2].replace("_", " ")
        cells = [_CELL[said[tool]["verdict"]] for tool in TOOLS]
        rows.append((mistake, ", ".join(kinds) or "–", *cells))
    return measure.Table(("mistake", "emulator", *TOOLS), tuple(rows), _source(sanitizer))


def summary() -> measure.Table:
    """How many mistakes of each group the emulator and each tool found.

    The last row counts the repaired twins that they reported all the same.
    """
    emulator, sanitizer = _records()

    def row(text: str, which: str, group: str = "") -> tuple[str, ...]:
        names = [name for name in emulator[which] if name.startswith(group)]
        found = [sum(bool(emulator[which][name]) for name in names)]
        found += [
            sum(sanitizer[which][name][tool]["verdict"] == "found" for name in names)
            for tool in TOOLS
        ]
        return (text, str(len(names)), *map(str, found))

    groups = dict.fromkeys(name.partition("/")[0] for name in emulator["planted"])
    rows = [
        row("the book's kernels" if group == _BOOK else group, "planted", f"{group}/")
        for group in groups
    ]
    rows += [row("all", "planted"), row("repaired", "repaired")]
    heading = ("mistakes in", "kernels", "emulator", *TOOLS)
    return measure.Table(heading, tuple(rows), _source(sanitizer))


def _records() -> tuple[dict[str, Any], dict[str, Any]]:
    emulator, sanitizer = (
        json.loads((files.records() / name).read_text(encoding="utf-8"))
        for name in (EMULATOR, SANITIZER)
    )
    return emulator, sanitizer


def _source(sanitizer: dict[str, Any]) -> str:
    version = sanitizer["compute-sanitizer"].split()[1]  # "Version 2025.3.1.0 (build …"
    return f"{measure.source(sanitizer)}; compute-sanitizer {version}"
