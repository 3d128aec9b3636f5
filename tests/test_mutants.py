"""What tools/mutants.py takes for a change, and which tests it asks of one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import mutants  # noqa: E402

SOURCE = '''"""A text."""
import functools
LIMIT: int = 3

class Ring:
    @functools.cache
    def slot(self, i: int | None = None) -> int:
        """Where i goes."""
        return i % LIMIT
'''


@pytest.mark.parametrize(
    ("old", "new", "runs"),
    [
        ("i: int | None", "i: int & None", False),
        ("-> int", "-> float", False),
        ("LIMIT: int = 3", "LIMIT: not int = 3", False),
        ("Where i goes", "Nowhere", False),
        ("(self, i", "(self, *, i", False),
        ("(self, i", "(self, /, i", False),
        ("= 3", "= 4", True),
        ("i % LIMIT", "i // LIMIT", True),
        ("= None", "= 1", True),
    ],
)
def test_annotations_and_texts_are_no_mutants(old: str, new: str, runs: bool) -> None:
    assert old in SOURCE
    changed = mutants.stripped(SOURCE.replace(old, new)) != mutants.stripped(SOURCE)
    assert changed == runs


def mutant(line: int, module: str) -> mutants.Mutant:
    return mutants.Mutant(module, "", "Add", 0, line, "", "", "")


def test_the_tests_that_reach_the_innermost_function_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    (tmp_path / "m.py").write_text(SOURCE)
    seconds = {"a::1": 0.1, "a::2": 0.2, "b::1": 9.0, "c::1": 0.1}
    reached = {"tests": seconds, "functions": {"m.py:6": ["a::2", "b::1"], "m.py:99": ["c::1"]}}
    assert mutants.judges(mutant(9, "m.py"), reached) == (["a::2", "b::1"], [])
    assert sorted(mutants.judges(mutant(3, "m.py"), reached)[0]) == ["a::2", "b::1", "c::1"]
    assert mutants.judges(mutant(9, "m.py"), {"tests": {}, "functions": {}}) == ([], [])


def test_quick_tests_of_each_file_come_first_and_slow_ones_have_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    (tmp_path / "m.py").write_text(SOURCE)
    seconds = {f"{file}::{i}": float(i) for file in "ab" for i in range(20)}
    reached = {"tests": seconds, "functions": {"m.py:6": [*seconds]}}
    first, rest = mutants.judges(mutant(9, "m.py"), reached)
    assert sorted(first) == sorted(f"{file}::{i}" for file in "ab" for i in range(mutants.FIRST))
    assert rest and sum(seconds[test] for test in rest) <= mutants.MOST_SECONDS
    assert not {*first} & {*rest}


def test_equivalent_mutants_are_of_lines_that_are_there() -> None:
    entries = json.loads(mutants.EQUIVALENT.read_text(encoding="utf-8"))
    for each in entries:
        lines = (ROOT / each["module"]).read_text(encoding="utf-8").splitlines()
        assert each["before"] in {line.strip() for line in lines}, each
        assert each["before"] != each["after"] and each["why"].endswith(".")
