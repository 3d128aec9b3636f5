"""What the end of a line must not part: the option of a command, and a date.

A browser may break a line behind any hyphen, and makes ``-`` and ``-seeds`` of ``--seeds``.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from .formulas import TIED

_OPTION = re.compile(r'<span class="pre">(?=-[^<>\s]{1,23}</span>)')
_LONG = re.compile(r'(?<=<span class="pre">)--?[A-Za-z]{1,22}(?=[^<>\s]*</span>)')
"""Of a longer option: how it begins."""
_TOLD = re.compile(r"<(td|p|caption|figcaption)\b[^>]*>.*?</\1>", re.S)
_TEXT = re.compile(r"(?<=>)[^<>]+")
_DATE = re.compile(r"(?<![\w/.-])\d{4}-\d\d-\d\d(?![\w/-])")


def tied(html: str) -> str:
    """A page whose options and dates keep to one line; what is printed or linked stays as it is.

    >>> tied('<code><span class="pre">--seeds</span></code>')
    '<code><span class="pre pb-tied">--seeds</span></code>'
    >>> tied('<span class="pre">-DCMAKE_CUDA_ARCHITECTURES=90a</span>')
    '<span class="pre"><span class="pb-tied">-DCMAKE</span>_CUDA_ARCHITECTURES=90a</span>'
    >>> tied('<td>on 2026-11-26</td><td><a href="2026-11-26">a</a></td>')
    '<td>on <span class="pb-tied">2026-11-26</span></td><td><a href="2026-11-26">a</a></td>'
    """

    def told(found: re.Match[str]) -> str:
        return _TEXT.sub(lambda text: _DATE.sub(rf'<span class="{TIED}">\g<0></span>', text[0]),
                         found[0])  # fmt: skip

    html = _OPTION.sub(f'<span class="pre {TIED}">', html)
    html = _LONG.sub(rf'<span class="{TIED}">\g<0></span>', html)
    return _TOLD.sub(told, html)


def tie(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    context["body"] = tied(context.get("body", ""))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", tie)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
