"""How an answer is judged: "not answered yet", what is wrong with it, or OK.

A check prints one line and raises nothing, so that a notebook with open
exercises runs to its end.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any


class NotAnswered(Exception):
    """The answer is still the skeleton."""


class Wrong(Exception):
    """The answer is wrong; the message says how, in a clause."""


def judged(judge: Callable[..., str]) -> Callable[..., None]:
    """Make a check that prints a verdict out of a function that judges.

    ``judge(answer…)`` returns what was checked, or raises :class:`Wrong`. Its
    name is the exercise's. An answer that is ``None`` or ``...`` is not answered
    yet. ``check.verdict(answer…)`` is the line without printing it.
    """

    def verdict(*answers: Any) -> str:
        name = judge.__name__
        try:
            if any(answer is None or answer is ... for answer in answers):
                raise NotAnswered
            return f"{name}: OK ({judge(*answers)})"
        except NotAnswered:
            return f"{name}: not answered yet"
        except Wrong as problem:
            return f"{name}: not right yet: {problem}"

    @functools.wraps(judge)
    def check(*answers: Any) -> None:
        print(verdict(*answers))

    check.verdict = verdict  # type: ignore[attr-defined]
    return check


def ask(answer: Callable[..., Any], *arguments: Any, words: str = "") -> Any:
    """Call the reader's function; an exception in it is a wrong answer, ``...`` is none yet.

    ``words`` stand for the arguments in a sentence; without them, the arguments themselves.
    """
    if not callable(answer):
        raise Wrong(f"the answer is {shown(answer)}, and should be a function")
    try:
        value = answer(*arguments)
    except (NotAnswered, Wrong):
        raise
    except Exception as error:
        words = words or f"({', '.join(map(shown, arguments))})"
        raise Wrong(f"for {words} it raises {type(error).__name__}: {error}") from error
    if value is None or value is ...:
        raise NotAnswered
    return value


def same(given: Any, expected: Any) -> bool:
    """Whether two values are equal; a list and a tuple of equal values are.

    True is no number, and an array, which compares element by element, equals nothing.
    """
    if isinstance(given, (list, tuple)) and isinstance(expected, (list, tuple)):
        return len(given) == len(expected) and all(map(same, given, expected))
    if isinstance(given, bool) and type(expected).__name__ not in ("bool", "bool_"):  # NumPy's
        return False
    try:
        return bool(given == expected)
    except (TypeError, ValueError):
        return False


def whole(given: Any) -> bool:
    """Whether it is a whole number, Python's or NumPy's; True is none."""
    return isinstance(given, Integral) and not isinstance(given, bool)


def real(given: Any, of: str) -> float:
    """A real number as a float; raises :class:`Wrong` for anything else. ``of``: its unit."""
    if isinstance(given, Real) and not isinstance(given, bool):
        with contextlib.suppress(OverflowError):
            return float(given)
    raise Wrong(f"it gives {shown(given)}: give a number of {of}")


def shown(value: Any, most: int = 100) -> str:
    """``repr(value)`` for a sentence: cut where it is longer than ``most`` characters."""
    text = repr(value)
    return text if len(text) <= most else text[: most - 1] + "…"
