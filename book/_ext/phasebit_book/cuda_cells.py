"""Colour C++ as C++: in ``%%cuda`` and ``%%cpp`` cells, in a string of Python that holds a kernel,
and where a cell prints one; and PTX as PTX where it is such a string.

Sphinx would read such a cell as Python, and warn; and it knows of no output what it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from docutils import nodes
from pygments.lexer import Lexer
from pygments.lexers.c_like import CudaLexer
from pygments.lexers.ptx import PtxLexer
from pygments.lexers.python import PythonLexer
from pygments.token import Error, Keyword, Text
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


_NUMBER = re.compile(r"^ *\d+(?:  |$)", re.MULTILINE)
_CPP = re.compile(
    r"[;{}]\s*(?://.*)?$|^\s*(?://|#\s*(?:include|pragma|define|if|endif)|template\b|__\w+__)"
)
_SURE = re.compile(
    r"\b(?:__\w+__|const|constexpr|int|float|void|template|struct)\b|\b(?:for|while|if) \("
    r"|\bptx::\w+\("
)
_LITERAL = re.compile(r'//.*|"(?:\\.|[^"\\])*"')
_PYTHON = re.compile(r"^(?:def|class|@\w)", re.MULTILINE)
_OUTPUT = ("none", "myst-ansi", "ipythontb", "")

LEAST, SHARE = 4, 0.6
"""A listing has at least so many lines, and so many of them end or begin as C++ does."""


def language(text: str) -> str | None:
    """``"cuda"`` or ``"python"`` where an output is a listing, with or without line numbers."""
    lines = [line for line in _NUMBER.sub("", text).splitlines() if line.strip()]
    if len(lines) < LEAST:
        return None
    if _PYTHON.match(lines[0]) or (lines[0].startswith("# ") and _PYTHON.match(lines[1])):
        return "python"
    alike = deep = 0
    statement: list[str] = []
    for line in lines:  # a statement may go on over lines, until its bracket is closed
        bare = _LITERAL.sub("", line)
        deep = max(0, deep + bare.count("(") - bare.count(")"))
        statement.append(line)
        if not deep:
            alike += len(statement) if _CPP.search(line) else 0
            statement = []
    alike += sum(bool(_CPP.search(line)) for line in statement)
    return "cuda" if alike >= SHARE * len(lines) and _SURE.search(text) else None


_STRING = re.compile(r"""(?P<quote>\"{3}|'{3})(?P<text>.*?)(?P=quote)""", re.DOTALL)
_PTX = re.compile(r"^\s*(?:\.(?:version|visible|reg)\b|(?:mov|ld|st|add)\.[\w.:]+ )", re.MULTILINE)
_CELL = ("ipython3", "ipython", "python", "python3")


def kernels(text: str) -> list[tuple[int, int, type[Lexer]]]:
    """Where the strings of a Python cell lie that hold a kernel: from, to, and what reads it."""
    found: list[tuple[int, int, type[Lexer]]] = []
    for one in _STRING.finditer(text):
        if not any(map(_CPP.search, one["text"].splitlines())):
            continue
        if _PTX.search(one["text"]):
            found.append((*one.span("text"), PtxLexer))
        elif _SURE.search(one["text"]):
            found.append((*one.span("text"), CudaLexer))
    return found


class KernelCellLexer(Lexer):
    """Python, and CUDA C++ or PTX in the strings that hold it."""

    name = "cell with a kernel"
    aliases = ("kernel-cell",)

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, object, str]]:
        waiting = kernels(text)
        begin = end = -1
        for index, token, value in PythonLexer().get_tokens_unprocessed(text):
            if waiting and index >= waiting[0][0]:
                begin, end, lexer = waiting.pop(0)
                for at, kind, part in lexer().get_tokens_unprocessed(text[begin:end]):
                    yield begin + at, Text if kind is Error else kind, part
            if not begin <= index < end:
                yield index, token, value


class ColourCudaCells(SphinxTransform):
    default_priority = 120

    def apply(self, **kwargs: object) -> None:
        for block in self.document.findall(nodes.literal_block):
            text = block.astext()
            if text.startswith(("%%cuda", "%%cpp")):
                block["language"] = "cuda-cell"
            elif block.get("language", "") in _CELL and kernels(text):
                block["language"] = "kernel-cell"
            elif block.get("language", "") in _OUTPUT and (found := language(text)):
                block["language"] = found
                block["force"] = True  # what surrounds a kernel may be no C++


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_lexer("cuda-cell", CudaCellLexer)
    app.add_lexer("kernel-cell", KernelCellLexer)
    app.add_transform(ColourCudaCells)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
