"""Whatever a reader answers, a check says one line: it raises nothing, and takes no odd answer."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from phasebit import chapters

pytestmark = pytest.mark.nvcc  # some answers are CUDA


class Odd:
    """Something that no check has thought of."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("cannot be compared")

    __hash__ = None

    def __repr__(self) -> str:
        return "odd" * 60


ODD = {
    "array": np.arange(3), "NaN": float("nan"), "huge": 10**30, "True": True, "text": "x",
    "list": [], "odd": Odd(),
}  # fmt: skip


def every_check() -> dict[str, Any]:
    return {
        f"{chapter}.{name}": check
        for chapter in chapters.having("exercises")
        for name, check in vars(chapters.load(chapter, "exercises")).items()
        if inspect.isfunction(check) and hasattr(check, "verdict")
    }


CHECKS = every_check()


@pytest.mark.parametrize("name", CHECKS)
def test_one_line_and_never_right(name: str) -> None:
    check = CHECKS[name]
    many = len(inspect.signature(check).parameters)
    some = ("array",) if name == "state_machine.places" else ODD  # it thinks of every state anew
    for odd in (ODD[what] for what in some):
        for given in (odd, lambda *arguments, odd=odd: odd):
            said = check.verdict(*[given] * many)
            assert said.startswith(f"{check.__name__}: not ") and len(said) < 500, said
