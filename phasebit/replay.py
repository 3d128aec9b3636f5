"""What a program printed on the GPU that recorded it: its times, for machines without one.

A run is found by its content: the program's code and the book's headers it includes, without
comments and spacing, its compiler options and its arguments. A program that differs in one
token has no record, and nothing is replayed for it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from phasebit import files, toolchain

_TOKENS = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\s+|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|.""",
    re.DOTALL,
)


@dataclass(frozen=True)
class RecordedRun:
    """How a program ended, and where it ran."""

    gpu: str
    driver: str
    cuda: str  # version of nvcc
    date: str  # "2026-11-21"
    stdout: str
    stderr: str
    status: int
    stopped: str  # as in process.Finished
    line: int | None  # of the source, where it was stopped or crashed
    timeout: float  # seconds it was given


def normal_form(source: str) -> str:
    """A source without comments, and with one space for each stretch of spacing.

    A line end counts before and after a directive (``#include …``) and is a space elsewhere.

    >>> normal_form("int  x;  // a count")
    'int x;'
    """
    lines = [""]
    for match in _TOKENS.finditer(source):
        text = match[0]
        if text.startswith(("//", "/*")):
            text = " "
        if not text.isspace():
            lines[-1] += text
        elif "\n" in text:
            lines.append("")
        elif not lines[-1].endswith(" "):
            lines[-1] += " "
    pieces: list[str] = []
    after_directive = False
    for line in filter(None, map(str.strip, lines)):
        directive = line.startswith("#")
        pieces += ["\n" if directive or after_directive else " ", line]
        after_directive = directive
    return "".join(pieces[1:])


def key(source: str, options: Sequence[str] = (), args: Sequence[str] = ()) -> str:
    """The name under which a run of this program is recorded."""
    headers = {name: normal_form(text) for name, text in toolchain.headers(source).items()}
    facts = [normal_form(source), headers, list(options), list(args)]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def _path(name: str) -> Path:
    return files.records() / "runs" / f"{name}.json"


def find(name: str) -> RecordedRun | None:
    """The recorded run of that key, or ``None``."""
    path = _path(name)
    if not path.exists():
        return None
    return RecordedRun(**json.loads(path.read_text(encoding="utf-8")))


def save(name: str, run: RecordedRun) -> Path:
    """Record a run under its key; returns the file."""
    path = _path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(asdict(run), indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
    return path
