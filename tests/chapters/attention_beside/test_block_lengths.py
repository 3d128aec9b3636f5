"""When the last block of a causal launch is done."""

from __future__ import annotations

import pytest

from phasebit.chapters.attention_beside import block_lengths


def test_blocks_in_three_orders() -> None:
    tile_by_tile, of_a_head, of_all = (
        block_lengths.lengths(order, 1024, 2) for order in block_lengths.ORDERS
    )
    assert tile_by_tile == [2, 4, 6, 8] * 2
    assert of_a_head == [8, 6, 4, 2] * 2
    assert of_all == [8, 8, 6, 6, 4, 4, 2, 2]


def test_the_last_block_by_hand() -> None:
    # two multiprocessors: 1, 2 | 3 from 1 to 4, 4 from 2 to 6; evenly it would be 5
    assert block_lengths.latest([1, 2, 3, 4], 2) == pytest.approx(6 / 5)
    assert block_lengths.latest([4, 3, 2, 1], 2) == pytest.approx(1)


def test_the_table_has_the_same_numbers() -> None:
    table = block_lengths.table(4096, 16_384)
    assert {len(row) for row in table.rows} == {len(table.heading)}
    steps = block_lengths.lengths(block_lengths.ORDERS[0], 4096, 16)
    assert table.rows[0][1] == f"{block_lengths.latest(steps, 148):.2f}"


def test_the_pictures_are_of_the_same_launches() -> None:
    for order in block_lengths.ORDERS:
        steps = block_lengths.lengths(order, 1280, 3)
        drawn = block_lengths.drawn(order)
        assert sorted(span.end - span.start for span in drawn.spans) == sorted(steps)
        last = max(span.end for span in drawn.spans)
        assert last == round(block_lengths.latest(steps, 5) * sum(steps) / 5)
        assert f"after {last} steps" in drawn.title
    ends = [max(span.end for span in block_lengths.drawn(order).spans)
            for order in block_lengths.ORDERS]  # fmt: skip
    assert ends == [24, 22, 18]
    by_row: dict[str, int] = {}
    for span in block_lengths.drawn(block_lengths.ORDERS[0]).spans:
        by_row[span.row] = max(span.end, by_row.get(span.row, 0))
    assert sorted(by_row.values())[-2:] == [18, 24]


def test_heads_at_a_time_by_hand() -> None:
    # a head has blocks of 2 and 4 steps; two multiprocessors
    apart = [(0, 1), (0, 0), (1, 1), (1, 0)]  # 4 | 2, then 4 of head 1; at last 2 of head 1
    assert block_lengths.heads_at_a_time(apart, 2) == pytest.approx((2 * 1 + 2 * 2 + 2 * 1) / 6)
    both = [(0, 1), (1, 1), (0, 0), (1, 0)]
    assert block_lengths.heads_at_a_time(both, 2) == pytest.approx(2)


def test_places_from_a_heads_first_block_to_its_last() -> None:
    assert block_lengths.farthest([(0, 1), (0, 0), (1, 1), (1, 0)]) == 2
    assert block_lengths.farthest([(0, 1), (1, 1), (1, 0), (0, 0)]) == 4


def test_groups_of_heads() -> None:
    assert block_lengths.by_groups(2, 3, 2) == [(0, 1), (0, 0), (1, 1), (2, 1), (1, 0), (2, 0)]
    assert block_lengths.by_groups(2, 2, 4) == [(0, 1), (1, 1), (0, 0), (1, 0)]
    for blocks, heads, together in ((5, 7, 3), (4, 8, 2), (3, 2, 5)):
        made = block_lengths.by_groups(blocks, heads, together)
        assert len(set(made)) == len(made) == blocks * heads
        assert block_lengths.farthest(made) <= together * blocks
