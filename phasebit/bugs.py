"""Bugs that people had: a folder each in ``bugs/``, with ``broken.cu``, ``fixed.cu``, ``bug.toml``.

Both programs check their own result, print ``right`` or ``wrong: 3 of 40``, and end with status 0
or 2. They are the smallest that show the bug, written for this collection; where it was found,
what a test of results sees and what ought to be reported stand in ``bug.toml``.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff
from functools import cache
from itertools import dropwhile
from pathlib import Path

from phasebit import files, toolchain
from phasebit.emulator import Finding
from phasebit.runtime import apart, library

TWINS = ("broken", "fixed")

KINDS = {
    "exit": "Whoever leaves, or invalidates a barrier, has waited for all who still use it.",
    "hand-over": "Whoever says that data are there has waited for all who write them, and whoever "
    "uses them has waited for that word.",
    "reuse": "Memory is written again when all who read or fill it are done, and the writer knows.",
    "scope": "What another block is told is released and acquired with a scope that holds both.",
    "between kernels": "A kernel that may begin early waits before it touches what others touch.",
    "proxy": "Between an access by threads and a later one by an engine stands a proxy fence.",
    "count": "What a barrier is told to expect comes, and nothing else.",
    "phase": "A parity counts the phases of its own barrier, and nobody waits a phase late.",
    "allocation": "All who share tensor memory have it before anyone uses it or gives it back.",
    "tensor memory": "Tensor memory is rewritten, released or freed once all its loads are done.",
    "wgmma": "Registers of a multiplication change hands by wgmma.fence before it and "
    "wgmma.wait_group after it.",
    "descriptor": "A descriptor is compared with the tile it describes: no instruction refuses one "
    "that is legal and wrong.",
    "address": "An instruction gets an address of the kind that it asks for.",
    "divergence": "Everybody whom an instruction names executes it.",
    "bounds": "The guard compares with the size, not with the last index.",
    "uninitialised": "Nothing is read before it was written, not even to be multiplied by zero.",
    "result": "A test has sizes that differ in every direction, and a poisoned output.",
}
"""Kind of a bug -> the one rule that would have prevented it."""

ISA_VERSION = "9.1"
"""The PTX ISA whose sections ``bug.toml`` names and quotes."""

SECONDS = 60.0
"""How long a program may run on the emulator; each takes about a second."""


@dataclass(frozen=True)
class Bug:
    """One bug; the fields but ``name``, which is its folder's, are those of ``bug.toml``.

    ``rule`` is what the emulator must say is broken, and ``line`` the text of a line of
    ``broken.cu`` that it must name; both are empty where there is nothing for a checker to find.
    ``also`` are other lines that the repair protects: of a race, the second access.
    ``isa`` is what makes it a mistake, in our words; ``quote`` is the sentence itself, from
    ``section`` of the PTX ISA, both empty where none of its sentences does; ``hardware`` is what
    the program in which it was found did on a GPU, empty where nobody has tried.  ``thread`` is
    where people discuss it, ``dates`` the day on which each of these was opened (merged, or only
    the month, where no more is known), ``source`` the lines of the original; ``state`` is what its
    owners say: "fixed", "confirmed", "closed", "proposed" (suspected by whoever reports it), or
    "found here".
    """

    name: str
    title: str
    kind: str
    state: str
    arch: str
    where: tuple[str, ...]
    read: str
    test: str
    isa: str
    repair: str
    source: tuple[str, ...] = ()
    thread: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    section: str = ""
    quote: str = ""
    hardware: str = ""
    rule: str = ""
    line: str = ""
    also: tuple[str, ...] = ()

    def path(self, twin: str) -> Path:
        """The file of ``"broken"`` or ``"fixed"``."""
        return files.bugs() / self.name / f"{twin}.cu"

    def text(self, twin: str) -> str:
        """The program, ``"broken"`` or ``"fixed"``."""
        return self.path(twin).read_text(encoding="utf-8")

    @property
    def code(self) -> str:
        """The broken program without the words at its head, which give the bug away."""
        lines = self.text("broken").splitlines(keepends=True)
        return "".join(dropwhile(lambda line: line.startswith("//"), lines))

    @property
    def number(self) -> int:
        """The number of :attr:`line` in ``broken.cu``; 0 where there is none."""
        return self._number(self.line) if self.line else 0

    def _number(self, line: str) -> int:
        return [text.strip() for text in self.text("broken").splitlines()].index(line) + 1

    @property
    def numbers(self) -> frozenset[int]:
        """The lines of ``broken.cu`` that the repair changes or protects; a report names one.

        Empty where there is nothing for a checker to find.
        """
        if not self.line:
            return frozenset()
        broken, fixed = (self.text(twin).splitlines() for twin in TWINS)
        same = SequenceMatcher(None, broken, fixed, autojunk=False).get_matching_blocks()
        kept = {i + 1 for block in same for i in range(block.a, block.a + block.size)}
        changed = set(range(1, len(broken) + 1)) - kept
        return frozenset(changed | {self._number(line) for line in (self.line, *self.also)})

    @property
    def repaired(self) -> str:
        """What the repair changes: the lines that go (−) and those that come (+)."""
        broken, fixed = (self.text(twin).splitlines() for twin in TWINS)
        lines = list(unified_diff(broken, fixed, lineterm="", n=0))[2:]
        return "\n".join(line for line in lines if not line.startswith("@@"))

    @property
    def report(self) -> str:
        """What one would write to those who keep the code, in Markdown."""
        lines = [f"### {self.title}", "", *(f"- {where}" for where in self.where)]
        lines += [f"- {link}" for link in (*self.thread, *self.source)]
        lines += ["", f"What makes it a mistake: PTX ISA or CUDA documentation, {self.isa}."]
        if self.quote:
            lines += ["", f"> {self.quote}", f"> (PTX ISA {ISA_VERSION}, section {self.section})"]
        lines += ["", f"What a test of results sees: {self.test}."]
        lines += ["", f"On hardware: {self.hardware}."] if self.hardware else []
        program = ["```cpp", self.text("broken").rstrip(), "```"]
        lines += ["", "The smallest program that shows it:", "", *program]
        change = ["```diff", self.repaired, "```"]
        return "\n".join([*lines, "", f"A repair: {self.repair}.", "", *change])

    def build(self, twin: str, *, target: str | None = None, emulated: bool = True) -> Path:
        """The program, compiled: for the emulator, or for this machine's GPU.

        Raises as :func:`phasebit.toolchain.build`.
        """
        return build(self.text(twin), f"{twin}.cu", target or self.arch, emulated=emulated)

    def run(self, twin: str = "broken", *, schedule: str = "late") -> Outcome:
        """Run it on the emulator, all checks on."""
        return emulate(self.build(twin), schedule=schedule)


@dataclass(frozen=True)
class Outcome:
    """How a run ended: what the program printed, ``status`` it ended with, and what was found."""

    printed: str
    status: int
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    """What the emulator says of the run itself."""

    @property
    def result(self) -> str:
        """``right``, ``wrong: 3 of 40``, or the name of the error that ended it."""
        return result(self.printed, self.status)

    @property
    def lines(self) -> frozenset[int]:
        """All lines of the program's own file that the findings name."""
        return frozenset(
            call.line
            for finding in self.findings
            for place in finding.places
            for call in place.calls
        )

    def said(self, bug: Bug) -> str:
        """The message that names the bug's rule and its line; empty where none does."""
        for finding in self.findings:
            named = {call.line for place in finding.places for call in place.calls}
            if finding.rule == bug.rule and bug.number in named:
                return str(finding)
        return ""


def result(printed: str, status: int) -> str:
    """One or two words for the end of a program that printed this, on whichever device."""
    if failed := re.search(r"failed: (\w+)", printed):
        return failed[1]
    last = printed.strip().splitlines()[-1:]
    return last[0] if last else f"status {status}"


def names() -> list[str]:
    """All bugs."""
    return sorted(path.parent.name for path in files.bugs().glob("*/bug.toml"))


@cache
def bug(name: str) -> Bug:
    """One of them. Raises ``ValueError`` for an unknown name, and a ``bug.toml`` that is off."""
    path = files.bugs() / name / "bug.toml"
    if not path.is_file():
        raise ValueError(f"no bug is called {name!r}: choose from {', '.join(names())}")
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    lists = {key: tuple(value) for key, value in data.items() if isinstance(value, list)}
    try:
        found = Bug(name, **{**data, **lists, "read": str(data["read"])})
    except (TypeError, KeyError) as error:
        raise ValueError(f"{path}: {error}") from None
    if found.kind not in KINDS:
        raise ValueError(
            f"{path}: no kind is called {found.kind!r}: choose from {', '.join(KINDS)}"
        )
    return found


def every() -> list[Bug]:
    """All of them, by kind in the order of :data:`KINDS`."""
    order = list(KINDS)
    return sorted(map(bug, names()), key=lambda it: (order.index(it.kind), it.name))


def found_here() -> list[Bug]:
    """Those that the emulator found in others' kernels; the rest is from their trackers."""
    return [one for one in every() if one.state == "found here"]


def build(text: str, name: str, target: str | None, *, emulated: bool = True) -> Path:
    """A program of this collection, compiled: for the emulator, or for this machine's GPU.

    Raises as :func:`phasebit.toolchain.build`.
    """
    runtime = library.for_linking(toolchain.nvcc().major) if emulated else None
    include = [files.bugs() / "include"]
    built = toolchain.build(text, name=name, target=target, runtime=runtime, include=include)
    return built.program


def emulate(
    program: Path, *arguments: str, schedule: str = "late", seed: int = 0, seeds: int = 1,
    most_runs: int = 0,
) -> Outcome:  # fmt: skip
    """Run a program on the emulator, in a process of its own, all checks on.

    Of the random schedule ``seeds`` orders, from ``seed`` on, one after the other: a tenth of a
    second each.  ``most_runs``: the bound of a search of every order, where it is not the usual.
    """
    options = ["--schedule", schedule, "--seed", str(seed), "--seeds", str(seeds)]
    options += ["--most-runs", str(most_runs)] if most_runs else []
    done, told = apart.run([program, *arguments], SECONDS, SECONDS * (1 + seeds), *options)
    return Outcome(done.stdout + done.stderr, done.status, told.findings, told.notes)
