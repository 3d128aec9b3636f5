"""The states of one barrier as a wheel, drawn from a run.

Each state that the run visited is a node: phase parity and pending arrivals.
The wheel goes round once in two phases, which is all that one bit can tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import cos, pi, sin

from phasebit.palette import FAINT, FONT, MUTED, TEXT, colour
from phasebit.pipeline.interleaving import Interleaving


@dataclass(frozen=True)
class Wheel:
    """The barrier ``name`` of ``run``: which states it visited, how often, in which order."""

    run: Interleaving
    name: str

    @property
    def visits(self) -> dict[tuple[int, int], int]:
        """(parity, pending) -> how often the barrier was in this state, in order of first visit."""
        counted: dict[tuple[int, int], int] = {}
        for phase, pending, _ in self.run.history(self.name):
            counted[phase & 1, pending] = counted.get((phase & 1, pending), 0) + 1
        return counted

    def __str__(self) -> str:
        states = [f"{phase}:{pending}" for phase, pending, _ in self.run.history(self.name)]
        return f"{self.name}, phase:pending in turn: {' -> '.join(states)}"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"image/svg+xml": self.svg(), "text/plain": str(self)}

    def svg(self) -> str:
        """The wheel as one ``<svg>`` element."""
        expected = self.run.system.barriers[self.name]
        nodes = [(parity, pending) for parity in (0, 1) for pending in range(expected, 0, -1)]
        visits = self.visits
        centre, middle, radius, size = 170, 150, 100, 27
        out = []
        for parity, hue, side in ((0, "pink", 1), (1, "cyan", -1)):
            x0, y0 = centre, middle - side * (radius + 46)
            x1, y1 = centre, middle + side * (radius + 46)
            out.append(
                f'<path d="M{x0} {y0}A{radius + 46} {radius + 46} 0 0 1 {x1} {y1}Z" '
                f'style="fill:{colour(hue)};fill-opacity:.12"/>'
            )
            out.append(  # in a corner, which the circle leaves free
                f'<text x="{centre + side * (centre - 2)}" y="14" '
                f'text-anchor="{"end" if side > 0 else "start"}" '
                f'style="fill:{TEXT};font-weight:bold">phase bit {parity}</text>'
            )
        places = {
            node: (
                centre + radius * sin(2 * pi * (k + 0.5) / len(nodes)),
                middle - radius * cos(2 * pi * (k + 0.5) / len(nodes)),
            )
            for k, node in enumerate(nodes)
        }
        for node, following in zip(nodes, nodes[1:] + nodes[:1], strict=True):
            (xa, ya), (xb, yb) = places[node], places[following]
            length = ((xb - xa) ** 2 + (yb - ya) ** 2) ** 0.5
            ux, uy = (xb - xa) / length, (yb - ya) / length
            sx, sy = xa + ux * (size + 2), ya + uy * (size + 2)
            ex, ey = xb - ux * (size + 3), yb - uy * (size + 3)
            seen = node in visits and following in visits
            hue = TEXT if seen else FAINT
            wing = f"M{ex - 8 * ux + 4 * uy:.1f} {ey - 8 * uy - 4 * ux:.1f}L{ex:.1f} {ey:.1f}"
            wing += f"L{ex - 8 * ux - 4 * uy:.1f} {ey - 8 * uy + 4 * ux:.1f}"
            out.append(
                f'<path d="M{sx:.1f} {sy:.1f}L{ex:.1f} {ey:.1f}{wing}" '
                f'style="stroke:{hue};stroke-width:1.5;fill:none"/>'
            )
        for node, (x, y) in places.items():
            hue = colour("pink" if node[0] == 0 else "cyan")
            out.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" '
                f'style="fill:{hue};fill-opacity:{0.35 if node in visits else 0};stroke:{hue}"/>'
            )
            out.append(
                f'<text x="{x:.1f}" y="{y + 2:.1f}" text-anchor="middle" '
                f'style="fill:{TEXT};font-size:16px;font-weight:bold">{node[1]}</text>'
                f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle" '
                f'style="fill:{TEXT};font-size:12px">{visits.get(node, 0)}×</text>'
            )
        for line, words in enumerate(("arrivals pending", "visited n×")):
            out.append(
                f'<text x="{centre}" y="{middle + 16 * line}" text-anchor="middle" '
                f'style="fill:{MUTED}">{words}</text>'
            )
        title = escape(f"The states of {self.name} in a run, by phase bit and pending arrivals")
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{2 * centre}" height="300" '
            f'viewBox="0 0 {2 * centre} 300" style="font:12px {FONT};background:transparent">\n'
            f"<title>{title}</title>\n" + "\n".join(out) + "\n</svg>"
        )
