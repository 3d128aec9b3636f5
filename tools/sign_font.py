"""Draw the one sign that many machines have no letter for: ⏱, U+23F1.

    python tools/sign_font.py book/_static/signs.woff

A stopwatch: a ring, a knob and a hand, 1000 units to the em. It is as wide as a letter of a fixed
width, so that a line of a table that begins with it stands below the others.
"""

from __future__ import annotations

import itertools
import math
import sys

from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen

WIDTH = 602
"""Of a letter, where all have one width."""
CENTRE, RADIUS, STROKE = (WIDTH // 2, 330), 296, 72


def circle(pen: TTGlyphPen, radius: float, *, hole: bool = False) -> None:
    """A circle as eight quadratic arcs; a hole runs the other way round."""
    x, y = CENTRE
    turn = -1 if hole else 1
    knots = [turn * -math.pi / 4 * i for i in range(9)]
    pen.moveTo((x + radius, y))
    for begin, end in itertools.pairwise(knots):
        middle, bulge = (begin + end) / 2, radius / math.cos(math.pi / 8)
        pen.qCurveTo(
            (round(x + bulge * math.cos(middle)), round(y + bulge * math.sin(middle))),
            (round(x + radius * math.cos(end)), round(y + radius * math.sin(end))),
        )
    pen.closePath()


def bar(pen: TTGlyphPen, *corners: tuple[int, int]) -> None:
    """A closed polygon, clockwise."""
    pen.moveTo(corners[0])
    for corner in corners[1:]:
        pen.lineTo(corner)
    pen.closePath()


def main(path: str) -> None:
    pen = TTGlyphPen(None)
    circle(pen, RADIUS)
    circle(pen, RADIUS - STROKE, hole=True)
    x, y = CENTRE
    bar(pen, (x - 38, y + 190), (x + 38, y + 190), (x + 38, y - 20), (x - 38, y - 20))  # the hand
    bar(pen, (x - 120, 800), (x + 120, 800), (x + 120, 730), (x - 120, 730))  # the knob
    bar(pen, (x - 38, 740), (x + 38, 740), (x + 38, 600), (x - 38, 600))
    blank = TTGlyphPen(None).glyph()
    font = FontBuilder(1000, isTTF=True)
    font.setupGlyphOrder([".notdef", "stopwatch"])
    font.setupCharacterMap({0x23F1: "stopwatch"})
    font.setupGlyf({".notdef": blank, "stopwatch": pen.glyph()})
    left = CENTRE[0] - RADIUS
    font.setupHorizontalMetrics({".notdef": (WIDTH, 0), "stopwatch": (WIDTH, left)})
    font.setupHorizontalHeader(ascent=800, descent=-200)
    font.setupNameTable({"familyName": "Phase Bit Signs", "styleName": "Regular"})
    font.setupOS2(sTypoAscender=800, sTypoDescender=-200, usWinAscent=800, usWinDescent=200)
    font.setupPost()
    font.font["head"].created = font.font["head"].modified = 0  # the same file every time
    font.font.recalcTimestamp = False
    font.font.flavor = "woff"
    font.save(path)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
