"""Checks of *The ring at full width*."""

from __future__ import annotations

from typing import Any

from phasebit.exercises.judge import Wrong, judged


@judged
def easy(answer: Any) -> str:
    """What the answer is, with its units."""
    raise Wrong("nobody has written this check")


@judged
def medium(answer: Any) -> str:
    """What the answer is, with its units."""
    raise Wrong("nobody has written this check")


@judged
def hard(answer: Any) -> str:
    """What the answer is, with its units."""
    raise Wrong("nobody has written this check")
