"""The rendered site, served on this machine, and a Chromium to look at it with."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize

ROOT = Path(__file__).resolve().parents[2]
HTML = ROOT / "_build" / "html"
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "book" / "_ext")]

from serve import server  # noqa: E402


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address at which a folder is served while the block runs."""
    pages = server(folder)
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{pages.server_port}/"
    finally:
        pages.shutdown()


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    with served(HTML) as base:
        yield base


PATIENT = 120_000
"""Milliseconds that a page has for what is asked of it: enough where other work is beside it."""


class Reader:
    """A browser whose pages share a window, by :meth:`new_page`, and what was loaded in it.

    A window for each page costs Chromium as much as half of the page. So a context is kept when
    its page is closed, for the next page with the same options, which finds nothing stored there.
    Who needs an empty cache takes a context; all else is the browser's.
    """

    def __init__(self, browser: Browser, site: str) -> None:
        self._browser, self._site = browser, site
        self._free: dict[str, list[BrowserContext]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._browser, name)

    def new_context(self, **options: Any) -> BrowserContext:
        """See :meth:`playwright.sync_api.Browser.new_context`."""
        context = self._browser.new_context(**options)
        context.set_default_timeout(PATIENT)
        return context

    def new_page(self, **options: Any) -> Page:
        """See :meth:`playwright.sync_api.Browser.new_page`."""
        free = self._free.setdefault(repr(sorted(options.items())), [])
        if not free:
            free.append(self.new_context(**options))
            free[-1].new_page()  # it stays, and so does the window
        context = free.pop()
        page = context.new_page()
        forget = {"origin": self._site.rstrip("/"), "storageTypes": "all"}
        context.new_cdp_session(page).send("Storage.clearDataForOrigin", forget)
        context.clear_cookies()
        page.on("close", lambda _: free.append(context))
        return page


@pytest.fixture(scope="session")
def browser(site: str) -> Iterator[object]:
    from playwright.sync_api import sync_playwright

    from conftest import chromium

    from .look import FLAGS

    with sync_playwright() as play:
        chrome = play.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield Reader(chrome, site)
        chrome.close()


NOTE = """() => {
  const fields = document.querySelectorAll(
    'form :is(input:not([type=range]), select, textarea)'); // a slider follows its field
  window.first = [...fields].map((one) => [one, one.value]);
}"""
PUT_BACK = """() => window.first.filter(([one, value]) => one.value !== value)
  .forEach(([one, value]) => {
    one.value = value;
    one.dispatchEvent(new Event('input', { bubbles: true }));
  })"""


def another(tabs: list[Page], browser: Reader) -> Page:
    """A page without motion, in the window of some others, the first of which is closed last."""
    return tabs[0].context.new_page() if tabs else browser.new_page(reduced_motion="reduce")


@pytest.fixture(scope="module")
def loaded(browser: Reader, site: str) -> Iterator[Callable[..., Page]]:
    """Pages that the tests of a file share: ``loaded(page, width)`` loads each at its first call.

    Later calls put the fields of forms back. Who changes anything else puts it back himself, as
    :func:`tests.site.look.planted` does. What changes in these pages changes at once, and what
    they complain of fails the last test.
    """
    from .look import Watch

    tabs: dict[str, Page] = {}
    watch = Watch(site)

    def page(path: str, width: int = 1280, height: int = 900) -> Page:
        size: ViewportSize = {"width": width, "height": height}
        if path in tabs:
            tabs[path].set_viewport_size(size)
            tabs[path].evaluate(PUT_BACK)
        else:
            tab = tabs[path] = another([*tabs.values()], browser)
            watch.attach(tab)
            tab.set_viewport_size(size)
            tab.goto(site + path)
            tab.add_style_tag(content="* { transition: none !important }")
            tab.evaluate(NOTE)
        return tabs[path]

    yield page
    for tab in reversed(tabs.values()):
        tab.close()
    assert not watch.wrong, watch.wrong
