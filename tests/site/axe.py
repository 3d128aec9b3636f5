"""axe-core, which looks for what keeps people from using a page, on a page of the book."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path

from playwright.sync_api import Page, TimeoutError

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / ".vendor" / "tests" / "axe-core" / "axe.min.js"

# axe asks of each piece of text what it stands on, which takes 30 seconds where a page has 10,000
# coloured words. Words of one class in blocks of one kind have one colour: the first is kept, the
# others become plain text of the same width. Of drawings the title stays: look.py judges their
# letters.
THIN = """() => {
  const met = new Set();
  for (const block of document.querySelectorAll('.bd-article :is(pre, dt.sig)')) {
    const ground = block.closest('[class*=cell_], [class*=phasebit-]')?.className ?? '';
    for (const word of block.querySelectorAll('span:not(:has(span, a))')) {
      const kind = `${ground}/${word.parentElement.className}/${word.className}`;
      if (met.has(kind)) word.replaceWith(word.textContent);
      met.add(kind);
    }
    block.normalize();
  }
  document.querySelectorAll('.bd-article svg > :not(title, desc)').forEach((one) => one.remove());
}"""

RUN = """() => axe.run(document, {resultTypes: ['violations']}).then(({ violations }) =>
  violations.flatMap(({ id, help, nodes }) => nodes.map(({ target, html }) =>
    `${id}: ${help}: ${target.join(' ')}: ${html.slice(0, 120)}`)))"""

FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""Two frames: what a change of width or light begins, as a button that shows, has begun then."""
SETTLED = """() => {
  const moves = document.getAnimations().some((one) =>
    one.playState === 'running' && one.effect.getComputedTiming().endTime < Infinity);
  const scrolls = [...document.querySelectorAll(
    'pre, .cell_output > .output, .bd-article :is(table, div.math)')];
  return !moves && scrolls.every((one) => (one.tabIndex === 0)
    === (one.scrollWidth > one.clientWidth
      || (!one.matches('table, div.math') && one.scrollHeight > one.clientHeight)));
}"""
"""Whether a page has followed a change of width or light: nothing fades any more, and the keyboard
reaches what scrolls; of tables and formulas `scrolling.js` asks for the width alone. It answers at
once: a promise would count as a yes."""
LONGEST = 20_000
"""Milliseconds that they have; the theme's begins 300 after the change."""


@cache
def script() -> str:
    """The text of axe-core. Raises ``FileNotFoundError`` with the remedy."""
    if not SCRIPT.is_file():
        raise FileNotFoundError(f"{SCRIPT} is not there: run 'make setup'")
    return SCRIPT.read_text(encoding="utf-8")


def violations(page: Page) -> list[str]:
    """What axe-core finds wrong with a loaded page, light at a desk and dark on a phone.

    It thins the page out, which is good for nothing else then.
    """
    page.evaluate(script())
    page.evaluate(THIN)
    wrong: list[str] = []
    for theme, width in (("light", 1280), ("dark", 390)):
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(FRAMES)
        with suppress(TimeoutError):  # then axe says what the keyboard does not reach
            page.wait_for_function(SETTLED, timeout=LONGEST)
        wrong += [f"{theme}, {width} px: {one}" for one in page.evaluate(RUN)]
    return wrong
