"""Write the afterword's table of rings, one for each level of the book.

    python tools/levels.py          write it
    python tools/levels.py --check  only say whether it is current

The rows are those of book/levels.toml; the numbers of chapters are the notebooks'.
book/_ext/phasebit_book/levels.py draws them.
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
    """The rows in the order of their chapters; last the chapter's number, or its title."""
    levels = tomllib.loads((BOOK / "levels.toml").read_text("utf-8"))["level"]
    every = contents.chapters(BOOK)
    pages = {each.name: each for each in every}
    heading = [*HEADING, "chapter"]
    lines = [heading, ["---"] * len(heading)]
    for level in sorted(levels, key=lambda level: contents.place(every, level["chapter"])):
        page = pages[level["chapter"]]
        link = f"{{doc}}`{page.path.relative_to(BOOK).with_suffix('').as_posix()}`"
        lines.append([*(level[column] for column in COLUMNS), str(page.number or link)])
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
