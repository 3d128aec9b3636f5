"""The model of *Attention again* in clocks, and the order of its blocks."""

from __future__ import annotations

import pytest

from phasebit.chapters.attention_again import block_lengths, step_model
from phasebit.chapters.attention_again import step_rates as rates
from phasebit.chapters.attention_again import tensor_attention as kernels


def test_every_kernel_has_a_plan() -> None:
    assert tuple(step_model.PLANS) == kernels.KERNELS


def test_tables_have_a_row_for_each_case_and_heads_for_each_column() -> None:
    tables = step_model.table(), rates.kept_in_registers(), block_lengths.table(4096, 16_384)
    for table in tables:
        assert {len(row) for row in table.rows} == {len(table.heading)}
    assert [row[0] for row in tables[0].rows] == list(kernels.KERNELS)
    assert tables[0].rows[-1][1] == f"{step_model.per_step(kernels.REGISTERS):.0f}"
    assert tables[1].rows[1][4] == f"{rates.step(2, registers=True)['issue']:.0f}"
    steps = block_lengths.lengths(block_lengths.ORDERS[0], 4096, 16)
    assert tables[2].rows[0][1] == f"{block_lengths.latest(steps, 148):.2f}"


@pytest.mark.parametrize("depth", [64, 128])
def test_one_tile_does_one_thing_after_the_other(depth: int) -> None:
    work, _ = step_model.softmax(step_model.PLANS[kernels.IN_ORDER], depth)
    products = rates.step(0, depth)["tensor core"]
    assert step_model.per_step(kernels.IN_ORDER, depth) == products + work


@pytest.mark.parametrize("name", kernels.KERNELS[1:])
@pytest.mark.parametrize("depth", [64, 128])
def test_two_tiles_take_what_the_busiest_unit_takes(name: str, depth: int) -> None:
    work, _ = step_model.softmax(step_model.PLANS[name], depth)
    assert step_model.per_step(name, depth) == max(work, rates.step(0, depth)["tensor core"])


def test_weights_begin_after_their_scores_and_scores_after_the_output_they_overwrite() -> None:
    done = step_model.run(kernels.REGISTERS, 6)
    for tile in range(2):
        for step in range(6):
            assert done["weights", tile, step].begin >= done["scores", tile, step].end
            assert done["outputs", tile, step].begin >= done["weights", tile, step].end
            if step < 5:
                assert done["scores", tile, step + 1].begin >= done["outputs", tile, step].end


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
