"""Colour ``%%cuda`` and ``%%cpp`` cells as what they are: one line for the notebook, then C++.

Sphinx would read them as Python, and warn.
"""

from __future__ import annotations

from collections.abc import Iterator

from docutils import nodes
from pygments.lexer import Lexer
from pygments.lexers.c_like import CudaLexer
from pygments.token import Keyword, Text
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class CudaCellLexer(Lexer):
    """The magic in the first line, CUDA C++ after it."""

    name = "CUDA cell"
    aliases = ("cuda-cell",)

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, object, str]]:
        magic, newline, rest = text.partition("\n")
        yield 0, Keyword, magic
        yield len(magic), Text, newline
        start = len(magic) + len(newline)
        for index, token, value in CudaLexer(stripnl=False).get_tokens_unprocessed(rest):
            yield start + index, token, value


class ColourCudaCells(SphinxTransform):
    default_priority = 120

    def apply(self, **kwargs: object) -> None:
        for block in self.document.findall(nodes.literal_block):
            if block.astext().startswith(("%%cuda", "%%cpp")):
                block["language"] = "cuda-cell"


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_lexer("cuda-cell", CudaCellLexer)
    app.add_transform(ColourCudaCells)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
