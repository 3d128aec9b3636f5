"""Pictures: an SVG and the sentence that says the same; how Matplotlib's become the page's.

Matplotlib draws; afterwards its fixed colours become the theme's variables, so that the picture
follows the page from light to dark.
"""

from __future__ import annotations

import hashlib
import io
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from typing import Any

from phasebit import two_widths
from phasebit.letters import balanced, wrap
from phasebit.palette import COLOURS, FAINT, FONT, MUTED, TEXT, colour
from phasebit.timeline import Timeline

Real = int | float | Fraction

# Matplotlib knows no variables: it draws in these colours, which are exchanged afterwards.
INK, INK_MUTED, INK_FAINT = "#010203", "#040506", "#070809"
_EXCHANGE = {INK: "var(--text)", INK_MUTED: "var(--muted)", INK_FAINT: "var(--faint)"} | {
    code: colour(name) for name, code in COLOURS.items()
}


_LONGEST = 34
"""Letters of a label that stand beside the y axis of the usual height."""


@dataclass(frozen=True)
class Picture:
    """An ``<svg>`` element, the sentence that says the same, and a drawing for a narrow screen."""

    svg: str
    alt: str
    narrow: str = ""

    @classmethod
    def of(cls, timeline: Timeline, alt: str) -> Picture:
        """A timeline, with a sentence that is told beside it instead of the drawing in letters."""
        return cls(timeline.svg(), alt, timeline.svg(narrow=True))

    def __str__(self) -> str:
        return self.alt

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        both = two_widths.carry(self.svg, self.narrow) if self.narrow else self.svg
        return {"image/svg+xml": both, "text/plain": self.alt}


NARROW_INCHES = two_widths.NARROW / 96
POINTS = {False: 430.0, True: 215.0}
"""Points across that a title has, in the ordinary figure and in the narrow one."""


def figure_of(width: float, height: float, narrow: bool = False) -> tuple[Any, Any]:
    """A figure of this many inches and its axes, with no state kept anywhere.

    A ``narrow`` one is as wide as a phone has room for, all that it holds included.
    """
    from matplotlib.figure import Figure

    if narrow:
        figure = Figure(figsize=(NARROW_INCHES, height), layout="constrained")
    else:
        figure = Figure(figsize=(width, height))
    figure.patch.set_visible(False)
    axes = figure.add_subplot()
    axes.patch.set_visible(False)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)
    axes.tick_params(colors=INK_MUTED, labelsize=9)
    return figure, axes


def both(draw: Callable[[bool], Any], alt: str) -> Picture:
    """The figure that ``draw(False)`` makes and the narrow one of ``draw(True)``, as a picture."""
    return Picture(_svg(draw(False), alt, False), alt, _svg(draw(True), alt, True))


def picture(figure: Any, alt: str) -> Picture:
    """A figure as a picture that is the same on every screen."""
    return Picture(_svg(figure, alt, False), alt)


def _svg(figure: Any, alt: str, narrow: bool) -> str:
    import matplotlib

    text = io.StringIO()
    salt = hashlib.sha256(alt.encode()).hexdigest()[:12]
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        figure.savefig(text, format="svg", bbox_inches=None if narrow else "tight",
                       metadata={"Date": None})  # fmt: skip
    return _themed(text.getvalue(), alt)


def _themed(svg: str, alt: str) -> str:
    """Matplotlib's SVG, fit to stand inside a page: variables, a title, nothing that leaks out."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # A style sheet inside an inlined picture would apply to the whole page.
    svg = re.sub(r"<style[^>]*>.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r"; font-family: [^;\"]*", "", svg)
    # Two decimals are enough for a place; what a reader reads stays as it is.
    svg = re.sub(r"<[^>]*>", lambda tag: _rounded(tag.group()), svg)
    svg = re.sub(
        "|".join(_EXCHANGE), lambda found: _EXCHANGE[found.group().lower()], svg, flags=re.I
    )
    # The opening tag, then the alternative text as its first child.
    head, body = svg.split(">", 1)
    head = head.replace("<svg", '<svg role="img" class="phasebit-plot"', 1)
    theme = f"--text:{TEXT};--muted:{MUTED};--faint:{FAINT}"
    head += f' style="{theme};font-family:{FONT};stroke-linejoin:round;background:transparent"'
    lines = [line for line in body.splitlines() if line.strip()]
    return f"{head}>\n<title>{escape(alt)}</title>\n" + "\n".join(lines)


def _rounded(tag: str) -> str:
    return re.sub(r"-?\d+\.\d{3,}", lambda found: f"{float(found.group()):.2f}", tag)


def frame(axes: Any, title: str, x_label: str, y_label: str = "", narrow: bool = False) -> None:
    """Title, labels, grid and sides; without a ``y_label`` rows stand there, which need neither."""
    axes.grid(axis="both" if y_label else "x", color=INK_FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    for where, side in axes.spines.items():
        side.set_visible(where == "bottom" or (where == "left" and bool(y_label)))
        side.set_color(INK_MUTED)
    axes.set_xlabel("\n".join(wrap(x_label, POINTS[narrow], 10)))
    if y_label:
        axes.set_ylabel(textwrap.fill(y_label, _LONGEST))
    titled(axes, title, narrow)


def titled(axes: Any, title: str, narrow: bool = False) -> None:
    """The title, in as many lines as it needs."""
    lines = "\n".join(balanced(title, POINTS[narrow], 10))
    axes.set_title(lines, fontsize=10, color=INK, loc="left")


def no_ticks() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()
