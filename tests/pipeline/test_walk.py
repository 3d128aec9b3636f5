"""What the stepper's page knows, against the rules and the exploration."""

from __future__ import annotations

import json
from typing import Any

import pytest

from phasebit.pipeline import ring as right
from phasebit.pipeline.explore import StateLimitError, explore
from phasebit.pipeline.mistakes import MISTAKES
from phasebit.pipeline.ring import Ring
from phasebit.pipeline.walk import larger, rings, source, walk


def shortest(data: dict[str, Any]) -> tuple[int, str] | None:
    """How many steps the nearest failure takes, and its words, by the page's data alone."""
    level, seen = [0], {0}
    for steps in range(len(data["states"]) + 1):
        following = []
        ends = [data["ends"][state] for state in level if data["ends"].get(state)]
        if ends:
            return steps, ends[0]
        for state in level:
            for _, target in data["moves"][state]:
                if isinstance(target, str):
                    return steps + 1, target
                if target not in seen:
                    seen.add(target)
                    following.append(target)
        level = following
    return None


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda it: it.name)
def test_a_mistake_fails_on_the_page_as_in_the_exploration(mistake: Any) -> None:
    run = explore(mistake.broken()).shortest
    assert run is not None and run.failure is not None
    found = shortest(rings()[mistake.name])
    assert found is not None
    assert found[0] == len(run.events)


RIGHT = {name: ring for name, ring in (rings() | larger()).items() if name.startswith("right: ")}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_ring_never_fails(name: str) -> None:
    assert shortest(RIGHT[name]) is None
    assert "" in RIGHT[name]["ends"].values()


def test_the_page_knows_each_state_that_the_exploration_saw() -> None:
    ring = Ring(stages=2, items=3, consumers=2)
    assert len(walk(ring)["states"]) == explore(ring.system(right.producer, right.consumer)).states


def test_each_step_names_its_line() -> None:
    thread = rings()["right: two slots"]["threads"][0]
    assert thread["lines"][0] == "def producer(ring):"
    said = {thread["lines"][line].strip(): words for line, words, *_ in reversed(thread["steps"])}
    assert said == {
        "yield wait(ring.empty[stage], phase ^ 1)": "wait empty[0] parity 1",
        "yield from fill(stage, item=i)": "fill slot 0 with item 0",
        "yield arrive(ring.full[stage])": "arrive full[0]",
    }


def test_a_program_without_a_docstring_has_its_lines() -> None:
    def bare(ring: Ring) -> Any:
        yield from right.consumer(ring)

    assert source(bare) == ["def bare(ring):", "    yield from right.consumer(ring)"]


def test_what_the_page_loads_is_small() -> None:
    assert len(json.dumps(rings(), separators=(",", ":"))) < 150_000
    for ring in larger().values():  # each by itself
        assert len(json.dumps(ring, separators=(",", ":"))) < 150_000


def test_a_ring_too_large_for_a_page_is_refused() -> None:
    with pytest.raises(StateLimitError, match="walk a smaller ring"):
        walk(Ring(stages=4, items=8, consumers=3))
