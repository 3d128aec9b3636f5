"""The book on paper: pages in order, links within it, an outline, listings with numbers."""

from __future__ import annotations

import re

import pytest
import yaml

from .conftest import HTML, ROOT

pytestmark = pytest.mark.site

PAGE = """<!DOCTYPE html><meta charset="utf-8"><link rel="icon" href="data:,"><title>t</title>
<article class="bd-article"><section id="top"><h1>{title}</h1><p><a href="{link}">there</a></p>
<div class="cell_input"><pre>x = 1</pre></div>{rest}</section></article>"""


def test_every_page_of_the_book_is_printed_once() -> None:
    import pdf

    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    every = list(pdf.pages(toc, HTML))
    assert len(set(every)) == len(every)
    chapters = {path.relative_to(HTML).as_posix() for path in HTML.glob("book/part*/[0-9]*.html")}
    assert chapters <= set(every)


def test_links_become_links_within_it(browser, tmp_path) -> None:
    import pdf

    folded = "<details><summary>more</summary><p>folded</p></details>"
    (tmp_path / "a.html").write_text(
        PAGE.format(title="First", link="b.html#top", rest=folded), "utf-8"
    )
    (tmp_path / "b.html").write_text(PAGE.format(title="Second", link="a.html", rest=""), "utf-8")
    target = tmp_path / "out.pdf"
    toc = {"root": "a", "parts": [{"chapters": [{"file": "b"}, {"file": "absent"}]}]}
    made = pdf.print_book(browser, tmp_path, target, toc, "A book")
    assert made == {"pages": 2, "listings": 2, "broken": [], "numbers": ["3", "4"],
                    "terms": 0, "index": []}  # fmt: skip
    assert pdf.places(target.read_bytes())["b-html"] == 4
    text = target.read_bytes()
    assert text.startswith(b"%PDF-")
    assert b"/Outlines" in text
    assert len(re.findall(rb"/Type /Page\b(?!s)", text)) == 4  # title, contents, two pages
    assert b"127.0.0.1" not in text, "links lead into the book, not to where it was printed"


def test_the_index_says_on_which_pages_a_term_stands(browser, tmp_path) -> None:
    import pdf

    said = '<p>A <a href="words.html#term-slot">slot</a>.</p>'
    for name in "ab":  # twice on one page counts once
        (tmp_path / f"{name}.html").write_text(
            PAGE.format(title=name, link="#top", rest=2 * said), "utf-8"
        )
    words = '<dl><dt id="term-slot">slot</dt><dd>…</dd><dt id="term-arrive">arrive</dt></dl>'
    (tmp_path / "words.html").write_text(PAGE.format(title="W", link="#top", rest=words), "utf-8")
    toc = {"root": "a", "chapters": [{"file": "b"}, {"file": "words"}]}
    made = pdf.print_book(browser, tmp_path, tmp_path / "out.pdf", toc, "A book")
    assert made["index"] == ["arrive 5", "slot 5 3 4"]
    assert made["numbers"] == ["3", "4", "5", "6"]


def test_no_table_is_cut(browser, tmp_path, monkeypatch) -> None:
    import pdf

    row = "".join(f"<{{0}}>a_long_name_{n} of something</{{0}}>" for n in range(14))
    table = (
        f'<table class="table"><thead><tr>{row}</tr></thead><tbody><tr>{row}</tr></tbody></table>'
    )
    page = PAGE.format(title="T", link="#top", rest=table.replace("{0}", "td"))
    (tmp_path / "a.html").write_text(
        page.replace("<td>", "<td style='white-space:nowrap'>"), "utf-8"
    )
    wide = "document.querySelector('table').offsetWidth - document.body.clientWidth"
    told: list[int] = []

    def printed(tab) -> bytes:
        tab.set_viewport_size({"width": 673, "height": 900})  # what the margins leave of A4
        told.append(tab.evaluate(wide))
        return b"1 0 obj <</Type /Pages /Kids []>>"

    monkeypatch.setattr(pdf, "_printed", printed)
    pdf.print_book(browser, tmp_path, tmp_path / "out.pdf", {"root": "a"}, "A book")
    assert max(told) <= 0
    monkeypatch.setattr(pdf, "STYLE", pdf.STYLE.replace("overflow-wrap: anywhere", ""))
    pdf.print_book(browser, tmp_path, tmp_path / "out.pdf", {"root": "a"}, "A book")
    assert max(told) > 0, "a table that is cut would be seen"


def test_a_link_that_leads_nowhere_is_said(browser, tmp_path) -> None:
    import pdf

    (tmp_path / "a.html").write_text(
        PAGE.format(title="First", link="a.html#gone", rest=""), "utf-8"
    )
    made = pdf.print_book(browser, tmp_path, tmp_path / "out.pdf", {"root": "a"}, "A book")
    assert made["broken"] == ["there"]
