"""The bibliography parses, and every chapter cites only what is in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pybtex.database import parse_file
from pybtex.style.labels.alpha import LabelStyle

from .notebooks import CHAPTERS, ROOT, prose

LONGEST = 15
"""Letters of a label, those of ``OpenCProject23a``."""


def entries() -> set[str]:
    return set(parse_file(str(ROOT / "book" / "references.bib")).entries)


def test_it_parses() -> None:
    text = (ROOT / "book" / "references.bib").read_text(encoding="utf-8")
    assert entries() == set(re.findall(r"^@\w+\{([^,]+),", text, re.MULTILINE))


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_cites_what_is_there(path: Path) -> None:
    cited = re.findall(r"\{cite(?::\w+)?\}`([^`]+)`", prose(path))
    assert {key.strip() for keys in cited for key in keys.split(",")} <= entries()


def test_what_a_work_is_called_is_short_and_written_in_letters() -> None:
    """A label stands in the middle of a sentence; TeX in a title would be printed as it is."""
    works = list(parse_file(str(ROOT / "book" / "references.bib")).entries.values())
    for label in LabelStyle().format_labels(works):
        assert len(label) <= LONGEST, label
    for work in works:
        assert "$" not in work.fields["title"], work.key
