"""Pages that load what they need, have one heading of the first rank, and say what they are about.

The theme gives every page a script of 1.5 MB that draws icons which its style sheet draws already,
and jupyter-book gives every page MathJax, formulas or not. The theme's heading for print stands
beside the page's own.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

_ICONS = re.compile(r'\s*<script src="[^"]*/fontawesome/[^"]*/all\.min\.js[^"]*"></script>')
_PRINT_HEADING = re.compile(
    r'(<div id="jb-print-docs-body" class="onlyprint">\s*)<h1>(.*?)</h1>', re.DOTALL
)
_FORMULA = re.compile(r'class="[^"]*\bmath\b')

LONGEST = 300
"""Letters of a description; search engines show fewer."""


def lean(html: str) -> str:
    """A page without the script of icons, and with the print heading as what it is."""
    return _PRINT_HEADING.sub(r'\1<p class="h1">\2</p>', _ICONS.sub("", html))


def description(doctree: nodes.document | None) -> str:
    """The first paragraph of a page as plain text, cut at a word."""
    paragraph = next(iter(doctree.findall(nodes.paragraph)), None) if doctree else None
    if paragraph is None:
        return ""
    words = " ".join(paragraph.astext().split())
    return words if len(words) <= LONGEST else words[: LONGEST - 1].rsplit(" ", 1)[0] + "…"


def about(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Say in the page's head what it is about; leave MathJax out where there is no formula."""
    if words := description(doctree):
        title = re.sub(r"<[^>]*>", "", context.get("title", ""))
        tags = {"og:type": "article", "og:site_name": app.config.project, "og:title": title,
                "og:description": words}  # fmt: skip
        context["metatags"] = context.get("metatags", "") + "".join(
            [f'\n<meta name="description" content="{escape(words)}">']
            + [
                f'\n<meta property="{name}" content="{escape(text)}">'
                for name, text in tags.items()
            ]
        )
    if not _FORMULA.search(context.get("body", "")):
        context["script_files"] = [
            script
            for script in context["script_files"]
            if "mathjax" not in str(getattr(script, "filename", script) or "").lower()
            and "MathJax" not in str(getattr(script, "attributes", {}).get("body", ""))
        ]


def rewrite(app: Sphinx, error: Exception | None) -> None:
    """Make every page that was written lean."""
    if error is None and app.builder.format == "html":
        for path in Path(app.outdir).glob("**/*.html"):
            html = path.read_text(encoding="utf-8")
            if (better := lean(html)) != html:
                path.write_text(better, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", about, priority=900)
    app.connect("build-finished", rewrite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
