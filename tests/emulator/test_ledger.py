"""The list of instructions follows the table, and takes its proof from the record alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from phasebit.emulator import ledger
from phasebit.emulator.table import entries


def record(folder: Path, instructions: dict[str, object]) -> Path:
    path = folder / "record.json"
    path.write_text(
        json.dumps({"gpu": "NVIDIA H200", "date": "2026-11-21", "instructions": instructions})
    )
    return path


POPC = {"programs": 3, "cases": 2000, "agreed": 1999, "how": "every bit"}


def test_every_entry_is_listed_once(tmp_path: Path) -> None:
    found = [(line.family, line.name) for line in ledger.lines(tmp_path / "none")]
    assert len(found) == len(set(found))
    assert set(found) == {(entry.family, entry.name) for entry in entries()}


def test_without_a_record_nothing_is_proved(tmp_path: Path) -> None:
    none = tmp_path / "none"
    assert {line.proof for line in ledger.lines(none)} == {"not proved"}
    assert ledger.origin(none) == "no differential tests are on record"


def test_a_proof_comes_from_the_record(tmp_path: Path) -> None:
    path = record(tmp_path, {"integer/popc": POPC})
    popc = next(line for line in ledger.lines(path) if line.name == "popc")
    assert popc.proof == "3 programs, 1,999 of 2,000 cases, every bit"
    assert ledger.origin(path) == "differential tests on NVIDIA H200, 2026-11-21"
    last = ledger.by_family(ledger.lines(path)).splitlines()[-1].split()
    assert last == ["all", str(len(ledger.lines(path))), "1", "3", "2,000", "1,999"]


def test_a_name_in_two_families_has_two_proofs(tmp_path: Path) -> None:
    lines = ledger.lines(record(tmp_path, {"floating/add": POPC}))
    proved = {line.family for line in lines if line.name == "add" and line.cases}
    assert proved == {"floating"}
    assert {"integer", "half"} <= {line.family for line in lines if line.name == "add"}


def test_a_record_of_an_instruction_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="names integer/popcorn, which the table does not have"):
        ledger.lines(record(tmp_path, {"integer/popcorn": POPC}))


def test_the_listing_says_what_each_does(tmp_path: Path) -> None:
    text = ledger.listing(ledger.lines(record(tmp_path, {"integer/popc": POPC})))
    assert text.startswith("integer\n") and "how many bits are one." in text
    assert max(map(len, text.splitlines())) < 140
