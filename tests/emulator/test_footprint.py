"""Words that accesses touch: each once, by whom, and patterns that are kept for a while."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.checker import footprint
from phasebit.emulator.checker.footprint import Common, Footprint, Footprints, Pattern, touching

LANES = np.arange(4)


def pattern(lead: list[int], words: tuple[int, ...] = (0,), width: int = 4) -> Pattern:
    accesses = SimpleNamespace(words=words, width=width)
    return Pattern(accesses, np.arange(len(lead)), np.array(lead), 2, ())


@pytest.mark.parametrize(("lead", "words", "once", "owner", "apart", "dense"), [
    ([0, 4, 8, 12], (0,), [0, 1, 2, 3], [0, 1, 2, 3], True, True),
    ([0, 8, 16, 24], (0, 1), [*range(8)], [0, 0, 1, 1, 2, 2, 3, 3], True, True),
    ([0, 8, 16, 24], (0,), [0, 2, 4, 6], [0, 1, 2, 3], True, False),
    ([4, 4, 4, 4], (0,), [1], [3], False, True), ([0, 0, 4, 4], (0,), [0, 1], [1, 3], False, True),
    ([12, 8, 4, 0], (0,), [0, 1, 2, 3], [3, 2, 1, 0], True, True),
    ([0, 4, 0, 4], (0, 1), [0, 1, 2], [2, 2, 3], False, True),
])  # fmt: skip
def test_a_pattern_names_each_word_once_and_the_last_thread_that_touches_it(
    lead: list[int], words: tuple[int, ...], once: list[int], owner: list[int], apart: bool,
    dense: bool,
) -> None:  # fmt: skip
    made = pattern(lead, words)
    assert made.once.tolist() == once and made.owner.tolist() == owner
    assert (made.apart, made.dense) == (apart, dense)
    assert made.every.tolist() == [[(each >> 2) + word for each in lead] for word in words]
    flat = made.every.ravel().tolist()  # all threads' first words, then their second ones
    assert made.first.tolist() == [flat.index(word) % len(lead) for word in once]
    at = made.at(10)
    wanted = [10 + word for word in once]
    assert (list(range(at.start, at.stop)) if isinstance(at, slice) else at.tolist()) == wanted
    assert isinstance(at, slice) == dense


def test_wide_accesses_touch_several_words() -> None:
    made = pattern([0, 16], (0,), 8)
    assert made.once.tolist() == [0, 1, 4, 5] and made.owner.tolist() == [0, 0, 1, 1]


def test_a_pattern_fits_the_same_threads_at_the_same_distances() -> None:
    made = pattern([0, 4, 8, 12])
    assert made.fits(np.arange(4), np.array([0, 4, 8, 12]))
    assert not made.fits(np.arange(4), np.array([0, 4, 8, 16]))
    assert not made.fits(np.arange(4) + 4, np.array([0, 4, 8, 12]))


def test_footprints_that_are_looked_at_once() -> None:
    plain = Footprint.plain(np.array([[5, 6], [7, 6]]))
    assert plain.once.tolist() == [5, 6, 7, 6] and plain.owner.tolist() == [0, 1, 0, 1]
    assert not plain.apart and not plain.dense and plain.at(1).tolist() == [6, 7, 8, 7]
    one = Footprint.of_one(np.array([3, 4, 5]))
    assert one.apart and one.dense and one.at(2) == slice(5, 8) and one.owner.tolist() == [0, 0, 0]
    gap = Footprint.of_one(np.array([3, 5]))
    assert not gap.dense and gap.at(2).tolist() == [5, 7]
    assert not Footprint.of_one(np.array([], int)).dense
    both = Common(np.array([3, 4]), 3)
    assert both.every.tolist() == [[3, 3, 3], [4, 4, 4]] and both.dense and not both.apart


def test_who_touches_some_words() -> None:
    g: Any = SimpleNamespace(lanes=np.array([8, 9, 10]), n=3)
    made = Footprint.plain(np.array([[0, 2, 4], [1, 3, 5]]))
    lanes, words = touching(g, made, 10, np.array([13, 14, 20]))
    assert lanes.tolist() == [9, 10] and words.tolist() == [13, 14]


def test_patterns_are_found_again_and_forgotten_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    traffic: Any = SimpleNamespace(cost=lambda *_: asked.append(1) or (("c", 1),))
    kept = Footprints(2, traffic)
    accesses = SimpleNamespace(words=(0,), width=4)
    g: Any = SimpleNamespace(lanes=LANES, n=4)

    def find(*position: int, op: str = "load") -> tuple[list[int], int]:
        made, start = kept.find(g, np.array(position), accesses, "global", op)
        return made.at(start) if isinstance(made.at(start), slice) else made.at(start).tolist()

    assert find(256, 260, 264, 268) == slice(64, 68) and len(asked) == 1
    assert find(512, 516, 520, 524) == slice(128, 132) and len(asked) == 1
    assert find(516, 520, 524, 528) == slice(129, 133) and len(asked) == 2  # another phase
    assert find(512, 516, 520, 528) == [128, 129, 130, 132] and len(asked) == 3
    find(256, 260, 264, 268, op="store")
    assert len(asked) == 4 and kept.size == 4 * 12
    monkeypatch.setattr(footprint, "KEPT", 4 * 12 + 12)
    find(256 + 8, 260 + 8, 264 + 8, 268 + 8)
    assert len(kept.patterns) == 4 and kept.size == 60  # of one key the latest is kept
    find(256 + 16, 260 + 16, 264 + 16, 268 + 16)
    assert len(kept.patterns) == 1 and kept.size == 0
