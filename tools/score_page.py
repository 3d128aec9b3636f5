"""Write the tables of book/appendix/score.md, from records/bugs_score.json, records/originals.json
and bugs/.

python tools/score_page.py          write the page, if it is not current
python tools/score_page.py --check  only say whether it is
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import unified_diff
from statistics import median
from typing import Any

from phasebit import bugs, files, originals, score
from phasebit.bugs import Bug
from phasebit.score.tools import bare_run, phasebit_every, phasebit_random

PAGE = files.book() / "appendix" / "score.md"

OTHER = "other"
"""What a table calls the kinds of which there is one bug each."""

SHORT = 60
"""What a test sees is printed whole up to so many characters; of more, the first clause."""

MESSAGES = "phasebit_late"
"""The tool whose words the record keeps."""

EMULATOR = ("phasebit_late", "phasebit_random", "phasebit_every")
"""Three ways to run the emulator."""

SANITIZER = ("memcheck", "racecheck", "initcheck", "synccheck")
"""The tools of compute-sanitizer."""

CONSAN = "consan"
"""Triton's."""

BARE = "bare_run"
"""No tool: a test of results."""


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
    """``[NVIDIA/cutlass#3435](…)`` for a thread, ``[fast.cu, matmul_12.cuh](…)`` for code."""
    _, _, _, owner, name, what, number, *_ = address.split("/")
    file = address.split("/")[-1].partition("#")[0]
    return f"[{f'{name}, {file}' if what == 'blob' else f'{owner}/{name}#{number}'}]({address})"


def in_a_test(bug: Bug) -> str:
    """What a test of results sees, in short."""
    return bug.test if len(bug.test) <= SHORT else re.split("[:;]", bug.test)[0]


def row(bug: Bug, record: dict[str, Any]) -> list[str]:
    """The bug's row: what it is, where it comes from, what a test sees, what each tool says."""
    name = f"{bug.title} (`{bug.name}`, {bug.arch})"
    return [name, origin(bug), in_a_test(bug) + tried(bug, record), said(bug, record)]


def origin(bug: Bug) -> str:
    """What the owners say, each thread with its day, and the lines of the original."""
    threads = [f"{link(at)}, {day}" for at, day in zip(bug.thread, bug.dates, strict=True)]
    told = "; ".join([*threads, *map(link, bug.source)])
    return f"{bug.state}: {told}" if told else bug.state


def tried(bug: Bug, record: dict[str, Any]) -> str:
    """How many runs without a tool were right here, and how many were not; empty for none."""
    note = _row(record, BARE, bug).get("note broken", "")
    return note and f"; here {re.sub(': ', ' ', note)}"


def said(bug: Bug, record: dict[str, Any]) -> str:
    """What each tool says of it, by verdict, and on which days they were asked."""
    tools = {name: one for name, one in record["tools"].items()
             if name != BARE and one.get("bugs", {}).get(bug.name)}  # fmt: skip
    rows = {name: _row(record, name, bug) for name in tools}
    parts = []
    for word in score.SAID:
        of = [name for name, row in rows.items() if row["broken"] == word]
        parts += [f"{word}: {named(of, record)}"] if of else []
    alarmed = [name for name, row in rows.items() if row["fixed"] == score.ALARM]
    parts += [f"false alarm: {named(alarmed, record)}"] if alarmed else []
    days = {row.get("date", tools[name]["date"]) for name, row in rows.items()}
    return "; ".join(parts) + f" ({', '.join(sorted(days))})"


def named(of: Sequence[str], record: dict[str, Any]) -> str:
    """The titles of tools; the emulator's schedules together, where all of them are there."""
    names = [name for name in of if name not in EMULATOR]
    ours = [name for name in EMULATOR if name in of]
    titles = [record["tools"][name]["title"] for name in (*ours, *names)]
    return ", ".join(["phasebit", *titles[3:]] if len(ours) == len(EMULATOR) else titles)


def _row(record: dict[str, Any], tool: str, bug: Bug) -> dict[str, Any]:
    """What the record has of a tool and a bug; empty where the tool did not run it."""
    found: dict[str, Any] = record["tools"].get(tool, {}).get("bugs", {}).get(bug.name, {})
    return found


def in_full(bug: Bug, record: dict[str, Any]) -> str:
    """The broken program with what the repair changes, and the emulator's message; folded."""
    broken, fixed = (bug.text(twin).splitlines() for twin in bugs.TWINS)
    names = [f"{twin}.cu" for twin in bugs.TWINS]
    diff = unified_diff(broken, fixed, *names, lineterm="", n=len(broken))
    said = _row(record, MESSAGES, bug).get("said", "")
    told = ("What the emulator says of it:", "", "```text", *said.splitlines(), "```")
    lines = [
        f":::{{dropdown}} In full: {bug.title}", "", "```diff", *diff, "```", "",
        *(told if said else ["The emulator says nothing of it."]), ":::",
    ]  # fmt: skip
    return "\n".join(line.rstrip() for line in lines)


def section(kind: str, of: Sequence[Bug], record: dict[str, Any]) -> str:
    """A kind: its rule, its bugs by title; folded, all about them, and the smallest in full."""
    heading = ["bug", "where it was found, and when", "what a test of results sees", "tools"]
    rows = table(heading, (row(bug, record) for bug in of))
    if kind == OTHER:
        rule = "\n".join(f"- *{bug.kind}*: {bugs.KINDS[bug.kind]}" for bug in of)
        shown: Sequence[Bug] = of
    else:
        rule = bugs.KINDS[kind]
        shown = [min(of, key=lambda bug: (len(bug.text("broken").splitlines()), bug.name))]
    folded = (in_full(bug, record) for bug in shown)
    titles = "\n".join(f"- {bug.title}." for bug in of)
    told = f":::{{dropdown}} Where they were found, and what each tool says\n\n{rows}\n:::"
    return "\n\n".join([f"### {kind.capitalize()}", rule, titles, told, *folded])


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


def judged(record: dict[str, Any], tool: str, twin: str, word: str) -> set[str]:
    """The bugs of which a tool says this."""
    rows = record["tools"].get(tool, {}).get("bugs", {})
    return {of for of, row in rows.items() if row and row[twin] == word}


def asked(record: dict[str, Any], tool: str) -> set[str]:
    """The bugs that a tool ran."""
    return {of for of, row in record["tools"].get(tool, {}).get("bugs", {}).items() if row}


def in_words(what: Iterable[str]) -> str:
    """``a, b and c``."""
    *most, last = what
    return f"{', '.join(most)} and {last}" if most else last


def result(record: dict[str, Any]) -> str:
    """What came out, in a few sentences."""
    every = bugs.every()
    by_us = judged(record, MESSAGES, "broken", score.FOUND)
    on_a_gpu = set.intersection(*(asked(record, tool) for tool in SANITIZER))
    theirs = set.union(*(judged(record, tool, "broken", score.FOUND) for tool in SANITIZER))
    triton = judged(record, CONSAN, "broken", score.FOUND)
    quiet = judged(record, BARE, "broken", score.SILENT)
    ours = set.union(*(judged(record, tool, "fixed", score.ALARM) for tool in EMULATOR))
    alarms = [f"{record['tools'][tool]['title']} {len(of)}" for tool in (*SANITIZER, CONSAN)
              if (of := judged(record, tool, "fixed", score.ALARM))]  # fmt: skip
    lines = [
        f"**A test that passes says little.** Without a tool, {bare_run.RUNS} runs of each, "
        f"{len(quiet)} of {len(asked(record, BARE))} broken programs print `right` every time.",
        f"**The tools on a GPU name some.** {len(on_a_gpu)} ran on a GPU, under compute-sanitizer. "
        f"Its four tools together name the line in {len(theirs)} of them, racecheck by itself in "
        f"{len(judged(record, 'racecheck', 'broken', score.FOUND))}. Triton's ConSan does in "
        f"{len(triton)} of the {len(asked(record, 'consan'))} that are written for it too.",
        f"**The emulator names most.** It names the line in {len(by_us)} of {len(every)} broken "
        f"programs, in one run of each. {sum(not bug.line for bug in every)} break no rule that a "
        "checker could know: they compute something else than was meant.",
        f"**A report may be false.** Of the repaired programs the emulator reports "
        f"{len(ours) or 'none'}" + (f"; {in_words(alarms)}." if alarms else "."),
    ]  # fmt: skip
    return "\n".join(f"- {line}" for line in lines)


def unseen(record: dict[str, Any]) -> str:
    """Which bugs no tool finds."""
    anyone = set.union(*(judged(record, tool, "broken", score.FOUND)
                         for tool in (*EMULATOR, *SANITIZER, CONSAN)))  # fmt: skip
    return "\n".join(f"- `{bug.name}`: {bug.title[0].lower()}{bug.title[1:]}."
                     for bug in bugs.every() if bug.name not in anyone)  # fmt: skip


def alone(record: dict[str, Any]) -> str:
    """How many the emulator alone names, of those that another tool ran; by kind."""
    others = (*SANITIZER, CONSAN)
    theirs = set.union(*(judged(record, tool, "broken", score.FOUND) for tool in others))
    ours = set.union(*(judged(record, tool, "broken", score.FOUND) for tool in EMULATOR))
    of = set.union(*(asked(record, tool) for tool in others)) & ours - theirs
    count = Counter(bug.kind for bug in bugs.every() if bug.name in of)
    kinds = in_words(f"{kind} {many}" for kind, many in count.most_common())
    return (
        f"Of those that ran on a GPU, under tools made for it, {len(of)} are named by the emulator "
        f"alone. By kind: {kinds}."
    )


def cost(record: dict[str, Any]) -> str:
    """How long a program takes under each tool, from the rows that say it."""
    rows = []
    for one in tools_that_ran(record):
        times = [row[f"seconds {twin}"] for row in one["bugs"].values() for twin in bugs.TWINS
                 if f"seconds {twin}" in row]  # fmt: skip
        if times:
            shown = (f"{median(times):.1f}", f"{max(times):.1f}", f"{sum(times):.0f}")
            rows.append((one["title"], str(len(times)), *shown))
    return table(("tool", "programs", "median, s", "longest, s", "all, s"), rows)


def in_short(record: dict[str, Any]) -> str:
    """What a program costs under one run of the emulator, and under compute-sanitizer's tools."""

    def middle(tool: str) -> float:
        rows = record["tools"].get(tool, {}).get("bugs", {}).values()
        return median([row[f"seconds {twin}"] for row in rows for twin in bugs.TWINS
                       if f"seconds {twin}" in row] or [0])  # fmt: skip

    theirs = sorted(map(middle, SANITIZER))
    return (
        f"In the median a program takes {middle(MESSAGES):.1f} s in one run on the emulator, and "
        f"{theirs[0]:.1f} to {theirs[-1]:.1f} s under a tool of compute-sanitizer, without the "
        "compiler's time."
    )


def versions(record: dict[str, Any]) -> str:
    """Each tool's version, and on which days it looked at how many bugs."""
    of: dict[tuple[str, str], list[str]] = {}
    for one in tools_that_ran(record):
        days = Counter(
            (row.get("version", one["version"]), row.get("date", one["date"]))
            for row in one["bugs"].values() if row
        )  # fmt: skip
        for (version, day), many in sorted(days.items()):
            of.setdefault((version, f"{day}: {many}"), []).append(one["title"])
    rows = [(", ".join(titles), version, day) for (version, day), titles in of.items()]
    return table(("tool", "version and machine", "day: bugs"), rows)


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
        f"others are equal to it. {times(rows)}{seeds(record)}"
    ).rstrip()


def times(rows: Mapping[str, Any]) -> str:
    """How long the complete searches took, and how many orders they ran."""
    whole = [
        (row[f"seconds {twin}"], row[f"orders {twin}"])
        for row in rows.values() for twin in bugs.TWINS
        if f"seconds {twin}" in row
        and all(it.startswith(phasebit_every.COMPLETE) for it in row[f"note {twin}"].split("; "))
    ]  # fmt: skip
    if not whole:
        return ""
    long, many = max(whole), max(whole, key=lambda it: it[1])
    return (
        f"Of the complete ones the median took {median(it[0] for it in whole):g} s, start and "
        f"translation among it, and the longest {long[0]:g} s; the most orders were {many[1]:,}, "
        f"in {many[0]:g} s. "
    )


def seeds(record: dict[str, Any]) -> str:
    """Which bugs a random order may miss, and in how many of the seeds they show."""
    rows = record["tools"].get(phasebit_random.TOOL, {}).get("bugs", {})
    wanted = {bug.name for bug in bugs.every() if bug.line}
    counted = {of: row["seeds broken"] for of, row in rows.items() if "seeds broken" in row}
    some = {of: count for of, count in counted.items() if count < phasebit_random.SEEDS}
    if not counted.keys() & wanted:
        return ""
    told = ", ".join(f"`{of}` {some[of]}" for of in sorted(some, key=some.__getitem__)
                     if of in wanted)  # fmt: skip
    every = sum(of not in some for of in counted.keys() & wanted)
    rest = f" The others, with how many of {phasebit_random.SEEDS} show them: {told}."
    return f"A random order shows {every} of the bugs under every seed.{rest if told else ''}"


def narrow(record: dict[str, Any]) -> str:
    """The verdicts that nobody can judge again, because the lines were not kept."""
    of: dict[str, list[str]] = {}
    for title, bug in score.by_one_line(record):
        of.setdefault(bug.name, []).append(title)
    if not of:
        return "All verdicts follow this rule: the record keeps the lines that a tool named."
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


def in_order(record: dict[str, Any]) -> dict[str, Any]:
    """The record with its tools in the order of the page; others come last."""
    order = (*EMULATOR, BARE, *SANITIZER, CONSAN)
    names = sorted(record["tools"], key=lambda name: (*order, name).index(name))
    return {**record, "tools": {name: record["tools"][name] for name in names}}


def parts(record: dict[str, Any]) -> dict[str, str]:
    """Name of a part of the page -> its text."""
    record = in_order(record)
    blackwell = sum(bug.arch == "sm_100a" for bug in bugs.every())
    absent = [f"{one['title']} ({one['absent']})" for one in record["tools"].values()
              if "absent" in one]  # fmt: skip
    gaps = [f"{blackwell} programs need a Blackwell, and there was none: no GPU has run them."]
    if later := unasked(record):
        gaps.append(f"Not run on a GPU yet: {', '.join(f'`{bug.name}`' for bug in later)}.")
    if absent:
        gaps.append(f"Absent: {', '.join(absent)}.")
    return {
        "result": result(record),
        "sums": f"{table(score.HEADING, score.sums(record))}\n\n{' '.join(gaps)}",
        "unseen": unseen(record),
        "alone": alone(record),
        "short": in_short(record),
        "cost": cost(record),
        "versions": versions(record),
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
