"""What each chapter can do on each tier, written from the notebooks' own metadata.

``{phasebit-tiers}`` is the table of *How to read*; every chapter also says its own line
under its opening paragraph. Both read :mod:`phasebit.chapters`, as the doctor does.
"""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective

from phasebit.contents import Chapter, chapters
from phasebit.hardware import TIERS

COLUMNS = ("browser", *TIERS)
HEADINGS = {
    "browser": "browser",
    "cpu": "CPU only",
    "sm_75": "sm_75",
    "sm_80": "sm_80+",
    "sm_90a": "sm_90a",
    "sm_100a": "sm_100a",
}

UNRECORDED = "sm_100a"
"""The tier whose kernels no GPU has run for the records: its chapter has no times."""


def abilities(tier: str, has_lab: bool) -> dict[str, str]:
    """Column -> what a chapter of this tier does there: one word.

    >>> abilities("sm_75", False)["cpu"]
    'emulator'
    """
    need = TIERS.index(tier)
    words = {"browser": "lab" if has_lab else "read"}
    for column in TIERS:
        runs = TIERS.index(column) >= need
        if tier.endswith("a"):  # code for one generation runs on no other
            runs = column == tier
        words[column] = "runs" if runs else "emulator"
    return words


def says(tier: str, has_lab: bool) -> str:
    """The line under a chapter's opening, about what it needs."""
    if tier == "cpu":
        line = "Runs on any machine; no GPU needed."
    elif tier == UNRECORDED:
        line = f"Runs on the emulator, on any machine. Its kernels are for NVIDIA GPUs of {tier}."
    else:
        newer = "" if tier.endswith("a") else " or newer"
        line = (
            f"Runs on an NVIDIA GPU of {tier}{newer}. Without one, its CUDA cells run on the "
            "emulator, and their times are those recorded on a GPU."
        )
    return line + (" In this page: a lab that runs in your browser." if has_lab else "")


def has_lab(chapter: Chapter) -> bool:
    return "phasebit-lab" in chapter.path.read_text(encoding="utf-8")


class TierTable(SphinxDirective):
    """``{phasebit-tiers}``: a row a chapter, a column a tier."""

    def run(self) -> list[nodes.Node]:
        book = Path(self.env.srcdir) / "book"
        rows = [[nodes.paragraph(text=text)] for text in ("chapter", *map(HEADINGS.get, COLUMNS))]
        head, body = nodes.thead("", _row(rows)), nodes.tbody()
        for chapter in chapters(book):
            self.env.note_dependency(str(chapter.path))
            docname = chapter.path.relative_to(self.env.srcdir).with_suffix("").as_posix()
            words = abilities(chapter.tier, has_lab(chapter))
            title = chapter.title
            if chapter.number is not None and not title[:1].isdigit():
                title = f"{chapter.number}. {title}"
            link = addnodes.pending_xref(
                "",
                nodes.inline(text=title),
                refdomain="std",
                reftype="doc",
                reftarget="/" + docname,
                refexplicit=True,
                refwarn=True,
                refdoc=self.env.docname,
            )
            cells = [nodes.paragraph(text=words[column]) for column in COLUMNS]
            body += _row([[nodes.paragraph("", "", link)], *([cell] for cell in cells)])
        group = nodes.tgroup("", cols=len(COLUMNS) + 1)
        group += [nodes.colspec(colwidth=width) for width in (4, *[1] * len(COLUMNS))]
        group += [head, body]
        return [nodes.table("", group, classes=["pb-tiers"])]


def _row(cells: list[list[nodes.Node]]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", *cell) for cell in cells))


class TierLine(SphinxTransform):
    """Say under a chapter's opening paragraph what it needs, with a way to run it."""

    default_priority = 110

    def apply(self, **kwargs: object) -> None:
        path = Path(self.env.doc2path(self.env.docname))
        chapter = next(
            (one for one in chapters(Path(self.env.srcdir) / "book") if one.path == path), None
        )
        title = next(iter(self.document.findall(nodes.title)), None)
        if chapter is None or title is None:
            return
        line = nodes.paragraph("", says(chapter.tier, has_lab(chapter)) + " ", classes=["pb-tier"])
        line += nodes.reference("", "Open in Colab", refuri=self.colab(path), internal=False)
        line += nodes.Text(".")
        section = title.parent
        opening = section.index(title) + 1
        first = section[opening] if opening < len(section) else None
        section.insert(opening + isinstance(first, nodes.paragraph), line)

    def colab(self, path: Path) -> str:
        """The address that opens a notebook of the repository in Colab."""
        options = self.config.html_theme_options
        owner_and_name = "/".join(options["repository_url"].split("/")[-2:])
        name = path.relative_to(self.env.srcdir).as_posix()
        start = options["launch_buttons"]["colab_url"]
        return f"{start}/github/{owner_and_name}/blob/{options['repository_branch']}/{name}"


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("phasebit-tiers", TierTable)
    app.add_transform(TierLine)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
