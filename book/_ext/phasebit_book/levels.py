"""``{phasebit-levels}``: the rings of the afterword's table, drawn one below the other.

Each has its producer on the left and its consumer on the right; between them its slots stand where
their size is on a scale. Names are those of book/levels.toml, numbers those of the kernels there.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from phasebit import contents, files
from phasebit.draw import Picture
from phasebit.letters import width, wrap
from phasebit.palette import FAINT, FONT, MUTED, TEXT, colour
from phasebit.two_widths import NARROW

from .figure import FigureDirective

_HUES = {True: "orange", False: "blue", None: "grey"}
_LINE = 15.0
_HIGH = 46.0  # pixels of the lowest box
_OPERATORS: Mapping[type, Any] = {ast.Add: operator.add, ast.Sub: operator.sub,
                                  ast.Mult: operator.mul, ast.Div: operator.floordiv}  # fmt: skip


def constants(names: Sequence[str]) -> dict[str, int]:
    """The whole numbers that files of kernels/ declare as ``constexpr``, by their names.

    Raises ``ValueError`` where two of the files do not agree.
    """
    found: dict[str, int] = {}
    for name in names:
        text = (files.kernels() / name).read_text("utf-8")
        for line in re.findall(r"^constexpr (?:int|size_t|unsigned) ([^;]+);", text, re.MULTILINE):
            for each in re.split(r",\s*(?=[A-Z_]+ =)", line):
                known, _, said = each.partition(" = ")
                try:
                    value = computed(said, found)
                except ValueError:  # of something that is not declared in these files
                    continue
                if found.setdefault(known, value) != value:
                    raise ValueError(f"{known} is {found[known]}, and {value} in {name}")
    return found


def computed(said: str, known: Mapping[str, int]) -> int:
    """The value of a sum or product of whole numbers and of names that are known.

    >>> computed("(BM + 64) * 2", {"BM": 128})
    384

    Raises ``ValueError`` for anything else.
    """

    def value(node: ast.AST) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.Name) and node.id in known:
            return known[node.id]
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            number: int = _OPERATORS[type(node.op)](value(node.left), value(node.right))
            return number
        raise ValueError(f"{said!r} is no number by the constants {', '.join(known)}")

    try:
        return value(ast.parse(said, mode="eval").body)
    except SyntaxError:
        raise ValueError(f"{said!r} is no expression") from None


def size(count: int) -> str:
    """A number of bytes as a reader says it.

    >>> size(16), size(2080), size(49152)
    ('16 B', '2080 B', '48 KiB')
    """
    return f"{count >> 10} KiB" if count and count % 1024 == 0 else f"{count} B"


@dataclass(frozen=True)
class Level:
    """A ring of the table: its words, and how many slots of how many bytes; 0 for any."""

    words: Mapping[str, str]
    where: str
    slots: int
    bytes: int
    engines: Mapping[str, bool | None]

    @property
    def much(self) -> str:
        return f"{self.slots} × {size(self.bytes)}" if self.slots else "any size"


def read(book: Path) -> list[Level]:
    """The levels of levels.toml in the order of their chapters."""
    every = contents.chapters(book)
    order = {chapter.name: chapter for chapter in every}
    given = tomllib.loads((book / "levels.toml").read_text("utf-8"))["level"]
    given.sort(key=lambda level: contents.place(every, level["chapter"]))
    found = []
    for level in given:
        known = constants(level.get("kernels", ()))
        chapter = order[level["chapter"]]
        words = {key: re.sub(r"[$`]", "", text) for key, text in level.items()
                 if isinstance(text, str)}  # fmt: skip
        engines = level.get("engines")
        found.append(Level(
            words,
            f"chapter {chapter.number}" if chapter.number else chapter.title.partition(",")[0],
            *(computed(level.get(key, "0"), known) for key in ("slots", "bytes")),
            {key: None if engines is None else key in engines
             for key in ("producer", "consumer", "full", "empty")},
        ))  # fmt: skip
    return found


class _Drawing:
    """One drawing: the levels' names on the left, or above their rings on a narrow screen."""

    def __init__(self, levels: Sequence[Level], narrow: bool) -> None:
        self.narrow = narrow
        self.across = (NARROW if narrow else 740.0) - 2  # and a pixel on either side for edges
        self.box = 92.0 if narrow else 148.0  # pixels of a box
        self.first = 0.0 if narrow else 168.0  # where producers begin
        self.last = self.across - self.box  # where consumers begin
        sizes = [math.log2(level.bytes) for level in levels if level.bytes]
        self.scale = min(sizes), max(sizes)
        self.ground: list[str] = []
        self.parts: list[str] = []
        self.y = 0.0
        self.legend()
        low, high = self.scale
        ticks = [2**n for n in range(0, 64, 4) if low <= n <= high]
        self.ticks = ticks[:: 3 if narrow else 1]
        for level in levels:
            self.parts.append('<g class="ring">')  # its words are a line of the title
            self.level(level)
            self.parts.append("</g>")
        self.axis()

    def place(self, count: float) -> float:
        """Where slots of so many bytes stand: a pixel for the middle of them."""
        low, high = self.scale
        left, right = self.first + self.box + 36, self.last - 36
        return left + (math.log2(count) - low) / (high - low) * (right - left)

    def write(self, x: float, y: float, text: str, anchor: str = "start", ink: str = TEXT,
              bold: bool = False) -> None:  # fmt: skip
        look = f"fill:{ink}" + (";font-weight:bold" if bold else "")
        self.parts.append(f'<text x="{x:.5g}" y="{y:.5g}" text-anchor="{anchor}" '
                          f'style="{look}">{escape(text)}</text>')  # fmt: skip

    def rect(self, x: float, y: float, wide: float, high: float, hue: str, round_: float,
             more: str = "") -> None:  # fmt: skip
        self.parts.append(
            f'<rect x="{x:.5g}" y="{y:.5g}" width="{wide:.5g}" height="{high:.5g}" '
            f'rx="{round_:g}" style="fill:{colour(hue)};fill-opacity:.16;'
            f'stroke:{colour(hue)};stroke-width:1.5{more}"/>'
        )

    def role(self, x: float, middle: float, high: float, lines: Sequence[str], hue: str) -> None:
        """Threads have round corners, an engine has square ones."""
        self.rect(x, middle - high / 2, self.box, high, hue, 0 if hue == "orange" else 10)
        for n, line in enumerate(lines):
            y = middle + 4 + (n - (len(lines) - 1) / 2) * _LINE
            self.write(x + self.box / 2, y, line, "middle")

    def arrow(self, start: float, end: float, y: float, hue: str, dashed: bool = False) -> None:
        back = 7 if end < start else -7
        dashes = ";stroke-dasharray:5 3" if dashed else ""
        self.parts.append(
            f'<path d="M{start:.5g} {y:.5g}H{end + back:.5g}" '
            f'style="fill:none;stroke:{colour(hue)};stroke-width:1.8{dashes}"/>'
            f'<polygon points="{end:.5g},{y:.5g} {end + back:.5g},{y - 4:.5g} '
            f'{end + back:.5g},{y + 4:.5g}" style="fill:{colour(hue)}"/>'
        )

    def legend(self) -> None:
        """What colours and arrows mean; two to a line on a narrow screen."""
        means = ["threads do it", "an engine does it", "full", "empty"]
        x = 0.0
        for n, text in enumerate(means):
            if self.narrow and n == 2:
                x, self.y = 0.0, self.y + 22
            if n < 2:
                self.rect(x + 1, self.y + 1, 22, 14, _HUES[n == 1], 0 if n else 6)
            else:
                ends = (x + 24, x) if n == 3 else (x, x + 24)
                self.arrow(*ends, self.y + 8, "grey", n == 3)
            self.write(x + 30, self.y + 12, text)
            x += 30 + width(text) + 24
        self.y += 30

    def level(self, level: Level) -> None:
        boxes = {key: wrap(level.words[key].partition(",")[0], self.box - 10)
                 for key in ("producer", "consumer")}  # fmt: skip
        hues = {key: _HUES[value] for key, value in level.engines.items()}
        high = max(_HIGH, *(_LINE * len(lines) + 12 for lines in boxes.values()))
        if self.narrow:
            name = level.words["level"]
            self.write(0, self.y + 10, name, bold=True)
            self.write(1.1 * width(name) + 8, self.y + 10, level.where, ink=MUTED)
            self.y += 18
        middle = self.y + high / 2
        if not self.narrow:
            lines = wrap(level.words["level"], (self.first - 16) / 1.1)
            y = middle + 4 - len(lines) * _LINE / 2
            for n, line in enumerate(lines):
                self.write(0, y + n * _LINE, line, bold=True)
            self.write(0, y + len(lines) * _LINE, level.where, ink=MUTED)
        self.role(self.first, middle, high, boxes["producer"], hues["producer"])
        self.role(self.last, middle, high, boxes["consumer"], hues["consumer"])
        left, right = self.first + self.box + 3, self.last - 3
        for tick in self.ticks:
            x = self.place(tick)
            self.ground.append(f'<path d="M{x:.5g} {middle - 6:.5g}v28" '
                               f'style="stroke:{FAINT};stroke-width:1"/>')  # fmt: skip
        at = self.slots(level, middle)
        self.arrow(left, at[0] - 2, middle, hues["full"])
        self.arrow(at[1] + 2, right, middle, hues["full"])
        self.arrow(right, left, middle + 16, hues["empty"], dashed=True)
        self.y += high + (20 if self.narrow else 14)

    def slots(self, level: Level, middle: float) -> tuple[float, float]:
        """A square for each slot, and over them how many of which size; their left and right."""
        if not level.slots:
            wide = width(level.much) + 12
            at = (self.first + self.box + self.last) / 2
            self.rect(at - wide / 2, middle - 9, wide, 18, "grey", 2, ";stroke-dasharray:4 3")
            self.write(at, middle + 4, level.much, "middle")
            return at - wide / 2, at + wide / 2
        side, at = 10.0, self.place(level.bytes)
        begin = at - level.slots * side / 2
        for n in range(level.slots):
            self.parts.append(
                f'<rect class="slot" x="{begin + n * side + 1:.5g}" y="{middle - 4:.5g}" '
                f'width="{side - 2:g}" height="{side - 2:g}" style="fill:{TEXT}"/>'
            )
        half, left, right = width(level.much) / 2, self.first + self.box + 4, self.last - 4
        self.write(min(max(at, left + half), right - half), middle - 11, level.much, "middle")
        return begin, begin + level.slots * side

    def axis(self) -> None:
        for tick in self.ticks:
            self.write(self.place(tick), self.y + 6, size(tick), "middle", MUTED)
        middle = (self.first + self.box + self.last) / 2
        self.write(middle, self.y + 22, "bytes of a slot", "middle", MUTED)
        self.y += 30

    def svg(self, alt: str) -> str:
        body = "\n".join([*self.ground, *self.parts])
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" class="phasebit-levels" '
            f'width="{self.across + 2:g}" height="{self.y:g}" '
            f'viewBox="-1 0 {self.across + 2:g} {self.y:g}" '
            f'style="font:12px {FONT};background:transparent">\n'
            f"<title>{escape(alt)}</title>\n{body}\n</svg>"
        )


def picture(levels: Sequence[Level]) -> Picture:
    """The rings, one a row, each with as many slots as its kernel has."""
    rows = [
        f"{level.words['level']} ({level.where}): {level.words['producer']} → {level.much}, "
        f"{level.words['slot']} → {level.words['consumer']}; full: {level.words['full']}; "
        f"empty: {level.words['empty']}"
        for level in levels
    ]
    alt = "\n".join(["The ring at every level of the book.", *rows])
    wide, narrow = (_Drawing(levels, each).svg(alt) for each in (False, True))
    return Picture(wide, alt, narrow)


class Levels(FigureDirective):
    def run(self) -> list[nodes.Node]:
        book = Path(self.env.srcdir) / "book"
        self.env.note_dependency(str(book / "levels.toml"))
        try:
            levels = read(book)
        except (KeyError, ValueError) as problem:
            raise self.error(str(problem)) from None
        for level in tomllib.loads((book / "levels.toml").read_text("utf-8"))["level"]:
            for name in level.get("kernels", ()):
                self.env.note_dependency(str(files.kernels() / name))
        return [self.figure(picture(levels))]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("phasebit-levels", Levels)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
