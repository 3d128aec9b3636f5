"""Comparing an answer with what is expected, case by case."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from phasebit.exercises.judge import Wrong, ask, same, shown

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
        case = words(*arguments)  # before the answer, which may change what it is given
        given = ask(answer, *arguments, words=case)
        if not same(given, expected):
            raise Wrong(f"for {case} it gives {shown(given)}, expected is {expected!r}")
        tried += 1
    return f"{tried} {things}"
