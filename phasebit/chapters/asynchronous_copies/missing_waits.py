"""The ring of groups with lines left out: right or wrong, and what the emulator finds."""

from __future__ import annotations

from collections.abc import Mapping

from phasebit.chapters.asynchronous_copies import exercises
from phasebit.edits import replace_once


def table(source: str, broken: Mapping[str, tuple[str, str]]) -> str:
    """For each ``(line, instead)``: right or wrong with eager and with late copies, and findings.

    One finding of each kind is told, with the text of its two lines, from the run with late copies.
    """
    lines = [f"{'':>30}  eager   late"]
    for what, (line, instead) in broken.items():
        text = replace_once(source, line, instead, "the kernel")
        verdicts = []
        for schedule in ("eager", "late"):
            run, right = exercises.run(text, 128, schedule=schedule)
            verdicts.append("right" if right else "wrong")
        lines.append(f"{what:>30}  {verdicts[0]}  {verdicts[1]}")
        found = sorted({(each.kind, tuple(each.lines[:2])) for each in run.findings})
        for kind, (noticed, before) in dict(found).items():
            lines.append(f"{'':>4}{kind}: {_line(text, noticed)}")
            lines.append(f"{'':>4}and: {_line(text, before)}")
    return "\n".join(lines)


def _line(text: str, number: int) -> str:
    return text.splitlines()[number - 1].split("//")[0].strip()
