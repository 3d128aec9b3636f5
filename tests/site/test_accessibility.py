"""axe-core, which has nothing to say of any page (test_pages.py), finds what is planted."""

from __future__ import annotations

import pytest

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
    from . import axe
    from .axe import violations

    monkeypatch.setattr(axe, "LONGEST", 500)  # no script of the theme's is there to wait for
    (tmp_path / "page.html").write_text(small(PLANTED[rule]), encoding="utf-8")
    with served(tmp_path) as base:
        tab = browser.new_page()
        tab.goto(base + "page.html")
        assert any(f": {rule}: " in one for one in violations(tab))
        tab.close()
