"""Sectors, wavefronts and joined requests, against the rules said once more, word by word."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from phasebit.emulator.checker import traffic
from phasebit.emulator.checker.traffic import bank_passes, merged, merges, parts_of
from phasebit.emulator.machine.accesses import ABSENT

LANE = np.arange(32)


def brute(addresses: np.ndarray, size: int, load: bool) -> tuple[int, int]:
    """Wavefronts and conflicts, with sets."""
    total = served = 0
    lanes = {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}[size]
    parts = [range(first, first + lanes) for first in range(0, 32, lanes)]
    if load and len(parts) > 1:
        halves = zip(parts[::2], parts[1::2], strict=True)
        parts = [
            each for one, two in halves
            for each in ([[*one, *two]] if paired(addresses, [*one, *two]) else [one, two])
        ]  # fmt: skip
    for part in parts:
        banks: dict[int, set[int]] = {}
        for lane in part:
            if addresses[lane] != ABSENT:
                for byte in range(addresses[lane], addresses[lane] + size):
                    banks.setdefault(byte // 4 % 32, set()).add(byte // 4)
        if banks:
            total += max(map(len, banks.values()))
            served += 1
    return total, total - served


def paired(addresses: np.ndarray, lanes: list[int]) -> bool:
    return any(
        all(ABSENT in (addresses[lane], addresses[lane ^ flip]) or
            addresses[lane] == addresses[lane ^ flip] for lane in lanes)
        for flip in (1, 2)
    )  # fmt: skip


def patterns(size: int) -> list[np.ndarray]:
    rng = np.random.default_rng(size)
    found = [LANE * size * stride for stride in (0, 1, 2, 3, 8, 32, 33)]
    found += [LANE // 2 * size, LANE // 4 * 2 * size + LANE % 2 * size, (LANE ^ 1) * size]
    found += [rng.integers(0, 64, 32) * size for _ in range(12)]
    for each in [*found[:4], found[-1], found[7]]:
        gone = each.copy()
        gone[rng.permutation(32)[:11]] = ABSENT
        found.append(gone)
    only = np.full(32, ABSENT)
    only[13] = 5 * size
    return [*found, only]


@pytest.mark.parametrize("load", [True, False])
@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_wavefronts_are_those_of_the_fullest_bank(size: int, load: bool) -> None:
    for addresses in patterns(size):
        assert bank_passes(addresses, size, load) == brute(addresses, size, load)
    assert bank_passes(LANE * 4, 4) == bank_passes(LANE * 4, 4, True)


def test_the_parts_of_a_warp() -> None:
    assert parts_of(LANE, 4) == parts_of(LANE, 1) == [(0, 32)]
    assert parts_of(8 * LANE, 8) == parts_of(8 * LANE, 8, False) == [(0, 16), (16, 32)]
    assert parts_of(16 * LANE, 16, False) == [(0, 8), (8, 16), (16, 24), (24, 32)]
    assert parts_of(8 * (LANE // 2), 8) == [(0, 32)]
    some = np.where(LANE < 16, LANE // 2 * 16, LANE * 16)
    assert parts_of(some, 16) == [(0, 16), (16, 24), (24, 32)]


@pytest.mark.parametrize(("lanes", "joined"), [
    ([1, 1, 2, 2], True), ([1, 2, 1, 2], True), ([1, 2, 2, 1], False), ([1, ABSENT, 2, 2], True),
    ([1, 1, 2, ABSENT], True), ([1, 2, ABSENT, 2], True), ([1, 2, ABSENT, ABSENT], True),
    ([1, 2, 3, ABSENT], False), ([ABSENT] * 4, True),
])  # fmt: skip
def test_lanes_that_are_served_in_one_go(lanes: list[int], joined: bool) -> None:
    assert merges(np.array(lanes)) is joined


@pytest.mark.parametrize(("requests", "base", "unit", "joined"), [
    ([(0, 4), (4, 4)], 0, 16, [(0, 8)]), ([(4, 4), (8, 4)], 0, 16, [(4, 4), (8, 4)]),
    ([(4, 4), (8, 4)], 4, 16, [(4, 8)]), ([(0, 4), (4, 4)], 0, 4, [(0, 4), (4, 4)]),
    ([(8, 4), (0, 4), (12, 4), (4, 4)], 0, 16, [(0, 16)]), ([(0, 8), (8, 8)], 0, 8, [(0, 8), (8,
       8)]),
    ([(0, 8), (8, 8)], 0, 16, [(0, 16)]), ([(0, 8), (8, 8)], 8, 16, [(0, 8), (8, 8)]),
    ([(0, 4), (0, 4)], 0, 16, [(0, 4), (0, 4)]), ([(0, 2), (2, 2)], 0, 16, [(0, 2), (2, 2)]),
    ([(0, 16), (16, 4)], 0, 16, [(0, 16), (16, 4)]), ([(16, 4), (20, 4), (24, 4)], 0, 16,
     [(16, 8), (24, 4)]), ([(0, 12)], 0, 16, [(0, 8), (8, 4)]),
])  # fmt: skip
def test_neighbouring_accesses_are_joined_as_far_as_they_are_aligned(
    requests: list[tuple[int, int]], base: int, unit: int, joined: list[tuple[int, int]]
) -> None:
    assert merged(requests, base, unit) == joined


def test_what_is_joined_covers_the_same_words_and_is_aligned() -> None:
    words = [0, 4, 8, 12, 16, 20, 28]
    for count in range(1, 8):
        for some in itertools.combinations(words, count):
            for base, unit in ((0, 16), (4, 16), (8, 16), (0, 8), (4, 8), (0, 4)):
                found = merged([(each, 4) for each in some], base, unit)
                covered = [start + k for start, size in found for k in range(0, size, 4)]
                assert covered == [*some]
                assert all((base + start) % size == 0 or size == 4 for start, size in found)
                assert all(size <= max(unit, 4) for _, size in found)


@pytest.mark.parametrize(("positions", "found"), [
    ([0, 16, 48], (0, 16)), ([4, 20], (4, 16)), ([0, 8], (0, 8)), ([12, 4], (4, 8)),
    ([0, 4], (0, 4)),
    ([0, 4, 12], (0, 4)), ([6, 10], (2, 4)), ([1, 2], (0, 1)), ([7], (7, 16)), ([0, 2], (0, 1)),
])  # fmt: skip
def test_how_far_positions_are_aligned(positions: list[int], found: tuple[int, int]) -> None:
    assert traffic._alignment(np.array(positions)) == found


@pytest.mark.parametrize(("row", "size", "sectors"), [
    (4 * LANE, 4, 4), (4 * LANE + 4, 4, 5), (32 * LANE, 4, 32), (0 * LANE, 4, 1), (8 * LANE, 8, 8),
    (16 * LANE + 8, 16, 17), (1 * LANE, 1, 1), (1 * LANE + 1, 1, 2), (2 * LANE + 32, 2, 2),
    (np.where(LANE < 2, 28 + 32 * LANE, ABSENT), 8, 3), (np.where(LANE == 9, 30, ABSENT), 2, 1),
])  # fmt: skip
def test_the_sectors_that_a_request_touches(row: np.ndarray, size: int, sectors: int) -> None:
    counts = traffic.Traffic(None, None)  # type: ignore[arg-type]
    assert counts._sectors(row[None], size) == sectors
    assert counts._sectors(np.where(row == ABSENT, ABSENT, row + 64)[None], size) == sectors
    assert counts._sectors(np.array([row, row]), size) == 2 * sectors
    if row[0] != ABSENT:  # what is moved by whole sectors is the same pattern
        assert len(counts.known) == 2
