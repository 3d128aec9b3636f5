"""The ring of groups with lines left out: right or wrong, and what the emulator finds."""

from __future__ import annotations

from collections.abc import Mapping

from phasebit.chapters.asynchronous_copies import exercises
from phasebit.edits import replace_once


def table(source: str, broken: Mapping[str, tuple[str, str]]) -> str:
    """For each ``(line, instead)``: right or wrong with eager and with late copies, and findings.

    Findings are those of the run with late copies. Below stand the two lines of the first finding
    of each kind.
    """
    rows = [f"{'':>30}  eager   late  found"]
    first: dict[str, tuple[str, str]] = {}
    for what, (line, instead) in broken.items():
        text = replace_once(source, line, instead, "the kernel")
        verdicts = []
        for schedule in ("eager", "late"):
            run, right = exercises.run(text, 128, schedule=schedule)
            verdicts.append("right" if right else "wrong")
        kinds = sorted({each.kind for each in run.findings})
        rows.append(f"{what:>30}  {verdicts[0]}  {verdicts[1]}  {', '.join(kinds)}")
        for each in run.findings:
            noticed, before = (_line(text, number) for number in each.lines[:2])
            first.setdefault(each.kind, (noticed, before))
    for kind, (noticed, before) in first.items():
        rows += [f"{kind}: {noticed}", f"{'and':>{len(kind)}}: {before}"]
    return "\n".join(line.rstrip() for line in rows)


def _line(text: str, number: int) -> str:
    return text.splitlines()[number - 1].split("//")[0].strip()
