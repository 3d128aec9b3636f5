"""Attention with P handed over in two parts, and with heads as rows of a tile."""

from __future__ import annotations

import pytest

from phasebit.chapters.attention_again import handing_over, shared_keys, view
from phasebit.chapters.attention_again import tensor_attention as kernels
from phasebit.edits import replace_once
from phasebit.emulator import EmulatorError

pytestmark = pytest.mark.nvcc

RAGGED = kernels.Shape(150, 250, causal=True)


def tried(text: str, schedule: str, spread: float = 1.0) -> tuple[bool, set[str]]:
    """Whether O is right, and the rules of the findings; an end by an error is wrong."""
    data = kernels.draw(RAGGED, 3, spread)
    try:
        run, out = kernels.attend(text, data, RAGGED.causal, schedule=schedule)
    except EmulatorError as error:
        return False, {finding.rule for finding in error.findings}
    return kernels.off(RAGGED, data, out) <= 1, {finding.rule for finding in run.findings}


@pytest.mark.parametrize("schedule", ["late", "random"])
@pytest.mark.parametrize("split", [32, 96, 128])
def test_any_part_may_come_first(split: int, schedule: str) -> None:
    assert tried(handing_over.in_parts(split), schedule, 12.0) == (True, set())


def test_each_part_needs_its_wait() -> None:
    text = handing_over.in_parts(64)
    wait = "ptx::mbarrier_wait(part ? &s.ready[tile] : &s.half[tile], step % 2);"
    hasty = replace_once(text, wait, "ptx::mbarrier_wait(&s.half[tile], step % 2);")
    assert tried(hasty, "late")[1]


def test_a_thread_waits_for_the_other_tile_unless_that_is_late() -> None:
    assert handing_over.begins(handing_over.in_parts(128))[0] == (128, 128)
    assert handing_over.begins(handing_over.in_parts(96))[0] == (96, 128)
    assert handing_over.begins(handing_over.in_parts(96, late=True))[0] == (96, 96)


def test_heads_as_rows_issue_an_eighth() -> None:
    one_by_one, rows = shared_keys.launches(3, 130, 8, True)
    assert one_by_one.right and rows.right and not one_by_one.findings + rows.findings
    assert one_by_one.products == 8 * rows.products and one_by_one.copied == 8 * rows.copied


def test_the_mask_must_know_of_heads() -> None:
    """By its row, not its position, a row would see other keys."""
    run = shared_keys.masked_by_row(3, 130, 8)
    assert not run.right and not run.findings


def test_columns_show_whose_product_begins_with_half_of_the_weights() -> None:
    """Tile 0's first half is read long before its second is stored; tile 1's is not."""
    text = handing_over.in_parts(64)
    with view.watching() as log:
        kernels.attend(text, kernels.draw(handing_over.SHAPE), schedule="eager", check=False)
    held = {(each.first, each.what, each.step): each
            for each in view.held(text, handing_over.SHAPE.depth, log)}  # fmt: skip
    for step in range(4):
        assert held[0, "P", step].end < held[32, "P", step].begin
        assert held[128, "P", step].end > held[160, "P", step].begin
