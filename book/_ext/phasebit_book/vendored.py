"""Serve Pyodide from the site's own ``_static``: no page asks another host."""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ConfigError

FOLDER = ".vendor/static"  # filled by tools/vendor.py


def add(app: Sphinx, config: Config) -> None:
    static = Path(app.srcdir) / FOLDER
    if not (static / "pyodide").is_dir():
        raise ConfigError(f"{FOLDER}/ has no Pyodide: run 'make setup' first")
    config["html_static_path"] = [*config["html_static_path"], str(static)]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", add)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
