"""The model of *Attention again* in clocks."""

from __future__ import annotations

import json

import pytest

from phasebit.chapters.attention_again import step_model
from phasebit.chapters.attention_again import step_rates as rates
from phasebit.chapters.attention_again import tensor_attention as kernels
from tests.book.notebooks import ROOT


def test_every_kernel_has_a_plan() -> None:
    assert tuple(step_model.PLANS) == kernels.KERNELS


def test_tables_have_a_row_for_each_case_and_heads_for_each_column() -> None:
    tables = step_model.table(), rates.kept_in_registers()
    for table in tables:
        assert {len(row) for row in table.rows} == {len(table.heading)}
    assert [row[0] for row in tables[0].rows] == list(kernels.KERNELS)
    assert tables[0].rows[-1][1] == f"{step_model.per_step(kernels.REGISTERS):.0f}"
    assert tables[1].rows[1][4] == f"{rates.step(2, registers=True)['issue']:.0f}"


def test_instructions_by_kind_add_up_to_the_clocks_of_issue() -> None:
    """Four warps on four schedulers: as many clocks as each warp has instructions."""
    for share in (0, 2, 4, 8):
        for kept in (False, True):
            counted = rates.issued(share, kept)
            assert sum(counted.values()) == rates.step(share, registers=kept)["issue"]
            assert min(counted.values()) >= 0
    *kinds, whole = rates.where_fewer(2).rows
    assert whole[1:] == ("812", "564", "248")
    most = max(kinds, key=lambda row: int(row[3]))
    assert most == ("additions and multiplications of f32", "448", "231", "217")


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


@pytest.mark.parametrize("depth", [64, 128])
def test_the_first_table_has_the_clocks_of_shared_memory(depth: int) -> None:
    """For a step of a tile it delivers Q, K and V, a tile of 128 rows each, 128 bytes a clock."""
    clocks = 3 * kernels.ROWS * depth * 2 / rates.SHARED
    assert rates.step(0, depth)["shared memory"] == clocks
    page = next(ROOT.glob("book/*/??_attention_again.ipynb")).read_text(encoding="utf-8")
    [cell] = [each for each in json.loads(page)["cells"] if each["id"] == "answer"]
    printed = "".join(cell["outputs"][0]["text"])
    of_depth = printed.partition(f"a head of {depth}:")[2].partition("a step")[0]
    assert f"shared memory: {clocks:5.0f} clocks" in of_depth


def test_two_halves_hide_half_a_product_at_both_ends_of_a_block() -> None:
    half = rates.step(0, 128)["tensor core"] / 4
    for steps in (2, 4, 32):
        one, two = (step_model.whole(kernels.POLYNOMIAL, steps, parts=n) for n in (1, 2))
        assert one - two == 2 * half
        one, two = (step_model.whole(kernels.POLYNOMIAL, steps, 64, parts=n) for n in (1, 2))
        assert one - two == half / 2, "the softmax sets the pace: the end alone is shorter"
    done = step_model.run(kernels.POLYNOMIAL, 4, parts=2)
    for tile in range(2):
        for step in range(4):
            weights = done["weights", tile, step]
            work, _ = step_model.softmax(step_model.PLANS[kernels.POLYNOMIAL], 128)
            assert done["early", tile, step].begin >= weights.end - work / 2
            assert done["outputs", tile, step].begin >= weights.end
