"""The book's colours, defined once: for timelines, plots and the page.

Every colour has a contrast of at least 3 to 1 on white and on #121212 (a test computes it), and
neighbours differ in lightness too, so that a grey print still tells them apart. A page may set
the variables, the fallback stands everywhere else.
"""

from __future__ import annotations

COLOURS = {
    "blue": "#1f6fb5",
    "orange": "#cc7a00",
    "green": "#20935f",
    "pink": "#c0579a",
    "red": "#d8432f",
    "cyan": "#118fa6",
    "grey": "#808080",
}

HUES = ("blue", "orange", "green", "pink", "cyan", "red")
"""Colours of what is numbered, in order; grey is left for what has no number."""
EIGHT = (*HUES, "grey", "blue")
"""The same for what comes in eights: only the first and the last look alike."""


def _theme(site: str, notebook: str, editor: str, fallback: str) -> str:
    return f"var(--pst-{site}, var(--jp-{notebook}, var(--vscode-{editor}, {fallback})))"


# What the page, JupyterLab and VS Code call their colours; the last one reads on both grounds.
TEXT = _theme("color-text-base", "content-font-color1", "editor-foreground", "#777")
MUTED = _theme("color-text-muted", "content-font-color2", "descriptionForeground", "#777")
FAINT = "var(--pst-color-border, #8886)"
FONT = "var(--pst-font-family-base, system-ui, sans-serif)"


def colour(name: str) -> str:
    """CSS for a colour of the palette: ``var(--pb-blue, #1f6fb5)``."""
    return f"var(--pb-{name}, {COLOURS[name]})"
