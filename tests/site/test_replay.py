"""Replays, driven as a reader would: by keyboard, by a slider, to the finding, as a file."""

from __future__ import annotations

import pytest

from .conftest import HTML, another
from .look import planted

WARD = "01_one_warp_loads"
"""The first of several kernels in one box."""

PAGES = {
    kernel: path.relative_to(HTML).as_posix()
    for path in sorted(HTML.glob("book/**/*.html"))
    for kernel in (
        "barrier_double_buffer",
        "groups",
        "b_ring",
        "bulk_copy",
        "chain",
        "pair",
        "12_stale_parity",
        "queue",
        WARD,
    )
    if f'data-kernel="{kernel}' in path.read_text(encoding="utf-8")
}

pytestmark = pytest.mark.site


def test_the_pages_have_them() -> None:
    assert len(PAGES) == 9


# As it was when it was asked for: the first program, block and schedule, at the beginning.
AS_AT_FIRST = """(box) => {
  for (const one of [...box.querySelectorAll('select')].slice(1)) { // behind the kernel's
    one.selectedIndex = 0;
    one.dispatchEvent(new Event('change'));
  }
  const slider = box.querySelector('input[type=range]');
  slider.value = 0;
  slider.dispatchEvent(new Event('input'));
  scrollTo(0, 0);
}"""


@pytest.fixture(scope="module")
def asked_for(browser, site):
    """Replays by their kernels: each is loaded once for all its tests, and none before one asks."""
    from .look import Watch

    made = {}

    def replay(kernel: str):
        if kernel in made:
            return made[kernel]
        tab = another([box.page for box, _ in made.values()], browser)
        tab.clock.install()
        watch = Watch(site)
        watch.attach(tab)
        asked = []
        tab.on("request", lambda r: asked.append(r.url))
        tab.goto(site + PAGES[kernel])
        tab.wait_for_load_state("networkidle")
        assert not [url for url in asked if "/replays/" in url], "nothing before the reader asks"
        box = tab.locator(f'.phasebit-replay[data-kernel^="{kernel}"]')
        if not box.is_visible():  # in a solution
            tab.locator("details", has=box).last.locator("summary").first.click()
        assert box.locator("svg.phasebit-timeline:visible").count() == 1
        box.get_by_role("button", name="Replay").press("Enter")
        box.locator(".pb-replay-rows").wait_for()
        assert [url for url in asked if "/replays/" in url]
        made[kernel] = box, watch
        return made[kernel]

    yield replay
    for box, _ in reversed(made.values()):
        box.page.close()


@pytest.fixture
def replay(asked_for, request):
    """A replay as at first; after the test nothing of its page sticks out or is pale as it is."""
    from .look import assert_good

    box, watch = asked_for(request.param)
    box.page.set_viewport_size({"width": 1280, "height": 900})
    box.evaluate(AS_AT_FIRST)
    yield box
    assert_good(box.page, watch, (box.page.viewport_size["width"],))


def said(box) -> str:
    return box.locator(".pb-replay-said").inner_text()


def row(box, name: str):
    found = box.locator(".pb-replay-row", has_text=name).first
    return found.locator(".pb-replay-doing").inner_text()


def row_name(box, name: str) -> str:
    return box.locator(".pb-replay-row", has_text=name).first.locator("button").inner_text()


def to(box, moment: float) -> None:
    """Move the slider to a share of the run."""
    box.get_by_role("slider").evaluate(
        "(e, f) => { e.value = Math.round(e.max * f); e.dispatchEvent(new Event('input')); }",
        moment,
    )


def barriers(box) -> dict[str, list[str]]:
    """What the tables say of each barrier: its phase, its missing arrivals, its missing bytes."""
    return {
        line.locator("th").get_attribute("aria-label"): line.locator("td").all_inner_texts()
        for line in box.locator("tbody tr").all()
    }


@pytest.mark.parametrize("kernel", PAGES)
def test_nothing_sticks_out_or_is_pale_at_any_width(asked_for, kernel: str) -> None:
    """At the end of each program, where it says what was found."""
    from .look import WIDTHS, assert_good

    box, watch = asked_for(kernel)
    box.evaluate(AS_AT_FIRST)
    program = box.get_by_role("combobox", name="Program")
    for number in range(program.locator("option").count()):
        if number:
            program.select_option(index=number)
        to(box, 1)
        assert_good(box.page, watch, (*WIDTHS.values(), 768, 1440))


@pytest.mark.parametrize("replay", ["barrier_double_buffer"], indirect=True)
def test_steps_by_keyboard_from_event_to_event(replay) -> None:
    seen = [said(replay)]
    while row(replay, "warps 8–15") != "waits for full[0]":
        replay.get_by_role("button", name="Step", exact=True).press("Enter")
        seen.append(said(replay))
        assert len(seen) < 20
    assert any("full[0]: made for 512 arrivals" in one for one in seen)
    assert "warps 8–15 wait for full[0]" in seen[-1]
    marked = replay.locator(".pb-replay-line", has=replay.page.locator(".pb-replay-chip"))
    assert any("arrive_and_wait" in text for text in marked.all_inner_texts())
    assert replay.locator("svg").first.get_attribute("aria-hidden") == "true"
    assert replay.locator(".pb-replay-words").is_hidden(), "which are for who has no scripts"
    replay.get_by_role("button", name="Step back").press("Enter")
    assert said(replay) == seen[-2]


@pytest.mark.parametrize("replay", ["barrier_double_buffer"], indirect=True)
def test_the_end_is_the_emulators(replay) -> None:
    to(replay, 1)
    assert row(replay, "warps 8–15") == "has left"
    now = barriers(replay)
    assert now["full[0]"][0] == "3, bit 1"
    assert now["empty[0]"] == ["3, bit 1", "256 of 512"]
    slider = replay.get_by_role("slider")
    assert slider.get_attribute("aria-valuetext") == "instruction {0} of {0}".format(
        slider.get_attribute("max")
    )


@pytest.mark.parametrize("replay", ["barrier_double_buffer"], indirect=True)
def test_the_line_of_whom_one_follows_comes_into_view_and_the_page_stays(replay) -> None:
    replay.get_by_role("button", name="warps 8–15").click()
    before = replay.page.evaluate("scrollY")
    for share in (0.1, 0.5, 0.9):
        to(replay, share)
        inside = replay.evaluate(
            """box => {
              const code = box.querySelector('pre').getBoundingClientRect();
              const name = box.querySelector('[aria-pressed=true] .pb-replay-chip').textContent;
              return [...box.querySelectorAll('.pb-step-here')].some(line => {
                const place = line.getBoundingClientRect();
                return line.querySelector(`[title="warps ${name}"]`)
                  && place.top >= code.top - 1 && place.bottom <= code.bottom + 1;
              });
            }"""
        )
        assert inside
    assert replay.page.evaluate("scrollY") == before
    assert "warp 8 last loaded 4 bytes a lane, 1 wavefront, no conflict" in replay.inner_text()
    asked = replay.locator(".pb-replay-asked")
    assert asked.count() in (1, 32)
    assert asked.first.inner_text() == "1"
    assert "consumers" in row_name(replay, "warps 8–15")


@pytest.mark.parametrize("replay", ["queue"], indirect=True)
def test_a_warp_that_the_emulator_does_not_run_is_blank(replay) -> None:
    replay.get_by_role("combobox", name="Schedule").select_option("eager")
    to(replay, 80 / 190)
    assert row(replay, "warp 1") == "not scheduled"
    assert row(replay, "warp 0").startswith("line ")
    bars = replay.locator(".pb-replay-row", has_text="warp 1").first.locator(".pb-replay-run")
    spans = [tuple(float(bar.get_attribute(side)) for side in ("x", "width")) for bar in bars.all()]
    assert len(spans) == 3 and not any(x <= 80 < x + wide for x, wide in spans)
    assert "Where the row of a warp is blank" in replay.locator(".pb-replay-size").inner_text()


@pytest.mark.parametrize("kernel", ["queue", "b_ring", "chain"])
def test_a_replays_picture_fits_beside_the_contents(browser, site, kernel: str) -> None:
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    tab.goto(site + PAGES[kernel])
    rooms = tab.locator(f'.phasebit-replay[data-kernel^="{kernel}"] .pb-picture').evaluate_all(
        "all => all.map(each => [each.scrollWidth, each.clientWidth])"
    )
    tab.close()
    assert rooms and all(within <= room for within, room in rooms), rooms


@pytest.mark.parametrize("replay", ["groups"], indirect=True)
def test_broken_beside_healthy(replay) -> None:
    programs = replay.get_by_role("combobox", name="Program")
    assert replay.get_by_role("button", name="To the finding").is_hidden()
    programs.select_option("without the wait")
    replay.get_by_role("button", name="To the finding").press("Enter")
    assert "nobody has waited for the copy" in replay.get_by_role("alert").inner_text()
    assert "read before it is full" in replay.inner_text()


@pytest.mark.parametrize("replay", [WARD], indirect=True)
def test_several_kernels_in_one_box(replay) -> None:
    kernels = replay.get_by_role("combobox", name="Kernel")
    assert kernels.locator("option").count() == 13
    kernels.select_option("11_arrive_count")
    replay.get_by_text("Replay: Patient 11: arrive count").wait_for()
    replay.get_by_role("button", name="To the finding").press("Enter")
    assert "A deadlock" in replay.get_by_role("alert").inner_text()
    kernels.select_option("06_define_m")
    replay.get_by_text("Replay: Patient 6: define m").wait_for()
    assert "The compiler refuses it" in replay.get_by_role("alert").inner_text()


@pytest.mark.parametrize("replay", ["chain"], indirect=True)
def test_the_schedule_decides_when_what_is_asked_for_ends(replay) -> None:
    late = int(replay.get_by_role("slider").get_attribute("max"))
    replay.get_by_role("combobox", name="Schedule").select_option("eager")
    assert int(replay.get_by_role("slider").get_attribute("max")) < late
    to(replay, 0.5)
    assert replay.locator(".pb-replay-row", has_text="tensor core").count() == 1
    assert "sum_full[0]" in barriers(replay)
    replay.get_by_role("button", name="warp 5").click()
    assert replay.get_by_role("button", name="warp 5").get_attribute("aria-pressed") == "true"


@pytest.mark.parametrize("replay", ["pair"], indirect=True)
def test_the_other_block_of_a_pair_is_looked_at_at_the_same_moment(replay) -> None:
    for share in range(100):  # until the copy engine is at work, and a phase is over
        to(replay, share / 100)
        if row(replay, "copy engine") != "idle" and barriers(replay)["full[0]"][0] != "0, bit 0":
            break
    else:
        pytest.fail("the copy engine is idle from the first phase on")
    moment = replay.get_by_role("slider").input_value()
    assert replay.locator(".pb-replay-row", has_text="tensor core").count() == 1
    blocks = replay.get_by_role("combobox", name="Block")
    blocks.focus()
    replay.page.keyboard.press("ArrowDown")
    assert blocks.input_value() == "block 1"
    assert replay.get_by_role("slider").input_value() == moment
    assert "of block 0" in row(replay, "copy engine") or "under way" in row(replay, "copy engine")
    assert replay.locator(".pb-replay-row", has_text="tensor core").count() == 0
    assert barriers(replay)["full[0]"] == ["0, bit 0", "1 of 1"]
    assert row(replay, "warp 5") == "waits for the cluster's barrier"
    assert replay.locator(".pb-replay-line").count() > 50


@pytest.mark.parametrize("replay", ["b_ring"], indirect=True)
def test_touching_a_row_goes_there(replay) -> None:
    bar = replay.locator(".pb-replay-bar").first
    bar.scroll_into_view_if_needed()
    place = bar.bounding_box()
    replay.page.mouse.click(place["x"] + place["width"] / 2, place["y"] + 4)
    slider = replay.get_by_role("slider")
    middle = int(slider.get_attribute("max")) / 2
    assert abs(int(slider.input_value()) - middle) < middle / 20
    assert row(replay, "copy engine") != ""


@pytest.mark.parametrize("replay", ["12_stale_parity"], indirect=True)
def test_a_run_plays_until_something_is_found_and_the_repaired_one_to_its_end(replay) -> None:
    replay.get_by_role("button", name="Play").click()
    replay.page.clock.run_for(60_000)
    assert "A deadlock: warps 0–3 wait for phase 1 of empty[0]" in (
        replay.get_by_role("alert").inner_text()
    )
    lines = replay.locator(".pb-replay-wrong").all_inner_texts()
    assert any("wait(empty[at.slot]" in line for line in lines)
    replay.get_by_role("combobox", name="Program").select_option("repaired")
    to(replay, 1)
    assert replay.get_by_role("alert").inner_text() == ""
    assert row(replay, "warps 4–7") == "has left"
    assert replay.locator(".pb-replay-wrong").count() == 0


def test_a_finger_on_a_row_goes_there(browser, site) -> None:
    """Though a button lies within a finger's width."""
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True,
        reduced_motion="reduce",
    )  # fmt: skip
    tab = context.new_page()
    tab.goto(site + PAGES["chain"])
    box = tab.locator('.phasebit-replay[data-kernel="chain"]')
    box.get_by_role("button", name="Replay").tap()
    slider = box.get_by_role("slider")
    for share, number in ((0.8, 0), (0.3, 2), (0.6, 5)):
        bar = box.locator(".pb-replay-bar").nth(number)
        bar.scroll_into_view_if_needed()
        place = bar.bounding_box()
        x, y = place["x"] + share * place["width"], place["y"] + place["height"] / 2
        tab.touchscreen.tap(x, y)
        expected = share * int(slider.get_attribute("max"))
        tab.wait_for_function(
            "([slider, at]) => Math.abs(Number(slider.value) - at) <= at / 20",
            arg=[slider.element_handle(), expected],
        )
    assert box.locator(".pb-replay-key").inner_text().split("\n")[0].strip() == "executes"
    context.close()


@pytest.mark.parametrize("replay", ["chain"], indirect=True)
@pytest.mark.parametrize("width", [390, 768, 1440])
def test_the_buttons_stay_while_the_reader_reads_the_code(replay, width: int) -> None:
    """Who has scrolled to the code sees it beside them, and hears what happens."""
    tab = replay.page
    tab.set_viewport_size({"width": width, "height": 844})
    to(replay, 0.4)
    replay.locator("pre").evaluate("e => e.scrollIntoView({block: 'end'})")
    code = replay.locator("pre").bounding_box()
    play = replay.get_by_role("button", name="Play").bounding_box()
    told = replay.locator(".pb-replay-said").bounding_box()
    assert play["y"] >= 0 and told["y"] + told["height"] <= 844
    seen = min(844, code["y"] + code["height"]) - max(code["y"], told["y"] + told["height"])
    assert seen > 200
    least = 400 if width == 1440 else 250
    lines = replay.locator(".pb-replay-line .pb-line")
    assert lines.first.bounding_box()["width"] > least, "wide enough for code"
    assert replay.locator("pre").evaluate("e => e.scrollWidth <= e.clientWidth + 1"), "it wraps"


SIZES = """(box) => {
  const sizes = new Set();
  const words = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
  while (words.nextNode()) {
    const one = words.currentNode.parentElement;
    if (words.currentNode.data.trim() && one.checkVisibility() && !one.closest('svg'))
      sizes.add(parseFloat(getComputedStyle(one).fontSize));
  }
  return [...sizes];
}"""


@pytest.mark.parametrize("replay", ["chain"], indirect=True)
@pytest.mark.parametrize("width", [390, 768, 1440])
def test_all_its_letters_can_be_read(replay, width: int) -> None:
    tab = replay.page
    tab.set_viewport_size({"width": width, "height": 844})
    to(replay, 0.5)
    assert replay.locator(".pb-replay-marks .pb-replay-chip").count() > 0
    assert min(replay.evaluate(SIZES)) >= 12
    small = ".pb-replay-marks .pb-replay-chip { font-size: 0.68rem !important }"
    with planted(tab, small):
        assert min(replay.evaluate(SIZES)) < 12


NAMES = """(box) => [...box.querySelectorAll('.pb-replay-name')].filter((name) => {
  const bar = name.nextElementSibling.getBoundingClientRect(), words = document.createRange();
  words.selectNodeContents(name);
  const at = words.getBoundingClientRect();
  return at.width && at.right > bar.left && at.bottom > bar.top + 2;
}).map((name) => name.textContent)"""


@pytest.mark.parametrize("replay", ["chain"], indirect=True)
@pytest.mark.parametrize("width", [390, 768, 1440])
def test_no_bar_covers_the_name_of_its_row(replay, width: int) -> None:
    tab = replay.page
    tab.set_viewport_size({"width": width, "height": 844})
    assert replay.evaluate(NAMES) == []
    if width > 390:
        narrow = ".pb-replay-rows { grid-template-columns: 8.3rem 1fr 12.5rem !important }"
        with planted(tab, narrow):
            assert replay.evaluate(NAMES)


CUT = """(box) => {
  const slider = box.querySelector('input[type=range]');
  const found = new Set();
  let many = 0;
  for (let at = 0; at <= Number(slider.max); at += 1) {
    slider.value = at;
    slider.dispatchEvent(new Event('input', {bubbles: true}));
    for (const marks of box.querySelectorAll('.pb-replay-marks:not(:empty)')) {
      many = Math.max(many, marks.childElementCount);
      if (marks.scrollWidth > marks.clientWidth) found.add(marks.textContent);
    }
  }
  return [many, [...found]];
}"""


@pytest.mark.parametrize("replay", ["bulk_copy"], indirect=True)
@pytest.mark.parametrize("width", [390, 1440])
def test_who_shares_a_line_is_read_whole(replay, width: int) -> None:
    tab = replay.page
    tab.set_viewport_size({"width": width, "height": 844})
    many, cut = replay.evaluate(CUT)
    assert many == 2 and cut == []
    told = replay.locator(".pb-replay-said")
    to(replay, 0.42)
    assert told.evaluate("e => e.scrollHeight <= e.clientHeight + 1"), "what happens, too"


@pytest.mark.parametrize("replay", ["chain"], indirect=True)
def test_slots_say_which_item_they_hold_and_the_clock_is_numbered(replay) -> None:
    clock = replay.locator(".pb-replay-axis span").all_inner_texts()
    end = int(replay.get_by_role("slider").get_attribute("max"))
    numbers = [int(text.replace(",", "")) for text in clock]
    assert numbers[0] == 0 and 3 <= len(numbers) <= 8 and numbers[-1] <= end
    slot = replay.locator(".pb-replay-row", has_text="slot").first
    items = [text for text in slot.locator(".pb-replay-bar i").all_inner_texts() if text]
    assert items[0] == "0" and len(items) > 1


@pytest.mark.parametrize("replay", ["12_stale_parity"], indirect=True)
def test_who_shares_a_line_is_named_and_a_finding_has_a_flag(replay) -> None:
    to(replay, 1)
    chips = replay.locator(".pb-replay-line .pb-replay-chip").all_inner_texts()
    assert "1–3" in chips
    outlined = replay.locator(".pb-replay-line").evaluate_all(
        "lines => lines.filter(e => getComputedStyle(e).outlineStyle === 'solid').length"
    )
    assert outlined == replay.locator(".pb-replay-wrong").count() > 0
    to(replay, 0)
    flag = replay.locator(".pb-replay-axis b")
    assert flag.inner_text() == "✗"
    flag.click()
    slider = replay.get_by_role("slider")
    assert slider.input_value() == slider.get_attribute("max"), "it is found at the end"


COVERED = """(axis) => {
  const [flags, numbers] = ["b", "span"].map((name) => [...axis.querySelectorAll(name)].map((e) => e.getBoundingClientRect()));
  return numbers.filter((one) => flags.some((flag) => one.left < flag.right && flag.left < one.right)).length;
}"""  # noqa: E501
"""The numbers of a replay's clock that a flag lies on."""


@pytest.mark.parametrize("replay", ["12_stale_parity"], indirect=True)
def test_no_number_of_the_clock_is_beneath_a_flag(replay) -> None:
    axis = replay.locator(".pb-replay-axis")
    for width in (390, 1280):
        replay.page.set_viewport_size({"width": width, "height": 844})
        assert axis.evaluate(COVERED) == 0, width
    axis.locator("b").evaluate("(e) => { e.style.left = e.parentElement.children[1].style.left; }")
    assert axis.evaluate(COVERED) == 1, "a number beneath a flag would be seen"


def test_a_page_opened_as_a_file_replays_too(browser) -> None:
    tab = browser.new_page()
    tab.goto((HTML / PAGES["b_ring"]).as_uri())
    box = tab.locator(".phasebit-replay")
    box.get_by_role("button", name="Replay").click()
    box.get_by_role("button", name="Step", exact=True).click()
    assert "Instruction" in said(box)
    tab.close()


def test_without_scripts_there_are_words_and_the_picture(browser, site) -> None:
    tab = browser.new_page(java_script_enabled=False)
    tab.goto(site + PAGES["b_ring"])
    box = tab.locator(".phasebit-replay")
    assert "replayed here" in box.inner_text()
    assert box.locator("svg.phasebit-timeline:visible").count() == 1
    tab.close()
