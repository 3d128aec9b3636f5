"""The in-page lab, driven as a reader would."""

from __future__ import annotations

import pytest

from .conftest import HTML, NOTE, PUT_BACK

PAGES = [
    path.relative_to(HTML).as_posix()
    for path in sorted(HTML.glob("book/**/*.html"))
    if "phasebit-lab" in path.read_text(encoding="utf-8")
]
LOAD = 90_000  # ms; Python starts in a few seconds on an idle machine

pytestmark = pytest.mark.site


def test_part_one_has_labs() -> None:
    assert [page for page in PAGES if "part1_pipelines" in page]


@pytest.fixture(scope="module")
def started(browser, site, request):
    """A started lab, for all tests of it: Python takes its time to load."""
    from .look import Watch

    tab = browser.new_page()
    watch = Watch(site)
    watch.attach(tab)
    asked = []
    tab.on("request", lambda r: asked.append(r.url))
    tab.goto(site + request.param)
    tab.wait_for_load_state("networkidle")
    python = [url for url in asked if "pyodide" in url]
    assert asked and not python, "nothing is loaded before the reader asks"
    box = tab.locator(".phasebit-lab").first
    box.get_by_role("button", name="Start the lab").press("Enter")  # by keyboard
    box.locator("svg.phasebit-timeline:visible").wait_for(timeout=LOAD)
    assert any("pyodide.asm.wasm" in url for url in asked)
    tab.evaluate(NOTE)
    yield box, watch
    tab.close()


@pytest.fixture
def lab(started):
    """The lab, with its numbers as at first; nothing sticks out or is pale after the test."""
    from .look import assert_good

    box, watch = started
    box.page.set_viewport_size({"width": 1280, "height": 900})
    box.page.evaluate(PUT_BACK)
    answered(box)
    yield box
    assert_good(box.page, watch)


def numbers(box) -> str:
    answered(box)
    return box.locator(".pb-lab-numbers").inner_text()


def picture(box) -> str:
    answered(box)
    return box.locator(".pb-picture").inner_html()


def answered(box) -> None:
    """Wait until the worker has answered the last change."""
    box.page.wait_for_function("box => box.ariaBusy === 'false'", arg=box.element_handle())


@pytest.mark.parametrize("started", PAGES[:1], indirect=True)
def test_a_reader_changes_numbers_and_sees_the_timeline_move(lab) -> None:
    from phasebit.pipeline import Pipeline, simulate

    fields = {
        name: int(lab.locator(f"input[name={name}]").input_value())
        for name in (
            "producers",
            "consumers",
            "slots",
            "produce",
            "consume",
            "see_full",
            "see_empty",
        )
    }
    jobs = int(lab.locator("input[name=jobs]").input_value())
    expected = simulate(Pipeline(**fields), jobs=jobs)
    assert numbers(lab).startswith(f"{jobs} jobs in {expected.clocks} clocks")
    rows = lab.locator("svg text:visible", has_text="slot ").count()
    assert rows == fields["slots"]
    before = picture(lab)

    lab.locator("input[name=slots]").fill("2")  # one change: the timeline follows
    expected = simulate(Pipeline(**{**fields, "slots": 2}), jobs=jobs)
    assert numbers(lab).startswith(f"{jobs} jobs in {expected.clocks} clocks")
    assert picture(lab) != before
    assert lab.locator("svg text:visible", has_text="slot ").count() == 2
    assert "By the law" not in lab.inner_text(), "the chapter lets the reader guess first"


@pytest.mark.parametrize("started", [p for p in PAGES if "how_fast" in p], indirect=True)
def test_the_lab_of_how_fast_says_what_the_law_predicts(lab) -> None:
    lab.locator("input[name=slots]").fill("2")
    assert "By the law the rate" in numbers(lab)
    assert numbers(lab).endswith("set by the slots.")


@pytest.mark.parametrize("started", PAGES[:1], indirect=True)
def test_a_wrong_parameter_is_refused_in_the_packages_own_words(lab) -> None:
    from phasebit.pipeline import Pipeline

    before = picture(lab)
    lab.locator("input[name=slots]").fill("0")
    with pytest.raises(ValueError) as refusal:
        Pipeline(producers=1, consumers=1, slots=0, produce=1, consume=1)
    alert = lab.get_by_role("alert")
    answered(lab)
    assert alert.inner_text() == str(refusal.value)
    assert lab.locator("input[name=slots]").get_attribute("aria-invalid") == "true"
    assert picture(lab) == before, "the last good run stays"
    lab.locator("input[name=produce]").fill("")
    answered(lab)
    assert "slots" in alert.inner_text() or "produce" in alert.inner_text()
    lab.locator("input[name=produce]").fill("4")
    lab.locator("input[name=slots]").fill("3")
    answered(lab)
    assert alert.inner_text() == ""
    assert picture(lab) != before


@pytest.mark.parametrize("started", PAGES[:1], indirect=True)
def test_a_slider_moves_the_number_and_python_runs_beside_the_page(lab) -> None:
    before = picture(lab)
    slider = lab.get_by_label("slots B, as a slider")
    slider.focus()
    slider.press("Home")
    assert lab.locator("input[name=slots]").input_value() == "1"
    assert picture(lab) != before
    lab.locator("input[name=jobs]").fill("60")
    assert numbers(lab).startswith("60 jobs")
    workers = [worker.url for worker in lab.page.workers]
    assert any("lab_worker.js" in url for url in workers), "Python runs beside the page"


@pytest.mark.parametrize("started", PAGES[:1], indirect=True)
def test_things_to_try_are_buttons_and_the_address_keeps_the_numbers(lab) -> None:
    from .look import WIDTHS

    tries = lab.get_by_role("group", name="things to try")
    tries.get_by_role("button", name="8 slots").click()
    assert lab.locator("input[name=slots]").input_value() == "8"
    answered(lab)
    assert "?lab=4,6,8,5,3,1,1,20" in lab.page.url.replace("%2C", ",")
    tries.get_by_role("button", name="as at first").click()
    assert lab.locator("input[name=slots]").input_value() == "6"
    tries.get_by_role("button", name="one slot").click()
    lab.page.set_viewport_size({"width": WIDTHS["phone"], "height": 800})
    last = lab.locator("input[name=jobs]")
    last.scroll_into_view_if_needed()
    view = lab.locator(".pb-lab-view").bounding_box()
    assert 0 <= view["y"] < 400, "the picture stays in view beside the last number"
    other = lab.page.context.browser.new_page()
    other.goto(lab.page.url)
    assert other.locator("input[name=slots]").input_value() == "1"
    other.close()


@pytest.mark.parametrize("page", PAGES[:1])
def test_opened_as_a_file_the_lab_says_what_to_do(browser, page) -> None:
    tab = browser.new_page()
    tab.goto((HTML / page).as_uri())
    box = tab.locator(".phasebit-lab").first
    assert "make serve" in box.inner_text()
    assert box.get_by_role("button").count() == 0
    tab.close()
