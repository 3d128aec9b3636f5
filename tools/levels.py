"""Write the afterword's table of rings, one for each level of the book.

    python tools/levels.py          write it
    python tools/levels.py --check  only say whether it is current

The rows are those of book/levels.toml; the numbers of chapters are the notebooks'.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from phasebit import contents

BOOK = Path(__file__).resolve().parents[1] / "book"
PAGE = BOOK / "afterword.md"
BEGIN, END = "<!-- levels: written by tools/levels.py -->", "<!-- levels: end -->"
COLUMNS = "level", "producer", "consumer", "slot", "full", "empty", "unit"
HEADING = (
    "level",
    "producer",
    "consumer",
    "slot",
    "*full* told by",
    "*empty* told by",
    "unit of work",
)


def table() -> str:
    """The rows in the order of their chapters, with the chapter's number last.

    A page without a number stands after the last chapter that it needs, and links to itself.
    """
    levels = tomllib.loads((BOOK / "levels.toml").read_text("utf-8"))["level"]
    rows = []
    for level in levels:
        page = contents.read(contents.notebook(BOOK, level["chapter"]))
        before = (contents.number(contents.notebook(BOOK, name)) for name in page.needs)
        number = page.number or max(each or 0 for each in before)
        link = page.path.relative_to(BOOK).with_suffix("").as_posix()
        where = str(number) if page.number else f"[after {number}]({link})"
        rows.append((number, [*(level[column] for column in COLUMNS), where]))
    rows.sort(key=lambda row: row[0])
    heading = [*HEADING, "chapter"]
    lines = [heading, ["---"] * len(heading), *(cells for _, cells in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def page(text: str) -> str:
    """The page with the table between its two marks; ``ValueError`` where they are not."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"{PAGE.name} needs the lines {BEGIN} and {END}, once each")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.split(END)[1]}"


def main() -> None:
    text = PAGE.read_text("utf-8")
    new = page(text)
    if "--check" in sys.argv and new != text:
        sys.exit("run 'python tools/levels.py'")
    PAGE.write_text(new, "utf-8")


if __name__ == "__main__":
    main()
