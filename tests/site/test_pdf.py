"""The book on paper: pages in order, links within it, an outline, listings with numbers."""

from __future__ import annotations

import re
import struct
import zlib

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


def objects(pdf: bytes) -> dict[int, bytes]:
    """Every object of a packed PDF, by its number: what stands between its first word and last."""
    begin = int(pdf.rpartition(b"startxref")[2].split()[0])

    def unpacked(at: int) -> tuple[bytes, bytes]:
        told, _, rest = pdf[at:].partition(b" stream\n")
        (length,) = re.findall(rb"/Length (\d+)", told)
        return told, zlib.decompress(rest[: int(length)])

    told, table = unpacked(begin)
    assert b"/W [1 4 2]" in told
    places = [*struct.iter_unpack(">BIH", table)]
    found = {}
    for number, (kind, where, index) in enumerate(places):
        if kind == 1:
            head, body = b"%d 0 obj\n" % number, pdf[where:].partition(b"\nendobj")[0]
            assert body.startswith(head)
            found[number] = body.removeprefix(head)
        elif kind == 2:
            told, text = unpacked(places[where][1])
            count, first = (
                int(re.findall(rb"/%b (\d+)" % key, told)[0]) for key in (b"N", b"First")
            )
            heads = [*map(int, text[:first].split())]
            starts = [*heads[1::2], len(text) - first + 1]
            assert len(heads) == 2 * count and heads[2 * index] == number
            found[number] = text[first:][starts[index] : starts[index + 1] - 1]
    return found


def test_a_packed_document_has_every_object_and_is_smaller(browser, tmp_path) -> None:
    import pdf

    rest = "".join(f"<p>{n} <em>words</em></p>" for n in range(300))  # more than go together
    (tmp_path / "a.html").write_text(PAGE.format(title="T", link="#top", rest=rest), "utf-8")
    target = tmp_path / "out.pdf"
    pdf.print_book(browser, tmp_path, target, {"root": "a"}, "A book")
    plain = target.read_bytes()
    small = pdf.packed(plain)
    assert len(small) < len(plain) / 2
    before = dict(re.findall(rb"^(\d+) 0 obj\n(.*?)\s*endobj$", plain, re.DOTALL | re.MULTILINE))
    after = objects(small)
    assert len(before) > 2 * pdf.TOGETHER
    assert {int(number) for number in before} <= after.keys()
    for number, body in before.items():
        assert after[int(number)].strip() == body.strip(), number
    (root,) = re.findall(rb"/Root (\d+)", small)
    assert b"/Type /Catalog" in after[int(root)]
    with pytest.raises(ValueError, match="numbers without an object"):
        pdf.packed(re.sub(rb"00000 n (?=\n0)", b"00000 f ", plain, count=1))


SEAM = """<style>text {{ paint-order: stroke; stroke: white; stroke-width: 3px; }}</style>
<svg width="200" height="80"><path d="M0 40H200" stroke="red"/><text x="20" y="44">{0}</text>
<text transform="rotate(-90 120 40)" x="120" y="40">{0}</text></svg>"""


def test_a_letter_with_a_seam_is_no_drawing(browser, tmp_path, monkeypatch) -> None:
    import pdf

    rest = SEAM.format("a label")
    (tmp_path / "a.html").write_text(PAGE.format(title="T", link="#top", rest=rest), "utf-8")
    target = tmp_path / "out.pdf"
    pdf.print_book(browser, tmp_path, target, {"root": "a"}, "A book")
    assert b"/Type3" not in target.read_bytes()
    tab = browser.new_page()
    tab.goto((tmp_path / "a.html").as_uri())
    tab.evaluate(pdf.PLATES)
    assert tab.locator("rect + text").count() == 2
    inside = """() => [...document.querySelectorAll("rect + text")].every((text) => {
      const [a, b] = [text, text.previousSibling].map((one) => one.getBoundingClientRect());
      return b.left <= a.left && b.right >= a.right || b.top <= a.top && b.bottom >= a.bottom;
    })"""
    assert tab.evaluate(inside)
    tab.close()
    monkeypatch.setattr(pdf, "PLATES", "() => 0")
    pdf.print_book(browser, tmp_path, target, {"root": "a"}, "A book")
    assert b"/Type3" in target.read_bytes(), "without plates it is one"
