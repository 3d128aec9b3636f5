"""Write the tables of book/appendix/score.md, from records/bugs_score.json, records/originals.json
and bugs/.

python tools/score_page.py          write the page, if it is not current
python tools/score_page.py --check  only say whether it is
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import unified_diff
from typing import Any

from phasebit import bugs, files, originals, score
from phasebit.bugs import Bug
from phasebit.score.tools import bare_run, phasebit_every

PAGE = files.book() / "appendix" / "score.md"

OTHER = "other"
"""What a table calls the kinds of which there is one bug each."""

SHORT = 60
"""What a test sees is printed whole up to so many characters; of more, the first clause."""

MESSAGES = "phasebit_late"
"""The tool whose words the record keeps."""


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def groups() -> dict[str, list[Bug]]:
    """Kind -> its bugs, in the order of the kinds; those of single members are one group."""
    count = Counter(bug.kind for bug in bugs.every())
    found: dict[str, list[Bug]] = {kind: [] for kind in bugs.KINDS if count[kind] > 1}
    found[OTHER] = []
    for bug in bugs.every():
        found[bug.kind if count[bug.kind] > 1 else OTHER].append(bug)
    return found


def link(address: str) -> str:
    """``[NVIDIA/cutlass#3435](…)`` for a thread, ``[pranjalssh/fast.cu](…)`` for lines of code."""
    _, _, _, owner, name, what, number, *_ = address.split("/")
    return f"[{owner}/{name}{'' if what == 'blob' else '#' + number}]({address})"


def in_a_test(bug: Bug) -> str:
    """What a test of results sees, in short."""
    return bug.test if len(bug.test) <= SHORT else re.split("[:;]", bug.test)[0]


def row(bug: Bug, ran: Sequence[dict[str, Any]]) -> list[str]:
    """The bug's row: what it is, where it comes from, what each tool says."""
    links = ", ".join(map(link, (*bug.thread, *bug.source))) or score.ABSENT
    cells = [f"{bug.title} (`{bug.name}`)", bug.arch, bug.state, in_a_test(bug), links]
    return [*cells, *(in_a_row(one, bug) for one in ran)]


def in_a_row(one: dict[str, Any], bug: Bug) -> str:
    """A tool's verdict; of the runs without a tool, how many were right or were not."""
    note = one["bugs"].get(bug.name, {}).get("note broken", "")
    return str(note) if one["title"] == bare_run.TITLE and note else score.cell(one, bug)


def in_full(bug: Bug, record: dict[str, Any]) -> str:
    """The broken program with what the repair changes, and the emulator's message; folded."""
    broken, fixed = (bug.text(twin).splitlines() for twin in bugs.TWINS)
    names = [f"{twin}.cu" for twin in bugs.TWINS]
    diff = unified_diff(broken, fixed, *names, lineterm="", n=len(broken))
    said = record["tools"][MESSAGES]["bugs"][bug.name].get("said", "")
    message = textwrap.fill(said, 96, break_long_words=False, break_on_hyphens=False)
    told = ("What the emulator says of it:", "", "```text", message, "```")
    lines = [
        f":::{{dropdown}} In full: {bug.title}", "", "```diff", *diff, "```", "",
        *(told if said else ["The emulator says nothing of it."]), ":::",
    ]  # fmt: skip
    return "\n".join(line.rstrip() for line in lines)


def section(kind: str, of: Sequence[Bug], record: dict[str, Any]) -> str:
    """A kind: its rule, its bugs, and the smallest of them in full."""
    ran = tools_that_ran(record)
    heading = ["bug", "needs", "state", "what a test sees", "thread or source"]
    rows = table([*heading, *(one["title"] for one in ran)], (row(bug, ran) for bug in of))
    if kind == OTHER:
        rule = "\n".join(f"- *{bug.kind}*: {bugs.KINDS[bug.kind]}" for bug in of)
        shown: Sequence[Bug] = of
    else:
        rule = bugs.KINDS[kind]
        shown = [min(of, key=lambda bug: (len(bug.text("broken").splitlines()), bug.name))]
    folded = (in_full(bug, record) for bug in shown)
    return "\n\n".join([f"### {kind.capitalize()}", rule, rows, *folded])


def tools_that_ran(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Those of which the record holds verdicts."""
    return [one for one in record["tools"].values() if "bugs" in one]


def origins() -> str:
    """Where the bugs come from, counted."""
    every = bugs.every()
    states = Counter(bug.state for bug in every)
    needs = Counter(bug.arch.removesuffix("a") for bug in every)
    newer = needs["sm_90"] + needs["sm_100"]
    unread = [bug for bug in every if bug.thread and not bug.source]
    asked = ", ".join(f"{states[state]} {state}" for state in states if state != "found here")
    unasked = sum("no Blackwell here" in bug.test for bug in every)
    lines = [
        f"Of {len(every)} bugs, {states['found here']} were found by the emulator, in kernels that "
        f"many people read. The other {len(every) - states['found here']} are from public threads; "
        f"their states there: {asked}.",
        f"{newer} need Hopper or Blackwell: {needs['sm_90']} use instructions of `sm_90` or "
        f"`sm_90a`, {needs['sm_100']} those of `sm_100a`. The other {len(every) - newer} run on "
        "older GPUs.",
        f"{len(unread)} rest on a thread alone: `bug.toml` names no line of the original code. It "
        "gives the day on which the thread was read, but not how much of it was read. Take these "
        "as read in excerpts.",
        f"{needs['sm_100']} programs need a Blackwell, and there was none. Of {unasked} of them "
        "nobody here knows what a test of results sees; of the others their threads tell.",
    ]  # fmt: skip
    return "\n".join(f"- {line}" for line in lines)


def kinds(record: dict[str, Any]) -> str:
    """How many bugs there are of each kind, and how many of them each tool found."""
    ran = tools_that_ran(record)
    rows = []
    for kind, of in groups().items():
        rows.append((kind, str(len(of)), *(found(one, of) for one in ran)))
    return table(("kind", "bugs", *(one["title"] for one in ran)), rows)


def found(one: dict[str, Any], of: Sequence[Bug]) -> str:
    """``3 of 5 + 1``: of those that a tool ran, how many it found, and reported otherwise."""
    said = [row["broken"] for bug in of if (row := one["bugs"].get(bug.name))]
    other = said.count(score.OTHER)
    more = f" + {other}" if other else ""
    return f"{said.count(score.FOUND)} of {len(said)}{more}" if said else score.ABSENT


def orders(record: dict[str, Any]) -> str:
    """How many programs a search ran in every order, of each twin; how many have a single one."""
    one = record["tools"].get(phasebit_every.TOOL, {})
    rows = one.get("bugs", {})
    sums = []
    single = 0
    for twin in bugs.TWINS:
        notes = [row.get(f"note {twin}", "") for row in rows.values()]
        whole = sum(all(head.startswith(phasebit_every.COMPLETE) for head in note.split("; "))
                    for note in notes if note)  # fmt: skip
        sums.append(f"{whole} of {len(notes)} {twin} programs")
        if twin == "broken":
            single = sum(all(head.startswith("complete: 1 order ") for head in note.split("; "))
                         for note in notes if note)  # fmt: skip
    return (
        f"`{one.get('title', '')}` runs each kernel in every order of its synchronisation that "
        "makes a difference (*A GPU you can read* says how). A program has "
        f"{phasebit_every.SECONDS:g} s for it; within these the search was complete for "
        f"{' and '.join(sums)}. For {single} of the broken programs that is a single order: all "
        "others are equal to it."
    )


def narrow(record: dict[str, Any]) -> str:
    """The verdicts that nobody can judge again, because the lines were not kept."""
    of: dict[str, list[str]] = {}
    for title, bug in score.by_one_line(record):
        of.setdefault(bug.name, []).append(title)
    told = "; ".join(f"{', '.join(titles)} of `{name}`" for name, titles in of.items())
    return (
        "Some verdicts are older than this rule: only `line` of `bug.toml` counted, and the record "
        f"does not keep the lines that the tool named. These *other* could be *found*: {told}."
    )


def without_times(ends: str) -> str:
    """How a program ends; the emulator's times say nothing of a GPU and are left out."""
    return re.sub(r"\S+ +\[ *[\d.]+\]GFlop/s +\([\d.]+\)ms", "prints a time only", ends)


def originals_table() -> str:
    """Others' programs as they were, and what the emulator says of each."""
    record = originals.read()
    rows = []
    for one in originals.every():
        seen = record["originals"].get(one.name)
        if seen is None:
            continue
        mended = "ours" if one.repair else f"`{one.commits['fixed'][:9]}`"
        rows.append((
            one.title, link(one.thread), f"`{one.commits['broken'][:9]}`", mended,
            f"`{one.rule}`: {seen['broken']}", without_times(seen["broken ends"]), seen["fixed"],
        ))  # fmt: skip
    heading = ["program", "thread", "broken at", "repair", "rule, and what was seen", "how it ends",
               "repaired"]  # fmt: skip
    asked = {one.thread for one in originals.every()}
    left = [bug for bug in bugs.every()
            if any("/NVIDIA/cutlass/" in it for it in (*bug.thread, *bug.source))
            and not asked & {*bug.thread, *bug.source}]  # fmt: skip
    missing = ", ".join(f"`{bug.name}`" for bug in left)
    return (
        f"{table(heading, rows)}\n\nRun {record['date']}, under *late*. Of the bugs that CUTLASS "
        f"had or may have, these have no original here, for nobody has written what runs them: "
        f"{missing}."
    )


def unasked(record: dict[str, Any]) -> list[Bug]:
    """Bugs that need no Blackwell, and of which the record has no runs on a GPU."""
    ran = record["tools"]["bare_run"]["bugs"]
    return [bug for bug in bugs.every() if bug.arch != "sm_100a" and not ran.get(bug.name)]


def parts(record: dict[str, Any]) -> dict[str, str]:
    """Name of a part of the page -> its text."""
    tools = record["tools"].values()
    ran = tools_that_ran(record)
    titles: dict[str, list[str]] = {}
    for one in ran:
        titles.setdefault(f"{one['version']}, {one['date']}", []).append(one["title"])
    versions = "; ".join(f"{', '.join(of)}: {version}" for version, of in titles.items())
    absent = "; ".join(f"{one['title']}: {one['absent']}" for one in tools if "absent" in one)
    said = f"Version and day: {versions}{'. Absent: ' if absent else ''}{absent}"
    if later := unasked(record):
        said += f". Not run on a GPU yet: {', '.join(f'`{bug.name}`' for bug in later)}"
    return {
        "sums": f"{table(score.HEADING, score.sums(record))}\n\n{said}.",
        "kinds": kinds(record),
        "rows": "\n\n".join(section(kind, of, record) for kind, of in groups().items()),
        "origins": origins(),
        "orders": orders(record),
        "narrow": narrow(record),
        "originals": originals_table(),
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
