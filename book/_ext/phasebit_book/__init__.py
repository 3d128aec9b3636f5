"""The book's Sphinx extension: one module an idea, each with a ``setup`` of its own."""

from __future__ import annotations

from sphinx.application import Sphinx

PARTS = (
    "execution",
    "ahead",
    "vendored",
    "elements",
    "inline_svg",
    "cuda_cells",
    "listings",
    "long_lines",
    "tables",
    "numbers",
    "tiers",
    "rules",
    "picture",
    "openings",
    "measured",
    "ways",
    "levels",
    "lab",
    "exercises",
    "plain",
    "stepper",
    "explorers",
    "replays",
    "timelines",
    "diagrams",
    "links",
    "setup_cells",
    "search",
    "plotting",
    "progress",
    "formulas",
    "tied",
    "lean",
    "accessible",
    "icons",
    "front",
)


def setup(app: Sphinx) -> dict[str, bool]:
    for part in PARTS:
        app.setup_extension(f"{__name__}.{part}")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
