"""``{phasebit-measured} chain``: what a chapter's records say of a Blackwell; its content, if none.

The chapters of Part VI were written without one. Who has one records them (CONTRIBUTING.md), and
the note that says so gives way to what was recorded: tables of times, made by ``table`` in the
chapter's module ``record``, and how many launches agree with the emulator bit by bit.
"""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from phasebit import chapters, measure, proving
from phasebit.measure import Table


def tables(chapter: str) -> list[Table]:
    """One for each GPU that the chapter was recorded on."""
    benchmark = chapters.load(chapter, "record")
    return [benchmark.table(record) for record in measure.every(benchmark.NAME)]


def proved(chapter: str) -> list[str]:
    """A sentence for each GPU whose bits were compared with the emulator's."""
    said = []
    for record in measure.every(proving.NAME):
        mine = [case for name, case in record["cases"].items() if name.startswith(f"{chapter}: ")]
        if mine:
            agree = sum(not case["differ"] for case in mine)
            said.append(f"{measure.source(record)}: {agree} of {len(mine)} launches of this "
                        "chapter agree with the emulator in every bit.")  # fmt: skip
    return said


class Measured(SphinxDirective):
    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        chapter = self.arguments[0]
        said, times = proved(chapter), tables(chapter)
        note = nodes.note()
        if not said and not times:
            self.state.nested_parse(self.content, self.content_offset, note)
            return [note]
        note += [nodes.paragraph(text=sentence) for sentence in said]
        note += [nodes.raw("", table._repr_mimebundle_()["text/html"], format="html")
                 for table in times]  # fmt: skip
        return [note]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("phasebit-measured", Measured)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
