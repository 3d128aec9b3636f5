"""The first four parts do not grow: their chapters have a limit of words in all."""

from __future__ import annotations

import re

from .notebooks import CHAPTERS, prose

MOST = 55_000
"""Words of these chapters together, exercises and solutions included, listings not."""

_LISTING = re.compile(r"~~~.*?~~~|^```(?!\{)\S.*?^```$", re.DOTALL | re.MULTILINE)


def words(text: str) -> int:
    """How many words a Markdown text has outside of its listings."""
    return len(_LISTING.sub("", text).split())


def test_the_first_four_parts_are_within_their_limit() -> None:
    first = [path for path in CHAPTERS if re.match(r"part[1-4]_", path.parent.name)]
    assert len(first) == 15
    assert sum(words(prose(path)) for path in first) <= MOST


def test_words_of_a_listing_do_not_count_and_those_of_an_exercise_do() -> None:
    assert words("Two words\n~~~python\nx = 1\n~~~\n") == 2
    assert words("```c++\nint x = 1;\n```\nTwo words") == 2
    assert words("```{exercise} A title\n*Easy.* Count.\n```\n") == 6
