"""``{phasebit-timeline}``: a timeline drawn while the book is built, by the simulator itself.

The options are the parameters of :class:`phasebit.pipeline.Pipeline` and ``jobs``; the
content is the caption. For pages that are no notebooks, such as the front page.
"""

from __future__ import annotations

from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx

from .figure import FigureDirective

PARAMETERS = ("producers", "consumers", "slots", "produce", "consume", "jobs")


class TimelinePicture(FigureDirective):
    option_spec: ClassVar = dict.fromkeys(PARAMETERS, directives.nonnegative_int)

    def run(self) -> list[nodes.Node]:
        from phasebit.pipeline import Pipeline, simulate

        given = dict(self.options)
        jobs = given.pop("jobs", 8)
        return [self.figure(simulate(Pipeline(**given), jobs=jobs).timeline)]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("phasebit-timeline", TimelinePicture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
