"""compute-sanitizer: its four tools over a program, and what each of them says."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from phasebit import measure, process, toolchain

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
"""Of compute-sanitizer, in the order of the book's tables."""

OPTIONS = {
    "memcheck": ["--padding", "128"],  # or the first byte past an array is another's
    "racecheck": ["--racecheck-report", "all", "--num-cuda-barriers", "64"],
    "synccheck": ["--num-cuda-barriers", "64"],
}

_ERROR = re.compile(r"hazard|Invalid|Uninitialized|rror detected|instruction|exception")
_CALLER = re.compile(r"Host Frame|Device Frame|Saved host")
_SUMMARY = re.compile(r"SUMMARY|hazards? displayed|returned")


class Program(NamedTuple):
    """A program of the book that the tools must have nothing to say of."""

    text: str
    arguments: tuple[str, ...] = ("--seed", "1")
    command: tuple[str, ...] = ()  # what runs it, where that is not the built program
    inputs: str = "of the programs: seed 1 where they draw"
    gpus: int = 1  # that it needs


def protocol() -> str:
    """How each tool is run, in words of a record."""
    return "one process a program and tool; " + "; ".join(
        f"{tool} {' '.join(options)}" for tool, options in OPTIONS.items()
    )


def version() -> str:
    """``"2025.3.1.0"``; raises :class:`toolchain.ToolMissing` where there is none."""
    said = process.run([toolchain.tool("compute-sanitizer"), "--version"], timeout=30).stdout
    return str(re.findall(r"Version (\S+)", said)[-1])


def kept(
    record: str, part: str, texts: Mapping[str, str], today: Mapping[str, Any]
) -> dict[str, Any]:
    """What a record says in ``part`` of programs that are still what they were, each with its day.

    ``texts``: name -> what the record knows a program's text by. ``today`` is what the next record
    says of its GPU, its compiler, its tools and, in ``"protocol"``, of how it looks: where one of
    these is another than in the record, nothing is kept.
    """
    try:
        before = measure.read(record)
    except FileNotFoundError:
        return {}
    now = dict(today)
    rules = now.pop("protocol")
    same = all(before.get(field) == value for field, value in now.items() if field != "date")
    if not same or any(before["protocol"].get(rule) != text for rule, text in rules.items()):
        return {}
    return {
        name: {"date": before["date"]} | said
        for name, said in before.get(part, {}).items()
        if said["text"] == texts.get(name)
    }


def under(
    tool: str, command: Sequence[str | os.PathLike[str]], file: str, seconds: float
) -> dict[str, Any]:
    """What a tool says about a command whose kernels are in ``file``: see :func:`judge`."""
    asked = [toolchain.tool("compute-sanitizer"), "--tool", tool, *OPTIONS.get(tool, []), *command]
    done = process.run(asked, timeout=seconds)
    return judge(done.stdout + done.stderr, done.stopped != "", file)


def judge(text: str, stopped: bool, file: str) -> dict[str, Any]:
    """A tool's verdict: its first findings, and the lines of ``file`` that it named.

    ``found``    it named a place in the file
    ``said``     it reported something, and no place
    ``hangs``    it said nothing, and the kernel did not end
    ``nothing``  it had nothing to say
    """
    lines = [line.removeprefix("=========").strip() for line in text.splitlines()
             if line.startswith("=========")]  # fmt: skip
    errors = [line for line in lines if _ERROR.search(line) and not _SUMMARY.search(line)]
    place = re.compile(rf"{re.escape(file)}:(\d+)")
    frames = [line for line in lines if not _CALLER.search(line)]
    named = sorted({int(number) for line in frames for number in place.findall(line)})
    hangs = stopped or "did not end" in text
    said = [re.sub(r" (at|by|in) .*", "", line) for line in errors]
    kind = "found" if errors and named else "said" if errors else "hangs" if hangs else "nothing"
    return {"verdict": kind, "said": list(dict.fromkeys(said))[:2], "lines": named}
