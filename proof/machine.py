"""The programs that need more than one thread or more than registers."""

from __future__ import annotations

from collections.abc import Iterator

from proof import barriers, matrices, memory, warps
from proof.program import Program


def programs() -> Iterator[Program]:
    """All of them, family by family."""
    for family in (memory, warps, barriers, matrices):
        yield from family.programs()
