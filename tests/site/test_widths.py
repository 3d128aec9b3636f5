"""Between a phone and a wide screen: tablets, and the usual widths of laptops."""

from __future__ import annotations

import pytest

from .axe import FRAMES
from .conftest import ROOT
from .look import letters, planted

pytestmark = pytest.mark.site

PAGE, SCALES, THREADS, LINES, TILING = (
    path.relative_to(ROOT).with_suffix(".html").as_posix()
    for name in (
        "double_buffering",
        "low_precision",
        "threads_and_memory",
        "your_own_kernels",
        "tiling_on_the_gpu",
    )
    for path in sorted(ROOT.glob(f"book/*/*{name}.ipynb"))
)
SCORE, HANGS = "book/appendix/score.html", "book/appendix/when_it_hangs.html"
FRONT, MAP = "index.html", "book/how_to_read.html"
WIDTHS = [768, 834, 960, 1024, 1100, 1200, 1280, 1320, 1366, 1440]
LEAST = 10.4
"""How large the letters of a timeline are at least, in px, where a column is narrowest."""
USUAL = 11.0
"""And at the widths that most screens have."""

OVER = """() => [...document.querySelectorAll('.bd-article .pb-picture')]
  .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.id)"""
LETTERS = letters(".bd-article svg.phasebit-timeline text")
SCROLLS = """() => [...document.querySelectorAll('.bd-article table')]
  .filter((one) => one.scrollWidth > one.clientWidth + 1).length"""
UNFOLD = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
SIDES = "one => { const at = one.getBoundingClientRect(); return [at.left, at.right]; }"


def test_a_timeline_fits_every_screen_and_can_be_read_there(loaded) -> None:
    tab = loaded(PAGE, WIDTHS[0])
    for width in WIDTHS:
        tab.set_viewport_size({"width": width, "height": 900})
        tab.evaluate(FRAMES)
        assert tab.evaluate(OVER) == [], width
        assert min(tab.evaluate(LETTERS)) >= (LEAST if width == 960 else USUAL), width


def test_beside_a_list_of_sections_a_picture_would_not_fit(loaded) -> None:
    """At 1200 px the theme begins with a third column."""
    tab = loaded(PAGE, 1200)
    with planted(tab, "html { --pst-sidebar-secondary: 13.5rem !important }"):
        assert tab.evaluate(OVER)


def test_the_list_of_sections_comes_from_behind_its_button_or_stands_beside_the_text(
    loaded,
) -> None:
    tab = loaded(PAGE, 1280)
    contents = tab.locator(".bd-sidebar-secondary a").first
    button = tab.locator("button.secondary-toggle")
    assert not contents.is_visible()
    button.click()
    assert contents.is_visible()
    assert contents.evaluate(SIDES)[1] <= 1280
    tab.keyboard.press("Escape")
    loaded(PAGE, 1320)
    assert contents.is_visible()
    assert not button.is_visible()


def test_no_table_of_sentences_scrolls_on_a_wide_screen(loaded) -> None:
    for page in (HANGS, SCORE):
        tab = loaded(page, 1440)
        tab.evaluate(UNFOLD)
        assert tab.evaluate(SCROLLS) == 0, page
    with planted(tab, ".bd-article td :is(a, code) { overflow-wrap: normal !important }"):
        assert tab.evaluate(SCROLLS) > 0, "long names of files make it too wide"


@pytest.mark.parametrize("width", [660, 768])
def test_no_table_scrolls_on_a_tablet(loaded, width) -> None:
    for page in (SCORE, TILING):
        tab = loaded(page, width)
        tab.evaluate(UNFOLD)
        assert tab.evaluate(SCROLLS) == 0, page


def test_what_is_folded_is_not_cut_where_it_reaches_into_the_margin(loaded) -> None:
    tab = loaded(THREADS, 768)
    tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    cut = """() => [...document.querySelectorAll('.cell details.hide')].filter((one) =>
      getComputedStyle(one).overflowX !== 'visible'
      && [...one.querySelectorAll('table, .pb-picture')].some((inner) =>
        inner.getBoundingClientRect().right > one.getBoundingClientRect().right + 1)).length"""
    assert tab.evaluate(cut) == 0
    with planted(tab, ".bd-article .cell details.hide { overflow: hidden !important }"):
        assert tab.evaluate(cut) > 0


def test_long_names_make_a_table_scroll_on_a_tablet_unless_they_may_be_broken(loaded) -> None:
    tab = loaded(SCORE, 660)
    tab.evaluate(UNFOLD)
    with planted(tab, ".bd-article table .pre { white-space: nowrap !important }"):
        assert tab.evaluate(SCROLLS) > 0


def test_a_caption_begins_where_its_picture_does(loaded) -> None:
    for page in (FRONT, MAP):
        tab = loaded(page, 1440)
        figure = tab.locator(".pb-figure").first

        def apart(figure=figure) -> float:
            picture, caption = (
                figure.locator(one).first.evaluate(SIDES)[0]
                for one in (".pb-picture", "figcaption")
            )
            return abs(picture - caption)

        assert apart() < 2, page
        with planted(tab, ".pb-figure figcaption { padding-left: 0; margin-left: 3rem }"):
            assert apart() > 2, "a caption that was moved is found"


def test_the_fields_of_an_explorer_stand_in_a_line_with_their_names(loaded) -> None:
    tab = loaded(THREADS, 1440)
    form = tab.locator(".phasebit-explorer form").first
    fields = """(form) => [...form.querySelectorAll('label')].slice(0, 6).map((one) => {
      const field = one.querySelector('input, select').getBoundingClientRect();
      return [field.top, field.height].map(Math.round).join();
    })"""
    rows = form.evaluate(fields)
    assert len(rows) == 6
    assert len(set(rows)) == 1, rows
    for fault in ("height: 3.5rem !important", "position: relative; top: 9px"):
        with planted(tab, f".phasebit-explorer form select {{ {fault} }}"):
            assert len(set(form.evaluate(fields))) > 1, fault


def test_the_number_of_a_line_stands_apart_from_the_line(loaded) -> None:
    tab = loaded(LINES, 1440)
    gaps = """() => [...document.querySelectorAll('.cell_input .linenos')].map((one) => {
      const line = document.createRange(), number = document.createRange();
      line.selectNodeContents(one.nextSibling ?? one);
      number.selectNodeContents(one);
      const [code, digits] = [line, number].map((part) => part.getBoundingClientRect());
      return code.width ? code.left - digits.right : NaN;
    }).filter((gap) => !isNaN(gap))"""
    found = tab.evaluate(gaps)
    assert found
    assert min(found) >= 10
    with planted(tab, ".bd-article .linenos { padding-right: 0 !important }"):
        assert min(tab.evaluate(gaps)) < 10, "a number at its line is found"


ROWS = """(one) => {
  const range = document.createRange();
  range.selectNodeContents(one);
  return [...range.getClientRects()].filter((row) => row.width > 1);
}"""


def test_what_is_continued_stands_behind_the_number_of_its_line(loaded) -> None:
    tab = loaded(PAGE, 390)
    before = f"""() => [...document.querySelectorAll('.pb-line:has(> .linenos)')].filter((one) => {{
      const number = one.querySelector('.linenos').getBoundingClientRect();
      return ({ROWS})(one).some((row) =>
        row.top > number.bottom - 2 && row.left < number.right - 1);
    }}).length"""
    assert tab.locator(".pb-line:has(> .linenos)").count() > 20
    assert tab.evaluate(before) == 0
    with planted(tab, ".bd-article .pb-line { --in: 1 !important }"):
        assert tab.evaluate(before) > 0


@pytest.mark.parametrize("width", [390, 1440])
def test_a_tinted_line_begins_where_its_neighbours_do(loaded, width) -> None:
    tab = loaded(HANGS, width)
    apart = f"""() => [...document.querySelectorAll('.pb-line:has(> .hll)')].map((one) => {{
      const begins = (line) => Math.min(...({ROWS})(line).map((row) => row.left));
      return Math.abs(begins(one) - begins(one.previousSibling));
    }})"""
    found = tab.evaluate(apart)
    assert found
    assert max(found) < 1
    with planted(tab, ".bd-article .highlight .hll { display: inline-block !important }"):
        assert max(tab.evaluate(apart)) > 1


def test_a_heading_stands_apart_from_the_buttons_of_a_timeline(loaded) -> None:
    tab = loaded(PAGE, 1440)
    tab.locator(".pb-timeline-controls").first.wait_for(state="attached")
    nearest = """() => Math.min(...[...document.querySelectorAll('section > :is(h2, h3)')]
      .flatMap((heading) => {
        const buttons = [...heading.parentElement.previousElementSibling
          ?.querySelectorAll('.pb-timeline-controls') ?? []].filter((one) => one.offsetHeight);
        const [top, ...ends] = [heading, ...buttons].map((one) => one.getBoundingClientRect());
        return ends.map((end) => top.top - end.bottom);
      }))"""
    assert 30 < tab.evaluate(nearest) < 9999
    with planted(tab, ".cell_output::after { display: none !important }"):
        assert tab.evaluate(nearest) < 30


def test_on_a_phone_no_number_of_a_cell_reaches_into_the_next(loaded) -> None:
    tab = loaded(SCALES, 390)
    explorer = tab.locator('.phasebit-explorer[data-explorer="scales"]')
    explorer.scroll_into_view_if_needed()
    explorer.locator("[data-row] text, g text").first.wait_for()
    clash = explorer.evaluate("""(one) => {
      const texts = [...one.querySelectorAll('svg text')]
        .filter((text) => /^\\d+$/.test(text.textContent))
        .map((text) => text.getBoundingClientRect());
      return texts.filter((a, k) => texts.slice(0, k).some((b) =>
        Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
        && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4)).length;
    }""")
    assert clash == 0


def test_an_option_is_not_parted_behind_its_hyphens(loaded) -> None:
    tab = loaded(LINES, 390)
    rows = """() => [...document.querySelectorAll('.bd-article p code .pre')]
      .filter((one) => /^-.{1,23}$/.test(one.textContent) && one.getClientRects().length > 1)
      .length"""
    assert tab.evaluate(rows) == 0
    with planted(tab, ".bd-article code .pre { white-space: normal !important }"):
        assert tab.evaluate(rows) > 0
