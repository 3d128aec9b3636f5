"""What the directives that draw have in common: a picture in the page, its content the caption."""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from phasebit.draw import Picture
from phasebit.timeline import Timeline

from .inline_svg import inline, svg_of


class FigureDirective(SphinxDirective):
    """A directive whose content is the caption of the picture that it draws."""

    has_content = True

    def figure(self, drawn: Picture | Timeline) -> nodes.figure:
        """The picture as a figure of the page, with ids of its own."""
        page = re.sub(r"\W+", "-", self.env.docname)
        number = self.env.new_serialno(self.name)
        kind = self.name.removeprefix("phasebit-")
        svg = inline(svg_of(drawn), f"pb-{page}-{kind}{number}")
        figure = nodes.figure("", nodes.raw("", svg, format="html"), classes=["pb-figure"])
        if self.content:
            texts, _ = self.state.inline_text(" ".join(self.content), self.lineno)
            figure += nodes.caption("", "", *texts)
        return figure
