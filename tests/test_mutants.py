"""What tools/mutants.py takes for a change, and which tests it asks of one."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

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


def test_what_an_operator_cannot_change_is_no_mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """cosmic-ray fails at `except (module.Error, Other)`."""

    def fails(*_: object) -> str:
        raise AttributeError("'PythonNode' object has no attribute 'value'")

    for name, parts in (("plugins", {"get_operator": lambda name: str}),
                        ("mutating", {"mutate_code": fails})):  # fmt: skip
        module = types.ModuleType(f"cosmic_ray.{name}")
        vars(module).update(parts)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    whole = types.ModuleType("cosmic_ray")
    vars(whole)["plugins"] = sys.modules["cosmic_ray.plugins"]
    monkeypatch.setitem(sys.modules, "cosmic_ray", whole)
    assert mutants.made("phasebit/runtime/elf.py", "ExceptionReplacer", 0, 1) is None


def mutant(line: int, module: str) -> mutants.Mutant:
    return mutants.Mutant(module, "", "Add", 0, line, "", "", "")


def test_the_tests_that_reach_the_innermost_function_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    (tmp_path / "m.py").write_text(SOURCE)
    seconds = {"a::1": 0.1, "a::2": 0.2, "b::1": 9.0, "c::1": 0.1}
    reached = {
        "tests": seconds,
        "functions": {"m.py:Ring.slot": ["a::2", "b::1"], "m.py:other": ["c::1"]},
    }
    assert mutants.judges(mutant(9, "m.py"), reached) == (["a::2", "b::1"], [])
    assert sorted(mutants.judges(mutant(3, "m.py"), reached)[0]) == ["a::2", "b::1", "c::1"]
    assert mutants.judges(mutant(9, "m.py"), {"tests": {}, "functions": {}}) == ([], [])


def test_what_a_child_of_the_tests_runs_is_judged_by_all_of_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    path = "phasebit/runtime/m.py"
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(SOURCE)
    seconds = {"tests/runtime/a::1": 0.1, "tests/runtime/b::1": 9.0, "tests/emulator/c::1": 0.1}
    tests = [*seconds]
    reached = {"tests": seconds, "functions": {f"{path}:Ring.slot": tests[:1]}}
    assert mutants.judges(mutant(9, path), reached) == (tests[:1], tests[1:2])
    assert mutants.judges(mutant(9, path), reached | {"functions": {}}) == (tests[:2], [])
    emulators = ["tests/emulator/c::1"]  # it calls the function, and judges another package
    assert mutants.judges(mutant(9, path),
    reached | {"functions": {f"{path}:Ring.slot": emulators}}) \
        == (tests[:2], [])  # fmt: skip
    seconds["tests/runtime/test_m.py::1"] = 1.0
    named = mutants.judges(mutant(9, path), reached | {"functions": {}})[0]
    assert named == ["tests/runtime/test_m.py::1"]


def test_quick_tests_of_each_file_come_first_and_slow_ones_have_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    (tmp_path / "m.py").write_text(SOURCE)
    seconds = {f"{file}::{i}": float(i) for file in "ab" for i in range(20)}
    reached = {"tests": seconds, "functions": {"m.py:Ring.slot": [*seconds]}}
    first, rest = mutants.judges(mutant(9, "m.py"), reached)
    assert sorted(first) == sorted(f"{file}::{i}" for file in "ab" for i in range(mutants.FIRST))
    assert rest and sum(seconds[test] for test in rest) <= mutants.MOST_SECONDS
    assert not {*first} & {*rest}
    assert first[0] == "a::0"
    portions = [*mutants.helpings(first + rest, reached)]
    assert [test for each in portions for test in each] == first + rest
    assert len(portions) > 2 and mutants.price(first[0], reached) == 0.0


def test_functions_have_the_names_that_python_gives_them() -> None:
    source = SOURCE + "\ndef outer():\n    return lambda: [\n        LIMIT]\n"
    names = {name: (first, last) for first, last, name in mutants.functions(source)}
    assert names["Ring.slot"] == (6, 9)  # with its decorator
    space: dict[str, Any] = {}
    exec(source, space)
    assert {space["outer"].__qualname__, space["outer"]().__qualname__} <= {*names}
    assert space["Ring"].slot.__wrapped__.__qualname__ in names


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree with a module and its tests, in place of the repository's copy."""
    monkeypatch.setattr(mutants, "ROOT", tmp_path / "root")
    monkeypatch.setattr(mutants, "TREE", tmp_path / "tree")
    monkeypatch.setattr(mutants, "OUTPUT", tmp_path / "output.txt")
    monkeypatch.setattr(mutants, "LIMIT", 2)
    monkeypatch.setattr(mutants, "SURE", {})
    for folder in ("root", "tree"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "ringed.py").write_text(SOURCE)
    (tmp_path / "tree" / "test_ringed.py").write_text(
        "import ringed\n"
        "def test_there():\n    assert ringed.Ring\n"
        "def test_slot():\n    assert ringed.Ring().slot(4) == 1\n"
        "def test_wrong():\n    assert False\n"
    )
    return tmp_path / "tree"


TESTS = ["test_ringed.py::test_there", "test_ringed.py::test_slot"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("i % LIMIT", "i // LIMIT + 1", ("killed", TESTS[1])),
        ("i % LIMIT", "i % LIMIT + 0", ("survived", "")),
        ("import functools", "import functool", ("killed", "test_ringed.py")),
        ("class Ring", "while True: pass\nclass Ring", ("killed by time", "")),
    ],
)
def test_a_verdict_names_the_test_that_killed(
    tree: Path, old: str, new: str, said: tuple[str, str]
) -> None:
    reached = {"tests": dict.fromkeys(TESTS, 0.01), "functions": {"ringed.py:Ring.slot": TESTS}}
    text = SOURCE.replace(old, new)
    assert mutants.verdict(mutant(9, "ringed.py"), text, reached, 0) == said
    assert (tree / "ringed.py").read_text() == SOURCE


def test_a_test_that_fails_without_any_change_kills_nothing(tree: Path) -> None:
    wrong = "test_ringed.py::test_wrong"
    reached = {"tests": {wrong: 0.0}, "functions": {"ringed.py:Ring.slot": [wrong]}}
    assert mutants.verdict(mutant(9, "ringed.py"), SOURCE, reached, 0) == ("survived", "")


def test_the_tests_of_a_file_that_changed_are_forgotten() -> None:
    found = {"tests": {"a::1": 1.0, "ab::1": 1.0}, "functions": {"m.py:f": ["a::1", "ab::1"]}}
    mutants.forget(found, "a")
    assert found == {"tests": {"ab::1": 1.0}, "functions": {"m.py:f": ["ab::1"]}}


def test_who_is_drawn_stays_when_another_module_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def places(extra: int) -> list[tuple[str, str, int, int]]:
        found = [("m.py", "Add", place, place // 2) for place in range(40)]
        return found + [("n.py", "Add", place, place) for place in range(extra)]

    def order(extra: int, seed: int, sample: int | None = None) -> list[tuple[Any, ...]]:
        monkeypatch.setattr(mutants, "all_places", lambda _: iter(places(extra)))
        return [at for at in mutants.drawn(sample, seed, "") if at[0] == "m.py"]

    monkeypatch.setattr(mutants, "made", lambda *at: at if at[2] % 5 else None)
    assert order(0, 1) == order(7, 1) != order(0, 2)
    assert order(0, 1, 9) == order(0, 1)[:9] and len(order(0, 1)) == 32
    assert len({line for *_, line in order(0, 1, 12)}) == 12  # no line twice before the others


def test_what_was_killed_when_drawn_stays_apart_from_what_is_killed_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    monkeypatch.setattr(mutants, "SESSION", tmp_path / "session.jsonl")
    (tmp_path / "phasebit" / "emulator").mkdir(parents=True)
    (tmp_path / "phasebit" / "emulator" / "m.py").write_text(SOURCE)
    now = mutants.digest(SOURCE)

    def entry(name: str, said: str, seed: int, text: str = now) -> str:
        facts = {"name": name, "verdict": said, "seed": seed, "digest": text, "before": name}
        return json.dumps(facts | {"module": "phasebit/emulator/m.py", "after": "", "function": ""})

    lines = [entry("a", "killed", 1), entry("t", "survived", 1), entry("c", "survived", 2)]
    lines += [entry("a line that is gone", "survived", 2), entry("t", "killed by time", 9)]
    lines += [entry("i", "killed", 2, "of another text")]
    mutants.SESSION.write_text("\n".join(lines))
    found = mutants.summary(mutants.session())
    one = {"seed": 1, "equivalent": 0, "gone": 0, "killed_when_drawn": 1, "killed": 2}
    two = {"seed": 2, "equivalent": 0, "gone": 1, "killed_when_drawn": 1, "killed": 1}
    assert found["samples"] == [one | {"mutants": 2}, two | {"mutants": 3}]
    assert [each["before"] for each in found["survivors"]] == ["c"]
    earlier = {
        "samples": [{"seed": 2}, {"seed": 7}, {"seed": 8}, {"seed": 9}],
        "folders": [{"folder": "a", "seeds": [2, 9]}, {"folder": "b", "seeds": [7, 8]}],
        "survivors": [{"seed": 9}, {"seed": 7}],
    }
    both = mutants.with_earlier(found, earlier)
    assert [each["seed"] for each in both["samples"]] == [7, 8, 1, 2]
    assert [each["folder"] for each in both["folders"]] == ["b", "emulator"]
    assert [each["seed"] for each in both["survivors"]] == [7, 2]
    assert {each["name"] for each in mutants.unchanged(mutants.session())} == {
        "a", "t", "c", "a line that is gone"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("part", "whole", "low", "high"),
    [(0, 0, 0.0, 100.0), (10, 10, 72.2, 100.0), (0, 10, 0.0, 27.8), (50, 100, 40.4, 59.6)],
)  # all of ten: 1 / (1 + z² / 10) = 72.2 %
def test_wilsons_interval(part: int, whole: int, low: float, high: float) -> None:
    assert mutants.interval(part, whole) == (low, high)


def test_the_page_shows_the_record() -> None:
    record = json.loads(mutants.RECORD.read_text(encoding="utf-8"))
    assert mutants.page(record) == mutants.PAGE.read_text(encoding="utf-8")
    for key in ("mutants", "equivalent", "gone", "killed_when_drawn", "killed"):
        assert sum(one[key] for one in record["samples"]) == sum(
            one[key] for one in record["folders"]
        )


def test_equivalent_mutants_are_of_lines_that_are_there() -> None:
    entries = json.loads(mutants.EQUIVALENT.read_text(encoding="utf-8"))
    for each in entries:
        lines = (ROOT / each["module"]).read_text(encoding="utf-8").splitlines()
        assert each["before"].strip() in {line.strip() for line in lines}, each
        assert each["before"] != each["after"] and each["why"].endswith(".")
