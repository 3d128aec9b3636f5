"""Orders hold every part once; the cache behind them is an LRU, and an H200 agrees with it."""

from __future__ import annotations

import itertools

import pytest

from phasebit import block_order, measure

GRIDS = [(1, 1), (3, 5), (8, 8), (7, 4), (16, 9)]


@pytest.mark.parametrize(("rows", "columns"), GRIDS)
def test_every_part_once(rows: int, columns: int) -> None:
    every = sorted(block_order.rows_first(rows, columns))
    assert every == [(row, column) for row in range(rows) for column in range(columns)]
    for order in (
        block_order.super_rows(rows, columns, 3),
        block_order.hilbert(rows, columns),
        block_order.shuffled(rows, columns),
    ):
        assert sorted(order) == every


@pytest.mark.parametrize("side", [1, 2, 4, 8, 32])
def test_hilbert_walks_to_neighbours(side: int) -> None:
    order = block_order.hilbert(side, side)
    steps = itertools.pairwise(order)
    assert all(abs(a - c) + abs(b - d) == 1 for (a, b), (c, d) in steps)


def test_super_rows_are_the_kernels() -> None:
    """As chapter 14's ``rasterise`` numbers them, with a last super-row that is not full."""
    from phasebit.exercises import tensor_cores

    for rows, columns, height in [(8, 12, 4), (7, 5, 3), (5, 3, 8)]:
        kernel = [
            tuple(tensor_cores.rasterise(number, rows, columns, height))
            for number in range(rows * columns)
        ]
        assert block_order.super_rows(rows, columns, height) == kernel


def test_a_height_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        block_order.super_rows(2, 2, 0)


def played(order: block_order.Order, resident: int, cache: int) -> block_order.Shared:
    return block_order.shared(
        order, 512, (64, 64), resident=resident, cache=cache, element=2, depth=256
    )


def test_what_a_large_cache_misses_is_the_operands() -> None:
    told = played(block_order.shuffled(4, 4), 4, 1 << 30)
    assert told.missed == 2 * 4 * 64 * 512 * 2
    assert told.asked == 16 * 2 * 64 * 512 * 2
    assert told.hit_rate == 1 - 8 / 32


def test_without_room_each_wave_reads_its_own() -> None:
    piece = 64 * 256 * 2
    wave = played([(0, 0), (0, 1), (1, 0), (1, 1)], 2, 3 * piece)
    assert wave.missed == 2 * 3 * 2 * piece  # 2 waves, 3 different tiles, 2 steps of K
    assert played([(0, 0), (0, 1)], 1, 0).missed == 2 * 2 * 2 * piece


def test_the_least_recently_used_goes() -> None:
    piece = 64 * 256 * 2
    # One step of K. Row 0 is used by each block and stays; column 0 has gone when it is back.
    told = block_order.shared(
        [(0, 0), (0, 1), (0, 2), (0, 0)], 256, (64, 64), resident=1, cache=3 * piece
    )
    assert told.missed == (1 + 3 + 1) * piece


def test_an_h200_reads_what_the_model_says() -> None:
    """Within a per cent, for every height of chapter 14's record: the chapter says so."""
    record = measure.read("14_tensor_cores")["heights"]
    assert len(record["rows"]) == 6
    for row in record["rows"]:
        order = block_order.super_rows(64, 32, row["height"])
        for cache in (25 << 20, 50 << 20):
            told = block_order.shared(
                order, record["size"], (128, 256), resident=132, cache=cache
            )
            assert told.missed == pytest.approx(row["dram__bytes_read.sum"], rel=0.01)
            hits = row["lts__t_sectors_srcunit_tex_lookup_hit.sum"]
            assert hits / row["lts__t_sectors_srcunit_tex.sum"] < told.hit_rate
