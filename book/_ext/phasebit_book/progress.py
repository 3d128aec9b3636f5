"""Every page gets the script that remembers which chapters were read."""

from __future__ import annotations

from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_js_file("progress.js", loading_method="defer")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
