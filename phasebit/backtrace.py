"""Where a program was stopped: ``backtrace.c``, linked into it, writes what is read here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from phasebit import process

SOURCE = Path(__file__).with_suffix(".c")

VARIABLE = "PHASEBIT_STOPPED"
"""Environment variable: the file into which a program writes where it was stopped."""

_SECONDS = 60.0


def calls_at(program: Path, addresses: Iterable[int]) -> list[tuple[str, str, int]]:
    """The function, the file and the line of each address in a program, inlined ones first.

    The line is 0 where the program does not say; nothing where no addr2line is here.
    """
    tool = shutil.which("addr2line")
    words = [f"{address:#x}" for address in addresses]
    if not words or tool is None:
        return []
    command = [tool, "-f", "-C", "-i", "-e", os.fspath(program), *words]
    lines = process.run(command, timeout=_SECONDS).stdout.splitlines()
    found = []
    for function, place in zip(lines[::2], lines[1::2], strict=False):
        file, _, number = place.partition(" ")[0].rpartition(":")
        found.append((function, file, int(number) if number.isdigit() else 0))
    return found


def stopped_at(program: Path, report: Path, name: str) -> int | None:
    """The line of the source ``name`` at which a program was stopped, if it says so.

    ``report`` is what ``backtrace.c`` wrote: of its addresses the innermost in that source counts.
    """
    addresses = report.read_text(encoding="ascii").split() if report.exists() else []
    tool = shutil.which("addr2line")
    if not addresses or tool is None:
        return None
    command = [tool, "-e", os.fspath(program), *addresses]
    for line in process.run(command, timeout=_SECONDS).stdout.splitlines():
        file, _, number = line.partition(" ")[0].rpartition(":")
        if Path(file).name == name and number.isdigit():
            return int(number)
    return None
