"""What *Epilogues and groups* changes to find a cause: each contender is right."""

from __future__ import annotations

import pytest

from phasebit.chapters.epilogues_and_groups import epilogue_controls as controls
from phasebit.chapters.epilogues_and_groups import epilogues

pytestmark = pytest.mark.nvcc
EXACT = [name for name in controls.VARIANTS if "tanh" not in name]
"""Of the others GELU is another function."""


def alone(name: str) -> str:
    """A contender's kernel, without the functions that launch it."""
    text = controls.text(name)
    return epilogues.with_constants(text[: text.index("\ntemplate <class... Arguments>")], SLOTS=3)


@pytest.mark.parametrize("first", range(0, len(EXACT), 3))
def test_each_contender_is_right(first: int) -> None:
    """Three are compiled together."""
    names = EXACT[first : first + 3]
    programs = epilogues.Programs({name: alone(name) for name in names})
    given = epilogues.Numbers.draw(130, 264, 72, seed=3)
    for name in names:
        made = epilogues.fused(programs, name, given, controls.VARIANTS[name].steps)
        assert not made.wrong, f"{name}: {made.wrong}"
        assert not made.run.findings, name


def test_bands_reach_every_tile_once() -> None:
    """More than one band, the last of fewer rows, each with several columns."""
    programs = epilogues.Programs({controls.BANDS: alone(controls.BANDS)})
    given = epilogues.Numbers.draw(1290, 264, 8, seed=4)
    made = epilogues.fused(programs, controls.BANDS, given, (), workers=3)
    assert not made.wrong and not made.run.findings
