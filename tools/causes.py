"""Sentences of the book that name a cause, and what shows each of them.

    python tools/causes.py CHAPTER      the sentences of a chapter that its table does not have

A chapter's table is ``book/causes/CHAPTER.toml``, a ``[[cause]]`` for each sentence: ``sentence``,
word for word as on the page, without emphasis; and ``shown_by``, what shows it, one or more of

=================  ==========================================================================
``cell: TEXT``     a run on the page, in which only that cause is absent: TEXT is in its code
``record: FILE``   a file of ``records/``
``test: PATH::NAME``  a test
``source: KEY``    a work of ``book/references.bib``, with its place: ``source: KEY, sec. 4.2``
``reason: WORDS``  nothing was measured: it follows from definitions or by arithmetic, thus
=================  ==========================================================================
"""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))

from phasebit_book.plain import directives  # noqa: E402

TABLES = ROOT / "book" / "causes"
KINDS = ("cell", "record", "test", "source", "reason")

_CAUSAL = re.compile(
    r"\b(?:because|therefore|thus|hence|due to|owing to|explains?|explained by|"
    r"the (?:cause|reason)|(?:that|this|which) is why|thanks to)\b",
    re.IGNORECASE,
)
_SO = re.compile(
    r"(?:^\(?|[,;:] |\b(?:and|but) )so (?!(?:as|ask|called|crude|deep|do|does|draw|far|fast|few|is|"
    r"it will|large|launch|long|many|much|near|on|small|take|that|this chapter|we took)\b)|"
    r"\bsince\b(?! (?:sm_|compute|then|chapter|its last|the A100|Ampere|Hopper|Volta|\d))|"
    r"\bcomes from (?!it|memory|shared|the L)",
    re.IGNORECASE,
)
_SPEED = re.compile(
    r"\b(?:faster|fastest|slower|slowest|sooner|longer|halve|the rate|watts?|power|bottleneck|"
    r"speed|(?:more|less|no|the|takes?|in|its|their|off the) time|gains?|gained|costs?|loses?|"
    r"saves?|misses)\b"
)
_EFFECT = re.compile(
    r"\b(?:(?<!that )(?<!record )decides\b(?! (?:as|for both|nothing|only|right)\b)|"
    r"sets? the pace|makes? the difference|(?:keeps?|holds?|held) \w+ back)\b"
)
_SHOWN = r"(?:admonition|note|tip|warning|important)"
_FENCED = re.compile(
    rf"^(`{{3,}}(?!\{{{_SHOWN})|:{{3,}}(?=\{{(?!{_SHOWN}))).*?^\1\s*$", re.M | re.S
)
_ADMONITION = re.compile(r"^(?:`{3,}|:{3,}).*$", re.M)
_MARKUP = re.compile(r"\*\*|(?<![\w*])\*(?=\S)|(?<=\S)\*(?![\w*])")
_END = re.compile(r"(?<=[.?!:])[\"')*]*\s+(?=[A-Z`*\"'(\d])|\n\s*\n|\n(?=\s*(?:[-*#>|]|\d+\.)\s)")


@dataclass(frozen=True)
class Cause:
    """A sentence that names a cause, and what shows it."""

    sentence: str
    shown_by: tuple[str, ...]


def sentences(text: str) -> list[str]:
    """The sentences of a Markdown text, each on one line; exercises and listings are left out."""
    plain = _MARKUP.sub("", _ADMONITION.sub("", _FENCED.sub("", text)))
    return [" ".join(one.split()).lstrip("-#>| ") for one in _END.split(plain) if one.strip()]


def causal(text: str) -> list[str]:
    """The sentences of a Markdown text that name a cause.

    *So* and *since* mostly conclude; they count where the sentence speaks of speed as well.
    """
    return [one for one in sentences(text) if _CAUSAL.search(one) or _hints_at_a_cause(one)]


def _hints_at_a_cause(one: str) -> bool:
    if one.endswith("?") or one.startswith("After this chapter"):
        return False
    return bool(_EFFECT.search(one) or (_SO.search(one) and _SPEED.search(one)))


def page(path: Path) -> tuple[str, list[str]]:
    """The Markdown of a notebook, and the source of each of its code cells."""
    notebook = nbformat.read(path, as_version=4)
    markdown = [directives(c.source) for c in notebook.cells if c.cell_type == "markdown"]
    return "\n\n".join(markdown), [c.source for c in notebook.cells if c.cell_type == "code"]


def table(chapter: str) -> list[Cause]:
    """The table of a chapter, by its name without a number."""
    path = TABLES / f"{chapter}.toml"
    if not path.exists():
        return []
    data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    return [
        Cause(" ".join(one["sentence"].split()), tuple(one["shown_by"])) for one in data["cause"]
    ]


def missing(chapter: str, path: Path) -> list[str]:
    """The causal sentences of a notebook that its table lacks."""
    known = {cause.sentence for cause in table(chapter)}
    return [one for one in causal(page(path)[0]) if one not in known]


def stale(chapter: str, path: Path) -> list[str]:
    """Sentences of a table that its notebook no longer has."""
    there = set(sentences(page(path)[0]))
    return [cause.sentence for cause in table(chapter) if cause.sentence not in there]


def unshown(shown_by: str, code: list[str]) -> str | None:
    """Why what is said to show a cause cannot be found, or ``None``.

    ``code``: the source of each code cell of the page.
    """
    kind, _, what = shown_by.partition(": ")
    if kind not in KINDS or not what.strip():
        return f"{shown_by!r} is none of {', '.join(f'{kind}: …' for kind in KINDS)}"
    if kind == "cell" and not any(what in source for source in code):
        return f"no code cell of the page has {what!r}"
    if kind == "record" and not (ROOT / "records" / what).exists():
        return f"records/{what} is not there"
    if kind == "test":
        path, _, name = what.partition("::")
        file = ROOT / path
        if (
            not file.exists()
            or f"def {name.partition('[')[0].split('::')[-1]}(" not in file.read_text("utf-8")
        ):
            return f"there is no test {what}"
    if kind == "source":
        key = what.split(",")[0].strip()
        if f"{{{key}," not in (ROOT / "book" / "references.bib").read_text("utf-8"):
            return f"book/references.bib has no {key}"
    return None


def main(chapter: str) -> None:
    """Print what the table of a chapter lacks, as a table to fill in."""
    from phasebit import contents

    try:
        path = contents.notebook(ROOT / "book", chapter)
    except ValueError as error:
        raise SystemExit(str(error)) from None
    for sentence in missing(chapter, path):
        quoted = sentence.replace("\\", "\\\\").replace('"', '\\"')
        print(f'[[cause]]\nsentence = "{quoted}"\nshown_by = [""]\n')
    for sentence in stale(chapter, path):
        print(f"# no longer on the page: {sentence}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python tools/causes.py CHAPTER")
    main(sys.argv[1])
