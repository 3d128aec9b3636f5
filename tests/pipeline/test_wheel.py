"""The wheel of a barrier's states says in words what it draws, and draws what the run visited."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from phasebit.pipeline.interleaving import walk
from phasebit.pipeline.ring import Ring, consumer, producer
from phasebit.pipeline.wheel import Wheel


def wheel(steps: int, consumers: int) -> Wheel:
    return Wheel(walk(Ring(1, steps, consumers).system(producer, consumer)), "empty[0]")


def test_text_is_the_whole_history() -> None:
    assert str(wheel(2, 2)) == ("empty[0], phase:pending in turn: 0:2 -> 0:1 -> 1:2 -> 1:1 -> 2:2")


@pytest.mark.parametrize("consumers", [1, 2, 5])
def test_a_node_for_each_state_and_its_visits(consumers: int) -> None:
    drawn = wheel(3, consumers)
    svg = drawn.svg()
    ElementTree.fromstring(svg)
    assert svg.count("<circle") == 2 * consumers
    shown = [int(n) for n in re.findall(r">(\d+)×<", svg)]
    assert sum(shown) == len(drawn.run.history("empty[0]")) == 3 * consumers + 1


def test_states_never_visited_are_left_hollow() -> None:
    assert wheel(1, 3).svg().count("fill-opacity:0;") == 2
