"""Pages that load what they need, have one heading of the first rank, and say what they are about.

The theme gives every page a script of 1.5 MB that draws icons which its style sheet draws already,
and extensions give every page styles and scripts of what only some have. The theme's heading for
print stands beside the page's own, its size of the screen thrice, and all exercises have one id.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config

_ICONS = re.compile(r'\s*<script src="[^"]*/fontawesome/[^"]*/all\.min\.js[^"]*"></script>')
_PRINT_HEADING = re.compile(
    r'(<div id="jb-print-docs-body" class="onlyprint">\s*)<h1>(.*?)</h1>', re.DOTALL
)
_SIZE = re.compile(r'\s*<meta name="viewport"[^>]*>')
_CONTENT = re.compile(r' id="(?:exercise|solution)-content"')
_WITHOUT = {
    r"sphinx-design\.min\.css|design-tabs\.js": r'class="[^"]*\bsd-',
    r"proof\.css": r'class="[^"]*\bproof\b',
    r"exercise\.css": r'class="[^"]*\b(?:exercise|solution)\b',
}
"""Files that a page loads -> what it must have to need them."""
_FILE = r'\s*<(?:link|script)[^>]*(?:href|src)="[^"]*_static/(?:%s)[^>]*>(?:</script>)?'

LONGEST = 300
"""Letters of a description; search engines show fewer."""


def lean(html: str) -> str:
    """A page without what it does not need, and with the print heading as what it is."""
    for files, need in _WITHOUT.items():
        if not re.search(need, html):
            html = re.sub(_FILE % files, "", html)
    first = _SIZE.search(html)
    if first:
        html = html[: first.end()] + _SIZE.sub("", html[first.end() :])
    html = _CONTENT.sub("", _ICONS.sub("", html))
    return _PRINT_HEADING.sub(r'\1<p class="h1">\2</p>', html)


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
    """Say in the page's head what it is about."""
    if words := description(doctree):
        title = re.sub(r"<[^>]*>", "", context.get("title", ""))
        tags = {"og:type": "article", "og:site_name": app.config.html_title, "og:title": title,
                "og:description": words, "og:url": context.get("pageurl") or ""}  # fmt: skip
        context["metatags"] = context.get("metatags", "") + "".join(
            [f'\n<meta name="description" content="{escape(words)}">']
            + [
                f'\n<meta property="{name}" content="{escape(text)}">'
                for name, text in tags.items()
            ]
        )


def publish_at(app: Sphinx, config: Config) -> None:
    """Say where the pages will be: GitHub's own place for the repository of _config.yml."""
    repository = config["html_theme_options"].get("repository_url", "")
    if found := re.fullmatch(r"https://github\.com/([^/]+)/([^/]+?)/?", repository):
        config["html_baseurl"] = f"https://{found[1].lower()}.github.io/{found[2]}/"


def rewrite(app: Sphinx, error: Exception | None) -> None:
    """Make every page that was written lean."""
    if error is None and app.builder.format == "html":
        for path in Path(app.outdir).glob("**/*.html"):
            html = path.read_text(encoding="utf-8")
            if (better := lean(html)) != html:
                path.write_text(better, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", publish_at)
    app.connect("html-page-context", about, priority=900)
    app.connect("build-finished", rewrite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
