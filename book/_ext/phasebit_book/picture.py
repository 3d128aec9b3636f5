"""``{phasebit-timeline}``: a timeline drawn while the book is built, by the simulator itself.

The options are the parameters of :class:`phasebit.pipeline.Pipeline` and ``jobs``; the
content is the caption. For pages that are no notebooks, such as the front page.
"""

from __future__ import annotations

import re
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from .inline_svg import inline

PARAMETERS = ("producers", "consumers", "slots", "produce", "consume", "jobs")


class TimelinePicture(SphinxDirective):
    has_content = True
    option_spec: ClassVar = dict.fromkeys(PARAMETERS, directives.nonnegative_int)

    def run(self) -> list[nodes.Node]:
        from phasebit.pipeline import Pipeline, simulate

        given = dict(self.options)
        jobs = given.pop("jobs", 8)
        page = re.sub(r"\W+", "-", self.env.docname.rpartition("/")[2])
        name = f"pb-{page}-t{self.env.new_serialno('phasebit-timeline')}"
        svg = inline(simulate(Pipeline(**given), jobs=jobs).timeline.svg(), name)
        figure = nodes.figure("", nodes.raw("", svg, format="html"), classes=["pb-figure"])
        if self.content:
            caption = nodes.caption()
            texts, _ = self.state.inline_text(" ".join(self.content), self.lineno)
            figure += nodes.caption("", "", *texts) if texts else caption
        return [figure]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("phasebit-timeline", TimelinePicture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
