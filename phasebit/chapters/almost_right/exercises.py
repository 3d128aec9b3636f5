"""Checks of *Ways to be almost right*: two bugs are named, three are repaired, and any other."""

from __future__ import annotations

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
"""The bugs of the first five exercises, in their order."""


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
