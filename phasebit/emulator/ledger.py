"""The list of instructions, each with how its meaning was proved.

The instructions come from the table, the proof from a record: what became of the
programs that were run on a GPU and here.  ``records/emulator_ptx.json`` holds

    {"gpu": "NVIDIA H200", "date": "…",
     "instructions": {"integer/mul.wide": {"programs": 12, "cases": 768, "agreed": 768,
                                           "how": "every bit"}, …}}

with the family and the name of the table's entries.  ``how`` says by which measure
two answers agree.  An instruction without a line in the record is listed as not proved.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from phasebit import files
from phasebit.emulator.table import FAMILIES, entries

RECORD = "emulator_ptx.json"


@dataclass(frozen=True)
class Line:
    """One instruction; with several entries of one name, their proof is one."""

    family: str
    name: str
    section: str
    summary: str
    programs: int = 0
    cases: int = 0
    agreed: int = 0
    how: str = ""

    @property
    def proof(self) -> str:
        """``12 programs, 768 of 768 cases, every bit``; ``not proved`` without a record."""
        if not self.cases:
            return "not proved"
        return f"{self.programs} programs, {self.agreed:,} of {self.cases:,} cases, {self.how}"


def lines(record: Path | None = None) -> list[Line]:
    """All instructions by family and name, with what the record says of each.

    Raises ``ValueError`` for a record that names an instruction which is not in the table.
    """
    record = record or files.records() / RECORD
    proofs = json.loads(record.read_text())["instructions"] if record.is_file() else {}
    found: dict[tuple[str, str], Line] = {}
    for entry in entries():
        key = entry.family, entry.name
        if key not in found:
            proof = proofs.get("/".join(key), {})
            found[key] = Line(*key, entry.section, entry.summary, **proof)
    unknown = sorted(set(proofs) - {"/".join(key) for key in found})
    if unknown:
        raise ValueError(f"{record.name} names {', '.join(unknown)}, which the table does not have")
    return list(found.values())


def origin(record: Path | None = None) -> str:
    """Where the proof comes from, in words."""
    record = record or files.records() / RECORD
    if not record.is_file():
        return "no differential tests are on record"
    data = json.loads(record.read_text())
    return f"differential tests on {data['gpu']}, {data['date']}"


def by_family(what: Iterable[Line]) -> str:
    """One line a family: instructions, how many are proved, programs, cases, agreed."""
    what = list(what)
    head = ("family", "instructions", "proved", "programs", "cases", "agreed")
    rows: list[tuple[str, ...]] = [head]
    for family in FAMILIES:
        mine = [line for line in what if line.family == family]
        if mine:
            rows.append(_row(family, mine))
    rows.append(_row("all", what))
    return "\n".join(
        f"{row[0]:<10}" + "".join(f"{cell:>13}" for cell in row[1:]) for row in rows
    )


def _row(name: str, mine: list[Line]) -> tuple[str, ...]:
    totals = (
        len(mine), sum(line.cases > 0 for line in mine), sum(line.programs for line in mine),
        sum(line.cases for line in mine), sum(line.agreed for line in mine),
    )  # fmt: skip
    return (name, *(f"{n:,}" for n in totals))


def listing(what: Iterable[Line]) -> str:
    """One line an instruction: name, section of the PTX ISA, meaning, proof."""
    text, family = [], ""
    for line in what:
        if line.family != family:
            family = line.family
            text += ["", family]
        text.append(f"  {line.name:<34} {line.section:<14} {line.proof}")
        text.append(f"      {line.summary.partition(': ')[2] or line.summary}")
    return "\n".join(text[1:])
