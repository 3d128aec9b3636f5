"""The stepper, driven as a reader would: by keyboard, to a failure, on a page opened as a file."""

from __future__ import annotations

import pytest

from .conftest import HTML

PAGES = [
    path.relative_to(HTML).as_posix()
    for path in sorted(HTML.glob("book/**/*.html"))
    if 'class="phasebit-stepper"' in path.read_text(encoding="utf-8")
]

pytestmark = pytest.mark.site


def test_the_front_page_has_one() -> None:
    assert "book/intro.html" in PAGES


@pytest.fixture(scope="module")
def opened(browser, site):
    """The front page, in a browser that does not wait between steps, and what it asks for later."""
    from .look import Watch

    tab = browser.new_page(reduced_motion="reduce")
    watch = Watch(site)
    watch.attach(tab)
    tab.goto(site + "book/intro.html")
    tab.wait_for_load_state("networkidle")
    asked: list[str] = []
    tab.on("request", lambda one: "favicon" in one.url or asked.append(one.url))  # the tab's own
    yield tab, watch, asked
    tab.close()


@pytest.fixture
def stepper(opened):
    """The front page's stepper, at its beginning."""
    from .look import assert_good

    tab, watch, asked = opened
    box = tab.locator(".phasebit-stepper")
    tab.set_viewport_size({"width": 1280, "height": 900})
    begin(box, "right: two slots")
    yield box
    assert not asked, "all that can happen is there when the page is"
    assert_good(tab, watch)


def begin(box, ring: str) -> None:
    """Choose a ring, at its beginning."""
    box.get_by_role("combobox").select_option(ring)
    box.get_by_role("button", name="Start over").click()
    assert log(box) == []


def said(box) -> str:
    return box.get_by_role("status").inner_text()


def log(box) -> list[str]:
    return box.locator(".pb-step-log li").all_inner_texts()


def mover(box, thread: str):
    """The button with which a thread takes its next step."""
    return box.get_by_role("region", name=thread).get_by_role("button")


def test_the_reader_moves_a_thread_by_keyboard(stepper) -> None:
    for words in ("wait empty[0] parity 1", "fill slot 0 with item 0"):
        assert mover(stepper, "producer").inner_text() == words
        mover(stepper, "producer").press("Enter")
    assert log(stepper) == ["producer wait empty[0] parity 1", "producer fill slot 0 with item 0"]
    assert "item 0 is being written" in stepper.get_by_role("list", name="slots").inner_text()
    here = stepper.get_by_role("region", name="producer").locator("[aria-current=step]")
    assert here.inner_text().strip() == "yield from fill(stage, item=i)"
    stepper.get_by_role("button", name="Back").press("Enter")
    assert log(stepper) == ["producer wait empty[0] parity 1"]


def test_a_thread_that_must_wait_says_for_what(stepper) -> None:
    assert mover(stepper, "consumer").is_disabled()
    assert "Consumer waits until phase 0 of full[0] (parity 0) is complete" in said(stepper)


@pytest.mark.parametrize("button", ["Run fair", "Run unfair"])
def test_a_right_ring_runs_to_its_end(stepper, button: str) -> None:
    stepper.get_by_role("button", name=button).click()
    assert said(stepper).startswith("The end")
    assert len(log(stepper)) == 24


def test_no_failure_of_a_right_ring_is_found(stepper) -> None:
    stepper.get_by_role("button", name="Find me a failure").click()
    assert said(stepper).startswith("No order of steps fails. All 57 states")


def test_each_mistake_is_played_to_its_failure(stepper) -> None:
    from phasebit.pipeline.explore import explore
    from phasebit.pipeline.mistakes import MISTAKES

    for mistake in MISTAKES:
        stepper.get_by_role("combobox").select_option(mistake.name)
        stepper.get_by_role("button", name="Find me a failure").click()
        run = explore(mistake.broken()).shortest
        assert run is not None and run.failure is not None
        assert said(stepper) == f"It fails: {run.failure.what}."
        assert len(log(stepper)) == len(run.events)


@pytest.fixture
def engine(loaded):
    """The stepper of the chapter whose ring the copy engine fills."""
    tab = loaded(next(page for page in PAGES if "copy_engine" in page))
    return tab.locator(".phasebit-stepper")


def test_a_copy_lands_when_the_reader_says(engine) -> None:
    assert engine.get_by_role("combobox").input_value() == "right: the copy engine fills"
    for _ in range(3):  # waits, announces, asks
        mover(engine, "producer").press("Enter")
    assert mover(engine, "consumer").is_disabled()
    mover(engine, "copy engine").press("Enter")
    assert log(engine)[-1].startswith("copy engine")
    assert mover(engine, "consumer").is_enabled()


@pytest.mark.parametrize(("landed", "end"), [(1, "It fails: consumer reads"), (2, "The end")])
def test_half_of_the_bytes_announced_ends_in_two_ways(engine, landed: int, end: str) -> None:
    begin(engine, "too few bytes expected")
    for _ in range(4):  # waits, announces one part, asks for two
        mover(engine, "producer").press("Enter")
    for _ in range(landed):
        mover(engine, "copy engine").first.press("Enter")
    while not said(engine).startswith(("It fails", "The end")):
        mover(engine, "consumer").press("Enter")
    assert said(engine).startswith(end)


def test_a_page_opened_as_a_file_steps_too(browser) -> None:
    tab = browser.new_page()
    tab.goto((HTML / "book/intro.html").as_uri())
    box = tab.locator(".phasebit-stepper")
    mover(box, "producer").click()
    assert log(box) == ["producer wait empty[0] parity 1"]
    tab.close()


def test_without_scripts_there_are_words(browser, site) -> None:
    tab = browser.new_page(java_script_enabled=False)
    tab.goto(site + "book/intro.html")
    assert "a ring that you step through" in tab.locator(".phasebit-stepper").inner_text()
    tab.close()
