"""The tables of planted mistakes, against the records that they are made of."""

from __future__ import annotations

import json
from typing import Any

import pytest

from phasebit import files
from phasebit.chapters.a_gpu_you_can_read import planted_mistakes
from phasebit.instruments.sanitizer import TOOLS


def record(name: str) -> Any:
    return json.loads((files.records() / name).read_text(encoding="utf-8"))


def test_a_row_for_each_mistake_and_a_column_for_each_tool() -> None:
    emulator, table = record(planted_mistakes.EMULATOR)["planted"], planted_mistakes.table()
    assert [row[0] for row in table.rows] == [
        name.split("/")[1].replace("_", " ") for name in emulator
    ]
    assert table.heading == ("mistake", "emulator", *TOOLS)
    ended = {row[0]: row[1:] for row in table.rows}
    assert ended["wrong parity"] == ("deadlock", *("hangs",) * 4)
    assert ended["misaligned shared"] == ("fault", "found", "fails", "fails", "fails")
    assert ended["one warp at the barrier"] == ("race, barrier", "–", "found", "–", "–")


def test_the_summary_counts_the_rows_of_the_table() -> None:
    *groups, total, repaired = planted_mistakes.summary().rows
    for column in range(1, 3 + len(TOOLS)):
        assert sum(int(row[column]) for row in groups) == int(total[column])
    rows = planted_mistakes.table().rows
    assert total == (
        "all", str(len(rows)), str(sum(row[1] != "–" for row in rows)),
        *(str(sum(row[2 + i] == "found" for row in rows)) for i in range(len(TOOLS))),
    )  # fmt: skip
    assert repaired[:3] == ("repaired", str(len(rows)), "0"), "the emulator raises no alarm"


def test_a_tool_that_reports_a_repaired_twin_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    emulator, sanitizer = planted_mistakes._records()
    said = {tool: {"verdict": "found" if tool == "racecheck" else "nothing"} for tool in TOOLS}
    sanitizer["repaired"] = dict.fromkeys(sanitizer["repaired"], said)
    monkeypatch.setattr(planted_mistakes, "_records", lambda: (emulator, sanitizer))
    *_, repaired = planted_mistakes.summary().rows
    assert repaired[1:] == (repaired[1], "0", "0", repaired[1], "0", "0")
