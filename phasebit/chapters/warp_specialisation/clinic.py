"""The clinic of *Warp specialisation and its bugs*: one mistake each, and repaired twins.

A patient is a file ``kernels/warp_specialisation/clinic/NN_name.cu``, a whole program like every
kernel of the book: C = A · B, checked by the harness. What differs between the broken text and the
repaired one stands between ``#ifndef REPAIRED``, ``#else`` and ``#endif``; a comment ``// <- race``
marks a line at which the emulator must find the mistake, and as what; ``// <- see`` one that
belongs to an excerpt. Readers see none of these.

``kernels/warp_specialisation/reported/`` has further ones of the same form: mistakes that people
told of in the trackers of their projects, made small (:mod:`.reported`). They are not in the
record of the first sixteen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import unified_diff
from functools import cached_property
from typing import Any

import numpy as np

from phasebit import draw, files, measure, toolchain
from phasebit.edits import replace_once, statement
from phasebit.emulator import (
    Deadlock,
    EmulatorError,
    Fault,
    Finding,
    PtxError,
    Schedule,
    StepLimit,
    findings,
)
from phasebit.instruments.sanitizer import TOOLS
from phasebit.launching import build
from phasebit.launching.launch import Module

SCHEDULES: tuple[tuple[Schedule, int], ...] = (
    ("eager", 0), ("late", 0), ("random", 1), ("random", 2),
)  # fmt: skip
"""When asynchronous work finishes, and the seed: a right kernel is right under all of these."""

STEPS = 20_000
"""Backward jumps that a patient may take; the repaired ones take far fewer."""

KINDS = (
    "race", "async", "proxy", "uninitialised", "barrier", "fault", "deadlock", "livelock",
    "steplimit", "compile",
)  # fmt: skip
"""What a finding can be; ``compile``: the compiler refuses the program."""

PATIENTS = 16
"""How many patients the clinic has; the others are for the exercises."""

VARIANTS = {
    ("15_early_release", "delayed"): (
        "arrive(empty[at.slot]);  // nearly done",
        "{ arrive(empty[at.slot]); __nanosleep(20000); }",
    ),
    ("18_unaided", "syncwarp"): (
        "if (x == 0) arrive(empty[at.slot]);  // once for the warp",
        "__syncwarp(); if (x == 0) arrive(empty[at.slot]);",
    ),
}
"""Further texts that run on the GPU: a patient and a name -> words of its text, and others.

In the first the consumers sleep between the release of a slot and the last reads from it; in the
second the warp waits for all its lanes before the one arrival, which is right, too.
"""

_MARK = re.compile(r" *// <- ([\w ]+)$")


# Texts


def names() -> list[str]:
    """The patients, by number: ``"01_one_warp_loads"``, …"""
    found = sorted(path.stem for path in _folder().glob("*.cu"))
    return [name for name in found if not name.startswith("00")]


def _folder() -> Any:
    return files.kernels() / "warp_specialisation" / "clinic"


def _path(name: str) -> Any:
    return (_folder() if name[0].isdigit() else _folder().parent / "reported") / f"{name}.cu"


def _choose(text: str, repaired: bool) -> list[str]:
    """The lines that the preprocessor would leave of one of the two twins."""
    lines: list[str] = []
    kept = True
    inside = False
    for line in text.splitlines():
        if line in ("#ifndef REPAIRED", "#ifdef REPAIRED"):
            inside, kept = True, repaired == (line == "#ifdef REPAIRED")
        elif inside and line == "#else":
            kept = not kept
        elif inside and line == "#endif":
            inside, kept = False, True
        elif kept:
            lines.append(line)
    return lines


def source(name: str, repaired: bool = False) -> str:
    """The text of a patient, broken or repaired, as somebody would have written it."""
    text = _path(name).read_text(encoding="utf-8")
    return "\n".join(_MARK.sub("", line) for line in _choose(text, repaired)) + "\n"


def numbered(name: str) -> str:
    """The broken text with the numbers of its lines, without what the healthy kernel has too.

    Left out is what stands between two empty lines in both texts, if no finding is in it.
    """
    found = marks(name)
    healthy, shown, first = source("00_healthy").split("\n\n"), [], 1
    for block in source(name).split("\n\n"):
        lines = block.splitlines()
        if block not in healthy or any(first <= line < first + len(lines) for line in found):
            shown.append("\n".join(f"{n:3}  {line}" for n, line in enumerate(lines, first)))
        first += len(lines) + 1
    return "\n\n".join(shown)


def marks(name: str) -> dict[int, frozenset[str]]:
    """Lines of the broken text at which the emulator must find the mistake -> as what."""
    return {line: kinds for line, kinds in _marked(name).items() if kinds != {"see"}}


def _marked(name: str) -> dict[int, frozenset[str]]:
    text = _path(name).read_text(encoding="utf-8")
    return {
        number: frozenset(mark[1].split())
        for number, line in enumerate(_choose(text, False), 1)
        if (mark := _MARK.search(line))
    }


def variant(name: str, which: str) -> str:
    """One of :data:`VARIANTS`, as text."""
    old, new = VARIANTS[name, which]
    return replace_once(source(name), old, new, f"{name}.cu")


def fix(name: str) -> str:
    """What the repair changes: the lines that go (−) and those that come (+)."""
    broken, repaired = source(name).splitlines(), source(name, repaired=True).splitlines()
    lines = list(unified_diff(broken, repaired, lineterm="", n=0))[2:]
    return "\n".join(line for line in lines if not line.startswith("@@"))


def excerpt(name: str) -> str:
    """The functions of the broken text that the mistake or its finding is in, with line numbers."""
    lines, other = source(name).splitlines(), source(name, repaired=True).splitlines()
    wanted = set(_marked(name))
    for line in unified_diff(lines, other, lineterm="", n=0):
        if match := re.match(r"@@ -(\d+)(?:,(\d+))? ", line):
            wanted |= set(range(int(match[1]), int(match[1]) + max(1, int(match[2] or 1))))
    shown: list[str] = []
    block: list[int] = []
    for number, line in enumerate([*lines, ""], 1):
        if line:
            block.append(number)
            continue
        if wanted & set(block):
            shown += [*([""] if shown else []), *(f"{n:3}  {lines[n - 1]}" for n in block)]
        block = []
    return "\n".join(shown)


# Examination


@dataclass(frozen=True)
class Examination:
    """One run of a patient on the emulator.

    ``verdict`` begins with ``right``, ``wrong``, ``ended early``, ``never ends``,
    ``not compiled`` or ``not run``. What ended the kernel is the last finding.
    """

    source: str
    verdict: str
    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        """Whether the product is right and nothing was found."""
        return self.verdict == "right" and not self.findings

    @property
    def kinds(self) -> str:
        """The kinds of the findings, each once."""
        return ", ".join(dict.fromkeys(finding.kind for finding in self.findings))

    def __str__(self) -> str:
        text = self.source.splitlines()
        said = [f"result: {self.verdict}"]
        seen: list[object] = []
        for finding in self.findings:
            lines = sorted({statement(text, line) for line in finding.lines})
            if (finding.kind, lines) in seen:
                continue
            seen.append((finding.kind, lines))
            said.append(f"{finding.kind}:")
            said += [f"  {number:3}  {text[number - 1].strip()}" for number in lines]
            for wait in finding.waits:
                said.append(_named(f"  {wait.threads} wait for {wait.what}:"))
                said += [_named(f"    {part}") for part in wait.why.split("; ")]
        if not self.findings:
            said.append("no finding")
        return "\n".join(said)


def constants(text: str) -> dict[str, int]:
    """The value of each ``constexpr int`` and of each macro that is a number."""
    known: dict[str, int] = {}
    for name, value in re.findall(r"^#define (\w+) (\d+)$", text, re.M):
        known[name] = int(value)
    for line in re.findall(r"^constexpr int ([^;]+);", text, re.M):
        for name, value in re.findall(r"(\w+) = ([^,]+)", line):
            known[name] = _number(value, known)
    return known


def launch_of(text: str) -> tuple[dict[str, int], list[int]]:
    """A text's constants, and the numbers of its launch: blocks, threads, bytes if it says so.

    Raises ``ValueError`` when M, N or K or the launch of ``matmul`` is missing.
    """
    known = constants(text)
    call = re.search(r"matmul<<<(.+?)>>>", text)
    if call is None or not {"M", "N", "K"} <= known.keys():
        raise ValueError("give the constants M, N and K and a launch of matmul<<<…>>>")
    return known, [_number(part, known) for part in call[1].split(",")]


def shared_bytes(text: str, arch: str = "sm_90a") -> int:
    """The shared memory of a block: what the text declares, and what its launch asks for."""
    module = Module(build.ptx(_program(text), arch, name="patient.cu"))
    _, (_, _, *dynamic) = launch_of(text)
    return module["matmul"].layout.static_shared + sum(dynamic)


def _program(text: str) -> str:
    return text.replace('#include "harness.cuh"', "")


def _number(expression: str, known: dict[str, int]) -> int:
    """A C expression in whole numbers; its ``/`` rounds down, as it does for what is positive."""
    if not re.fullmatch(r"[\w\s+*/()%-]+", expression) or "**" in expression:
        raise ValueError(f"{expression!r} is no expression of whole numbers and constants")
    return int(eval(expression.replace("/", "//"), {"__builtins__": {}}, dict(known)))


def examine(
    text: str, schedule: Schedule = "late", seed: int = 0, data: int = 13, arch: str = "sm_90a"
) -> Examination:
    """Compile a patient's text, run it on the emulator, compare with the product.

    ``data`` is the seed of the whole numbers in A and B; a right product of these is exact.
    Launch configuration and shape are read from the text. Raises ``ValueError`` for a text
    that launches no ``matmul<<<…>>>``, and :class:`toolchain.ToolMissing` without an nvcc.
    """
    try:
        module = Module(build.ptx(_program(text), arch, name="patient.cu"))
    except toolchain.CompileError as error:
        why = findings.say("{}", str(error).splitlines()[0].partition(": ")[2])
        place = findings.Place(0, "", "patient.cu", (findings.Call(error.line or 0),))
        refused = Finding("invalid-ptx", why, place if error.line else None)
        return Examination(text, "not compiled", (refused,))
    known, (grid, block, *shared) = launch_of(text)
    m, n, k = known["M"], known["N"], known["K"]
    draw = np.random.default_rng(data)
    a = draw.integers(-4, 5, (m, k)).astype(np.float32)
    b = draw.integers(-4, 5, (k, n)).astype(np.float32)
    c = np.full((m, n), np.nan, np.float32)
    try:
        run = module["matmul"].launch(
            grid, block, [a, b, c], shared=shared[0] if shared else 0,
            schedule=schedule, seed=seed, max_steps=STEPS,
        )  # fmt: skip
        return Examination(text, _compare(c, a @ b), tuple(run.findings))
    except PtxError as error:
        what = str(error).partition(": ")[2].partition(";")[0]
        return Examination(text, f"not run: {what}", ())
    except EmulatorError as error:
        return Examination(text, _verdict(error), (*error.findings, error.finding))


def _named(text: str) -> str:
    """A report, with ``full[1]`` for the barrier 8 bytes behind ``full``, in the one block."""
    text = text.replace(" of block 0", "").replace("mbarrier ", "")
    return re.sub(
        r"\b(full|empty)(?:\+(\d+))?\b", lambda it: f"{it[1]}[{int(it[2] or 0) // 8}]", text
    )


def _compare(c: Any, product: Any) -> str:
    wrong = int((c != product).sum())
    unwritten = int(np.isnan(c).sum())
    if not wrong:
        return "right"
    return f"wrong: {wrong} of {c.size} elements" + (f", {unwritten} NaN" if unwritten else "")


def _verdict(error: EmulatorError) -> str:
    if isinstance(error, Deadlock | StepLimit):
        return "never ends"
    if isinstance(error, Fault):
        return "ended early"
    raise error


# The ward: what the chapter prints


class Ward:
    """The patients beside their record; a table at the end of the visit.

    ``record``: that of the benchmark of *Warp specialisation and its bugs*.
    """

    def __init__(self, record: dict[str, Any]) -> None:
        self.record = record
        self.found: dict[str, str] = {}
        """Patient -> as what the emulator found it."""

    def admit(self, number: int) -> Patient:
        """Show a patient, and what its program does on the recorded GPU."""
        name = next(name for name in names() if int(name[:2]) == number)
        patient = Patient(self, name)
        print(f"{excerpt(name)}\n\n{self.record['gpu']}, recorded: {patient.symptom}")
        return patient

    def count(self) -> None:
        """Print how many of the patients the emulator, compute-sanitizer, the compiler found."""
        said = {name: self.record["clinic"][f"{name} broken"] for name in self.found}
        tools = [[each["verdict"] for each in one["tools"].values()] for one in said.values()]
        kinds = list(self.found.values())
        lucky = [name[:2] for name, one in said.items() if set(one["runs"]) == {"right"}]
        print(len(kinds), "patients; found by")
        print("  the emulator:", sum(kind not in ("", "compile") for kind in kinds))
        print("  compute-sanitizer:", sum("found" in each for each in tools))
        print("  the compiler:", kinds.count("compile"))
        print("right in all processes on the GPU, and wrong all the same:", *lucky)

    def examine(self) -> None:
        """Run the sixteen patients, those who were not admitted too, on the emulator."""
        self.found = {name: examine(source(name)).kinds for name in names()[:PATIENTS]}

    def chart(self) -> draw.Picture:
        """Who found which mistake: the emulator just now, the tools when they were recorded.

        Of the tools, those that found something are named.
        """
        said = [self.record["clinic"][f"{name} broken"] for name in self.found]
        told = [
            (_briefly(one["runs"]), self.found[name] or "–", _spoke(one["tools"]))
            for name, one in zip(self.found, said, strict=True)
        ]
        return draw.chart(
            [[draw.Cell(text, _hue(text)) for text in line] for line in told],
            rows=[name.replace("_", " ") for name in self.found],
            columns=("on the GPU", "emulator", "sanitizer"),
            row_label="patient",
            column_label=f"sanitizer: compute-sanitizer {self.record['compute-sanitizer']}",
            title=f"Who finds what; the GPU and the tools: {measure.source(self.record)}",
            legend={
                "green": "found", "orange": "never ends", "red": "wrong, or stopped by an error",
            },
        )  # fmt: skip


def _briefly(runs: dict[str, int]) -> str:
    """How processes ended, in a word or two; a fault by the end of its name."""
    if len(runs) > 1:
        return _ended(runs)
    end = next(iter(runs))
    return "refused" if end.startswith("not compiled") else end.removeprefix("cudaError")


def _spoke(tools: dict[str, Any]) -> str:
    """The tools that found something, or else what they did instead."""
    found = [tool for tool, said in tools.items() if said["verdict"] == "found"]
    others = {_cell(tools.get(tool)) for tool in TOOLS} - {"found"}
    return ", ".join(found) or ", ".join(sorted(others))


def _hue(text: str) -> str:
    if text in ("–", "·", "right"):
        return "grey"
    if text in ("hangs", "never ends"):
        return "orange"
    return "red" if text.startswith(("wrong", "Illegal", "right in", "never")) else "green"


def _ended(runs: dict[str, int]) -> str:
    if len(runs) == 1 and next(iter(runs)).startswith("not compiled"):
        return "not compiled"
    total = sum(runs.values())
    return ", ".join(f"{how} in {count} of {total}" for how, count in runs.items())


def recorded(said: dict[str, Any], repaired: dict[str, Any]) -> tuple[str, str]:
    """How a program ended on the recorded GPU, and the tools that found something or hung.

    What a tool says of the ``repaired`` program as well is marked.
    """
    loud = [
        f"{tool}: {_cell(each)}"
        + (", repaired too" if repaired["tools"][tool]["verdict"] == each["verdict"] else "")
        for tool, each in said["tools"].items()
        if each["verdict"] != "nothing"
    ]
    return _ended(said["runs"]), ", ".join(loud) or "–"


def _cell(said: dict[str, Any] | None) -> str:
    if said is None:
        return "·"
    return {"found": "found", "hangs": "hangs", "said": "reports", "nothing": "–"}[said["verdict"]]


@dataclass(frozen=True)
class Patient:
    """One patient in a ward."""

    ward: Ward
    name: str

    @cached_property
    def source(self) -> str:
        """The broken text."""
        return source(self.name)

    @property
    def symptom(self) -> str:
        """How its processes ended on the recorded GPU: ``"wrong in 5 of 5"``."""
        return _ended(self.ward.record["clinic"][f"{self.name} broken"]["runs"])

    def change(self, *pairs: tuple[str, str], schedule: Schedule = "late") -> None:
        """An experiment: run the broken text with some words exchanged; print how it ends.

        Raises ``ValueError`` when the text does not have these words.
        """
        text = self.source
        for old, new in pairs:
            if old not in text:
                raise ValueError(f"{self.name} has no {old!r}")
            text = text.replace(old, new)
        seen = examine(text, schedule)
        words = (" -> ".join(" ".join(part.split()) for part in pair) for pair in pairs)
        what = ", ".join(words) or f"schedule {schedule}"
        print(f"{what}\n    result: {seen.verdict}; findings: {seen.kinds or 'none'}")

    def find(self) -> None:
        """Print what the emulator and compute-sanitizer find, and the fix."""
        seen = examine(self.source)
        self.ward.found[self.name] = seen.kinds
        print(f"emulator\n{_indent(seen)}\ncompute-sanitizer")
        tools = self.ward.record["clinic"][f"{self.name} broken"]["tools"]
        spoke: dict[str, list[str]] = {}
        for tool, said in tools.items():
            if said["verdict"] == "nothing":
                continue
            lines = ", ".join(map(str, said["lines"]))
            where = f", line{'s' if len(said['lines']) > 1 else ''} {lines}" if lines else ""
            what = f"{said['verdict']}{where}{_first(said['said'])}"
            spoke.setdefault(what, []).append(tool)
        for what, names in spoke.items():
            print(f"    {', '.join(names)}: {what}")
        if not spoke:
            print("    " + ("nothing" if tools else "there is no program to run"))
        print(f"fix\n{_indent(fix(self.name))}")


def _first(said: list[str]) -> str:
    return f": {said[0].removeprefix('Error: ')}" if said else ""


def _indent(text: object) -> str:
    return "\n".join(f"    {line}".rstrip() for line in str(text).splitlines())
