"""The rendered pages in Chromium: how long they load, what they weigh, how long they block.

Each page is loaded into a browser that has nothing yet. Times are printed, never asserted: they
depend on the machine. What ``tests/site/test_budgets.py`` holds of these figures does not.

    python bench/bench_pages.py [part of a page's name ...]
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from conftest import chromium
from tests.site.conftest import HTML, served
from tests.site.costs import SHIFTS, WEIGHT, blocking, tasks
from tests.site.look import FLAGS

ROUNDS = 3
SOME = ("intro", "state_machine", "barriers", "layouts", "warp_specialisation", "copy_engine",
        "chain", "almost_right")  # fmt: skip
TIMES = """() => {
  const [page] = performance.getEntriesByType('navigation');
  return [page.domContentLoadedEventEnd, page.loadEventEnd];
}"""


def measure(browser: Any, address: str) -> list[float]:
    """Of one cold load: ms until ready and loaded, ms of blocking and longest task, shift, MB."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    tab.add_init_script(SHIFTS)

    def load() -> None:
        tab.goto(address)
        tab.wait_for_load_state("networkidle")

    found = tasks(browser, tab, load)
    ready, loaded = tab.evaluate(TIMES)
    shift = tab.evaluate("() => phasebitShift")
    weight = sum(size for _, size in tab.evaluate(WEIGHT)) / 1e6
    context.close()
    return [ready, loaded, blocking(found), found[0], shift, weight]


def main(words: list[str]) -> None:
    path = chromium()
    if path is None or not (HTML / "index.html").exists():
        print("This needs Chromium and the pages: make site")
        return
    from playwright.sync_api import sync_playwright

    pages = [page.relative_to(HTML).as_posix() for page in sorted(HTML.glob("book/**/*.html"))]
    pages = [page for page in pages if any(word in page for word in words)]
    with served(HTML) as base, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=FLAGS)
        print(f"Chromium {browser.version}, served from this machine; the median of {ROUNDS} cold")
        print("loads of each page. ready and loaded: ms since the start. blocking: of each task of")
        print("the main thread what is above 50 ms, added up; this and the longest task in ms of")
        print("processor time. weight: MB unpacked.")
        print(f"{'':52} {'ready':>7} {'loaded':>7} {'blocking':>9} {'longest':>8} {'shift':>6} "
              f"{'weight':>7}")  # fmt: skip
        for page in pages:
            rounds = [measure(browser, base + page) for _ in range(ROUNDS)]
            ready, loaded, blocked, longest, shift, weight = map(
                statistics.median, zip(*rounds, strict=True)
            )
            print(f"{page:52} {ready:7.0f} {loaded:7.0f} {blocked:9.0f} {longest:8.0f} "
                  f"{shift:6.3f} {weight:7.2f}")  # fmt: skip
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:] or [f"{name}.html" for name in SOME])
