"""Chapters that prose mentions by number: "chapter 12", "Chapter 4's", "chapters 9, 11 and 14".

The prose reads as plain words, in Jupyter and on Colab too, so the numbers stand in it. What keeps
them right: :func:`find` recognises every mention, so that ``tools/chapter.py`` can rewrite all of
them at once; and :func:`escaped` finds what looks like a mention but would not be rewritten.

The forms: one number after "chapter"; after "chapters" a list that ends in "and" or "or", or a
range ("chapters 6 to 10"), which may also stand in a list. Other works' chapters are "ch. 16".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_NUMBER = r"[1-9]\d?(?!\w|[.,]\d)"
_RANGE = rf"{_NUMBER}(?:(?:\sto\s|–){_NUMBER})?"
_LIST = rf"{_RANGE}(?:,\s{_RANGE})*,?\s(?:and|or)\s{_RANGE}"
_NO_MORE = r"(?!,?\s(?:(?:and|or|to)\s)?\d|[–-]\d)"
_MENTION = re.compile(
    rf"(?<!\b(?i:this) )(?<!\b(?i:each) )(?<!\b(?i:every) )"
    rf"\b(?:[Cc]hapter\s{_NUMBER}|[Cc]hapters\s(?:{_LIST}|{_NUMBER}(?:\sto\s|–){_NUMBER})){_NO_MORE}"
)

_SMALL = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
_SMALL += "sixteen seventeen eighteen nineteen twenty thirty forty fifty"
_ORDINAL = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth "
_ORDINAL += r"thirteenth fourteenth fifteenth sixteenth seventeenth twentieth \d+(?:st|nd|rd|th) "
_ORDINAL += "next previous preceding following coming last"


def _any(words: str) -> str:
    return rf"(?:{'|'.join(words.split())})\b"


_GAP = r"""(?:[ \t*_`~:#(\[{"'/§\u00a0–-]|\n(?!\n)|&\#?\w+;){0,4}"""
_LOOSE = re.compile(
    rf"\bchapters?{_GAP}(?:(?:no\.?|numbers?){_GAP})?(?:\d|{_any(_SMALL)}|[IVX]+\b)"
    rf"|\bch(?:ap)?s?\.?{_GAP}\d"
    rf"|\b(?:{_any(_ORDINAL)}(?:\s\w+)?\schapters?\b|(?:\d+|{_any(_SMALL)})(?:\s\w+)?\schapters\b)"
    r"|\bchapters?\s(?:before|after|ago|earlier|later|ahead|back)\b"
    r"|\bphasebit record \d|\bex-\d",
    re.IGNORECASE,
)
_HINT = re.compile(r"chap|\bchs?\b|phasebit record|\bex-", re.IGNORECASE)


@dataclass(frozen=True)
class Mention:
    """Where a text mentions chapters, and their numbers, those of a range as its two ends."""

    begin: int
    end: int
    text: str
    numbers: tuple[int, ...]


def find(text: str) -> list[Mention]:
    """The mentions of a text, in order.

    >>> [mention.numbers for mention in find("As in chapter 3's ring, and chapters 6 to 8 and 10.")]
    [(3,), (6, 8, 10)]
    """
    return [
        Mention(*match.span(), match[0], tuple(map(int, re.findall(r"\d+", match[0]))))
        for match in _MENTION.finditer(text)
    ]


def escaped(text: str) -> list[str]:
    """What looks like a mention and is none that :func:`renumbered` would keep right.

    A relative one ("the next chapter") escapes as well: it is wrong once a chapter is put between.

    >>> escaped("See Chapter twelve, chapter 3 and the next chapter.")
    ['Chapter twelve', 'next chapter']
    """
    if not _HINT.search(text):  # most of what a book holds is numbers of pictures
        return []
    rest = _MENTION.sub(lambda match: "\0" * len(match[0]), text)
    return [match[0] for match in _LOOSE.finditer(rest)]


def renumbered(text: str, new: Callable[[int], int], *, columns: bool = False) -> str:
    """The text with every number of a mention replaced: ``new`` maps old numbers to new ones.

    ``columns``: the text was printed, perhaps in columns. Where a number gets another width, the
    next run of spaces in its line gives or takes the difference, so that what follows stays.

    >>> renumbered("chapters 9 to 11", lambda number: number + (number > 9))
    'chapters 9 to 12'
    >>> renumbered("chapter 9  yes", lambda number: 10, columns=True)
    'chapter 10 yes'
    """
    for mention in reversed(find(text)):
        said = re.sub(r"\d+", lambda match: str(new(int(match[0]))), mention.text)
        wider, rest = len(said) - len(mention.text), text[mention.end :]
        if columns and wider and (spaces := re.match(r"[^\n]*?( {2,})", rest)):
            kept = max(1, len(spaces[1]) - wider)
            rest = rest[: spaces.start(1)] + " " * kept + rest[spaces.end() :]
        text = text[: mention.begin] + said + rest
    return text
