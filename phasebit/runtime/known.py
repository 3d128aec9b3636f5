"""Findings that a program is known for: suppressed by rule and place, or kept in a baseline.

A suppression is `RULE`, `RULE@FILE`, `RULE@FILE:LINE` or `RULE@FUNCTION`, where the function is a
kernel or one that was inlined; `*` and `?` stand for any letters, and `no-promise` for every rule
of that grade. A file of suppressions has one a line, and `#` begins a comment. A baseline is JSON
that a run wrote: rule, kernel and lines of each finding. Known findings are counted; they neither
are told nor fail the run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from phasebit import files
from phasebit.emulator import Finding, digest, rulebook
from phasebit.runtime.report import End, Reporter

GRADE = rulebook.NO_PROMISE.replace(" ", "-")
"""What stands for every rule that the ISA gives no promise of."""

VERSION = 1
"""That of the baseline's form."""


class KnownError(Exception):
    """Suppressions or a baseline that cannot be read or written; the text says why."""


@dataclass(frozen=True)
class Suppression:
    """Findings that shall not count: of rules, at places; `text` as it was written."""

    text: str
    rules: frozenset[str]
    place: str = ""

    @classmethod
    def of(cls, text: str) -> Suppression:
        """Raises KnownError for a rule that is none."""
        name, at, place = text.strip().partition("@")
        rules = {each for each in rulebook.RULES if fnmatchcase(each, name)}
        if name == GRADE:
            rules = {x.name for x in rulebook.RULES.values() if x.grade == rulebook.NO_PROMISE}
        if not rules:
            raise KnownError(
                f"--suppress {text}: {name!r} is no rule: `python -m phasebit rules` lists them"
            )
        if at and not place:
            raise KnownError(f"--suppress {text}: say where, as race@kernel.cu:12, or leave @ out")
        return cls(text.strip(), frozenset(rules), place)

    def matches(self, finding: Finding) -> bool:
        """Whether it is of one of the rules, and one of its accesses at the place."""
        if finding.rule not in self.rules:
            return False
        return not self.place or any(
            fnmatchcase(name, self.place) for name in _names(finding)
        )  # fmt: skip


def _names(finding: Finding) -> Iterable[str]:
    """Everything that a place may be called by: kernel, functions, files, lines."""
    yield finding.kernel
    waits = [wait.place for wait in finding.waits if wait.place]
    for place in [*([finding.at] if finding.at else []), *finding.places, *waits]:
        if place.calls:
            yield place.file
        for call in place.calls:
            yield f"{place.file}:{call.line}"
            yield call.function


def suppressions(texts: Iterable[str], files: Iterable[str]) -> list[Suppression]:
    """Those of the command line, and of files. Raises KnownError."""
    found = [Suppression.of(text) for text in texts]
    for name in files:
        for number, line in enumerate(_read(name).splitlines(), 1):
            if text := re.sub(r"(^|\s)#.*", "", line).strip():
                try:
                    found.append(Suppression.of(text))
                except KnownError as error:
                    raise KnownError(f"{name}:{number}: {error}") from error
    return found


def baseline(name: str) -> frozenset[digest.Key]:
    """The sites of a baseline file. Raises KnownError."""
    try:
        data = json.loads(_read(name))
        if data["version"] != VERSION:
            raise ValueError
        return frozenset(
            (rulebook.rule(each["rule"]).name, str(each["kernel"]),
             tuple((str(file), int(line)) for file, line in each["lines"]))
            for each in data["findings"]
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise KnownError(
            f"{name} is no baseline of this version: write it anew with --write-baseline {name}"
        ) from error


def write_baseline(name: str, sites: Iterable[digest.Key]) -> None:
    """Write a baseline file. Raises KnownError."""
    found = [
        {"rule": rule, "kernel": kernel, "lines": [list(line) for line in lines]}
        for rule, kernel, lines in sorted(set(sites))
    ]
    data = json.dumps({"version": VERSION, "findings": found}, indent=1, ensure_ascii=False)
    try:
        with files.for_writing(name) as file:
            file.write(data + "\n")
    except OSError as error:
        raise KnownError(f"cannot write {name}: {error.strerror}") from error


def _read(name: str) -> str:
    try:
        return files.read_text(name)
    except ValueError as error:
        raise KnownError(str(error)) from error


class Sieve:
    """Passes on to a reporter what is not known yet, and counts what counts.

    `sites`: those of everything found that is not suppressed, which is what a baseline keeps;
    `new`: how many findings were passed on.
    """

    def __init__(
        self, reporter: Reporter, hidden: Sequence[Suppression] = (),
        known: frozenset[digest.Key] = frozenset(),
    ) -> None:  # fmt: skip
        self.reporter = reporter
        self.apart = True  # what the program's half of the runtime says counts as well
        self.sites: set[digest.Key] = set()
        self.new = 0
        self._known = known
        self._met: set[digest.Key] = set()
        self._suppressions = dict.fromkeys(hidden)
        self._matching: set[Suppression] = set()
        self._hidden = 0
        self._old = 0

    def found(self, findings: Sequence[Finding]) -> None:
        """See `Reporter`."""
        passed = [finding for finding in findings if self._counts(finding)]
        self.new += len(passed)
        if passed:
            self.reporter.found(passed)

    def _counts(self, finding: Finding) -> bool:
        matching = [each for each in self._suppressions if each.matches(finding)]
        self._matching.update(matching)
        if matching:
            self._hidden += 1
            return False
        site = digest.site_of(finding)
        self.sites.add(site)
        if site in self._known:
            self._met.add(site)
            self._old += 1
            return False
        return True

    def counted(self, kernel: str, launch: int, counters: Mapping[str, float]) -> None:
        """See `Reporter`."""
        self.reporter.counted(kernel, launch, counters)

    def note(self, text: str) -> None:
        """See `Reporter`."""
        self.reporter.note(text)

    def ended(self, end: End, standing: Finding | None) -> None:
        """See `Reporter`: before that, what was held back, and what held nothing back."""
        if standing and not self._counts(standing):
            standing = None
        self.new += bool(standing)
        if self._hidden:
            self.note(f"{_findings(self._hidden)} suppressed")
        if self._old:
            self.note(f"{_findings(self._old)} known from the baseline")
        for each in self._suppressions:
            if each not in self._matching:
                self.note(f"suppression {each.text} matches nothing")
        if gone := len(self._known - self._met):
            s = "entry" if gone == 1 else "entries"
            self.note(f"{gone} {s} of the baseline not found in this run")
        self.reporter.ended(end, standing)


def _findings(count: int) -> str:
    return f"{count} finding{'s' if count != 1 else ''}"
