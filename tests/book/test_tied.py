"""What the end of a line must not part: options of commands, and dates."""

from __future__ import annotations

import doctest
import sys

import pytest

from .notebooks import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))

from phasebit_book import tied


def test_the_examples_hold() -> None:
    assert doctest.testmod(tied).failed == 0


@pytest.mark.parametrize(
    "html",
    [
        '<span class="pre">phasebit</span>',
        "<pre>2026-11-26</pre>",
        "<td>bugs/2026-11-26.json, 0-2026-11-26</td>",
        '<p><a href="records/2026-11-26">a record</a></p>',
    ],
)
def test_what_is_no_option_and_no_date_stays_as_it_was(html: str) -> None:
    assert tied.tied(html) == html


def test_dates_are_tied_wherever_text_is_read() -> None:
    for name in ("p", "td", "caption", "figcaption"):
        html = f"<{name}>on an <em>H200</em>, 2026-11-26</{name}>"
        assert '<span class="pb-tied">2026-11-26</span>' in tied.tied(html)
