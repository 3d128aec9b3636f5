"""What the tools share that run a program on the emulator."""

from __future__ import annotations

import re
from pathlib import Path

from phasebit import process
from phasebit.bugs import Outcome

_ENDED = re.compile(r"right$|wrong: \d+ of \d+$")


def ended(seen: Outcome) -> Outcome:
    """The same run.

    Raises ``RuntimeError`` where nothing was found and the program has no result either: that is
    no silence. A machine that is too slow, or an emulator that does not start, leads there.
    """
    if not seen.findings and not _ENDED.match(seen.result):
        raise RuntimeError(
            f"a program came to no end on the emulator, and nothing was found: status "
            f"{seen.status}: {seen.printed[-500:]}"
        )
    return seen


def commit() -> str:
    """The last commit of the package, with a + where its files are others; empty without git."""
    package = Path(__file__).resolve().parents[1]
    asked = ["git", "-C", str(package), "log", "-1", "--format=%h", "--abbrev=9", "--", "."]
    try:
        done = process.run(asked, timeout=10)
        changed = process.run(["git", "-C", str(package), "diff", "--quiet", "HEAD", "--", "."],
                              timeout=10).status  # fmt: skip
    except OSError:
        return ""
    last = done.stdout.strip() if done.status == 0 else ""
    return f"{last}+" if last and changed else last


__all__ = ["commit", "ended"]
