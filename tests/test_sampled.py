"""A sample of what is alike: its size, what is in no draw, and that commits take turns."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import conftest
from tests import sampled


def controller(one_of: str, processes: int) -> Any:
    given = {"one_of": one_of, "numprocesses": processes}
    return SimpleNamespace(getoption=lambda name, default=None: given.get(name, default))


def worker(one_of: str, processes: int) -> Any:
    told = controller(one_of, 0)
    told.workerinput = {"workercount": processes}
    return told


@dataclass
class Item:
    nodeid: str
    tier: str = "nvcc"
    callspec: object = field(default_factory=object)
    marks: tuple[str, ...] = ()

    def get_closest_marker(self, name: str) -> object:
        return name in self.marks or None


def left(items: list[Any], n: int = 3, seed: str = "a commit", stays: str = "") -> set[str]:
    out = sampled.left_out(items, n, seed, lambda item: item.tier, lambda name: name == stays)
    return {item.nodeid for members in out.values() for item in members}


FAMILY = [Item(f"tests/test_one.py::test_it[{number}]") for number in range(10)]


def test_one_of_three_runs_rounded_up() -> None:
    assert len(left(FAMILY)) == 6
    assert len(left(FAMILY[:1])) == 0 and len(left(FAMILY[:2])) == 1
    assert left(FAMILY, n=1) == set()


def test_a_rules_proof_and_what_is_no_family_always_run() -> None:
    alone = Item("tests/test_one.py::test_that")
    del alone.callspec
    quick = [Item(f"tests/test_two.py::test_it[{number}]", "none") for number in range(10)]
    for seed in map(str, range(20)):
        out = left([*FAMILY, alone, *quick], seed=seed, stays=FAMILY[0].nodeid)
        assert out < {each.nodeid for each in FAMILY[1:]}


def test_one_that_needs_python_only_is_drawn_when_it_says_so() -> None:
    names = [each.nodeid for each in FAMILY]
    assert len(left([Item(name, "none", marks=("drawn",)) for name in names])) == 6
    assert left([Item(name, "none", marks=("other",)) for name in names]) == set()


def test_each_commit_draws_and_all_have_their_turn() -> None:
    assert left(FAMILY, seed="one") == left(FAMILY, seed="one") != left(FAMILY, seed="two")
    never = {each.nodeid for each in FAMILY}
    for seed in map(str, range(30)):
        never &= left(FAMILY, seed=seed)
    assert never == set()


def test_families_of_the_same_parameters_draw_the_same() -> None:
    other = [Item(each.nodeid.replace("test_it", "test_other")) for each in FAMILY]
    assert {one.replace("test_other", "test_it") for one in left(other)} == left(FAMILY)


def test_as_many_as_fit_into_the_time() -> None:
    """Whatever N is chosen, the tests fit, and with one less they would not."""
    for processors in range(2, 65):
        n = sampled.fitting(processors)
        room = 60 * sampled.MINUTES * processors - sampled.ALONE
        assert sampled.FAMILIES / n <= room
        assert n == 1 or sampled.FAMILIES / (n - 1) > room
    assert sampled.fitting(8) == 1 < sampled.fitting(7)


def test_where_nothing_fits_one_member_of_each_family_runs() -> None:
    assert sampled.fitting(2, minutes=5) == sampled.fitting(1) == sampled.FAMILIES


def test_how_long_all_of_them_take() -> None:
    assert sampled.whole(2) == 45 and sampled.whole(16) == 6


@pytest.mark.parametrize(("given", "workers", "n"), [
    ("3", 2, 3), ("1", 64, 1), ("fitting", 2, 26), ("fitting", 16, 1),
])  # fmt: skip
def test_a_number_or_as_many_as_fit(given: str, workers: int, n: int) -> None:
    for config in controller(given, workers), worker(given, workers):
        assert conftest.one_of(config) == n


@pytest.mark.parametrize("given", ["0", "-2", "half", "1.5"])
def test_what_is_no_number_is_refused(given: str) -> None:
    with pytest.raises(pytest.UsageError, match=f"--one-of {given}: "):
        conftest.one_of(controller(given, 2))


def test_the_draw_goes_by_the_commit(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[1]
    assert len(sampled.commit(root)) == 12 or sampled.commit(root) == "no commit"
    assert sampled.commit(tmp_path) == "no commit"
