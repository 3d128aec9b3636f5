"""On the rendered pages words lead somewhere, and the search finds what it should."""

from __future__ import annotations

import json
import re

import pytest

from .conftest import HTML, ROOT

pytestmark = pytest.mark.site

PAGE = "book/part4_asynchrony/12_asynchronous_copies.html"


def test_a_term_shows_its_meaning_under_the_pointer_and_on_focus(browser, site) -> None:
    tab = browser.new_page(viewport={"width": 390, "height": 800})
    tab.goto(site + PAGE)
    term = tab.locator("a.term").first
    meaning = term.get_attribute("data-meaning")
    shown = "e => getComputedStyle(e, '::after').content"
    assert meaning and term.evaluate(shown) == "none"
    term.hover()
    assert json.loads(term.evaluate(shown)) == meaning
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    tab.mouse.move(0, 0)
    assert term.evaluate(shown) == "none"
    tab.keyboard.press("Tab")  # the next focus is shown as one of the keyboard's
    term.focus()
    assert json.loads(term.evaluate(shown)) == meaning
    tab.close()


def test_chapters_are_linked_wherever_they_are_mentioned() -> None:
    chapters = [path for path in HTML.glob("book/part*/*.html") if path.stem[:1].isdigit()]
    assert len(chapters) > 15
    linked, loose = 0, []
    for path in chapters:
        own = int(path.stem[:2])
        html = path.read_text(encoding="utf-8")
        for paragraph in re.findall(r"<p>(.*?)</p>", html, re.DOTALL):
            linked += len(re.findall(r"<span>[Cc]hapter \d+</span></a>", paragraph))
            plain = re.sub(r"<a .*?</a>", "", paragraph, flags=re.DOTALL)
            numbers = map(int, re.findall(r"\bchapter (\d+)", plain))
            loose += [(path.stem, number) for number in numbers if number != own]
    assert linked > 100 and loose == []


def test_a_kernel_that_is_named_leads_to_its_file() -> None:
    linked = 0
    for path in HTML.glob("book/**/*.html"):
        html = path.read_text(encoding="utf-8")
        for file in re.findall(r'<a class="[^"]*" href="[^"]*/blob/main/(kernels/[^"]*)"', html):
            assert (ROOT / file).is_file()
            linked += 1
        names = re.findall(r'(?<!">)<code [^>]*><span class="pre">(\w+\.cuh?)</span></code>', html)
        loose = {name for name in names if len([*ROOT.glob(f"kernels/*/{name}")]) == 1}
        assert not loose, (path.stem, loose)
    assert linked > 100


def test_the_search_does_not_find_every_page_by_its_set_up() -> None:
    index = (HTML / "searchindex.js").read_text(encoding="utf-8")
    found = json.loads(index[index.index("(") + 1 : index.rindex(")")])
    pages = len(found["docnames"])
    for word in ("modulenotfounderror", "load_ext"):
        where = found["terms"].get(word, [])
        assert (1 if isinstance(where, int) else len(where)) < pages / 3, word
    assert "phase" in found["terms"]


FIELD = """() => {
  const field = document.querySelector('.bd-article-container input[type=search]');
  const [own, icon, keys] = [field, field.previousElementSibling, field.nextElementSibling]
    .map((one) => one.getBoundingClientRect());
  const style = getComputedStyle(field);
  return {text: own.left + parseFloat(style.paddingLeft), icon: icon.right, keys: keys.left,
          end: own.right - parseFloat(style.paddingRight)};
}"""


def test_a_search_shows_what_was_asked_and_keeps_words_apart(browser, site) -> None:
    tab = browser.new_page(viewport={"width": 390, "height": 844})
    tab.goto(site + "search.html?q=parity")
    tab.locator("#search-results li").first.wait_for()
    field = tab.evaluate(FIELD)
    assert field["icon"] <= field["text"] < field["end"] <= field["keys"] + 1
    table = "<div role=main><table><tr><td>phase<td>A parity</table><p>One.</p><p>Two.</p></div>"
    text = tab.evaluate("html => Search.htmlToText(html)", table)
    assert text.split() == ["phase", "A", "parity", "One.", "Two."]
    tab.close()


def test_the_set_up_is_folded_and_opens(browser, site) -> None:
    tab = browser.new_page()
    tab.goto(site + PAGE)
    source = tab.get_by_text("import phasebit as pb").first
    assert not source.is_visible()
    tab.get_by_text("Show the set-up").click()
    assert source.is_visible()
    tab.close()
