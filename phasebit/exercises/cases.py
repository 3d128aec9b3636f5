"""Comparing an answer with what is expected, case by case."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from phasebit.exercises.judge import NotAnswered, Wrong, same

Case = tuple[tuple[Any, ...], Any]
"""The arguments of an answer and what it should give."""


def agree(
    answer: Callable[..., Any], cases: Iterable[Case], words: Callable[..., str], things: str
) -> str:
    """Try every case; the first that differs, or raises, is :class:`Wrong`.

    ``words(*arguments)`` describes a case in that sentence, ``things`` is what the cases are.
    An answer that gives None (or ...) is not an answer yet; a list is as good as a tuple.
    """
    tried = 0
    for arguments, expected in cases:
        try:
            given = answer(*arguments)
        except Exception as error:
            what = f"it raises {type(error).__name__}: {error}"
            raise Wrong(f"for {words(*arguments)} {what}") from error
        if given is None or given is ...:
            raise NotAnswered
        stray_boolean = isinstance(given, bool) and not isinstance(expected, bool)
        if stray_boolean or not same(given, expected):
            raise Wrong(f"for {words(*arguments)} it gives {given!r}, expected is {expected!r}")
        tried += 1
    return f"{tried} {things}"
