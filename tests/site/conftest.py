"""The rendered site, served on this machine, and a Chromium to look at it with."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HTML = ROOT / "_build" / "html"
sys.path.insert(0, str(ROOT / "tools"))

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


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    from playwright.sync_api import sync_playwright

    from conftest import chromium

    from .look import FLAGS

    with sync_playwright() as play:
        chrome = play.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield chrome
        chrome.close()
