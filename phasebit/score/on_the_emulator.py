"""What the tools share that run a program on the emulator."""

from __future__ import annotations

import re

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


__all__ = ["ended"]
