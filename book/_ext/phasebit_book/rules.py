"""``{phasebit-rules}``: every rule that a finding may name, from the emulator's own table."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from phasebit.emulator import rulebook

HEADINGS = ("rule", "grade", "what is wrong", "source")


def _row(cells: list[nodes.Node]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", cell)) for cell in cells))


class RuleTable(SphinxDirective):
    """A row a rule, in the order of the table."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(rulebook.__file__)
        body = nodes.tbody()
        for rule in rulebook.RULES.values():
            source = f"PTX ISA {rule.section}" if rule.section[:1].isdigit() else rule.section
            texts = map(nodes.Text, (rule.grade, rule.sentence, source))
            body += _row([nodes.literal(text=rule.name), *texts])
        head = nodes.thead("", _row(list(map(nodes.Text, HEADINGS))))
        group = nodes.tgroup("", cols=len(HEADINGS))
        group += [nodes.colspec(colwidth=width) for width in (3, 2, 6, 2)]
        group += [head, body]
        return [nodes.table("", group, classes=["pb-rules"])]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("phasebit-rules", RuleTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
