"""The theme's icons: those that the pages show, in a style sheet that carries its fonts itself.

Font Awesome as the theme brings it is a style sheet of 100 kB and three fonts of 300 kB, for a
score of signs.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path

from sphinx.application import Sphinx

from .fonts import subset

_RULE = re.compile(r"([^{}]*):before\{content:\"\\([0-9a-f]+)\"\}")
_FACE = re.compile(r"@font-face\{[^{}]*\}")
_FILE = re.compile(r"url\(\.\./webfonts/([\w-]+)\.woff2\)")
_USED = re.compile(r"\bfa-[a-z0-9-]+")
_SIGN = re.compile(r"\\(f[0-9a-f]{3})\b|([\uf000-\uf8ff])")
_PRELOAD = re.compile(r'\s*<link rel="preload" as="font"[^>]*/fontawesome/[^>]*>')


def asked(style: str) -> set[str]:
    """The code points of icons that a style sheet writes, escaped or as they are.

    >>> sorted(asked('a { content: "\\\\f05a" } b { content: "\uf0eb" }'))
    ['f05a', 'f0eb']
    """
    return {escaped or f"{ord(sign):x}" for escaped, sign in _SIGN.findall(style)}


def lean(style: str, names: set[str], signs: set[str], fonts: Path) -> str:
    """Font Awesome's style sheet with the icons of some names or code points alone."""

    def rule(match: re.Match[str]) -> str:
        if not names & set(_USED.findall(match[1])):
            return ""
        signs.add(match[2])
        return match[0]

    def face(match: re.Match[str]) -> str:
        found = _FILE.search(match[0])
        if not found or "Font Awesome 6" not in match[0].replace("\\", ""):
            return ""  # of older versions, by their old names
        font = subset(fonts / f"{found[1]}.ttf", {int(sign, 16) for sign in signs})
        data = base64.b64encode(font).decode()
        source = f'src:url(data:font/woff;base64,{data}) format("woff")'
        return re.sub(r"src:[^}]*", source, match[0])

    return _FACE.sub(face, _RULE.sub(rule, style))


def rewrite(app: Sphinx, error: Exception | None) -> None:
    """Make the style sheet of the icons lean, and load none of its fonts beforehand."""
    if error is not None or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    sheets = [*static.glob("vendor/fontawesome/*/css/all.min.css")]
    names: set[str] = set()
    for path in Path(app.outdir).glob("**/*.html"):
        html = path.read_text(encoding="utf-8")
        names |= set(_USED.findall(html))
        if (better := _PRELOAD.sub("", html)) != html:
            path.write_text(better, encoding="utf-8")
    styles = [path for path in static.glob("**/*.css") if path not in sheets]
    signs = set().union(*(asked(path.read_text(encoding="utf-8")) for path in styles))
    for sheet in sheets:
        style = sheet.read_text(encoding="utf-8")
        fonts = sheet.parents[1] / "webfonts"
        sheet.write_text(lean(style, names, signs, fonts), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", rewrite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
