"""The book's Sphinx extension: one module an idea, each with a ``setup`` of its own."""

from __future__ import annotations

from sphinx.application import Sphinx

PARTS = (
    "execution",
    "ahead",
    "vendored",
    "inline_svg",
    "cuda_cells",
    "long_lines",
    "tables",
    "numbers",
    "tiers",
    "rules",
    "picture",
    "openings",
    "ways",
    "lab",
    "exercises",
    "stepper",
    "explorers",
    "replays",
    "timelines",
    "links",
    "setup_cells",
    "progress",
    "formulas",
    "lean",
    "accessible",
    "icons",
)


def setup(app: Sphinx) -> dict[str, bool]:
    for part in PARTS:
        app.setup_extension(f"{__name__}.{part}")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
