"""Checks of *Ways to be almost right*: one bug is named, two are repaired, and any other."""

from __future__ import annotations

from phasebit import bugs
from phasebit.exercises.judge import Wrong, judged, shown
from phasebit.exercises.repairs import diagnosed, healthy

NAMED, PHASES, WEIGHTS = (
    "histogram_cleared_early",
    "phase_begins_anew",
    "stored_weights_multiplied",
)
"""The bugs of the first three exercises, in their order."""


@judged
def diagnosis(answer: tuple[str, int]) -> str:
    """``(kind, line)``: the kind of the first bug, and the number of one of the lines that collide.

    ``line`` counts in the text as the page prints it, without the words at its head.
    """
    return diagnosed(NAMED, answer)


@judged
def phases(answer: str) -> str:
    """The second bug, repaired: the whole text, run under every schedule."""
    return healthy(PHASES, answer)


@judged
def weights(answer: str) -> str:
    """The third bug, repaired, and the products are still the tensor core's."""
    verdict = healthy(WEIGHTS, answer)
    if "wgmma_m64n128k16" not in answer:
        raise Wrong("the tensor core multiplies no longer: leave its products where they are")
    return verdict


@judged
def repair(name: str, answer: str) -> str:
    """Any bug of the collection, repaired: the whole text, run under every schedule."""
    if not isinstance(name, str) or name not in bugs.names():
        raise Wrong(f"{shown(name)} is no folder of bugs/: print(bugs.names()) lists them")
    return healthy(name, answer)
