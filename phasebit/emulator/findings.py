"""Who finds what: planted mistakes, the emulator and compute-sanitizer side by side.

The mistakes are in ``tests/emulator/planted`` and in the book's kernels; what the tools said
is in ``records/``, written by ``tests/emulator/record.py``.
"""

from __future__ import annotations

import json

from phasebit import files

SANITIZER = "sanitizer_h200.json"
EMULATOR = "emulator_findings.json"
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
CELL = {"found": "found", "hung": "hangs", "crashed": "fails", "nothing": "–"}


def who_finds_what() -> str:
    """A Markdown table: a row for each planted mistake, a column for each tool.

    The emulator's column says as what it found the mistake.  *found*: the tool named a place
    in the source; *hangs*: it said nothing and the program never ended; *fails*: the program
    failed and the tool did not say where; –: nothing.
    """
    emulator = json.loads((files.records() / EMULATOR).read_text(encoding="utf-8"))
    sanitizer = json.loads((files.records() / SANITIZER).read_text(encoding="utf-8"))
    lines = [f"| mistake | emulator | {' | '.join(TOOLS)} |", "| --- " * (2 + len(TOOLS)) + "|"]
    for name, kinds in emulator["planted"].items():
        said = sanitizer["planted"][name]
        cells = [name.split("/")[1].replace("_", " "), ", ".join(kinds) or "–"]
        cells += [CELL[said[tool]["verdict"]] for tool in TOOLS]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
