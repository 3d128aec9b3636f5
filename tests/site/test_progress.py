"""The browser remembers which chapters were read, shows them, and forgets them when asked."""

from __future__ import annotations

import pytest

from tests.book.notebooks import ROOT

from .test_exercises import RIGHT

pytestmark = pytest.mark.site

(NOTEBOOK,) = ROOT.glob("book/*/??_how_fast.ipynb")
CHAPTER = NOTEBOOK.relative_to(ROOT).with_suffix(".html").as_posix()
NUMBER = str(int(NOTEBOOK.name[:2]))
MAP = "book/how_to_read.html"
END = "document.querySelector('.prev-next-area').scrollIntoView()"
KEPT = "localStorage.getItem('phasebit.read')"


def test_a_chapter_is_read_at_its_end_and_forgotten_when_asked(browser, site) -> None:
    tab = browser.new_page()
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
    assert tab.locator("rect.read:visible").count() == 1
    named = "e => e.nextElementSibling.textContent"
    assert tab.locator("rect.read:visible").evaluate(named).startswith(f"{NUMBER} ")
    tab.locator(".pb-progress button").click()
    assert tab.evaluate(KEPT) == "[]"
    assert tab.locator(".read").count() == 0
    assert "the end of 0 of" in tab.locator(".pb-progress").inner_text()
    assert wrong == []
    tab.close()


SOLVED = "Object.keys(localStorage).filter((name) => name.endsWith('.solved')).length"


JUDGED = """() => { window.phasebitPython = {loaded: true,
  load: async () => async () => ({verdict: 'fewest_slots: OK (1 system)'})}; }"""


def solve(tab) -> None:
    """Answer the first exercise of the chapter, with the keyboard; test_exercises.py asks Python
    itself, which takes its time to load."""
    tab.evaluate(JUDGED)
    tab.get_by_role("button", name="Try it here").first.focus()
    tab.keyboard.press("Enter")
    tab.locator(".pb-exercise textarea").fill(RIGHT)
    tab.keyboard.press("Control+Enter")
    tab.get_by_text("fewest_slots: OK").wait_for()


@pytest.mark.parametrize("width", [1280, 390])
def test_exercises_that_were_solved_are_counted_and_forgotten_when_asked(
    browser, site, width
) -> None:
    tab = browser.new_page(viewport={"width": width, "height": 900})
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(site + CHAPTER)
    solve(tab)
    link = tab.locator("nav.bd-links a.internal", has_text=f"{NUMBER}. ").first
    mark = link.locator(".solved-mark")
    assert mark.get_attribute("aria-label") == "1 of 4 exercises solved"

    tab.goto(site + MAP)
    line = tab.locator(".pb-progress")
    every = sum(map(len, tab.evaluate("Object.values(phasebitExercises)")))
    assert f"solved 1 of the {every} exercises" in line.inner_text() and every > 12
    badge = tab.locator(".pb-solved:visible")
    assert badge.all_text_contents() == ["1/4"]
    way = badge.locator("xpath=..")
    assert way.get_attribute("aria-label") == f"{way.locator('text').first.text_content()}; " + (
        "1 of 4 exercises solved"
    )
    inside = """(badge) => {
      const [own, all] = [badge, badge.ownerSVGElement].map((one) => one.getBoundingClientRect());
      return own.right <= all.right && own.top >= all.top;
    }"""
    assert badge.evaluate(inside)
    tab.locator(".pb-progress button").focus()
    tab.keyboard.press("Enter")
    assert "solved 0 of the" in line.inner_text() and tab.locator(".pb-solved").count() == 0
    assert tab.evaluate(SOLVED) == 0
    tab.goto(site + CHAPTER)
    start = tab.get_by_role("button", name="Try it here").first
    start.click()
    assert tab.locator(".pb-exercise textarea").input_value() == RIGHT, "what was written stays"
    assert not [url for url in asked if not url.startswith((site, "data:", "blob:"))]
    tab.close()


def test_the_names_of_exercises_are_those_that_the_page_finds(browser, site) -> None:
    tab = browser.new_page()
    tab.goto(site + CHAPTER)
    named = tab.evaluate("page => phasebitExercises[page]", CHAPTER)
    found = tab.evaluate(
        """() => [...document.querySelectorAll('.cell:has(> .pb-exercise-start) .cell_output')]
        .map((one) => /(\\w+): not answered yet/.exec(one.textContent)[1])"""
    )
    assert named == found and len(found) == 4
    tab.close()


def test_every_box_of_the_map_leads_to_its_chapter(browser, site) -> None:
    tab = browser.new_page()
    tab.goto(site + MAP)
    tab.wait_for_load_state("networkidle")
    ways = tab.evaluate(
        """() => [...document.querySelectorAll('svg.phasebit-diagram')]
        .find((map) => /Which chapter needs which/.test(map.querySelector('title').textContent))
        .querySelectorAll('text').values().filter((name) => name.textContent)
        .map((name) => name.parentElement.href.baseVal).toArray()"""
    )
    assert len({*ways}) == len(ways) > 25
    box = tab.locator("svg.phasebit-diagram text", has_text=f"{NUMBER} ").first
    box.click()
    tab.wait_for_url(f"**/{CHAPTER}")
    tab.go_back()
    box.evaluate("text => text.parentElement.focus()")
    tab.keyboard.press("Enter")
    tab.wait_for_url(f"**/{CHAPTER}")
    tab.close()


def test_a_page_that_is_only_opened_is_not_read(browser, site) -> None:
    tab = browser.new_page()
    tab.goto(site + CHAPTER)
    tab.wait_for_load_state("networkidle")
    assert tab.evaluate(KEPT) is None
    tab.close()


def test_a_browser_that_keeps_nothing_is_served_too(browser, site) -> None:
    tab = browser.new_page()
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
