"""The checks of *Asynchronous copies* accept what is right and refuse planted wrong answers."""

from __future__ import annotations

import re

import pytest

from phasebit.chapters.asynchronous_copies import exercises as check
from phasebit.exercises.written import BLANK
from tests.book.notebooks import ROOT, solutions

CHAPTER = next(ROOT.glob("book/*/??_asynchronous_copies.ipynb"))


def test_no_answer_yet() -> None:
    for each in (check.bytes_under_way, check.wait_first):
        assert each.verdict(lambda *a: ...).endswith("not answered yet")
    assert check.other_line.verdict(...).endswith("not answered yet")
    assert check.write_a_ring.verdict(BLANK).endswith("not answered yet")


@pytest.mark.nvcc
def test_the_solutions_in_the_chapter_are_right() -> None:
    names: dict[str, object] = {}
    for solution in solutions(CHAPTER):
        exec(solution, names)
    for name in ("bytes_under_way", "wait_first"):
        assert f"{name}: OK" in getattr(check, name).verdict(names[name])
    assert "other_line: OK" in check.other_line.verdict(names["choice"])
    assert "write_a_ring: OK" in check.write_a_ring.verdict(names["ring"])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda rate, latency: rate * latency * 1e9,
        lambda rate, latency: rate / latency,
        lambda rate, latency: 2.88e6,
        lambda rate, latency: str(rate * latency),
    ],
)
def test_bytes_under_way_refuses(wrong: object) -> None:
    assert "not right yet" in check.bytes_under_way.verdict(wrong)


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (lambda stages: stages - 1, "finds async"),  # as in the loop with two barriers
        (lambda stages: 0, "so is a larger N"),  # waits for everything
        (lambda stages: 1, "finds async"),  # only right for three
        (lambda stages: -1, "whole number"),
        (lambda stages: 0.0, "whole number"),
    ],
)
def test_wait_first_refuses(wrong: object, why: str) -> None:
    verdict = check.wait_first.verdict(wrong)
    assert "not right yet" in verdict and why in verdict


@pytest.mark.nvcc
@pytest.mark.parametrize("line", [0, 1, 2, 3])
def test_other_line_refuses(line: int) -> None:
    assert "not right yet" in check.other_line.verdict(line)


@pytest.mark.parametrize("wrong", [-1, 5, "3", True, 2.0])
def test_other_line_refuses_what_is_no_line(wrong: object) -> None:
    assert "give a number from 0 to 4" in check.other_line.verdict(wrong)


RING = next(text for text in solutions(CHAPTER) if "reverse" in text).split('"""')[1]
COPY = "__pipeline_memcpy_async(&ring[next % STAGES][i], &x[next * TILE + i], 16);"

RINGS = {
    "no wait": ("        __pipeline_wait_prior(STAGES - 1);\n", "", "async"),
    "a wait too weak": ("wait_prior(STAGES - 1)", "wait_prior(STAGES)", "async"),
    "a wait for all": ("wait_prior(STAGES - 1)", "wait_prior(0)", "no wait leaves 2 or more"),
    "no barrier behind the wait": (
        "        __syncthreads();\n        for", "        for", "async",
    ),
    "no barrier behind the reading": (
        "        __syncthreads();\n    }\n}", "    }\n}", "race",
    ),
    "no empty groups": (
        f"            {COPY}\n        __pipeline_commit();",
        f"        {{ {COPY}\n        __pipeline_commit(); }}",
        "async",
    ),
    "one tile less before the loop": (
        "tile < STAGES - 1; ++tile", "tile < STAGES - 2; ++tile", "async",
    ),
    "no group before the loop": ("        __pipeline_commit();\n    }\n", "    }\n", "async"),
    "another slot": ("ring[tile % STAGES]", "ring[next % STAGES]", "uninitialised|async"),
    "one slot": ("% STAGES", "% 1", "backwards|race|async"),
    "stores instead of copies": (
        COPY, "for (int d = 0; d < 4; ++d) ring[next % STAGES][i + d] = x[next * TILE + i + d];",
        "copies, and",
    ),
    "copies of 4 bytes": (
        COPY,
        "for (int d = 0; d < 4; ++d) __pipeline_memcpy_async(&ring[next % STAGES][i + d], "
        "&x[next * TILE + i + d], 4);",
        "copies, and",
    ),
    "not backwards": ("[TILE - 1 - j]", "[j]", "not each tile backwards"),
    "the last tile is left out": ("tile < tiles; ++tile", "tile < tiles - 1; ++tile", "backwards"),
    "a tile beyond the end": ("if (next < tiles)\n", "if (next <= tiles)\n", "invalid global"),
    "a third barrier": (
        "        __pipeline_wait_prior(STAGES - 1);\n",
        "        __syncthreads();\n        __pipeline_wait_prior(STAGES - 1);\n",
        "twice a tile is enough",
    ),
    "no semicolon": ("const int i = 4 * threadIdx.x;", "const int i = 4 * threadIdx.x", "line"),
}  # fmt: skip


@pytest.mark.nvcc
@pytest.mark.parametrize("name", RINGS)
def test_write_a_ring_refuses(name: str) -> None:
    old, new, why = RINGS[name]
    assert old in RING
    said = check.write_a_ring.verdict(RING.replace(old, new))
    assert said.startswith("write_a_ring: not right yet") and re.search(why, said), said


def test_write_a_ring_refuses_what_is_no_ring() -> None:
    assert "as a string" in check.write_a_ring.verdict(3)
    assert "keep the line" in check.write_a_ring.verdict(RING.replace("STAGES = 4", "STAGES = 2"))
