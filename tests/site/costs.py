"""What a page costs: bytes, shift, processor time of the main thread, however busy the machine."""

from __future__ import annotations

import json
from collections.abc import Callable

from playwright.sync_api import Browser, Page

WEIGHT = """() => [...performance.getEntriesByType('navigation'),
  ...performance.getEntriesByType('resource')]
  .map((one) => [one.name, one.decodedBodySize])"""
"""Addresses of all that was loaded, and the bytes of each, unpacked."""

SHIFTS = """window.phasebitShift = 0;
new PerformanceObserver((list) => list.getEntries().forEach((one) => {
  if (!one.hadRecentInput) window.phasebitShift += one.value;
})).observe({ type: 'layout-shift', buffered: true });"""
"""Adds up what moves under the reader."""


MAIN, WORKERS = "CrRendererMain", "DedicatedWorker thread"


def tasks(browser: Browser, page: Page, act: Callable[[], object]) -> list[float]:
    """Milliseconds of processor time of each task of the main thread while ``act`` runs.

    Longest first.
    """
    return traced(browser, page, act)[MAIN]


def traced(
    browser: Browser, page: Page, act: Callable[[], object], names: tuple[str, ...] = (MAIN,)
) -> dict[str, list[float]]:
    """:func:`tasks` of the threads of some names: of the main thread, and of workers."""
    # What else would be traced takes more time than the page.
    categories = ["-*", "disabled-by-default-devtools.timeline"]
    browser.start_tracing(page=page, categories=categories)
    try:
        act()
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    finally:
        events = json.loads(browser.stop_tracing())["traceEvents"]
    called = {
        (one["pid"], one["tid"]): one["args"]["name"] for one in events
        if one["name"] == "thread_name"
    }  # fmt: skip
    found: dict[str, list[float]] = {name: [] for name in names}
    for one in events:
        if one["name"] == "RunTask" and "tdur" in one:
            name = called.get((one["pid"], one["tid"]))
            if name in found:
                found[name].append(one["tdur"] / 1000)
    for name in names:
        assert found[name], f"the browser's trace has no tasks of a thread {name}"
        found[name].sort(reverse=True)
    return found


WORK = """() => {
  const style = [...Array(50).keys()].map((n) => `p.c${n} > b { padding: ${n}px }`).join('');
  const rows = [...Array(6000).keys()].map((n) => `<p class="c${n % 50}"><b>${n}</b> ${n * 7919}`);
  document.body.innerHTML = `<style>${style}</style>${rows.join('')}`;
  return document.body.getBoundingClientRect().height;
}"""
_USUAL = 300
"""Milliseconds of :data:`WORK` where limits hold as they stand. An assumption: on the machine where
this was written, which others share, sixteen runs took 337 to 648."""


def slowness(browser: Browser) -> float:
    """How many times as long a fixed piece of layout takes here and now; at least 1.

    Two processors of one core share it: whoever is beside this one makes it slower by up to half.
    """
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    spent = tasks(browser, page, lambda: page.evaluate(WORK))[0]
    context.close()
    return max(1.0, spent / _USUAL)


def blocking(found: list[float], least: float = 50) -> float:
    """What of each task is above 50 ms, added up: the total blocking time of Lighthouse."""
    return sum(one - least for one in found if one > least)
