"""axe-core, which has nothing to say of any page (test_pages.py), finds what is planted."""

from __future__ import annotations

import pytest

from . import axe
from .conftest import served
from .test_gate import page as small

pytestmark = pytest.mark.site

PLANTED = {
    "image-alt": '<img src="favicon.ico">',
    "label": '<input type="text">',
    "button-name": "<button></button>",
    "color-contrast": '<p style="color:#999;background:#aaa">pale words</p>',
    "scrollable-region-focusable": '<pre style="width:9rem;overflow-x:auto">' + "long " * 99,
    "heading-order": "<h1>one</h1><h4>four</h4>",
    "aria-allowed-attr": '<p role="status" aria-checked="true">words</p>',
}  # fmt: skip


@pytest.mark.parametrize("rule", PLANTED)
def test_a_planted_fault_is_found(browser, tmp_path, rule: str, monkeypatch) -> None:
    monkeypatch.setattr(axe, "LONGEST", 500)  # no script of the theme's is there to wait for
    (tmp_path / "page.html").write_text(small(PLANTED[rule]), encoding="utf-8")
    with served(tmp_path) as base:
        tab = browser.new_page()
        tab.goto(base + "page.html")
        assert any(f": {rule}: " in one for one in axe.violations(tab))
        tab.close()


# Pale for a second after the page became narrow; the second as the theme's button, which a script
# shows when the reader has scrolled.
FADING = {
    "by a width": """<p>words</p><style>@keyframes fade { from { opacity: 0.1 } }
        @media (max-width: 600px) { p { animation: fade 1s } }</style>""",
    "by a script": """<p>words</p><style>p { opacity: 0.1; transition: opacity 1s }
        p.shown { opacity: 1 }</style>
        <script>const show = () => document.querySelector('p').classList.add('shown');
        show(); addEventListener('resize', () => requestAnimationFrame(() => {
          const words = document.querySelector('p');
          words.style.transition = 'none'; words.classList.remove('shown');
          words.getBoundingClientRect(); words.style.transition = ''; show();
        }));</script>""",
}


@pytest.mark.parametrize("what", FADING)
def test_what_fades_is_judged_when_it_has_come(browser, tmp_path, monkeypatch, what: str) -> None:
    def pale() -> bool:
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        tab.goto(base + "page.html")
        found = axe.violations(tab)
        tab.close()
        return any(": color-contrast: " in one for one in found)

    (tmp_path / "page.html").write_text(small(FADING[what]), encoding="utf-8")
    with served(tmp_path) as base:
        assert not pale()
        monkeypatch.setattr(axe, "SETTLED", "() => true")
        assert pale(), "a page that is judged at once is caught in the middle"


def test_a_page_that_moves_for_ever_settles(browser, tmp_path) -> None:
    turning = "<p>words</p><style>@keyframes turn { to { rotate: 1turn } }"
    (tmp_path / "page.html").write_text(
        small(turning + "p { animation: turn 1s infinite }</style>"), encoding="utf-8"
    )
    with served(tmp_path) as base:
        tab = browser.new_page()
        tab.goto(base + "page.html")
        assert tab.wait_for_function(axe.SETTLED, timeout=5000).json_value() is True
        tab.close()
