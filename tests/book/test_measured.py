"""What a page says of a Blackwell: that none was at hand, or what its records say."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from phasebit import chapters, contents, files, proving

from .notebooks import CHAPTERS, ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))

from phasebit_book import measured

FACTS = {"gpu": "NVIDIA B200", "driver": "580.1", "cuda": "13.0", "target": "sm_100a",
         "date": "2026-12-01", "protocol": {"clock": "made up"}}  # fmt: skip
TIMES = [2.0, 1.0, 3.0]
MADE_UP: dict[str, Any] = {
    "tensor_memory": {"rates": [
        {"instruction": "ld.32x32b.x32", "ns_each": 16.0, "bytes_each": 16_384}]},
    "one_thread_multiplies": {"products": [
        {"product": "tf32, sum f32", "n": 64, "m": 128, "k": 8, "ns_each": 16.384}]},
    "other_forms": {"products": [
        {"product": "bf16, half of A", "n": 64, "m": 128, "k": 32, "ns_each": 16.384}]},
    "chain": {"products": [
        {"m": 4096, "n": 4096, "k": 4096, "us": {"a pair": TIMES, "cuBLAS": TIMES}}]},
    "low_precision": {"products": [
        {"kernel": "nvfp4", "m": 1000, "n": 1000, "k": 1000, "us": TIMES}]},
    "cute_dsl": {"products": [
        {"m": 2048, "n": 2048, "k": 2048, "us": {"gemm.py": TIMES, "cuBLAS": TIMES}}]},
    "attention_again": {"attention": [
        {"depth": 64, "causal": causal, "tokens": 1024, "heads": 2,
         "us": {"a_in_order": TIMES, "torch": TIMES}} for causal in (False, True)]},
}  # fmt: skip
ONE_CELL = {"tensor_memory": "1,024", "one_thread_multiplies": "8.0", "other_forms": "32.0",
            "low_precision": "1,000", "attention_again": "268", "chain": "68,719",
            "cute_dsl": "8,590"}  # fmt: skip
"""A cell of each table, worked out by hand."""


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(files, "records", lambda: tmp_path)
    return tmp_path


def write(folder: Path, name: str, what: dict[str, Any]) -> None:
    data = {"benchmark": name, **FACTS, **what}
    (folder / f"{name}.nvidia-b200.json").write_text(json.dumps(data), encoding="utf-8")


def test_every_chapter_without_a_record_says_so() -> None:
    """The chapters whose record is for Blackwell are those with this note."""
    names = {contents.name(page): page.read_text(encoding="utf-8") for page in CHAPTERS}
    here = {name for name, text in names.items() if f"{{phasebit-measured}} {name}" in text}
    assert here == set(MADE_UP) == {
        name for name in chapters.having("record")
        if getattr(chapters.load(name, "record"), "TARGET", "") == "sm_100a"
    }  # fmt: skip


@pytest.mark.parametrize("name", MADE_UP)
def test_a_record_becomes_a_table(records: Path, name: str) -> None:
    assert measured.tables(name) == []
    write(records, name, MADE_UP[name])
    (table,) = measured.tables(name)
    assert table.source.startswith("NVIDIA B200, 2026-12-01")
    assert all(len(row) == len(table.heading) for row in table.rows)
    assert any(ONE_CELL[name] in row for row in table.rows)


def test_what_was_proved_is_counted_by_chapter(records: Path) -> None:
    found = {"chain: a": 0, "chain: b": 3, "tensor_memory: c": 0}
    cases = {name: {"differ": differ} for name, differ in found.items()}
    write(records, proving.NAME, {"cases": cases})
    (said,) = measured.proved("chain")
    assert said == ("NVIDIA B200, 2026-12-01: 1 of 2 launches of this chapter agree with the "
                    "emulator in every bit.")  # fmt: skip
    assert measured.proved("low_precision") == []
