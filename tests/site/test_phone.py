"""On a phone code is read without scrolling sideways, and pictures have letters one can read."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from .conftest import HTML, ROOT
from .look import letters, planted

if TYPE_CHECKING:
    from playwright.sync_api import Page

PAGES = sorted(path.relative_to(HTML).as_posix() for path in HTML.glob("book/**/*.html"))
MAP, SCORE = "book/how_to_read.html", "book/appendix/score.html"
CHAPTER, WIDE, CODE, BITS, BARRIER, FORMULAS, PLOT = (
    next(page for page in PAGES if page.endswith(f"{name}.html"))
    for name in ("double_buffering", "_barriers", "_chain", "one_thread_multiplies",
                 "copy_engine", "how_fast", "_attention")
)  # fmt: skip
PHONE = 390, 844
SCREEN = {"width": 390, "height": 844}
PARTS = ROOT / "book" / "_static" / "explorer_parts.js"
ASKS = "const room = this.room || ROOM;"
MOST = 0.1
"""Of a page's blocks of code and of output, the share that may scroll."""

UNFOLD = """() => document.querySelectorAll('.bd-article details')
  .forEach((one) => { one.open = true; })"""
# What the reader has not asked for has no size.
BLOCKS = """() => [...document.querySelectorAll('.bd-article pre')]
  .filter((one) => one.clientWidth).map((one) => one.scrollWidth > one.clientWidth)"""
WITHOUT_ELEMENTS = """() => document.querySelectorAll('.pb-line')
  .forEach((one) => one.replaceWith(...one.childNodes))"""
LINES = """() => [...document.querySelectorAll('.bd-article .cell_input .pb-line')].map((one) => {
  const style = getComputedStyle(one), bar = getComputedStyle(one, '::before');
  const ends = document.createRange();
  ends.selectNodeContents(one);
  const drawn = [...ends.getClientRects()].filter((part) => part.width > 1);
  return {rows: Math.round(one.getBoundingClientRect().height / parseFloat(style.lineHeight)),
          bar: parseFloat(bar.height), first: Math.min(...drawn.map((part) => part.left)),
          text: one.textContent};
})"""
SMALLEST = 10.9
"""Of the letters of a picture, in px as they are shown: 11, and what a scale rounds off."""
LETTERS = letters(".bd-article .pb-picture svg text")
SCROLLS = """(one) => one.scrollWidth > one.clientWidth + 1"""
# The pictures that scroll, by their titles: those of explorers too.
OVER = """() => [...document.querySelectorAll('.bd-article .pb-picture')]
  .filter((one) => one.scrollWidth > one.clientWidth + 1)
  .map((one) => one.querySelector('title')?.textContent.slice(0, 60) ?? one.id)"""
# Texts of a picture that lie on each other, or beyond its edge.
CLASHES = """() => [...document.querySelectorAll('.bd-article .pb-picture svg')].flatMap((svg) => {
  if (!svg.checkVisibility()) return [];
  const edge = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll('text')].filter((one) => one.textContent.trim())
    .map((one) => [one.textContent.trim(), one.getBoundingClientRect()]);
  const beyond = texts.filter(([, at]) => at.left < edge.left - 2 || at.right > edge.right + 2
    || at.top < edge.top - 2 || at.bottom > edge.bottom + 2);
  const over = texts.filter(([, a], k) => texts.slice(0, k).some(([, b]) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 3
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4));
  return [...beyond, ...over].map(([text]) => text.slice(0, 40));
})"""
SHRUNK = """.bd-article .pb-picture > svg { min-width: 0 !important; max-width: 100% !important }
  .bd-article .pb-picture > svg:first-of-type { display: block !important }"""
"""The drawing for wide screens in place of the other, as narrow as the screen."""

# The tables that scroll, by their headings.
TABLES = """() => [...document.querySelectorAll('.bd-article table')]
  .filter((one) => one.scrollWidth > one.clientWidth + 1)
  .map((one) => one.rows[0].textContent.trim().slice(0, 60))"""
# Of a table: where the cells of each row begin, and where those of each row end.
TURNED = """(one) => {
  const rows = [...one.rows].map((row) => [...row.cells].map((cell) =>
    cell.getBoundingClientRect()));
  return [rows.map((row) => row.map((at) => Math.round(at.top))),
          rows.map((row) => [...new Set(row.map((at) => Math.round(at.right)))])];
}"""
AFTER_FOLDED = """() => [...document.querySelectorAll('.bd-article details:not([class])')]
  .filter((one) => one.nextElementSibling)
  .map((one) => one.nextElementSibling.getBoundingClientRect().top
    - one.getBoundingClientRect().bottom)"""
# What is shown of an output and reaches beyond a box that cuts it: texts, tables, pictures.
CUT = """() => {
  const cutting = (one) => {
    for (let box = one.parentElement; box; box = box.parentElement)
      if (box.matches('pre, .pb-picture, table')) return null;
      else if (getComputedStyle(box).overflowX === 'hidden') return box;
    return null;
  };
  return [...document.querySelectorAll('.bd-article .cell_output :is(pre, table, .pb-picture)')]
    .filter((one) => one.clientWidth && cutting(one)
      && one.getBoundingClientRect().right > cutting(one).getBoundingClientRect().right + 1)
    .map((one) => one.textContent.trim().slice(0, 40));
}"""
BESIDE = """() => [...document.querySelectorAll('.bd-article div.math')]
  .map((one) => one.scrollWidth - one.clientWidth)"""
"""How much of each formula lies beside the screen."""
EDGE = "one => getComputedStyle(one).paintOrder"

pytestmark = pytest.mark.site


def elements():  # type: ignore[no-untyped-def]
    sys.path.insert(0, str(ROOT / "book" / "_ext"))
    from phasebit_book import long_lines

    return long_lines


@pytest.fixture(scope="module")
def page(loaded) -> Callable[[str], Page]:  # type: ignore[no-untyped-def]
    """A page on a phone, with what is folded opened: loaded once for all that is asked of it."""

    def page(path: str) -> Page:
        tab = loaded(path, *PHONE)
        tab.evaluate(UNFOLD)
        return tab

    return page


@pytest.fixture(scope="module")
def each(browser, site, request) -> Iterator[Page]:
    """Each page in turn, likewise; pytest sorts the tests by their page."""
    tab = browser.new_page(viewport=SCREEN)
    tab.goto(site + request.param)
    tab.evaluate(UNFOLD)
    yield tab
    tab.close()


def each_with(words: str, least: int):  # type: ignore[no-untyped-def]
    """Each of the pages whose HTML has some words, and there are so many at least."""
    pages = [page for page in PAGES if words in (HTML / page).read_text(encoding="utf-8")]
    assert len(pages) >= least, words
    return pytest.mark.parametrize("each", pages, indirect=True)


@each_with("<pre", 40)
def test_at_most_a_tenth_of_the_blocks_of_a_page_scrolls_sideways(each) -> None:
    found = each.evaluate(BLOCKS)
    assert found and sum(found) <= MOST * len(found)


@each_with('class="pb-picture', 40)
def test_letters_in_pictures_are_large_enough_to_be_read(each) -> None:
    found = each.evaluate(LETTERS)
    assert found and min(found) >= SMALLEST


@each_with('class="pb-picture', 40)
def test_no_picture_scrolls_sideways_or_has_texts_on_each_other(each) -> None:
    assert each.evaluate(OVER) == each.evaluate(CLASHES) == []


@each_with("<table", 20)
def test_no_table_scrolls_sideways(each) -> None:
    assert each.evaluate(TABLES) == []


@each_with('class="math', 6)
def test_formulas_are_read_without_scrolling(each) -> None:
    assert max([0, *each.evaluate(BESIDE)]) <= 1


@each_with("<details>", 6)
def test_what_follows_a_folded_table_has_a_distance(each) -> None:
    assert min(each.evaluate(AFTER_FOLDED)) >= 12


def test_without_its_elements_most_of_a_page_would_scroll(browser, site) -> None:
    tab = browser.new_page(viewport=SCREEN)
    tab.goto(site + CHAPTER)
    tab.evaluate(UNFOLD)
    as_it_is = tab.evaluate(BLOCKS)
    assert sum(as_it_is) <= 0.2 * len(as_it_is)
    tab.evaluate(WITHOUT_ELEMENTS)
    assert sum(tab.evaluate(BLOCKS)) > 0.5 * len(as_it_is)
    tab.close()


def test_only_a_continued_line_has_a_bar(page) -> None:
    tab = page(CHAPTER)
    lines = [line for line in tab.evaluate(LINES) if line["rows"]]
    assert {line["rows"] > 1 for line in lines} == {True, False}
    assert all((line["rows"] > 1) is (line["bar"] > 1) for line in lines)
    tab.set_viewport_size({"width": 1280, "height": 900})
    wide = [line for line in tab.evaluate(LINES) if line["rows"]]
    assert all((line["rows"] > 1) is (line["bar"] > 1) for line in wide)
    assert sum(line["rows"] > 1 for line in wide) < 0.05 * len(wide)


def test_a_line_is_copied_as_it_was_written(browser, site) -> None:
    notebook = json.loads((ROOT / CHAPTER).with_suffix(".ipynb").read_text(encoding="utf-8"))
    written = ["".join(cell["source"]).strip() for cell in notebook["cells"]]
    tab = browser.new_context(viewport=SCREEN).new_page()
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab.goto(f"{site}{CHAPTER}")
    tab.wait_for_selector(".copybtn", state="attached")
    cell = tab.locator(".bd-article div.highlight:has(.pb-line:nth-of-type(20))").first
    cell.locator(".copybtn").evaluate("button => button.click()")
    tab.wait_for_selector(".copybtn.success", state="attached")
    assert tab.evaluate("navigator.clipboard.readText()").strip() in written
    by_hand = "one => { getSelection().selectAllChildren(one); return getSelection().toString(); }"
    assert cell.locator("pre").evaluate(by_hand).strip() in written
    tab.context.close()


def test_paper_keeps_the_lines(page) -> None:
    tab = page(CHAPTER)
    display = "getComputedStyle(document.querySelector('.cell_input .pb-line')).display"
    assert tab.evaluate(display) == "block"
    tab.emulate_media(media="print")
    assert tab.evaluate(display) == "inline"
    tab.emulate_media(media="screen")


def test_on_a_wide_screen_no_cell_scrolls_sideways(loaded) -> None:
    tab = loaded(CODE, 1440)
    wide = "[...document.querySelectorAll('.bd-article .cell_input pre')]" + (
        ".filter((one) => one.scrollWidth > one.clientWidth + 1).length"
    )
    assert tab.evaluate(wide) == 0
    with planted(tab, ".bd-article .pb-line { white-space: pre !important }"):
        assert tab.evaluate(wide) > 0


def test_an_element_says_how_far_its_line_is_indented() -> None:
    lines = ["x\n", "    <b>y</b>\n", "\n", "  12  z\n", " " * 40 + "w\n"]
    made = [*elements().elements(lines)]
    by = [re.search(r'style="--in:(\d+)"', one.partition(">")[0]) for one in made]
    assert [found and int(found[1]) for found in by] == [None, 4, None, 6, 16]
    assert [re.sub(r"</?span[^>]*>", "", one) for one in made] == lines


def test_the_first_word_of_a_line_finds_a_place_behind_its_indent() -> None:
    deep, long, short = elements().elements(
        [
            " " * 40 + "w\n",
            " " * 12 + "<b>ptx</b>::wait_for_all_of_these_barriers(full);\n",
            " " * 12 + "ptx::wait(full) and for_all_of_these_barriers;\n",
        ]
    )
    assert f'{" " * 16}<span class="pb-deep">{" " * 24}</span>w' in deep
    assert "<b>ptx</b>::<wbr>wait_<wbr>for_" in long
    assert "<wbr>" not in short


def test_a_table_of_numbers_is_marked_and_prose_is_not() -> None:
    table = ["slots   time\n", "1       2.5\n", "all the rest together\n"]
    prose = ["A sentence that goes on.\n", "Another one,  with two spaces.\n", "A third.\n"]
    made = "".join(elements().elements([*table, "\n", *prose]))
    assert made.count("pb-columns") == len(table)
    assert "pb-columns" not in "".join(elements().elements(prose))


def test_what_is_too_wide_for_a_tablet_says_so() -> None:
    fits, wide, far = (["a" + " " * 2 + "1" * most + "\n"] for most in (85, 101, 102))
    fits, wide, far = ("".join(elements().elements(lines)) for lines in (fits, wide, far))
    assert "--wide" not in fits
    assert 'style="--wide:104"' in wide
    assert "pb-wide" not in wide
    assert "pb-columns pb-wide" in far
    assert "--wide" not in far
    sentence = ["a  12\n", "b  13\n", "a sentence of " + "x" * 80 + "\n"]
    assert "".join(elements().elements(sentence)).count("pb-columns") == 2


def test_texts_that_clash_would_be_seen(page) -> None:
    tab = page(WIDE)
    assert tab.evaluate(CLASHES) == []
    with planted(tab, ".pb-picture svg text { letter-spacing: 0.4em }"):
        assert tab.evaluate(CLASHES) != []


def test_an_explorer_is_drawn_in_the_width_that_it_has(browser, site) -> None:
    """Nobody knows it before the picture is in the page, and a width that stays says nothing."""
    tab = browser.new_page(viewport=SCREEN)
    explorer = "**/_static/explorer_parts.js*"
    for asks in (True, False):
        if not asks:
            as_if = lambda route: route.fulfill(  # noqa: E731
                body=PARTS.read_text(encoding="utf-8").replace(ASKS, "const room = ROOM;"),
                content_type="text/javascript",
            )
            tab.route(explorer, as_if)
        tab.goto(site + BITS)
        tab.locator(".phasebit-explorer svg").first.wait_for()
        tab.evaluate(UNFOLD)
        assert bool(tab.evaluate(OVER)) is not asks
    tab.close()


UNSEEN = """() => [...document.querySelectorAll(".phasebit-explorer :is(input, textarea)")]
  .filter((one) => one.scrollWidth > one.clientWidth || one.scrollHeight > one.clientHeight)
  .map((one) => one.value)"""
"""What fields hold and do not show whole."""


def test_a_field_shows_all_that_it_holds(page) -> None:
    """What is long is a field of several lines; it grows as one writes, and Enter adds none."""
    tab = page(BARRIER)
    field = tab.get_by_label("events")
    field.wait_for()
    assert not tab.evaluate(UNSEEN)
    before = field.bounding_box()["height"]
    field.press("End")
    field.press("Enter")
    field.press_sequentially(", expect 16, bytes 16, expect 8, bytes 8, expect 8, bytes 8")
    assert "\n" not in field.input_value() and field.input_value().endswith("bytes 8")
    assert field.bounding_box()["height"] > before and not tab.evaluate(UNSEEN)
    field.evaluate("(one) => { one.style.height = '20px'; }")
    assert tab.evaluate(UNSEEN), "a field that is too low would be seen"


def test_a_picture_that_shrank_to_the_screen_would_have_smaller_letters(page) -> None:
    tab = page(WIDE)
    assert min(tab.evaluate(LETTERS)) >= SMALLEST
    with planted(tab, SHRUNK):
        assert min(tab.evaluate(LETTERS)) < SMALLEST


def test_the_map_of_chapters_does_not_scroll(browser, site) -> None:
    tab = browser.new_page(viewport=SCREEN)
    tab.goto(site + MAP)
    drawn = tab.locator(".pb-picture:has(svg.phasebit-diagram)").first
    assert not drawn.evaluate(SCROLLS)
    assert drawn.locator("svg:visible a").count() > 25
    tab.add_style_tag(
        content=""".pb-two > svg:first-of-type { display: block !important }
        .pb-two > svg + svg { display: none !important }"""
    )
    assert drawn.evaluate(SCROLLS), "the wide drawing does"
    tab.close()


def test_tables_with_sentences_are_read_without_scrolling(browser, site) -> None:
    """The cells say what they are, and only there: on a wide screen the heading does."""
    tab = browser.new_page(viewport=SCREEN)
    tab.goto(site + SCORE)
    tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    tables = tab.locator(".bd-article table.pb-stacked")
    assert tables.count() > 10
    assert not [at for at in range(tables.count()) if tables.nth(at).evaluate(SCROLLS)]
    cell = tables.last.locator("tbody tr:first-child td:nth-child(2)")
    label = "one => getComputedStyle(one, '::before').content"
    assert cell.evaluate(label) == f'"{cell.get_attribute("data-head")}: "'
    tab.set_viewport_size({"width": 1280, "height": 900})
    assert cell.evaluate(label) == "none"
    assert tables.last.locator("thead th").first.is_visible()
    tab.set_viewport_size(SCREEN)
    tab.evaluate("""() => document.querySelectorAll('.pb-stacked')
        .forEach((one) => one.classList.remove('pb-stacked'))""")
    wide = tab.locator(".bd-article table")
    assert [at for at in range(wide.count()) if wide.nth(at).evaluate(SCROLLS)], "unstacked"
    tab.close()


@pytest.mark.parametrize("kind", ["pb-turned", "pb-tight", "pb-pairs"])
def test_without_its_class_a_table_would_scroll(browser, site, kind: str) -> None:
    tab = browser.new_page(viewport=SCREEN)
    pages = [page for page in PAGES if kind in (HTML / page).read_text(encoding="utf-8")]
    tab.goto(site + pages[0], wait_until="load")
    tab.evaluate(
        """(kind) => document.querySelectorAll(`.bd-article table.${kind}`)
          .forEach((one) => { one.className = 'table'; })""",
        kind,
    )
    assert tab.evaluate(TABLES)
    tab.close()


def test_a_table_that_is_turned_keeps_its_numbers_beside_their_headings(browser, site) -> None:
    """Its headings stand in the first column, and each row in one of its own."""
    tab = browser.new_page(viewport=SCREEN)
    pages = [page for page in PAGES if "pb-turned" in (HTML / page).read_text(encoding="utf-8")]
    tab.goto(site + pages[0], wait_until="load")
    table = tab.locator(".bd-article table.pb-turned").first
    lines, columns = table.evaluate(TURNED)
    assert all(tops == lines[0] for tops in lines) and len(lines[0]) > 5
    assert all(len(rights) == 1 for rights in columns[1:]) and len(columns) > 2
    tab.set_viewport_size({"width": 1280, "height": 900})
    lines, _ = table.evaluate(TURNED)
    assert all(len(set(tops)) == 1 for tops in lines), "on a wide screen a row is a row"
    tab.close()


def test_without_its_margin_a_folded_table_would_touch_what_follows(page) -> None:
    tab = page(CODE)
    with planted(tab, ".bd-article details { margin: 0 !important }"):
        assert min(tab.evaluate(AFTER_FOLDED)) < 12


@pytest.mark.parametrize("path", [CHAPTER, WIDE, CODE])
def test_no_output_is_cut_at_the_edge_of_its_fold(page, path: str) -> None:
    tab = page(path)
    assert tab.evaluate(CUT) == []
    with planted(tab, ".bd-article details.hide { overflow: hidden !important }"):
        assert tab.evaluate(CUT)


def test_the_name_of_a_row_is_read_where_a_line_of_the_plot_passes(page) -> None:
    tab = page(PLOT)
    names = tab.locator("svg.phasebit-plot text").filter(has_text=re.compile("[a-z]"))
    edges = {names.nth(at).evaluate(EDGE) for at in range(names.count())}
    assert "stroke" in edges
    with planted(tab, "svg.phasebit-plot text { paint-order: normal !important }"):
        assert {names.nth(at).evaluate(EDGE) for at in range(names.count())} == {"normal"}


def test_formulas_that_are_too_wide_would_be_seen(page) -> None:
    tab = page(FORMULAS)
    with planted(tab, ".bd-article div.math math { font-size: 3em }"):
        assert max(tab.evaluate(BESIDE)) > 1


# Whether what stands right after a formula begins on a line below it, for each that has a stop.
PARTED = """() => [...document.querySelectorAll('.bd-article p .math')].flatMap((one) => {
  const next = one.nextSibling;
  if (next?.nodeType !== 3 || !/^[.,;:)]/.test(next.data)) return [];
  const stop = document.createRange();
  stop.setStart(next, 0); stop.setEnd(next, 1);
  return [stop.getBoundingClientRect().left < one.getBoundingClientRect().left];
})"""


def test_no_line_parts_a_formula_from_its_full_stop(page) -> None:
    tab = page(FORMULAS)

    def parted() -> list[bool]:
        found = []
        for width in range(320, 420, 4):
            tab.set_viewport_size({"width": width, "height": 844})
            found += tab.evaluate(PARTED)
        return found

    as_it_is = parted()
    assert len(as_it_is) > 200 and not any(as_it_is)
    with planted(tab, ".pb-tied { white-space: normal !important }"):
        assert any(parted())


def test_all_tiers_of_a_chapter_are_in_sight_together(browser, site) -> None:
    tab = browser.new_page(viewport=SCREEN)
    tab.goto(f"{site}book/how_to_read.html")
    table = tab.locator("table.pb-tiers")
    over = "one => one.getBoundingClientRect().right - innerWidth"
    assert table.evaluate(over) <= 0
    tops = """one => [...one.tBodies[0].rows].map((row) =>
      new Set([...row.cells].map((cell) => cell.getBoundingClientRect().top)).size)"""
    assert set(table.evaluate(tops)) == {2}, "a chapter's name, and its tiers below"
    near = """one => { const text = document.createRange(); return [...one.rows].flatMap((row) =>
      [...row.cells].slice(1).map((cell) => {
        text.selectNodeContents(cell);
        return cell.getBoundingClientRect().right - text.getBoundingClientRect().right;
      })); }"""
    assert min(table.evaluate(near)) >= 1, "a word does not touch the next"
    tab.add_style_tag(content="table.pb-tiers { font-size: 1rem !important }")
    assert min(table.evaluate(near)) < 1
    tab.add_style_tag(content="table.pb-tiers { min-width: 30rem }")
    assert table.evaluate(over) > 0
    tab.close()


def test_a_label_is_read_where_its_arrow_passes(browser, site) -> None:
    """It has an edge of the page's ground, which covers the line; a box's text needs none."""
    tab = browser.new_page(viewport=SCREEN)
    tab.goto(f"{site}book/appendix/a_gpu_you_can_read.html")
    drawn = tab.locator("svg.phasebit-diagram:visible").first
    edge = "one => [getComputedStyle(one).paintOrder, getComputedStyle(one).strokeWidth]"
    assert drawn.locator("text", has_text="lanes").first.evaluate(edge) == ["stroke", "4px"]
    assert drawn.locator("text", has_text="LOOP").first.evaluate(edge)[0] == "normal"
    tab.close()
