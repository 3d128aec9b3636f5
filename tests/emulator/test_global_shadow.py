"""What is remembered of each word of global memory: the last writer and three readers."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.emulator.checker.global_shadow import GlobalShadow, Readers

TEAM = 4
"""Threads of a unit: 0 to 3 are one, 4 to 7 the next."""


def code(thread: int, strong: bool = False) -> int:
    return 2 * thread + strong + 1


def read(w: GlobalShadow, threads: dict[int, int], access: int, **first: int) -> None:
    """Words are read by these threads at the time ``10 * access``; ``w3=1``: word 3 also by 1."""
    once = np.array([*threads])
    last = np.array([code(thread) for thread in threads.values()])
    also = np.array([code(first.get(f"w{word}", threads[word])) for word in threads])
    w.read(once, last, also if first else None, TEAM, access, 10 * access)


def seen(readers: Readers, word: int) -> tuple[int, int, int] | None:
    """The thread, when, and at which access."""
    if not readers.code[word]:
        return None
    thread = int(readers.code[word] - 1) >> 1
    return thread, int(readers.time[word]), int(readers.access[word])


def made(size: int = 8) -> GlobalShadow:
    shadow = GlobalShadow()
    shadow.fit(size)
    return shadow


def test_the_reader_before_is_kept_by_whether_it_is_of_the_same_unit() -> None:
    w = made()
    newest, same, foreign = w.readers
    read(w, {3: 1}, 1)
    assert seen(newest, 3) == (1, 10, 1) and newest.used and not same.used and not foreign.used
    read(w, {3: 2}, 2)
    assert seen(newest, 3) == (2, 20, 2) and seen(same, 3) == (1, 10, 1) and not foreign.used
    read(w, {3: 5}, 3)
    assert seen(newest, 3) == (5, 30, 3) and seen(same, 3) == (1, 10, 1)
    assert seen(foreign, 3) == (2, 20, 2)
    read(w, {3: 5}, 4)  # the same thread once more
    assert [seen(each, 3) for each in w.readers] == [(5, 40, 4), (1, 10, 1), (2, 20, 2)]
    read(w, {3: 7}, 5)
    assert [seen(each, 3) for each in w.readers] == [(7, 50, 5), (5, 40, 4), (2, 20, 2)]
    assert all(seen(each, word) is None for each in w.readers for word in (0, 2, 4, 7))


def test_words_of_one_access_move_each_by_itself() -> None:
    w = made()
    newest, same, foreign = w.readers
    read(w, {0: 0, 1: 0, 2: 0, 6: 4}, 1)
    read(w, {0: 0, 1: 3, 2: 4, 5: 6, 6: 3}, 2)
    assert [seen(newest, word) for word in (0, 1, 2, 5, 6)] == [
        (0, 20, 2), (3, 20, 2), (4, 20, 2), (6, 20, 2), (3, 20, 2),
    ]  # fmt: skip
    assert [seen(same, word) for word in (0, 1, 2, 5, 6)] == [None, (0, 10, 1), None, None, None]
    assert [seen(foreign, word) for word in (0, 1, 2, 5, 6)] == [
        None, None, (0, 10, 1), None, (4, 10, 1),
    ]  # fmt: skip


def test_of_several_threads_that_read_a_word_at_once_the_first_is_kept_too() -> None:
    w = made()
    newest, same, foreign = w.readers
    read(w, {0: 3, 1: 5, 2: 2, 3: 4}, 1, w0=0, w1=1, w3=3)
    assert [seen(newest, word) for word in range(4)] == [
        (3, 10, 1), (5, 10, 1), (2, 10, 1), (4, 10, 1),
    ]  # fmt: skip
    assert [seen(same, word) for word in range(4)] == [(0, 10, 1), None, None, None]
    assert [seen(foreign, word) for word in range(4)] == [None, (1, 10, 1), None, (3, 10, 1)]


def test_a_strong_and_a_weak_read_of_one_thread_are_two_readers() -> None:
    w = made()
    for strong in (True, False):
        w.read(np.array([5]), np.array([code(6, strong)]), None, TEAM, 1 + strong, 7)
    assert [int(each.code[5]) for each in w.readers] == [code(6), code(6, True), 0]
    assert w.readers[1].access[5] == 2


def test_new_words_were_never_touched_and_old_ones_stay() -> None:
    w = GlobalShadow()
    assert (w.first, w.size) == (0, 0)
    assert w.places(np.array([0]))[1].tolist() == [False]
    w.fit(3)
    w.write_time[2], w.writer[2], w.write_access[2], w.write_strong[2] = 5, 6, 7, True
    read(w, {2: 1}, 1)
    kept = w.write_time
    for size in (2, 3):
        w.fit(size)
        assert w.write_time is kept and w.size == 3
    w.fit(5)
    assert w.size == 5 and len(w.write_time) == 5
    assert w.write_time.tolist() == [0, 0, 5, 0, 0] and w.writer.tolist() == [0, 0, 6, 0, 0]
    assert w.write_access.tolist() == [0, 0, 7, 0, 0]
    assert w.write_strong.tolist() == [False, False, True, False, False]
    assert [seen(w.readers[0], word) for word in range(5)] == [None, None, (1, 10, 1), None, None]
    assert {each.code.size for each in w.readers} == {5}


@pytest.mark.parametrize(("first", "end", "words"), [(2, 5, [2, 3, 4]), (0, 8, [*range(8)]),
                                                     (4, 2, []), (7, 8, [7])])  # fmt: skip
def test_a_cut_shadow_knows_its_words_by_their_numbers(
    first: int, end: int, words: list[int]
) -> None:
    w = made()
    w.write_time[:], w.writer[:], w.write_access[:] = range(8), range(8, 16), range(16, 24)
    w.write_strong[::2] = True
    read(w, {word: word for word in range(8)}, 1)
    w.cut(first, end)
    assert (w.first, w.size) == (first, len(words))
    at, inside = w.places(np.arange(10))
    assert np.flatnonzero(inside).tolist() == words
    assert at.tolist() == [word - first if word in words else 0 for word in range(10)]
    for word in words:
        place = word - first
        assert (w.write_time[place], w.writer[place], w.write_access[place]) == (
            word, 8 + word, 16 + word
        )  # fmt: skip
        assert w.write_strong[place] == (word % 2 == 0) and seen(w.readers[0], place) == (
            word, 10, 1
        )  # fmt: skip


def test_a_cut_shadow_is_cut_again_by_the_same_numbers() -> None:
    w = made()
    w.write_time[:] = range(8)
    w.cut(2, 7)
    w.cut(3, 5)
    assert w.first == 3 and w.write_time.tolist() == [3, 4]
