"""Of a diagram the script reads boxes and arrows from the drawing; pointer, finger and keys ask."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator

import pytest
from phasebit_book.diagrams import answers
from phasebit_book.inline_svg import inline, svg_of
from phasebit_book.levels import picture as levels_picture
from phasebit_book.levels import read as levels

from phasebit.draw import Arrow, Node, Picture, diagram

from .conftest import HTML, ROOT

SCRIPT = (ROOT / "book/_static/diagrams.js").read_text(encoding="utf-8")
CSS = (ROOT / "book/_static/phasebit.css").read_text(encoding="utf-8")
DESK, PHONE = 1000, 390

pytestmark = pytest.mark.site

NODES = {
    "l": Node("loader", 0, 0, "blue", "threads"),
    "f": Node("full\nbytes: 4", 190, 0, "green", "threads"),
    "m": Node("multiplier", 400, 0, "orange", "threads"),
    "l2": Node("loader", 0, 150, "blue", "others"),
    "m2": Node("multiplier", 400, 150, "orange", "others"),
    "alone": Node("nobody's", 190, 260),
}
ARROWS = [
    Arrow("l", "f", "arrives: once"), Arrow("f", "m", "passes"), Arrow("m", "m", "waits"),
    Arrow("m", "f", "frees", 40), Arrow("l2", "m2"), Arrow("m", "l2", "tells", hue="red"),
]  # fmt: skip
PLAIN = {name: node._replace(of="") for name, node in NODES.items()}
FEW = {
    "c": Node("copy engine", 0, 0, "blue"),
    "t": Node("tensor core warp 5", 260, 0, "orange"),
    "e": Node("epilogue warps", 520, 0, "green"),
}
TELL = [Arrow("c", "t", "4 slices: bytes", 26), Arrow("t", "c", "a commit", 26),
        Arrow("t", "e", "2 sums", 26)]  # fmt: skip
ROWS = {
    f"{k}{end}": Node(FEW[name].text.removesuffix(" warp 5"), x, 60 * k, FEW[name].hue)
    for k, arrow in enumerate(TELL)
    for end, name, x in (("from", arrow.start, 50), ("to", arrow.end, 270))
}
OWN = (ROWS, [Arrow(f"{k}from", f"{k}to", arrow.label) for k, arrow in enumerate(TELL)])
PICTURES = {
    "turned": (diagram(NODES, ARROWS, title="Two"), NODES, ARROWS),
    "listed": (diagram(PLAIN, ARROWS, title="Two", narrow="listed"), PLAIN, ARROWS),
    "own": (diagram(FEW, TELL, title="Roles", narrow=OWN), FEW, TELL),
}

# Of each drawing that is read: from, to and label of its arrows; null for one that is not.
READ = """() => [...document.querySelectorAll('svg.phasebit-diagram')].map((svg) =>
  phasebitDiagrams.read(svg)?.arrows.map(({ start, end, label }) => [start.text, end.text, label])
  ?? null)"""


def shown(page, picture: Picture | str, script: bool = True) -> None:
    """A page with nothing but a picture, which answers."""
    svg = picture if isinstance(picture, str) else svg_of(picture)
    page.set_content(
        f"<style>{CSS}</style><main><button>before</button>"
        f"<article class='bd-article'>{inline(svg, 't')}</article><button>after</button></main>"
    )
    if script:
        page.add_script_tag(content=SCRIPT)


@pytest.fixture(scope="module")
def tab(browser) -> Iterator[object]:
    page = browser.new_page(viewport={"width": DESK, "height": 900}, reduced_motion="reduce")
    yield page
    page.close()


@pytest.fixture
def own(tab):
    """The three roles at a desk, and the line below them."""
    tab.set_viewport_size({"width": DESK, "height": 900})
    shown(tab, PICTURES["own"][0])
    return tab.locator("svg:visible"), tab.locator(".pb-diagram-said")


def strong(svg) -> tuple[set[str], int]:
    """The boxes that do not fade, and how many arrows."""
    texts = svg.locator("rect:is(.pb-own, .pb-strong) + text").all_text_contents()
    return {re.sub(r"\s+", " ", text) for text in texts}, svg.locator("path.pb-strong").count()


@pytest.mark.parametrize("name", PICTURES)
def test_each_arrow_is_read_as_it_was_drawn(tab, name: str) -> None:
    picture, nodes, arrows = PICTURES[name]
    shown(tab, picture)
    wide, narrow = tab.evaluate(READ)
    text = {key: node.text.replace("\n", " ") for key, node in nodes.items()}
    assert wide == [[text[a.start], text[a.end], a.label] for a in arrows]
    if name == "own":
        assert narrow == [[ROWS[a.start].text, ROWS[a.end].text, a.label] for a in OWN[1]]
    else:
        assert narrow == wide


def saved() -> dict[str, str]:
    """Each diagram that a notebook has saved, by its notebook and cell."""
    found = {}
    for path in sorted(ROOT.glob("book/*/*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        for number, cell in enumerate(cells):
            for output in cell.get("outputs", ()):
                svg = "".join(output.get("data", {}).get("image/svg+xml", ""))
                if 'class="phasebit-diagram"' in svg:
                    found[f"{path.stem} {number}"] = svg
    return found


STILL = {"gemm", "cute_dsl"}
"""Chapters with drawings that are grids: they have no arrow."""


def told(svg: str) -> Counter[str]:
    """The lines of a title that tell of arrows."""
    from html import unescape

    (title, *_) = re.findall(r"<title>(.*?)</title>", svg, re.S)
    return Counter(line for line in unescape(title).split("\n") if " → " in line)


def test_of_all_diagrams_of_the_book_each_arrow_is_read_as_its_title_has_it(tab) -> None:
    every = saved()
    read = 0
    for name, svg in every.items():
        if not answers(svg.replace("<metadata", "</svg><metadata")):
            assert any(still in name for still in STILL), name
            continue
        shown(tab, svg)
        wide, *narrow = tab.evaluate(READ)
        assert wide is not None and None not in narrow, name
        lines = told(svg)
        assert len(wide) == lines.total(), name
        for start, end, label in wide:
            line = f"{start} → {end}" + (f": {label}" if label else "")
            bare = {one: re.sub(r" → block \d: ", " → ", one) for one in lines if lines[one]}
            fits = [one for one, said in bare.items() if f": {said}".endswith(f": {line}")]
            assert fits, (name, line)
            lines[fits[0]] -= 1
        read += 1
    assert read >= 12 and len(every) - read <= 4


def test_an_arrow_that_leads_elsewhere_is_found(tab) -> None:
    """The fault that the test above would see, planted: two boxes have changed places."""
    svg = svg_of(PICTURES["own"][0])
    for old, new in (("copy engine</text>", "?"), ("epilogue warps</text>", "copy engine</text>"),
                     ("?", "epilogue warps</text>")):  # fmt: skip
        svg = svg.replace(old, new)
    shown(tab, svg)
    wide, _ = tab.evaluate(READ)
    assert wide[0][:2] == ["epilogue warps", "tensor core warp 5"]
    lines = [f"{start} → {end}: {label}" for start, end, label in wide]
    assert not {*lines} <= {*told(svg)}


FRAMED = """<svg class="phasebit-diagram" role="img" width="400" height="120">
<title>Two.
left: a → right: b: tells
left: a → left: b: asks</title>
<rect x="0" y="0" width="180" height="110" style="fill:none"/><text x="20" y="14"
style="font-weight:bold">left</text>
<rect x="10" y="20" width="60" height="26"/><text x="40" y="37">a</text>
<rect x="10" y="80" width="60" height="26"/><text x="40" y="97">b</text>
<rect x="200" y="0" width="180" height="110" style="fill:none"/><text x="220" y="14"
style="font-weight:bold">right</text>
<rect x="210" y="20" width="60" height="26"/><text x="240" y="37">a</text>
<rect x="210" y="80" width="60" height="26"/><text x="240" y="97">b</text>
<path d="M40 46V80"/><polygon points="40,80 36,72 44,72"/>
<path d="M70 33H240V80"/><polygon points="240,80 236,72 244,72"/></svg>"""


def test_boxes_of_one_name_are_told_apart_by_their_frames(browser) -> None:
    tab = browser.new_page()
    tab.set_content(f"<main><div class='pb-picture'>{FRAMED}</div></main>")
    tab.add_script_tag(content=SCRIPT)
    assert tab.evaluate(READ)[0] == [["a", "b", "asks"], ["a", "b", "tells"]]
    said = tab.locator(".pb-diagram-said")
    tab.locator("text", has_text="a").first.hover()
    assert said.inner_text() == "left: a: out to b (asks); out to right: b (tells)."
    tab.locator("text", has_text="b").last.hover()
    assert said.inner_text() == "right: b: in from left: a (tells)."
    tab.close()


def test_a_drawing_of_which_an_arrow_hangs_in_the_air_stays_still(tab) -> None:
    svg = svg_of(PICTURES["own"][0])
    shown(tab, re.sub(r'<path d="M-?[\d.]+', '<path d="M-200', svg, count=1))
    assert tab.evaluate(READ)[0] is None
    assert tab.locator("svg:visible").get_attribute("role") == "img"
    assert tab.locator("g[role], .pb-diagram-said").count() == 0
    assert tab.locator(".pb-picture").get_attribute("tabindex") == "0"


def test_the_pointer_asks_a_box_and_leaves_it(own) -> None:
    svg, said = own
    page = svg.page
    assert said.inner_text() == ""
    svg.locator("text", has_text="copy engine").hover()
    assert said.inner_text() == (
        "copy engine: out to tensor core warp 5 (4 slices: bytes); "
        "in from tensor core warp 5 (a commit)."
    )
    assert strong(svg) == ({"copy engine", "tensor core warp 5"}, 2)
    faded = svg.locator("rect:not(.pb-own, .pb-strong)")
    assert faded.count() == 1
    assert float(faded.evaluate("(one) => getComputedStyle(one).opacity")) < 0.6
    svg.locator("text", has_text="tensor core").hover()
    assert strong(svg) == ({node.text for node in FEW.values()}, 3)
    page.get_by_role("button", name="before").hover()
    assert said.inner_text() == "" and strong(svg) == (set(), 0)
    assert float(svg.locator("rect").last.evaluate("(one) => getComputedStyle(one).opacity")) == 1


def test_a_box_with_a_loop_says_so_and_one_of_two_of_a_name_is_itself(tab) -> None:
    tab.set_viewport_size({"width": DESK, "height": 900})
    shown(tab, PICTURES["turned"][0])
    svg, said = tab.locator("svg:visible"), tab.locator(".pb-diagram-said")
    svg.locator("text", has_text="multiplier").first.hover()
    assert said.inner_text() == (
        "threads: multiplier: out to itself (waits); out to full bytes: 4 (frees); "
        "out to others: loader (tells); in from full bytes: 4 (passes)."
    )
    svg.locator("text", has_text="multiplier").nth(1).hover()
    assert said.inner_text() == "others: multiplier: in from loader."
    assert strong(svg) == ({"loader", "multiplier"}, 1)
    svg.locator("text", has_text="nobody's").hover()
    assert said.inner_text() == ""


@pytest.mark.parametrize("width", [DESK, PHONE])
@pytest.mark.parametrize("name", PICTURES)
def test_by_keyboard_a_diagram_is_one_stop_and_arrows_reach_all(tab, name: str, width: int) -> None:
    from .test_keyboard import HERE

    picture, nodes, arrows = PICTURES[name]
    tab.set_viewport_size({"width": width, "height": 900})
    shown(tab, picture)
    said, box = tab.locator(".pb-diagram-said"), tab.locator(".pb-picture")
    assert said.get_attribute("aria-live") == "polite"
    tab.get_by_role("button", name="before").focus()
    tab.keyboard.press("Tab")
    here = box.evaluate(HERE)
    assert here["shows"] and here["seen"]
    heard = [said.inner_text()]
    for _ in range(len(nodes)):
        tab.keyboard.press("ArrowRight")
        if said.inner_text() != heard[-1]:
            heard.append(said.inner_text())
    ends = {end for arrow in arrows for end in (arrow.start, arrow.end)}
    assert len(heard) == len({*heard}) == len(ends)
    for key in ends:
        name = nodes[key].text.replace("\n", " ")
        assert any(f"{name}: " in one for one in heard)
    tab.keyboard.press("Home")
    assert said.inner_text() == heard[0]
    tab.keyboard.press("End")
    assert said.inner_text() == heard[-1]
    tab.keyboard.press("Tab")
    assert tab.evaluate("() => document.activeElement.textContent") == "after"
    assert said.inner_text() == "" and tab.locator(".pb-strong, .pb-own").count() == 0
    tab.keyboard.press("Shift+Tab")
    assert said.inner_text() == heard[-1]
    tab.keyboard.press("Escape")
    assert said.inner_text() == "" and tab.locator(".pb-asked").count() == 0
    tab.keyboard.press("Tab")
    assert tab.evaluate("() => document.activeElement.textContent") == "after"


def test_up_and_down_lead_to_the_nearest_box(tab) -> None:
    tab.set_viewport_size({"width": DESK, "height": 900})
    shown(tab, PICTURES["turned"][0])
    said = tab.locator(".pb-diagram-said")
    tab.get_by_role("button", name="before").focus()
    tab.keyboard.press("Tab")
    for key, name in (("End", "others: multiplier"), ("ArrowUp", "threads: multiplier"),
                      ("ArrowUp", "threads: multiplier"), ("ArrowDown", "others: multiplier"),
                      ("ArrowLeft", "others: loader"), ("ArrowUp", "threads: loader")):  # fmt: skip
        tab.keyboard.press(key)
        assert said.inner_text().startswith(f"{name}: "), key


def test_on_a_phone_the_words_are_those_of_the_desk(tab) -> None:
    """Of a narrow drawing in fewer words a box that stands three times is one."""
    shown(tab, PICTURES["own"][0])
    heard = {}
    for width in (DESK, PHONE):
        tab.set_viewport_size({"width": width, "height": 900})
        boxes = tab.locator("svg:visible [role=img]")
        heard[width] = []
        for box in boxes.all():
            box.focus()
            heard[width].append(tab.locator(".pb-diagram-said").inner_text())
    assert heard[DESK] == heard[PHONE] and len(heard[PHONE]) == 3
    svg = tab.locator("svg:visible")
    svg.locator("text", has_text="tensor core").nth(2).hover()
    assert svg.locator("rect.pb-own").count() == 3 and strong(svg)[1] == 3


def test_what_a_finger_touched_is_told_until_it_touches_elsewhere(browser) -> None:
    context = browser.new_context(
        viewport={"width": PHONE, "height": 844}, has_touch=True, is_mobile=True
    )
    page = context.new_page()
    shown(page, PICTURES["own"][0])
    said = page.locator(".pb-diagram-said")
    page.locator("svg:visible").locator("text", has_text="epilogue").tap()
    page.wait_for_timeout(100)
    assert said.inner_text() == "epilogue warps: in from tensor core warp 5 (2 sums)."
    place = said.bounding_box()
    assert place["x"] >= 0 and place["x"] + place["width"] <= PHONE
    page.touchscreen.tap(300, 700)
    page.wait_for_timeout(100)
    assert said.inner_text() == ""
    context.close()


def test_motion_is_left_out_where_it_is_not_wanted(tab, own) -> None:
    rect = own[0].locator("rect").first
    look = "(one) => getComputedStyle(one).transitionDuration"
    assert rect.evaluate(look) == "0s"
    tab.emulate_media(reduced_motion="no-preference")
    assert rect.evaluate(look) != "0s"
    tab.emulate_media(reduced_motion="reduce")


def test_pages_with_a_diagram_load_the_script_and_no_others() -> None:
    loading = 0
    for path in HTML.glob("book/**/*.html"):
        html = path.read_text(encoding="utf-8")
        assert ("/diagrams.js" in html) is answers(html), path
        loading += "/diagrams.js" in html
    assert 10 <= loading <= 20


def page_of(name: str) -> str:
    (path,) = [one for one in HTML.glob("book/**/*.html") if re.sub(r"^\d+_", "", one.stem) == name]
    return path.relative_to(HTML).as_posix()


@pytest.fixture(scope="module", params=["barriers", "chain", "afterword"])
def page(browser, site, request) -> Iterator[object]:
    tab = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    tab.goto(site + page_of(request.param))
    tab.wait_for_load_state("networkidle")
    yield tab
    tab.close()


BOXES = "svg:is(.phasebit-diagram, .phasebit-levels):visible [role=img]"


def test_what_fades_can_be_read_light_and_dark(page) -> None:
    from .look import CONTRAST, LEAST_CONTRAST, THEMES, planted

    page.locator(BOXES).first.focus()
    for theme in THEMES:
        page.emulate_media(color_scheme=theme)
        assert page.locator(".pb-asked").count() == 1
        assert page.evaluate(CONTRAST, LEAST_CONTRAST) == [], theme
    with planted(page, "svg.pb-asked text:not(.pb-own, .pb-own *) { opacity: .4 }"):
        assert page.evaluate(CONTRAST, LEAST_CONTRAST), "what is too pale is found"


def test_nothing_keeps_people_from_a_diagram_that_is_asked(page) -> None:
    from .axe import script

    page.emulate_media(color_scheme="light")
    page.locator(BOXES).first.focus()
    page.evaluate(script())
    wrong = """() => axe.run({include: ['.pb-picture:has(g[role=img])', '.pb-diagram-said']},
      {resultTypes: ['violations']}).then(({ violations }) => violations.map(({ id }) => id))"""
    assert page.evaluate(wrong) == []
    page.locator(BOXES).first.evaluate("(one) => one.removeAttribute('aria-label')")
    assert page.evaluate(wrong) == ["svg-img-alt"], "a box without a name is found"


def test_the_afterwords_rings_are_asked_one_by_one(browser, site) -> None:
    every = levels(ROOT / "book")
    alt = levels_picture(every).alt.split("\n")[1:]
    tab = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    tab.goto(site + "book/afterword.html")
    rings, said = tab.locator(BOXES), tab.locator(".pb-diagram-said")
    assert rings.count() == len(every) == len(alt)
    rings.nth(3).locator("text").first.hover()
    assert said.inner_text() == f"{alt[3]}."
    rings.first.focus()
    tab.keyboard.press("Tab")
    tab.keyboard.press("Shift+Tab")
    for line in alt:
        assert said.inner_text() == f"{line}."
        tab.keyboard.press("ArrowDown")
    assert tab.locator("svg.pb-asked g.pb-own").count() == 1
    tab.close()


def test_a_link_of_the_map_says_what_its_chapter_needs(browser, site) -> None:
    tab = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    tab.goto(site + "book/how_to_read.html")
    tab.wait_for_load_state("networkidle")
    way, said = tab.locator("svg a[data-title]:visible").nth(1), tab.locator(".pb-diagram-said")
    way.focus()
    name = re.sub(r"\s+", " ", way.locator("text").first.text_content())
    assert said.inner_text().startswith(f"{name}: needed by ")
    assert "; needs 1 " in said.inner_text()
    assert tab.locator("svg.phasebit-diagram:visible [role=img]").count() == 0
    way.evaluate("(one) => one.blur()")
    assert said.inner_text() == ""
    tab.close()


def test_without_scripts_a_diagram_is_the_picture_that_it_was(browser, site) -> None:
    page = browser.new_page(java_script_enabled=False)
    page.goto(site + page_of("barriers"))
    svg = page.locator("svg.phasebit-diagram").first
    assert svg.is_visible() and svg.get_attribute("role") == "img"
    assert page.locator(".pb-diagram-said, svg [role=img]").count() == 0
    page.close()
