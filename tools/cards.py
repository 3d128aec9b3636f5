"""Draw the card of each page, which other sites show beside a link to it, by Chromium.

    .venv/bin/python tools/cards.py _build/html

A card is 1200 × 630 points: the page's title and its first picture. It lies in _static/cards, and
the page names it by the address at which it will be published, which the page itself says.
"""

from __future__ import annotations

import re
import sys
from html import escape, unescape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from conftest import chromium  # noqa: E402

SIZE = {"width": 1200, "height": 630}
FOLDER = "_static/cards"

_HEAD = {
    name: re.compile(pattern)
    for name, pattern in {
        "address": r'<link rel="canonical" href="([^"]*)"',
        "title": r'<meta property="og:title" content="([^"]*)"',
        "words": r'<meta property="og:description" content="([^"]*)"',
    }.items()
}
_PICTURE = re.compile(r"<svg\b[^>]*\brole=\"img\".*?</svg>", re.S)
_TAGS = re.compile(r'\n<meta (?:property="og:image|name="twitter:)[^>]*>')

CARD = """<!DOCTYPE html><meta charset="utf-8"><style>
body { margin: 0; width: 1200px; height: 630px; box-sizing: border-box; padding: 44px 56px;
  display: flex; flex-direction: column; gap: 26px; background: #fff; color: #1f2933;
  font-family: "DejaVu Sans", sans-serif; overflow: hidden; }
h1 { margin: 0; font-size: 50px; line-height: 1.15; }
main { flex: 1; min-height: 0; display: flex; align-items: center; justify-content: center; }
main svg { width: 100%%; height: 100%%; max-width: none !important; min-width: 0 !important; }
main p { margin: 0; font-size: 33px; line-height: 1.45; }
footer { display: flex; justify-content: space-between; align-items: center; font-size: 24px;
  color: #555; border-top: 4px solid #b4400b; padding-top: 16px; }
footer svg { width: 225px; height: 54px; }
</style>%s<h1>%s</h1><main>%s</main><footer>%s<span>It runs without a GPU</span></footer>"""


def facts(html: str) -> dict[str, str]:
    """What a page says of itself: ``address``, ``title``, ``words``; nothing where one lacks."""
    found = {name: pattern.search(html) for name, pattern in _HEAD.items()}
    said = {name: unescape(match[1]) for name, match in found.items() if match}
    return said if len(said) == len(_HEAD) else {}


def card(html: str, styles: str, logo: str) -> str:
    """The card of a page, as a page of its own."""
    said = facts(html)
    picture = _PICTURE.search(html, html.find("<article"))
    shown = picture[0] if picture else f"<p>{escape(said['words'])}</p>"
    return CARD % (styles, escape(said["title"]), shown, logo)


def named(html: str, image: str) -> str:
    """A page that names its card."""
    tags = {
        'property="og:image"': image,
        'property="og:image:width"': SIZE["width"],
        'property="og:image:height"': SIZE["height"],
        'property="og:image:alt"': facts(html)["title"],
        'name="twitter:card"': "summary_large_image",
    }
    lines = "".join(
        f'\n<meta {name} content="{escape(str(value))}">' for name, value in tags.items()
    )
    before, end, after = _TAGS.sub("", html).partition("</head>")
    return before.rstrip() + lines + "\n" + end + after


def draw(chrome: Any, html: Path, pages: list[Path]) -> int:
    """Draw the cards of some pages of the site in ``html``, and name them there; how many."""
    style = (html / "_static" / "phasebit.css").read_text(encoding="utf-8")
    light = 'document.documentElement.dataset.theme = "light"'
    styles = f"<style>{style}</style><script>{light}</script>"
    logo = (html / "_static" / "logo.svg").read_text(encoding="utf-8")
    tab = chrome.new_page(viewport=SIZE)
    (html / FOLDER).mkdir(exist_ok=True)
    drawn = 0
    for page in pages:
        text = page.read_text(encoding="utf-8")
        if not (said := facts(text)):
            continue
        name = f"{page.relative_to(html).with_suffix('').as_posix().replace('/', '-')}.png"
        tab.set_content(card(text, styles, logo))
        tab.screenshot(path=html / FOLDER / name)
        where = page.relative_to(html).as_posix()
        root = said["address"].removesuffix(where)
        page.write_text(named(text, f"{root}{FOLDER}/{name}"), encoding="utf-8")
        drawn += 1
    tab.close()
    return drawn


def main(html: Path) -> None:
    """Draw all of them."""
    from playwright.sync_api import sync_playwright

    if (browser := chromium()) is None:
        raise SystemExit("Chromium draws the cards, and there is none: apt-get install chromium")
    pages = sorted(html.glob("book/**/*.html"))
    if not pages:
        raise SystemExit(f"There are no pages in {html}: run 'make site' first.")
    with sync_playwright() as play:
        chrome = play.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        drawn = draw(chrome, html, pages)
        chrome.close()
    print(f"{drawn} cards are in {html / FOLDER}.")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "_build" / "html")
