"""Look at one page as a reader's browser shows it, and say what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from playwright.sync_api import Browser, Page

FLAGS = tuple(
    f"--{flag}"
    for flag in (
        "no-sandbox",
        "disable-gpu",
        "disable-quic",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
        "host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # there is no other host
    )
)

THEMES = ("light", "dark")
WIDTHS = {"desktop": 1280, "phone": 390}
SEEN = (("light", "desktop"), ("dark", "desktop"), ("dark", "phone"), ("light", "phone"))
"""As few changes of the width as can be: each lays the whole page out again."""

_LETTERS = """() => [...document.querySelectorAll('{}')]
  .filter((one) => one.textContent.trim() && one.getClientRects().length)
  .map((one) => {{
    const to = one.getScreenCTM();
    return parseFloat(getComputedStyle(one).fontSize) * Math.hypot(to.a, to.b);
  }})"""


def letters(texts: str) -> str:
    """What a page computes: the sizes of letters, in px as they are shown, of some texts in SVG.

    ``texts``: a CSS selector; what is not shown is left out.
    """
    return _LETTERS.format(texts)


LEAST_CONTRAST = 4.5  # WCAG 2.2, success criterion 1.4.3, text of ordinary size

OVERFLOW = """() => {
  const wide = document.documentElement.scrollWidth - innerWidth;
  if (wide <= 0) return [];
  const scrolls = (node) => {
    for (let up = node.parentElement; up && up !== document.body; up = up.parentElement)
      if (getComputedStyle(up).overflowX !== 'visible') return true;
    return false;
  };
  const guilty = [...document.body.querySelectorAll('*')]
    .filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !scrolls(e))
    .map((e) => e.tagName.toLowerCase() + '.' + (e.getAttribute('class') ?? ''));
  return [`the page is ${wide} px wider than the screen: ${guilty.slice(0, 3).join(', ')}`];
}"""

PICTURES = """() => [...document.images]
  .filter((e) => e.complete && e.naturalWidth === 0 && getComputedStyle(e).display !== 'none')
  .map((e) => `missing picture: ${e.getAttribute('src')}`)
  .concat([...document.images].filter((e) => !e.hasAttribute('alt'))
    .map((e) => `picture without words: ${e.getAttribute('src')}`))
  .concat([...document.querySelectorAll('.bd-article svg[role=img], .pb-picture svg')]
    .filter((e) => e.checkVisibility()) // of two drawings a width shows one
    .filter((e) => !e.querySelector('title') || e.getBoundingClientRect().width < 20)
    .map((e) => `svg without a title or without a size: ${e.outerHTML.slice(0, 80)}`))"""

# sphinx-exercise itself gives all its boxes these two ids; nothing refers to them.
DOUBLE_IDS = """() => {
  const seen = new Set(), twice = new Set();
  for (const e of document.querySelectorAll('.bd-article [id]'))
    (seen.has(e.id) ? twice : seen).add(e.id);
  return [...twice].map((id) => `the id ${id} stands twice`);
}"""

# The contrast of each letter in a picture with what is painted right behind it: the
# last filled shape before it that covers the middle of the text, else the page. And that
# of each cell of a table with its ground.
CONTRAST = """(least) => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const met = new Map(); // a page has few colours, and to draw one takes long
  const rgb = (css) => {
    if (!met.has(css)) {
      canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = css; canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      met.set(css, [r, g, b, a / 255]);
    }
    return met.get(css);
  };
  const over = (top, below, opacity = 1) =>
    [0, 1, 2].map((i) => top[i] * top[3] * opacity + below[i] * (1 - top[3] * opacity));
  const light = (c) => {
    const [r, g, b] = c.map((v) => v / 255)
      .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const grounds = new Map();
  const page = (node) => {
    if (!node) return [255, 255, 255, 1];
    if (!grounds.has(node)) {
      const colour = rgb(getComputedStyle(node).backgroundColor);
      grounds.set(node, colour[3] > 0.99 ? colour : page(node.parentElement));
    }
    return grounds.get(node);
  };
  const wrong = [];
  for (const svg of document.querySelectorAll('.bd-article svg')) {
    if (!svg.checkVisibility()) continue;
    const painted = []; // the shapes so far, with their boxes: few cover a letter
    for (const text of svg.querySelectorAll('path, rect, circle, polygon, ellipse, text')) {
      if (text.closest('defs')) continue;
      const style = getComputedStyle(text), box = text.getBoundingClientRect();
      if (text.tagName !== 'text') {
        if (style.fill !== 'none' && !style.fill.startsWith('url'))
          painted.push({shape: text, style, box});
        continue;
      }
      if (!text.textContent.trim()) continue;
      const middle = new DOMPoint(box.x + box.width / 2, box.y + box.height / 2);
      let behind = page(svg);
      for (const {shape, style, box} of painted) {
        if (middle.x < box.left - 1 || middle.x > box.right + 1) continue;
        if (middle.y < box.top - 1 || middle.y > box.bottom + 1) continue;
        const matrix = shape.getScreenCTM();
        if (matrix && shape.isPointInFill(middle.matrixTransform(matrix.inverse())))
          behind = [...over(rgb(style.fill), behind, style.fillOpacity * style.opacity), 1];
      }
      const ink = over(rgb(style.fill), behind, style.fillOpacity * style.opacity);
      const [a, b] = [light(ink), light(behind.slice(0, 3))].sort((x, y) => y - x);
      const contrast = (a + 0.05) / (b + 0.05);
      if (contrast < least)
        wrong.push(`contrast ${contrast.toFixed(2)} of "${text.textContent.trim().slice(0, 30)}"`);
    }
  }
  for (const cell of document.querySelectorAll('.bd-article :is(td, th, caption)')) {
    const behind = page(cell), style = getComputedStyle(cell);
    if (!cell.textContent.trim() || !cell.getClientRects().length) continue;
    const ink = over(rgb(style.color), behind, style.opacity);
    const [a, b] = [light(ink), light(behind.slice(0, 3))].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < least)
      wrong.push(`contrast ${contrast.toFixed(2)} of "${cell.textContent.trim().slice(0, 30)}"`);
  }
  return [...new Set(wrong)].slice(0, 8);
}"""


@dataclass
class Watch:
    """What a page did while it was looked at: its requests and its complaints."""

    base: str
    wrong: list[str] = field(default_factory=list)

    def attach(self, page: Page) -> None:
        """Note console errors, failed requests, and requests to any other host."""
        page.on("console", lambda m: m.type == "error" and self.wrong.append(f"console: {m.text}"))
        page.on("pageerror", lambda e: self.wrong.append(f"script: {e}"))
        page.on(
            "response",
            lambda r: r.status >= 400 and self.wrong.append(f"{r.status} for {r.url}"),
        )
        page.on("request", lambda r: self._asked(r.url))

    def _asked(self, url: str) -> None:
        if not url.startswith((self.base, "data:", "blob:")):
            self.wrong.append(f"request to another host: {url}")


@contextmanager
def opened(browser: Browser, base: str, path: str) -> Iterator[tuple[Page, Watch]]:
    """A page of the site at ``base``, loaded to its end: light, at a desk."""
    page = browser.new_page(color_scheme="light", viewport={"width": 1280, "height": 900})
    try:
        watch = Watch(base)
        watch.attach(page)
        page.goto(base + path, wait_until="load")
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        page.wait_for_load_state("networkidle")
        yield page, watch
    finally:
        page.close()


def faults(page: Page, watch: Watch) -> list[str]:
    """What is wrong with an opened page: light and dark, desktop and phone.

    It is left as on a phone in the light.
    """
    wrong = page.evaluate(PICTURES) + page.evaluate(DOUBLE_IDS)
    for theme, device in SEEN:
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size({"width": WIDTHS[device], "height": 900})
        found = page.evaluate(OVERFLOW)
        if device == "desktop":  # colours do not depend on the width
            found += page.evaluate(CONTRAST, LEAST_CONTRAST)
        wrong += [f"{theme}, {device}: {one}" for one in found]
    return watch.wrong + wrong


def assert_good(
    page: Page, watch: Watch | None = None, widths: Sequence[int] = tuple(WIDTHS.values())
) -> None:
    """After all that was done to a page nothing sticks out or is pale at any width, in any light.

    Colours are looked at where the page is least and most wide, as of two drawings a width shows
    one. The widths come first: another lays the page out again, another light only paints it.
    """
    ends = min(widths), max(widths)
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        assert not (wrong := page.evaluate(OVERFLOW)), (width, wrong)
        for theme in THEMES if width in ends else ():
            page.emulate_media(color_scheme=theme)
            wrong = page.evaluate(CONTRAST, LEAST_CONTRAST)
            assert not wrong, (width, theme, wrong)
    assert not watch or not watch.wrong, watch


@contextmanager
def planted(page: Page, fault: str) -> Iterator[None]:
    """A page with a faulty style while the block runs."""
    style = page.add_style_tag(content=fault)
    try:
        yield
    finally:
        style.evaluate("(one) => one.remove()")


def look(browser: Browser, base: str, path: str) -> list[str]:
    """What is wrong with a page of the site at ``base``."""
    with opened(browser, base, path) as (page, watch):
        return faults(page, watch)
