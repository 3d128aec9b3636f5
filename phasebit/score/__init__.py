"""What tools find in the programs of ``bugs/``: each broken program, and each repaired twin.

A tool is a module in ``phasebit/score/tools``, and nothing lists it::

    TITLE = "racecheck"                     # the heading of its column
    def version() -> str: ...               # what it is, exactly; raises Absent with the reason
    def runs(bug) -> bool: ...              # whether it can run this one
    def look(bug, twin) -> Seen: ...        # one twin, "broken" or "fixed"
    AT_A_TIME = 16                          # bugs side by side; may be left out, then one by one
    def numbers(bug) -> frozenset[int]: ... # the lines that count, where it runs another program
    def commit() -> str: ...                # of the tool, where its version is no commit; or not

One rule holds for all of them.  Of a broken program what a tool says is *found* (a report names a
line that the repair changes, or one that it protects), *other* (it reports something else) or
*silent*; of a fixed one *clean* or *false alarm*.  Of either it is *did not end* where the tool
says nothing, and the program, under it, does not come to its end: whoever waits sees that, but not
from the tool.  ``bug.toml`` names the lines that are protected.
"""

from __future__ import annotations

import datetime
import json
import pkgutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from phasebit import bugs, files
from phasebit.score import tools as folder

RECORD = "bugs_score.json"
"""The name of the record: what the page of the book shows."""

FOUND, OTHER, SILENT, ENDLESS = "found", "other", "silent", "did not end"
CLEAN, ALARM = "clean", "false alarm"
ABSENT = "–"


class Absent(Exception):
    """A tool is not on this machine; the text says what is missing."""


@dataclass(frozen=True)
class Seen:
    """What a tool says of one program: how many reports, and the lines of that program in them.

    ``said`` is one report in the tool's own words, where the record keeps one; ``note`` is what it
    says of its own run.  ``ended`` is false where it reports nothing and the program did not end.
    ``facts`` are numbers that the record keeps, each under its name and the twin's; ``seconds``,
    which all tools give, are those of the program under the tool, without those of the compiler.
    """

    reports: int
    lines: frozenset[int]
    said: str = ""
    note: str = ""
    ended: bool = True
    facts: Mapping[str, Any] = field(default_factory=dict)


def since(began: float) -> float:
    """Seconds from a value of ``time.perf_counter``, as a record keeps them."""
    return round(time.perf_counter() - began, 1)


class Tool(Protocol):
    """What a module in ``phasebit/score/tools`` holds."""

    TITLE: str

    def version(self) -> str:
        """What it is. Raises :class:`Absent` where it is not on this machine."""

    def runs(self, bug: bugs.Bug) -> bool:
        """Whether this machine can run the bug's programs under it."""

    def look(self, bug: bugs.Bug, twin: str) -> Seen:
        """What it says of ``"broken"`` or ``"fixed"``."""


def names() -> list[str]:
    """The tools, by module."""
    return sorted(module.name for module in pkgutil.iter_modules(folder.__path__))


def tool(name: str) -> Tool:
    """One of them. Raises ``ValueError`` for a name that none has."""
    if name not in names():
        raise ValueError(f"no tool is called {name!r}: choose from {', '.join(names())}")
    return cast(Tool, import_module(f"{folder.__name__}.{name}"))


def numbers(one: Tool, bug: bugs.Bug) -> frozenset[int]:
    """The lines of the broken program, as the tool runs it, of which a report must name one."""
    own: Callable[[bugs.Bug], frozenset[int]] | None = getattr(one, "numbers", None)
    return own(bug) if own else bug.numbers


def verdict(one: Tool, bug: bugs.Bug, twin: str, seen: Seen) -> str:
    """One or three words for what a tool says of a program."""
    if not seen.ended:
        return ENDLESS
    if twin == "fixed":
        return ALARM if seen.reports else CLEAN
    if not seen.reports:
        return SILENT
    return FOUND if seen.lines & numbers(one, bug) else OTHER


def judge(one: Tool, bug: bugs.Bug) -> dict[str, Any]:
    """Twin -> verdict; empty where the tool cannot run it.

    ``lines`` -> those that it named in the broken one, if it reported anything; ``said`` -> what it
    said of that one, if it is a tool of which the record keeps that; ``note broken``,
    ``note fixed`` -> what it said of its runs; and its facts.
    """
    if not one.runs(bug):
        return {}
    seen = {twin: one.look(bug, twin) for twin in bugs.TWINS}
    verdicts = {twin: verdict(one, bug, twin, seen[twin]) for twin in bugs.TWINS}
    lines = {"lines": sorted(seen["broken"].lines)} if seen["broken"].reports else {}
    said = {"said": seen["broken"].said} if seen["broken"].said else {}
    notes = {f"note {twin}": seen[twin].note for twin in bugs.TWINS if seen[twin].note}
    facts = {f"{of} {twin}": fact for twin in bugs.TWINS for of, fact in seen[twin].facts.items()}
    return {**verdicts, **lines, **said, **notes, **facts}


def judged_again(name: str, rows: dict[str, Any]) -> dict[str, Any]:
    """A tool's rows, with *found* or *other* by today's ``bug.toml``, where its lines were kept."""

    def now(of: str, row: dict[str, Any]) -> str:
        if row["broken"] not in (FOUND, OTHER):
            return str(row["broken"])
        named = numbers(tool(name), bugs.bug(of)) & set(row["lines"])
        return FOUND if named else OTHER

    return {of: {**row, "broken": now(of, row)} if "lines" in row else row
            for of, row in rows.items()}  # fmt: skip


def by_one_line(record: dict[str, Any]) -> Iterator[tuple[str, bugs.Bug]]:
    """Verdicts *other* of which the lines were not kept: title of the tool, and bug.

    They were made when ``line`` of ``bug.toml`` was all that counted. Those are left out that
    would be the same today: the bug has no other line, or the tool never names one.
    """
    for name, one in record["tools"].items():
        for of, row in one.get("bugs", {}).items():
            more = bugs.bug(of).numbers - {bugs.bug(of).number}
            if row.get("broken") == OTHER and "lines" not in row and more and names_lines(name):
                yield one["title"], bugs.bug(of)


def names_lines(name: str) -> bool:
    """Whether a tool's reports have lines at all; a test of results has none."""
    return bool(getattr(tool(name), "NAMES_LINES", True))


def measure(
    wanted: Sequence[str], of: Sequence[bugs.Bug], told: Callable[[str], None]
) -> dict[str, Any]:
    """The record: every tool over every bug.  ``told`` hears of each, as it takes a while."""
    found: dict[str, Any] = {}
    today = datetime.date.today().isoformat()
    for name in wanted:
        one = tool(name)
        try:
            what = one.version()
        except Absent as why:
            found[name] = {"title": one.TITLE, "absent": str(why)}
            told(f"{one.TITLE}: {why}")
            continue
        told_by: Callable[[], str] | None = getattr(one, "commit", None)
        made = {"date": today, "commit": told_by() if told_by else ""}
        stamp = {what: when for what, when in made.items() if when}
        rows = {}
        with ThreadPoolExecutor(getattr(one, "AT_A_TIME", 1)) as pool:
            for bug, row in zip(of, pool.map(partial(judge, one), of), strict=True):
                rows[bug.name] = {**row, **stamp} if row else row
                verdicts = [row[twin] for twin in bugs.TWINS if row]
                told(f"{one.TITLE}, {bug.name}: {', '.join(verdicts) or ABSENT}")
        found[name] = {"title": one.TITLE, "version": what, "date": today, "bugs": rows}
    return {
        "benchmark": "bugs_score",
        "protocol": "each program built anew, its report compared with bug.toml: found, where a "
        "report names a line that the repair changes or protects; other, where it reports "
        "something else",
        "tools": found,
    }


def merged(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """A record with what was measured now; a tool that is absent here keeps what it had.

    A tool's date and version are those of its last run; bugs that it did not run then keep what
    they had, their own day, and their version where it was another.
    """
    old = before.get("tools", {})
    new = {name: one for name, one in now["tools"].items() if "bugs" in one or name not in old}
    for name, one in new.items():
        if "bugs" in one and "bugs" in old.get(name, {}):
            kept = {bug: _dated(row, old[name], one["version"])
                    for bug, row in old[name]["bugs"].items() if bug in bugs.names()}  # fmt: skip
            new[name] = {**one, "bugs": {**kept, **one["bugs"]}}
    tools = {**old, **new}
    for name, one in tools.items():
        if "bugs" in one:
            tools[name] = {**one, "bugs": judged_again(name, one["bugs"])}
    return {**now, "tools": tools}


def _dated(row: dict[str, Any], before: dict[str, Any], version: str) -> dict[str, Any]:
    """A row with the day on which it was made, and with the tool's version if that was another."""
    if not row:
        return row
    other = {"version": before["version"]} if before["version"] != version else {}
    return {"date": before["date"], **other, **row}


def path() -> Path:
    """Where the record lies."""
    return files.records() / RECORD


def read() -> dict[str, Any]:
    """The record that the book shows; empty where there is none."""
    if not path().is_file():
        return {}
    return cast(dict[str, Any], json.loads(path().read_text(encoding="utf-8")))


def rows(record: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """The table, after its heading: a bug's name, its kind, and a cell for each tool."""
    tools = record["tools"].values()
    for bug in bugs.every():
        yield (bug.name, bug.kind, *(cell(one, bug) for one in tools))


def cell(one: dict[str, Any], bug: bugs.Bug) -> str:
    """What a table says of one tool, as the record has it, and one bug."""
    twins = one.get("bugs", {}).get(bug.name, {})
    alarm = twins.get("fixed") == ALARM
    return str(twins.get("broken", ABSENT)) + (", false alarm" if alarm else "")


def sums(record: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """For each tool: how many it ran, found, reported otherwise, did not say of, and alarms."""
    for one in record["tools"].values():
        ran = [row for row in one.get("bugs", {}).values() if row]
        count = Counter(row["broken"] for row in ran)
        alarms = sum(row["fixed"] == ALARM for row in ran)
        numbers = (len(ran), *(count[word] for word in SAID), alarms)
        yield (one["title"], *(map(str, numbers) if ran else [ABSENT] * len(numbers)))


SAID = (FOUND, OTHER, SILENT, ENDLESS)
"""What may be said of a broken program."""

HEADING = ("tool", "ran", *SAID, "false alarms")
"""Of :func:`sums`."""


def text(record: dict[str, Any]) -> str:
    """The table and its sums, for a terminal."""
    heading = ("bug", "kind", *(one["title"] for one in record["tools"].values()))
    return "\n\n".join(_columns(table) for table in ([heading, *rows(record)],
                                                     [HEADING, *sums(record)]))  # fmt: skip


def _columns(table: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in table)
    return "\n".join(lines)
