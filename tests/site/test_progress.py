"""The browser remembers which chapters were read, shows them, and forgets them when asked."""

from __future__ import annotations

import pytest

from tests.book.notebooks import ROOT

pytestmark = pytest.mark.site

(NOTEBOOK,) = ROOT.glob("book/*/??_how_fast.ipynb")
CHAPTER = NOTEBOOK.relative_to(ROOT).with_suffix(".html").as_posix()
NUMBER = str(int(NOTEBOOK.name[:2]))
MAP = "book/how_to_read.html"
END = "document.querySelector('.prev-next-area').scrollIntoView()"
KEPT = "localStorage.getItem('phasebit.read')"


def test_a_chapter_is_read_at_its_end_and_forgotten_when_asked(browser, site) -> None:
    tab = browser.new_context().new_page()
    wrong: list[str] = []
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.goto(site + CHAPTER)
    assert tab.evaluate(KEPT) is None and tab.locator("a.read").count() == 0
    tab.evaluate(END)
    tab.wait_for_function(f"{KEPT} !== null")
    assert tab.evaluate(KEPT) == f'["{CHAPTER}"]'
    assert tab.locator("nav.bd-links a.read").inner_text().strip().startswith(f"{NUMBER}.")

    tab.goto(site + MAP)
    assert "the end of 1 of" in tab.locator(".pb-progress").inner_text()
    assert tab.locator("rect.read").count() == 1
    named = "e => e.nextElementSibling.textContent"
    assert tab.locator("rect.read").evaluate(named).startswith(f"{NUMBER} ")
    tab.locator(".pb-progress button").click()
    assert tab.evaluate(KEPT) == "[]"
    assert tab.locator(".read").count() == 0
    assert "the end of 0 of" in tab.locator(".pb-progress").inner_text()
    assert wrong == []
    tab.close()


def test_every_box_of_the_map_leads_to_its_chapter(browser, site) -> None:
    tab = browser.new_context().new_page()
    tab.goto(site + MAP)
    tab.wait_for_load_state("networkidle")
    pointers = tab.evaluate(
        """() => [...document.querySelectorAll('svg.phasebit-diagram')]
        .find((map) => /Which chapter needs which/.test(map.querySelector('title').textContent))
        .querySelectorAll('text').values().filter((name) => name.textContent)
        .map((name) => name.style.cursor).toArray()"""
    )
    assert len(pointers) > 25 and set(pointers) == {"pointer"}
    tab.locator("svg.phasebit-diagram text", has_text=f"{NUMBER} ").first.click()
    tab.wait_for_url(f"**/{CHAPTER}")
    tab.close()


def test_a_page_that_is_only_opened_is_not_read(browser, site) -> None:
    tab = browser.new_context().new_page()
    tab.goto(site + CHAPTER)
    tab.wait_for_load_state("networkidle")
    assert tab.evaluate(KEPT) is None
    tab.close()


def test_a_browser_that_keeps_nothing_is_served_too(browser, site) -> None:
    tab = browser.new_context().new_page()
    wrong: list[str] = []
    tab.on("pageerror", lambda error: wrong.append(error.stack))
    tab.add_init_script(
        "Object.defineProperty(window, 'localStorage', {get() { throw new Error('none') }})"
    )
    tab.goto(site + CHAPTER)
    tab.evaluate(END)
    tab.wait_for_selector("nav.bd-links a.read", state="attached")
    assert not [stack for stack in wrong if "progress.js" in stack]  # the theme's own has some
    tab.close()
