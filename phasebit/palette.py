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

TEXT = "var(--pst-color-text-base, #777)"
MUTED = "var(--pst-color-text-muted, #777)"
FAINT = "var(--pst-color-border, #8888)"
FONT = "var(--pst-font-family-base, system-ui, sans-serif)"


def colour(name: str) -> str:
    """CSS for a colour of the palette: ``var(--pb-blue, #1f6fb5)``."""
    return f"var(--pb-{name}, {COLOURS[name]})"
