"""Write the tables of book/appendix/almost_right.md, from records/bugs_score.json and bugs/.

python tools/score_page.py          write the page, if it is not current
python tools/score_page.py --check  only say whether it is
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from phasebit import bugs, files, score

PAGE = files.book() / "appendix" / "almost_right.md"


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def parts(record: dict[str, Any]) -> dict[str, str]:
    """Name of a part of the page -> its text."""
    tools = record["tools"].values()
    ran = [one for one in tools if "bugs" in one]
    versions = "; ".join(f"{one['title']}: {one['version']}" for one in ran)
    absent = "; ".join(f"{one['title']}: {one['absent']}" for one in tools if "absent" in one)
    said = f"Measured {record['date']}. {versions}. {'Absent: ' if absent else ''}{absent}".strip()
    shown = {**record, "tools": {n: one for n, one in record["tools"].items() if "bugs" in one}}
    heading = ("bug", "kind", *(one["title"] for one in ran))
    count = Counter(bug.kind for bug in bugs.every())
    return {
        "sums": f"{table(score.HEADING, score.sums(record))}\n\n{said}.",
        "rows": table(heading, ((f"`{row[0]}`", *row[1:]) for row in score.rows(shown))),
        "kinds": table(
            ("kind", "bugs", "the rule that would have prevented it"),
            ((kind, str(count[kind]), rule) for kind, rule in bugs.KINDS.items()),
        ),
    }


def written(text: str, record: dict[str, Any]) -> str:
    """The page with its tables renewed. Raises ``ValueError`` where it has no place for one."""
    for name, part in parts(record).items():
        begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        if not pattern.search(text):
            raise ValueError(f"{PAGE} has no place for {name}: {begin} … {end}")
        text = pattern.sub(lambda _, to=f"{begin}\n{part}\n{end}": to, text)
    return text


def main(words: Sequence[str]) -> int:
    """Write the page; 1 where ``--check`` finds that it is not current."""
    text = PAGE.read_text(encoding="utf-8")
    new = written(text, score.read())
    if "--check" in words:
        return int(new != text)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
