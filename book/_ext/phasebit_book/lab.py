"""The in-page lab: give its pages the script, and the site the package's pure layer.

The lab runs the book's own simulator, so the archive is made from the sources at every
build and cannot fall behind them.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

PURE = (
    "__init__.py", "letters.py", "mbarrier.py", "palette.py", "pipeline", "timeline",
    "two_widths.py",
)  # fmt: skip
"""The modules that import only the standard library (phasebit's bottom layer)."""

JUDGES = (
    "exercises/__init__.py", "exercises/judge.py", "exercises/cases.py", "chapters/__init__.py",
    "chapters/state_machine", "chapters/how_fast", "chapters/barriers",
)  # fmt: skip
"""Likewise, for the exercises of Part I in the page."""

_EPOCH = (2020, 1, 1, 0, 0, 0)  # the same archive from the same sources


def sources(package: Path) -> list[Path]:
    """The pure layer's files in a checkout's ``phasebit`` folder, in a fixed order."""
    found: list[Path] = []
    for name in (*PURE, *JUDGES):
        path = package / name
        found += sorted(path.glob("**/*.py")) if path.is_dir() else [path][: path.exists()]
    return found


def pack(package: Path, archive: Path) -> None:
    """Write the pure layer to a zip archive that Python can unpack beside itself."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as bundle:
        for path in sources(package):
            name = path.relative_to(package.parent).as_posix()
            bundle.writestr(zipfile.ZipInfo(name, _EPOCH), path.read_bytes())


def add_script(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    if "phasebit-lab" in context.get("body", ""):
        app.add_js_file("python.js", loading_method="defer")
        app.add_js_file("lab.js", loading_method="defer")


def add_archive(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        pack(Path(app.srcdir) / "phasebit", Path(app.outdir) / "_static" / "phasebit.zip")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", add_script)
    app.connect("build-finished", add_archive)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
