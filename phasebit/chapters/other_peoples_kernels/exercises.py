"""Checks of *What it found in other people's kernels*: a mistake is found, and two are repaired."""

from __future__ import annotations

import re

from phasebit import bugs
from phasebit.exercises.judge import Wrong, judged
from phasebit.exercises.repairs import diagnosed, healthy

UNSEEN, FREED, LEFT = (
    "bulk_wait_by_one_thread",
    "tensor_memory_freed_while_read",
    "remote_arrive_after_exit",
)
"""The bugs of the three exercises, in their order."""


@judged
def diagnosis(answer: tuple[str, int]) -> str:
    """``(kind, line)``: the kind of the first bug, and the number of one of the lines that collide.

    ``line`` counts in the text as the page prints it, without the words at its head.
    """
    return diagnosed(UNSEEN, answer)


@judged
def last_reader(answer: str) -> str:
    """The second bug, repaired: the whole text, run under every schedule."""
    return healthy(FREED, answer)


@judged
def no_barrier(answer: str) -> str:
    """The third bug, repaired with no more barriers of the cluster than it has."""
    verdict = healthy(LEFT, answer)
    before, after = (_cluster_barriers(text) for text in (bugs.bug(LEFT).code, answer))
    if after > before:
        raise Wrong(f"it has {after} barriers of the cluster; do with the {before} there are")
    return verdict


def _cluster_barriers(text: str) -> int:
    return len(re.findall(r"cluster_arrive|barrier\.cluster\.arrive|cluster.*sync\(", text))
