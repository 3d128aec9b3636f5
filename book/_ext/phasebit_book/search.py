"""A search that begins with the pages which say most of what was asked.

Sphinx's own ranks a page by whether a word stands in it, which many words do on each; here it also
knows which pages have the word most often. ``search.js`` beside this file ranks by that. A
chapter's set-up cell is not searched: its words (``pip install phasebit``, the compiler, the GPU)
stand on each page.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder

from phasebit_book.setup_cells import SETUP
from phasebit_book.written import write_script

MANY = 8
"""Pages that have a word before it matters which of them have it most."""
FIRST = 3
"""Of those, so many are ranked before the others."""


def without_setup(page: nodes.document) -> nodes.document:
    """A copy of a page in which no set-up cell is left."""
    copy = page.deepcopy()
    for cell in list(copy.findall(nodes.container)):
        if SETUP in cell["classes"]:
            cell.parent.remove(cell)
    return copy


def most(counts: dict[str, Counter[str]]) -> dict[str, list[str]]:
    """Word -> the pages that have it most often, where many have it.

    >>> most({f"page {n}": Counter({"phase": n, f"word {n}": 1}) for n in range(9)})
    {'phase': ['page 8', 'page 7', 'page 6']}
    """
    found: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for page, words in counts.items():
        for word, times in words.items():
            found[word][page] = times
    return {
        word: sorted(pages, key=lambda page: (-pages[page], page))[:FIRST]
        for word, pages in sorted(found.items())
        if len(pages) >= MANY
    }


def prepare(app: Sphinx) -> None:
    """Have the builder index pages without their set-up, and count their words."""
    builder = app.builder
    if not isinstance(builder, StandaloneHTMLBuilder):
        return
    index = builder.index_page
    counts: dict[str, Counter[str]] = {}

    @cache
    def stem(word: str) -> str:
        return builder.indexer.lang.stem(word)  # type: ignore[no-any-return]

    def index_page(name: str, doctree: nodes.document, title: str) -> None:
        page = without_setup(doctree)
        index(name, page, title)
        language = builder.indexer.lang
        words = (word.lower() for word in language.split(page.astext()))
        counts[name] = Counter(stem(word) for word in words if language.word_filter(word))

    def write(app: Sphinx, error: Exception | None) -> None:
        if error is None:
            pages = sorted(counts)
            found = most(counts).items()
            places = {word: [pages.index(page) for page in first] for word, first in found}
            write_script(app, "search_words.js", searchPages=pages, searchWords=places)

    builder.index_page = index_page  # type: ignore[method-assign]
    app.connect("build-finished", write)


def load(app: Sphinx, page: str, *_: Any) -> None:
    """The page of the search has the words, no other."""
    if page == "search":
        app.add_js_file("search_words.js")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", prepare)
    app.connect("html-page-context", load)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
