"""Checks of *Ways to be almost right*: seven bugs are named, three are repaired, and any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from phasebit import bugs
from phasebit.exercises.judge import Wrong, judged, shown
from phasebit.exercises.repairs import diagnosed, scored

NAMED, UNTOLD, PHASES, LEADER, WEIGHTS = (
    "histogram_cleared_early",
    "read_before_the_wait",
    "phase_begins_anew",
    "leader_arrives_for_waiting_warps",
    "stored_weights_multiplied",
)
"""The bugs of the exercises at the end of the page, in their order."""

SIGNALS = ("operand_of_two_groups", "pair_freed_too_early")
"""The bugs that the reader names after the group of the signals."""

REACHES = (
    "fence_in_a_loop_not_run",
    "semaphore_without_device_fence",
    "buffer_taken_before_the_wait",
)
"""The bugs that the reader names after the group of the waits."""


def _each(names: Sequence[str], answer: Mapping[str, tuple[str, int]]) -> str:
    """A kind and a line for each of some bugs, judged as :func:`diagnosis` judges one."""
    if not isinstance(answer, Mapping) or set(answer) != set(names):
        raise Wrong(f"give a kind and a line for each of {', '.join(names)}")
    said = []
    for name in names:
        try:
            said.append(diagnosed(name, answer[name]))
        except Wrong as problem:
            raise Wrong(f"{name}: {problem}") from None
    return "; ".join(said)


@judged
def signals(answer: Mapping[str, tuple[str, int]]) -> str:
    """For each bug of :data:`SIGNALS`, by its name: ``(kind, line)``."""
    return _each(SIGNALS, answer)


@judged
def reaches(answer: Mapping[str, tuple[str, int]]) -> str:
    """For each bug of :data:`REACHES`, by its name: ``(kind, line)``."""
    return _each(REACHES, answer)


@judged
def diagnosis(answer: tuple[str, int]) -> str:
    """``(kind, line)``: the kind of the first bug, and the number of one of the lines that collide.

    ``line`` counts in the text as the page prints it, without the words at its head.
    """
    return diagnosed(NAMED, answer)


@judged
def untold(answer: tuple[str, int]) -> str:
    """``(kind, line)`` of the second bug, as :func:`diagnosis`."""
    return diagnosed(UNTOLD, answer)


@judged
def phases(answer: str) -> str:
    """The third bug, repaired: the whole text, judged as the score judges a repaired program."""
    return scored(PHASES, answer)


@judged
def leader(answer: str) -> str:
    """The fourth bug, repaired."""
    return scored(LEADER, answer)


@judged
def weights(answer: str) -> str:
    """The fifth bug, repaired, and the products are still the tensor core's."""
    verdict = scored(WEIGHTS, answer)
    if "wgmma_m64n128k16" not in answer:
        raise Wrong("the tensor core multiplies no longer: leave its products where they are")
    return verdict


@judged
def repair(name: str, answer: str) -> str:
    """Any bug of the collection, repaired: the whole text."""
    if not isinstance(name, str) or name not in bugs.names():
        raise Wrong(f"{shown(name)} is no folder of bugs/: print(bugs.names()) lists them")
    return scored(name, answer)
