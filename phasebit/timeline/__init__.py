"""Who did what when, drawn: for the simulator, for the emulator, for clock stamps of a GPU.

A ``Timeline`` has rows (workers, slots, warps), spans (something that lasts) and marks
(something that happens). It draws itself twice: as SVG, which follows the page's theme, and
as text, which says the same in a terminal and is what a test compares.

>>> print(Timeline(["warp 0"], [Span("warp 0", 0, 4, "produce", "7")], unit="clock"))
clock   0    5
warp 0  7###
# produce
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from phasebit import two_widths
from phasebit.timeline import as_text, downwards, rightwards
from phasebit.timeline.spans import (
    RING_LEGEND,
    SPARE,
    STYLES,
    Mark,
    Number,
    Span,
    Style,
    number,
    ticks,
)


@dataclass
class Timeline:
    """Rows from top to bottom, time from left to right, in ``unit``.

    ``legend`` says what a kind means where its name alone does not. ``down=True`` lets time run
    downwards, a column for each row and a line for each step: for short runs whose labels are
    whole sentences. ``quiet`` are rows that show what something holds, and do nothing themselves.
    Raises ``ValueError`` for a span in a row that is not listed, or one that ends before it starts.
    """

    rows: Sequence[str]
    spans: Sequence[Span]
    marks: Sequence[Mark] = ()
    unit: str = "clock"
    title: str = ""
    legend: Mapping[str, str] = field(default_factory=dict)
    down: bool = False
    quiet: Collection[str] = ()

    def __post_init__(self) -> None:
        self.rows = tuple(self.rows)
        self.spans = tuple(Span(*each) for each in self.spans)
        self.marks = tuple(Mark(*each) for each in self.marks)
        known = set(self.rows)
        if len(known) != len(self.rows):
            raise ValueError(f"rows {list(self.rows)} name a row twice: give each its own name")
        for row in [s.row for s in self.spans] + [m.row for m in self.marks]:
            if row not in known:
                raise ValueError(f"row {row!r} of a span or mark is not in {self.rows}: add it")
        for span in self.spans:
            if not (math.isfinite(span.start) and math.isfinite(span.end)):
                raise ValueError(f"{span} has no finite time: give numbers")
            if span.end < span.start:
                raise ValueError(f"{span} ends before it starts: exchange the two times")

    @property
    def start(self) -> Number:
        """The earliest time drawn, never later than 0 unless everything is."""
        times = [s.start for s in self.spans] + [m.at for m in self.marks]
        return min(times, default=0)

    @property
    def end(self) -> Number:
        """The latest time drawn."""
        times = [s.end for s in self.spans] + [m.at + self.down for m in self.marks]
        return max(times, default=0)

    @property
    def styles(self) -> dict[str, Style]:
        """The look of every kind that occurs, in the order of the legend."""
        kinds = list(dict.fromkeys(s.kind for s in self.spans))
        spare = [kind for kind in kinds if kind not in STYLES]
        look = {kind: STYLES.get(kind) or SPARE[spare.index(kind) % len(SPARE)] for kind in kinds}
        return dict(sorted(look.items(), key=lambda kv: (list(STYLES) + spare).index(kv[0])))

    def svg(self, narrow: bool = False) -> str:
        """The drawing as one ``<svg>`` element, the same text for the same timeline.

        ``narrow``: for a screen of :data:`phasebit.two_widths.NARROW` pixels.
        """
        return downwards.svg(self, narrow) if self.down else rightwards.svg(self, narrow)

    def __str__(self) -> str:
        return as_text.down(self) if self.down else as_text.across(self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        both = two_widths.carry(self.svg(), self.svg(narrow=True))
        return {"image/svg+xml": both, "text/plain": str(self)}


__all__ = [
    "RING_LEGEND", "SPARE", "STYLES", "Mark", "Number", "Span", "Style", "Timeline", "number",
    "ticks",
]  # fmt: skip
