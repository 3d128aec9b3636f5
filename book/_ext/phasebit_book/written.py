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
    if app.builder.format == "html":
        target = Path(app.outdir) / "_static" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        lines = (
            f"window.{key} = {json.dumps(value, separators=(',', ':'))};\n"
            for key, value in values.items()
        )
        target.write_text("".join(lines), encoding="utf-8")
