"""Formulas: what touches one stays on its line, and the font has all that it shows."""

from __future__ import annotations

import doctest
import re
import sys
from pathlib import Path

import pytest

from .notebooks import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))

from phasebit_book import formulas
from sphinx.application import Sphinx

WORDS = r"""# A

For {math}`A` and one for {math}`B`. A product ({math}`C`), the {math}`k`-th, and {math}`D` alone.

The *first*, {math}`E`, *last*.
"""


def written(folder: Path) -> str:
    """The page that Sphinx makes of WORDS."""
    (folder / "conf.py").write_text("extensions = ['myst_parser', 'phasebit_book.formulas']\n")
    (folder / "index.md").write_text(WORDS)
    app = Sphinx(folder, folder, folder / "out", folder / "trees", "html", status=None)
    app.builder.build(["index"])
    return (folder / "out" / "index.html").read_text("utf-8")


def tied(page: str) -> list[str]:
    """The words of each element that stays on one line."""
    spans = re.findall(r'<span class="pb-tied">(.*?</math></span>.*?)</span>', page, re.S)
    return [re.sub(r"<[^>]*>|\s", "", each) for each in spans]


def test_the_examples_hold() -> None:
    assert doctest.testmod(formulas).failed == 0


def test_what_touches_a_formula_is_tied_to_it(tmp_path: Path) -> None:
    page = written(tmp_path)
    assert tied(page) == ["B.", "(C),", "k-th,", "E,"]
    assert "<em>first</em>, <span" in page


def test_without_the_transform_nothing_is_tied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formulas.Tied, "run", lambda self, **_: None)
    assert tied(written(tmp_path)) == []


def test_a_root_needs_its_sign() -> None:
    """No text of a formula has it: the browser draws it, if the font has it."""
    assert formulas.letters(formulas.mathml(r"\sqrt{d}")) >= {*map(ord, "d√")}
    assert ord("√") not in formulas.letters(formulas.mathml("d"))
