"""How an answer is judged: "not answered yet", what is wrong with it, or OK.

A check prints one line and raises nothing, so that a notebook with open
exercises runs to its end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
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


def ask(answer: Callable[..., Any], *arguments: Any) -> Any:
    """Call the reader's function; an exception in it is a wrong answer, ``...`` is none yet."""
    if not callable(answer):
        raise Wrong(f"the answer is {shown(answer)}, and should be a function")
    try:
        value = answer(*arguments)
    except (NotAnswered, Wrong):
        raise
    except Exception as error:
        given = ", ".join(map(shown, arguments))
        raise Wrong(f"for ({given}) it raises {type(error).__name__}: {error}") from error
    if value is None or value is ...:
        raise NotAnswered
    return value


def same(given: Any, expected: Any) -> bool:
    """Whether two values are equal; a list and a tuple of equal values are.

    An array, which compares element by element, equals nothing.
    """
    try:
        if isinstance(given, (list, tuple)) and isinstance(expected, (list, tuple)):
            return list(given) == list(expected)
        return bool(given == expected)
    except (TypeError, ValueError):
        return False


def shown(value: Any, most: int = 100) -> str:
    """``repr(value)`` for a sentence: cut where it is longer than ``most`` characters."""
    text = repr(value)
    return text if len(text) <= most else text[: most - 1] + "…"
