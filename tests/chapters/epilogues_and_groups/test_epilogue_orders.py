"""What *Epilogues and groups* changes to tell turns from shared tiles: each contender is right."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.chapters.epilogues_and_groups import epilogue_orders as controls
from phasebit.chapters.epilogues_and_groups import epilogues
from phasebit.emulator import formats

EDITED = [
    name for name in controls.contenders() if controls.variant(name).edits and "alpha" not in name
]


def alone(name: str) -> str:
    """A contender's kernel, without the functions that launch it."""
    text = controls.text(name)
    return epilogues.with_constants(text[: text.index("\ntemplate <class... Arguments>")], SLOTS=3)


def test_every_step_is_switched_off_in_both_orders() -> None:
    left = {
        controls.variant(f"{order}: all six steps but {spoken}").steps
        for order in ("by turns", "together")
        for spoken in controls.SPOKEN.values()
    }
    assert len(left) == 6 and all(len(steps) == 5 for steps in left)
    assert len(set(map(controls.text, controls.contenders()))) == len(controls.contenders())


@pytest.mark.nvcc
@pytest.mark.parametrize("first", range(0, len(EDITED), 3))
def test_each_edited_contender_is_right(first: int) -> None:
    """Three are compiled together."""
    names = EDITED[first : first + 3]
    programs = epilogues.Programs({name: alone(name) for name in names})
    given = epilogues.Numbers.draw(130, 264, 72, seed=5)
    for name in names:
        right = epilogues.Numbers(**{f: getattr(given, f) for f in (
            "a", "b", "bias", "row_scale", "residual", "alpha", "beta")})  # fmt: skip
        if controls.NOT_READ in name:
            same = np.full(given.residual.shape, given.alpha)
            right.residual = np.asarray(formats.encode("bf16", same))
        if controls.ONE_PLACE in name:
            rows, columns = (np.arange(size) % 128 for size in given.residual.shape)
            right.residual = given.residual[np.ix_(rows, columns)]
        made, _ = epilogues.launched(programs, name, given)
        expected, _ = epilogues.expected(controls.variant(name).steps, right)
        assert not (wrong := epilogues.differs(made.c, expected)), f"{name}: {wrong}"
        assert not made.run.findings, name
