"""The cache simulator agrees with a plain one, and with what is known of simple walks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasebit import caches, native
from phasebit.caches import Level

pytestmark = pytest.mark.nvcc


def plain(addresses: Sequence[int], levels: Sequence[Level]) -> caches.Counts:
    """The same, from the definition: a dictionary in the order of use for each set."""
    sets: list[list[OrderedDict[int, None]]] = [
        [OrderedDict() for _ in range(level.sets)] for level in levels
    ]
    misses = dict.fromkeys((level.name for level in levels), 0)
    for address in addresses:
        missed: set[str] = set()
        started: set[str] = set()
        for level, own in zip(levels, sets, strict=True):
            if level.chain in started and level.chain not in missed:
                continue
            started.add(level.chain)
            line = address // level.line
            used = own[line % level.sets]
            if line in used:
                used.move_to_end(line)
                missed.discard(level.chain)
                continue
            missed.add(level.chain)
            misses[level.name] += 1
            used[line] = None
            if len(used) > level.ways:
                used.popitem(last=False)
    return caches.Counts(len(addresses), misses)


LEVELS = st.tuples(
    st.builds(Level, st.just("L1"), st.sampled_from([4, 64]), st.integers(1, 5), st.integers(1, 4)),
    st.builds(Level, st.just("L2"), st.just(64), st.integers(1, 8), st.integers(1, 8)),
    st.builds(Level, st.just("TLB"), st.just(256), st.just(1), st.integers(1, 4), st.just("tlb")),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 4095), max_size=300), LEVELS)
def test_it_agrees_with_the_definition(addresses: list[int], levels: tuple[Level, ...]) -> None:
    assert caches.trace(addresses, levels) == plain(addresses, levels)


def test_long_walks_agree_with_the_definition() -> None:
    rng = np.random.default_rng(0)
    steps = rng.choice([4, 64, 4096, -8192], 20000)
    addresses = (np.cumsum(steps) + (1 << 40)).tolist()
    assert caches.trace(addresses) == plain(addresses, caches.TYPICAL)


def test_a_walk_that_fits_misses_once_and_one_that_does_not_always() -> None:
    small = (caches.cache("L1", 1024, 0),)  # 16 lines
    twice = np.tile(np.arange(16) * 64, 2)
    assert caches.trace(twice, small).misses == {"L1": 16}
    assert caches.trace(np.tile(np.arange(17) * 64, 2), small).misses == {"L1": 34}  # LRU's worst


def test_ways_decide_what_one_set_can_hold() -> None:
    level = caches.cache("L1", 32 << 10, 8)
    stride = level.sets * level.line
    for many, misses in ((8, 8), (9, 18)):
        assert caches.trace(np.tile(np.arange(many) * stride, 2), (level,)).misses["L1"] == misses


def test_a_watched_product_is_the_product_and_counts_every_access() -> None:
    rng = np.random.default_rng(1)
    n, ld, block = 30, 33, 8
    a, b = (rng.integers(-4, 5, (n, ld)).astype(np.float32) for _ in range(2))
    c, d = np.zeros((n, ld), np.float32), np.zeros((n, ld), np.float32)
    library = native.load("caches_and_tiles/blocked")
    library.blocked(n, ld, block, a, b, c)
    assert (c[:, :n] == a[:, :n] @ b[:, :n]).all() and not c[:, n:].any()
    levels = caches.table(caches.TYPICAL)
    counts = np.zeros(5, np.int64)
    at = np.array([0, 1 << 20, 2 << 20])
    library.watched(n, ld, block, block, a, b, d, at, 4, levels, counts)
    assert (c == d).all()
    blocks = -(-n // block)
    assert counts[0] == 3 * n**3 + blocks * n * n  # b, c twice; a once for each block column


def test_what_a_block_saves_and_how_it_competes_with_itself() -> None:
    level = (caches.cache("L1", 32 << 10, 8),)
    whole = caches.blocked(256, 264, 256, level).rate("L1")
    block = caches.blocked(256, 264, 48, level).rate("L1")
    # Rows 1 KiB apart: 48 of them share a quarter of the sets. Lam, Rothberg and Wolf 1991.
    interfering = caches.blocked(256, 256, 48, level).rate("L1")
    assert whole > 8 * block and interfering > 8 * block


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        (lambda: (caches.cache("L1", 1000, 8),), "1000 bytes are no whole number of sets"),
        (lambda: (caches.cache("L1", 960, 5, 48),), "a line of 48 bytes is no power of two"),
        (lambda: (caches.tlb("TLB", 10, 4),), "10 entries are no whole number of sets"),
        (lambda: (Level("L1", 64, 0, 1),), "give at least one set"),
        (lambda: (caches.TYPICAL[0], caches.TYPICAL[0]), "two levels have one name: L1, L1"),
        (lambda: (*caches.TLB[:1], caches.TYPICAL[0], caches.TLB[1]), "must follow each other"),
    ],
)
def test_levels_that_are_none(levels: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        caches.trace([0], levels())  # type: ignore[operator]
    with pytest.raises(ValueError, match="give a block of 1 or more"):
        caches.blocked(8, 4, 1)


def test_a_set_keeps_what_the_simulator_keeps() -> None:
    level = caches.Level("L1", 64, 4, 3)
    walk = [int(each) for each in np.random.default_rng(5).integers(0, 4096, 300)]
    held = [caches.kept(walk, level, of) for of in range(level.sets)]
    missed = sum(miss for steps in held for miss, _ in steps)
    assert missed == caches.trace(walk, (level,)).misses["L1"]
    assert sum(map(len, held)) == len(walk)
    assert all(len(lines) <= level.ways for steps in held for _, lines in steps)


def test_the_best_rectangle_leaves_its_ways_free_and_no_row_more_does() -> None:
    level = caches.TYPICAL[0]
    for ld in (192, 256, 264, 512):
        rows, columns = caches.best_rectangle(level, 192, ld)
        assert caches.crowding(level, rows, columns, ld).max() <= level.ways - 2
        more = caches.crowding(level, rows + 1, columns, ld).max() > level.ways - 2
        assert more or rows == 192
    with pytest.raises(ValueError, match="no block of whole lines"):
        caches.best_rectangle(caches.cache("L1", 128, 1), 64, 64)


def test_arrays_that_want_one_set_compete() -> None:
    level = caches.cache("L1", 8 << 10, 2)
    alike, apart = (
        caches.blocked(32, 32, 32, (level,), starts=starts).misses["L1"]
        for starts in ((0, 4096, 8192), (0, 4096, 8192 + 64))
    )
    assert alike != apart
    with pytest.raises(ValueError, match="give three"):
        caches.blocked(8, 8, 8, starts=(0, 4096))
