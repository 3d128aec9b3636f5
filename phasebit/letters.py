"""How wide words are in a picture that nobody has drawn yet.

A reader's machine chooses the letters, so the widths are those of a wide font: what fits with it
fits everywhere.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

_EMS = {
    letter: ems
    for ems, letters in {
        0.32: " ',./:;IJ\\fijl|·", 0.4: '!()-[]rt"*?', 0.53: "_`cksxz",
        0.7: "ABCKRUVXZ→×", 0.78: "#&+<=>DGHNOQ^w~–", 0.97: "%MWm@…",
    }.items()
    for letter in letters
}  # fmt: skip
_OTHERS = 0.62


def width(text: str, size: float = 12.0) -> float:
    """Pixels that a text takes in letters of ``size`` pixels.

    >>> width("ill") < width("mmm")
    True
    """
    return size * sum(_EMS.get(letter, _OTHERS) for letter in text)


def wrap(text: str, pixels: float, size: float = 12.0) -> list[str]:
    """The text in lines that are at most so wide, or one word each."""
    letters = max(len(text), 1)
    lines = [text]
    while letters > 1 and any(width(line, size) > pixels for line in lines if " " in line):
        letters -= 1
        lines = textwrap.wrap(text, letters, break_long_words=False, break_on_hyphens=False)
    return lines or [""]


def balanced(text: str, pixels: float, size: float = 12.0) -> list[str]:
    """As :func:`wrap`, in as many lines, which are about equally long: no word stands alone.

    >>> balanced("one two three four", 100)
    ['one two', 'three four']
    """
    lines = wrap(text, pixels, size)
    while len(lines) > 1:
        closer = wrap(text, max(width(line, size) for line in lines) - 0.1, size)
        if len(closer) > len(lines) or closer == lines:
            break
        lines = closer
    return lines


def columns(texts: Sequence[Sequence[str]], room: float, inside: float) -> list[float]:
    """How wide columns with these texts must be, ``inside`` for their edges included.

    Where not all fit into the room the widest are cut, down to their longest word.
    """
    wide = [max(map(width, each), default=0) + inside for each in texts]
    least = [max((width(word) for text in each for word in text.split()), default=0) + inside
             for each in texts]  # fmt: skip
    most = max(wide, default=0)
    while most > 0 and sum(wide) > room:
        most -= 4
        wide = [min(one, max(most, word)) for one, word in zip(wide, least, strict=True)]
    return wide


__all__ = ["balanced", "columns", "width", "wrap"]
