"""A ring drawn from moments: when workers waited and worked, when slots were filled and drained.

The simulator's runs, the emulator's traces and the clock stamps of a GPU are drawn by this.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from phasebit.timeline import Number, Span


class RingDrawing:
    """Collects the spans of a :class:`phasebit.timeline.Timeline` of a ring.

    ``when`` gives the place of a moment on the drawing's axis. What takes no time is left out,
    and what begins before the moment ``first``.
    """

    def __init__(
        self, when: Callable[[Number], Number] = lambda at: at, first: Number = -math.inf
    ) -> None:
        self.spans: list[Span] = []
        self._when = when
        self._first = first

    def span(
        self, row: str, start: Number, end: Number, kind: str, label: str = "", waits_for: str = ""
    ) -> None:
        """Something that lasts."""
        if end > start >= self._first:
            moments = self._when(start), self._when(end)
            self.spans.append(Span(row, *moments, kind, label, waits_for))

    def work(
        self, worker: str, asked: Number, start: Number, end: Number, kind: str, label: str,
        slot: str,
    ) -> None:  # fmt: skip
        """A worker asks for a slot, waits for it, and fills or drains it (``kind``)."""
        state = "empty" if kind == "produce" else "full"
        self.span(worker, asked, start, "wait", waits_for=f"{slot} to be {state}")
        self.span(worker, start, end, kind, label)

    def turn(
        self, slot: str, fill: Number, full: Number, drain: Number, empty: Number, label: str,
        see_full: Number = 0, see_empty: Number = 0,
    ) -> None:  # fmt: skip
        """A slot is filled, stays full until it is drained, and is empty again.

        ``see_full``, ``see_empty``: how long it takes until the other side can see that.
        """
        self.span(slot, fill, full, "produce", label)
        self.span(slot, full, full + see_full, "signal")
        self.span(slot, full + see_full, drain, "full")
        self.span(slot, drain, empty, "consume", label)
        self.span(slot, empty, empty + see_empty, "signal")
