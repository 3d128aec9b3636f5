"""Scripts that are written at every build: what Python works out, for the scripts of the pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx


def write_script(app: Sphinx, name: str, **values: Any) -> None:
    """Write a script that gives the page ``window.KEY`` for each value, beside the site's others.

    ``name``: of the file. Only a site has scripts: other builders get none.
    """
    lines = (f"window.{key} = {_json(value)};\n" for key, value in values.items())
    _write(app, name, "".join(lines))


def add_to_script(app: Sphinx, name: str, key: str, entry: str, value: Any) -> None:
    """Write a script that adds an entry to ``window.KEY``, which others may have begun."""
    _write(app, name, f"(window.{key} ??= {{}})[{_json(entry)}] = {_json(value)};\n")


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _write(app: Sphinx, name: str, text: str) -> None:
    if app.builder.format == "html":
        target = Path(app.outdir) / "_static" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
