"""Checks of *When it hangs, when it is wrong*: a hang is ended, a mistake is named."""

from __future__ import annotations

from phasebit.exercises.judge import Wrong, judged
from phasebit.exercises.repairs import diagnosed, healthy

HANGS, NAMED, DEAD = (
    "bytes_without_an_arrival",
    "lane_behind_the_copy",
    "invalidated_before_commit",
)
"""The programs of the exercises, in their order."""


@judged
def arrives(answer: str) -> str:
    """The program that hangs, repaired: the whole text, run under every schedule."""
    return healthy(HANGS, answer)


@judged
def named(answer: tuple[str, int]) -> str:
    """``(kind, line)`` of the second program; ``line`` counts as the page prints it."""
    return diagnosed(NAMED, answer, "may be missed")


@judged
def alive(answer: str) -> str:
    """The third program, repaired, and it still does all that it did."""
    verdict = healthy(DEAD, answer)
    for call in ("tcgen05_commit(&empty)", "tcgen05_commit(&done)", "mbarrier_inval(&empty)"):
        if call not in answer:
            raise Wrong(f"it has no {call} any more")
    return verdict
