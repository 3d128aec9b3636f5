"""A picture that carries a second drawing of itself, for a narrow screen.

The second lies in the first one's ``<metadata>``, which nothing shows; a page takes it out and
shows whichever fits.
"""

from __future__ import annotations

import re

NARROW = 340.0
"""Pixels that a phone has for a picture."""

_CARRIED = re.compile(r'<metadata class="narrow">(.*?)</metadata>', re.DOTALL)


def carry(wide: str, narrow: str) -> str:
    """The ``wide`` drawing with the ``narrow`` one inside; both are ``<svg>`` elements."""
    return wide.removesuffix("</svg>") + f'<metadata class="narrow">{narrow}</metadata></svg>'


def taken(svg: str) -> tuple[str, str]:
    """The wide drawing and the narrow one, which is empty where there is none.

    >>> taken(carry("<svg>a</svg>", "<svg>b</svg>"))
    ('<svg>a</svg>', '<svg>b</svg>')
    """
    found = _CARRIED.search(svg)
    return (_CARRIED.sub("", svg), found[1]) if found else (svg, "")


__all__ = ["NARROW", "carry", "taken"]
