"""A sample of what is alike: its size, what is in no draw, and that commits take turns."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import sampled


@dataclass
class Item:
    nodeid: str
    tier: str = "nvcc"
    callspec: object = field(default_factory=object)


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


def test_each_commit_draws_and_all_have_their_turn() -> None:
    assert left(FAMILY, seed="one") == left(FAMILY, seed="one") != left(FAMILY, seed="two")
    never = {each.nodeid for each in FAMILY}
    for seed in map(str, range(30)):
        never &= left(FAMILY, seed=seed)
    assert never == set()


def test_families_of_the_same_parameters_draw_the_same() -> None:
    other = [Item(each.nodeid.replace("test_it", "test_other")) for each in FAMILY]
    assert {one.replace("test_other", "test_it") for one in left(other)} == left(FAMILY)


def test_the_draw_goes_by_the_commit(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[1]
    assert len(sampled.commit(root)) == 12 or sampled.commit(root) == "no commit"
    assert sampled.commit(tmp_path) == "no commit"
