"""Whoever asks for the site gets the front page: ``index.html`` is that page, and no way to it."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urljoin

from sphinx.application import Sphinx

_ADDRESS = re.compile(r'\b(href|src|action|data-content_root)="(?![#/]|\w+:)([^"]*)"')


def at_the_top(html: str, folder: str) -> str:
    """A page of a folder as it is one level up: its relative addresses begin there.

    >>> at_the_top('<a href="../c/d.html#e"> <a href="b.html"> <a href="#e">', "book")
    '<a href="c/d.html#e"> <a href="book/b.html"> <a href="#e">'
    >>> at_the_top('<html data-content_root="../">', "book")
    '<html data-content_root="./">'
    """

    def moved(found: re.Match[str]) -> str:
        return f'{found[1]}="{urljoin(f"/{folder}/", found[2])[1:] or "./"}"'

    return _ADDRESS.sub(moved, html)


def one_address(app: Sphinx, page: str, template: str, context: dict[str, Any], _: Any) -> None:
    """Both copies of the page say that its address is the site's."""
    if page == app.config.root_doc and app.config.html_baseurl:
        context["pageurl"] = app.config.html_baseurl


def write(app: Sphinx, error: Exception | None) -> None:
    """Put the front page where the site begins."""
    if error is None and app.builder.name == "html":
        page, out = PurePosixPath(app.config.root_doc), Path(app.outdir)
        if page.parent.name:
            html = (out / f"{page}.html").read_text(encoding="utf-8")
            moved = at_the_top(html, page.parent.as_posix())
            (out / "index.html").write_text(moved, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", one_address)
    app.connect("build-finished", write, priority=900)  # what is mended is mended
    return {"parallel_read_safe": True, "parallel_write_safe": True}
