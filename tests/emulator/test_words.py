"""Sets of words, against Python's own."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.emulator.numbers import words
from phasebit.emulator.numbers.words import WIDEST, among, distinct

SETS = [[5], [7, 5, 5, 9], [0, WIDEST - 1], [0, WIDEST], [WIDEST, 0, 3], [-4, 2**40, -4], [3, 4, 5],
        [[1, 2], [2, 1]]]  # fmt: skip


@pytest.mark.parametrize("given", SETS)
def test_each_word_once_in_ascending_order(given: list[int]) -> None:
    found = distinct(np.array(given))
    assert found.tolist() == sorted(set(np.array(given).ravel().tolist()))


def test_a_narrow_range_is_marked_and_a_wide_one_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    unique = np.unique
    monkeypatch.setattr(words.np, "unique", lambda given: asked.append(len(given)) or unique(given))
    for top, sorts in ((WIDEST - 1, 0), (WIDEST, 1)):
        assert distinct(np.array([0, top])).tolist() == [0, top] and len(asked) == sorts
    assert WIDEST == 1048576


@pytest.mark.parametrize("ascending", [[5], [5, 7, 9], [5, 6, 7], [0, 100], [-3, -1]])
def test_which_words_are_among_others(ascending: list[int]) -> None:
    asked = np.arange(-5, 105)
    found = among(asked, np.array(ascending))
    assert found.dtype == bool
    assert asked[found].tolist() == sorted(set(ascending))
    assert among(asked.reshape(2, -1), np.array(ascending)).shape == (2, 55)
