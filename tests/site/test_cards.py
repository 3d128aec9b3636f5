"""Pages say where they will be, and get a card for links on other sites."""

from __future__ import annotations

import re
import shutil
import struct
from pathlib import Path

import pytest

from tests.book.notebooks import address

from .conftest import HTML
from .test_lean import PAGES, html

pytestmark = pytest.mark.site

OWNER, NAME = address().removeprefix("https://github.com/").split("/")
PUBLISHED = f"https://{OWNER}.github.io/{NAME}/"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_where_it_will_be(page: str) -> None:
    where = PUBLISHED + ("" if page == "book/intro.html" else page)  # it is the index itself
    assert f'<link rel="canonical" href="{where}"' in html(page)
    assert f'<meta property="og:url" content="{where}">' in html(page)


def test_a_card_is_drawn_from_the_first_picture_of_a_page(browser, tmp_path: Path) -> None:
    from cards import FOLDER, card, draw

    pages = [next(page for page in PAGES if name in page) for name in ("how_fast", "glossary")]
    for name in [*pages, "_static/phasebit.css", "_static/logo.svg"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(HTML / name, tmp_path / name)
    for _ in range(2):  # the second time it is as after the first
        assert draw(browser, tmp_path, [tmp_path / page for page in pages]) == 2
    chapter, glossary = ((tmp_path / page).read_text(encoding="utf-8") for page in pages)
    for page in chapter, glossary:
        (image,) = re.findall(r'<meta property="og:image" content="([^"]*)">', page)
        assert image.startswith(f"{PUBLISHED}{FOLDER}/")
        file = (tmp_path / image.removeprefix(PUBLISHED)).read_bytes()
        assert struct.unpack(">II", file[16:24]) == (1200, 630)
        assert 10_000 < len(file) < 200_000
    assert "</svg></main>" in card(chapter, "", "") and "</p></main>" in card(glossary, "", "")
