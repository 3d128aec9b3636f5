"""What a timeline is made of, and how each kind looks."""

from __future__ import annotations

import math
from typing import NamedTuple

Number = int | float


class Span(NamedTuple):
    """Something that lasts: in ``row``, from ``start`` to ``end`` (in the timeline's unit)."""

    row: str
    start: Number
    end: Number
    kind: str
    label: str = ""
    waits_for: str = ""
    """Of a wait, the reason: ``"slot 1 to be full"``. Where it names a row, the page shows it."""


class Mark(NamedTuple):
    """Something that happens in ``row`` at one moment; its text is listed below the drawing."""

    row: str
    at: Number
    label: str
    kind: str = "mark"


class Style(NamedTuple):
    """How a kind looks: a colour of the palette, a texture, a character for the text drawing."""

    colour: str
    texture: str
    sign: str


STYLES: dict[str, Style] = {
    "produce": Style("blue", "solid", "#"),
    "consume": Style("orange", "hatch", "="),
    "wait": Style("grey", "line", "."),
    "beside": Style("grey", "tint", ","),
    "full": Style("blue", "tint", "o"),
    "signal": Style("grey", "cross", "-"),
    "copy": Style("cyan", "solid", "~"),
    "store": Style("green", "hatch", "%"),
    "bad": Style("red", "solid", "!"),
    "hand-off": Style("green", "solid", "+"),
    "parity 0": Style("pink", "tint", "*"),
    "parity 1": Style("cyan", "tint", "&"),
}
"""Kinds with a fixed look. Any other kind is given one of ``SPARE`` in order of appearance."""

SPARE = (
    Style("pink", "solid", "@"),
    Style("green", "tint", "$"),
    Style("orange", "solid", "?"),
    Style("cyan", "hatch", "/"),
    Style("orange", "tint", "^"),
    Style("pink", "hatch", "_"),
)

RING_LEGEND = {
    "produce": "producing, filling", "consume": "consuming, draining",
    "wait": "waiting", "full": "full", "signal": "hand-off",
}  # fmt: skip
"""What the kinds of span say in a drawing of a ring, simulated or measured."""


def number(x: Number) -> str:
    """A number in as few characters as a hundredth allows: 12, 3.5, -0.25."""
    return f"{x:.2f}".rstrip("0").rstrip(".").replace("-0", "0" if abs(x) < 0.005 else "-0")


def ticks(start: Number, end: Number, most: int) -> list[Number]:
    """At most ``most`` round numbers (1, 2, 5 times a power of ten) from start to end."""
    length = max(end - start, 1e-9)
    power = 10.0 ** math.floor(math.log10(length / max(most, 1)))
    distance = next(m * power for m in (1, 2, 5, 10, 20) if length / (m * power) <= most)
    if isinstance(start, int) and isinstance(end, int):
        distance = max(1, round(distance))
    first = math.ceil(start / distance - 1e-9)
    last = math.floor(end / distance + 1e-9)
    return [round(k * distance, 10) for k in range(first, last + 1)]
