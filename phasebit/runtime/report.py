"""How a program's run went: its findings and its end, for people or as JSON.

People read sentences, on standard error: each site once, with a count. Programs read JSON on a
channel of its own: a line for each finding as it comes, `{"finding": {…}}`, for each launch's
counters where these are asked for, `{"counters": {…}}`, and at last `{"end": {…}}`. What the
program itself prints is in neither. `read` is for whoever started the run.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol, TextIO

from phasebit.emulator import Finding, digest, findings


@dataclass(frozen=True)
class End:
    """How a run ended.

    `status`: the exit status; `signal`: the name of the one that ended the program, or empty;
    `limit`: the seconds after which it was ended, 0 when it ended by itself.
    """

    status: int
    signal: str = ""
    limit: float = 0.0


@dataclass(frozen=True)
class Report:
    """What a run reported. `end` is None when it was killed before it could say."""

    findings: tuple[Finding, ...] = ()
    end: End | None = None
    notes: tuple[str, ...] = ()


class Reporter(Protocol):
    """Who is told how a run goes.

    `apart`: not on standard error, so that the program's own half of the runtime may not write
    there either.
    """

    apart: bool

    def found(self, findings: Sequence[Finding]) -> None:
        """Findings of one launch, or one that belongs to none."""
        ...

    def counted(self, kernel: str, launch: int, counters: Mapping[str, float]) -> None:
        """What a launch's counters show, where they were asked for."""
        ...

    def note(self, text: str) -> None:
        """Something about the report itself."""
        ...

    def ended(self, end: End, standing: Finding | None) -> None:
        """The run is over; `standing`: where a kernel was that the time limit ended."""
        ...


class CannotTell(Exception):
    """A report cannot be written; the text says where and why."""


def write_line(file: TextIO, line: str) -> None:
    """Write a line of a report at once. Raises CannotTell; BrokenPipeError: nobody reads it."""
    try:
        print(line, file=file, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        streams = {id(sys.stdout): "standard output", id(sys.stderr): "standard error"}
        name = streams.get(id(file))
        if name is None:
            name = file.name
            with contextlib.suppress(OSError):  # it would be tried once more at the end
                file.close()
        raise CannotTell(f"cannot write the report to {name}: {error.strerror}") from error


class ForPeople:
    """Sentences, each line led by `phasebit: `, on standard error or in a log.

    `most`: the sites of one rule in a kernel that are told, None for every finding by itself.
    """

    apart = False

    def __init__(self, log: TextIO, most: int | None = digest.MOST) -> None:
        self.log = log
        self._digest = digest.Digest(most)
        self._sums: dict[str, dict[str, float]] = {}
        self._launches: dict[str, int] = defaultdict(int)

    def found(self, findings: Sequence[Finding]) -> None:
        """See `Reporter`."""
        for text in self._digest.tell(findings):
            self._print(text)

    def counted(self, kernel: str, launch: int, counters: Mapping[str, float]) -> None:
        """See `Reporter`: the sums of all launches of a kernel are told at the end."""
        sums = self._sums.setdefault(kernel, {})
        self._launches[kernel] += 1
        for name, value in counters.items():
            sums[name] = sums.get(name, 0) + value

    def note(self, text: str) -> None:
        """See `Reporter`."""
        self._print(text)

    def ended(self, end: End, standing: Finding | None) -> None:
        """See `Reporter`."""
        if end.limit:
            self._print(f"ended after {end.limit:g} s, the time limit")
        if standing:
            self.found([standing])
        if end.signal:
            self._print(f"the program died of {end.signal}")
        for text in self._digest.rest():
            self._print(text)
        for kernel, sums in self._sums.items():
            count = self._launches[kernel]
            self._print(f"kernel {kernel}, {count} launch{'es' if count > 1 else ''}:")
            for name, value in sorted(sums.items()):
                self._print(f"  {value:>14,.10g}  {name}")

    def _print(self, text: str) -> None:
        for line in text.splitlines() or [""]:
            write_line(self.log, f"phasebit: {line}")


class AsJson:
    """JSON, a line for each finding and one for the end."""

    apart = True

    def __init__(self, file: TextIO) -> None:
        self.file = file

    def found(self, findings: Sequence[Finding]) -> None:
        """See `Reporter`."""
        for finding in findings:
            self._print({"finding": finding.to_json()})

    def counted(self, kernel: str, launch: int, counters: Mapping[str, float]) -> None:
        """See `Reporter`."""
        self._print({"counters": {"kernel": kernel, "launch": launch, "values": dict(counters)}})

    def note(self, text: str) -> None:
        """See `Reporter`."""
        self._print({"note": text})

    def ended(self, end: End, standing: Finding | None) -> None:
        """See `Reporter`."""
        self.found([standing] if standing else [])
        self._print({"end": asdict(end)})

    def _print(self, data: object) -> None:
        some = (getattr(self.file, "encoding", None) or "utf-8").lower() != "utf-8"
        write_line(self.file, json.dumps(data, ensure_ascii=some))


class AtTheEnd:
    """Gathers everything, and hands it to `write` when the run is over."""

    apart = True

    def __init__(self, write: Callable[[Sequence[Finding], End], None]) -> None:
        self._write = write
        self._findings: list[Finding] = []

    def found(self, findings: Sequence[Finding]) -> None:
        """See `Reporter`."""
        self._findings += findings

    def counted(self, kernel: str, launch: int, counters: Mapping[str, float]) -> None:
        """See `Reporter`: findings alone are kept."""

    def note(self, text: str) -> None:
        """See `Reporter`: findings alone are kept."""

    def ended(self, end: End, standing: Finding | None) -> None:
        """See `Reporter`."""
        self._write([*self._findings, *([standing] if standing else [])], end)


class Several:
    """Tells several reporters the same."""

    def __init__(self, reporters: Sequence[Reporter]) -> None:
        self.reporters = reporters
        self.apart = any(each.apart for each in reporters)

    def found(self, findings: Sequence[Finding]) -> None:
        """See `Reporter`."""
        for each in self.reporters:
            each.found(findings)

    def counted(self, kernel: str, launch: int, counters: Mapping[str, float]) -> None:
        """See `Reporter`."""
        for each in self.reporters:
            each.counted(kernel, launch, counters)

    def note(self, text: str) -> None:
        """See `Reporter`."""
        for each in self.reporters:
            each.note(text)

    def ended(self, end: End, standing: Finding | None) -> None:
        """See `Reporter`."""
        for each in self.reporters:
            each.ended(end, standing)


def read(path: Path) -> Report:
    """The report that `AsJson` wrote to a file, if there is one; a line cut off does not count."""
    report = Report()
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    for line in text.split("\n")[:-1]:
        data = json.loads(line)
        if "note" in data:
            report = replace(report, notes=(*report.notes, data["note"]))
        elif "finding" in data:
            finding = Finding.from_json(data["finding"])
            report = replace(report, findings=(*report.findings, finding))
        elif "end" in data:
            report = replace(report, end=End(**data["end"]))
    return report


def of_program(text: str, rule: str = "program") -> Finding:
    """A finding that is no kernel's doing."""
    return Finding(rule, findings.say("{}", text))
