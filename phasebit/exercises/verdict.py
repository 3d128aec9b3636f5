"""What a check says: not answered yet, right, or wrong with the first case that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Verdict:
    """``right`` is None as long as there is no answer. Prints as its text."""

    right: bool | None
    text: str

    def __repr__(self) -> str:
        return self.text


NOT_YET = Verdict(None, "not answered yet")

Case = tuple[tuple[Any, ...], Any]
"""The arguments of an answer and what it should give."""


def judge(
    answer: Callable[..., Any], cases: Iterable[Case], words: Callable[..., str], things: str
) -> Verdict:
    """Compare ``answer(*arguments)`` with what is expected, case by case.

    An answer that gives None (or ...) in the first case is not an answer yet. Otherwise the
    first case that differs, or raises, is the verdict, described by ``words(*arguments)``;
    ``things`` is what the cases are.
    """
    tried = 0
    for arguments, expected in cases:
        try:
            given = answer(*arguments)
        except Exception as error:
            what = f"it raises {type(error).__name__}: {error}"
            return Verdict(False, f"not right yet: for {words(*arguments)} {what}")
        if tried == 0 and (given is None or given is ...):
            return NOT_YET
        stray_boolean = isinstance(given, bool) and not isinstance(expected, bool)
        if stray_boolean or given != expected:
            what = f"it gives {given!r}, expected is {expected!r}"
            return Verdict(False, f"not right yet: for {words(*arguments)} {what}")
        tried += 1
    return Verdict(True, f"right, in all {tried} {things}")
