"""The checks of *The same in CuTe DSL* accept what is right and refuse planted wrong answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from phasebit.chapters.cute_dsl import exercises


@pytest.mark.parametrize("check", [exercises.easy, exercises.medium, exercises.hard])
def test_an_open_exercise_is_said_to_be_open(
    check: Callable[[Any], None], capsys: pytest.CaptureFixture[str]
) -> None:
    check(...)
    assert "not answered yet" in capsys.readouterr().out
