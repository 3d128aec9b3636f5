"""From characters to tokens.

PTX is a line-free language: tokens, semicolons, braces.  An opcode such as
``mbarrier.try_wait.parity.shared::cta.b64`` becomes one word and five *dots*
(``.try_wait``, ``.parity`` …), so modifiers never mix with numbers.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from phasebit.emulator.errors import PtxError

_TOKEN = re.compile(
    r"""
    [ \t]*+
  (?: (?P<word>[A-Za-z_$%][A-Za-z0-9_$]*)
    | (?P<mark>[][{}()<>,;:=|!@+\-*])
    | (?P<space>[\r\n\f][ \t\r\n\f]* | //[^\n]* | /\*.*?\*/ | \Z)
    | (?P<dot>\.[A-Za-z0-9_]+(?:::[A-Za-z0-9_]+)*)
    | (?P<bits>0[fF][0-9a-fA-F]{8}(?![0-9a-zA-Z_]) | 0[dD][0-9a-fA-F]{16}(?![0-9a-zA-Z_]))
    | (?P<float>\d+\.\d*(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+)
    | (?P<int>0[xX][0-9a-fA-F]+U? | 0[bB][01]+U? | \d+U?)
    | (?P<string>"[^"\n]*")
  )
    """,
    re.VERBOSE | re.DOTALL,
)
_BLANK = re.compile(r"[ \t]*")


class Token(NamedTuple):
    """``kind`` is the group of the pattern that matched; ``end`` marks the end of the text."""

    kind: str
    text: str
    line: int
    start: int
    stop: int


def tokens(text: str) -> list[Token]:
    """Split PTX text into tokens; raises :class:`PtxError` at a character PTX does not have."""
    result: list[Token] = []
    position, line = 0, 1
    for match in _TOKEN.finditer(text):
        if match.start() != position:
            break
        position = match.end()
        kind = match.lastgroup or ""
        start, stop = match.span(kind)
        if kind == "space":
            line += text.count("\n", start, stop)
        else:
            result.append(Token(kind, text[start:stop], line, start, stop))
    if position < len(text):
        blank = _BLANK.match(text, position)
        position = blank.end() if blank else position
        if text.startswith("/*", position):
            raise PtxError("this comment never ends; close it with */", line)
        if text[position] == '"':
            raise PtxError("this string never ends; close it on the same line", line)
        raise PtxError(f"the character {text[position]!r} does not belong in PTX", line)
    result.append(Token("end", "the end of the text", line, position, position))
    return result
