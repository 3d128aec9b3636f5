"""Waves, bytes and walks: what can be counted by hand."""

from __future__ import annotations

import doctest

import pytest

from phasebit.chapters.every_shape import plans, row_lines, shape_slips, view, waves
from phasebit.chapters.every_shape.choice import PLANS, candidates, choose
from phasebit.chapters.every_shape.plans import Plan
from phasebit.chapters.every_shape.shapes import SHAPES, Shape
from phasebit.chapters.every_shape.shares import Piece, Walk, timeline

SQUARE = Shape(1024, 1024, 1024)


def test_a_plan_that_a_kernel_does_not_know_is_refused() -> None:
    with pytest.raises(ValueError, match="no constant WAVES"):
        plans.with_constants(plans.source(plans.PAIRS), WAVES=1)


def test_plans_have_names_of_their_own_and_fit_shared_memory() -> None:
    assert len({str(plan) for plan in PLANS}) == len(PLANS)
    for plan in PLANS:
        assert plan.slots * plan.slot <= plans.SHARED


def test_every_step_is_made_once() -> None:
    for tiles in range(1, 30):
        for workers in range(1, 9):
            walk = Walk.stream(tiles, 5, workers)
            made = sorted(piece for worker in range(walk.workers) for piece in walk.pieces(worker))
            steps = [(p.tile, step) for p in made for step in range(p.first, p.last)]
            assert sorted(steps) == [(tile, step) for tile in range(tiles) for step in range(5)]
            assert walk.clocks <= -(-tiles * 5 // walk.workers)


def test_only_a_first_piece_is_handed_over() -> None:
    for tiles in range(1, 30):
        walk = Walk.stream(tiles, 7, 8)
        for worker in range(walk.workers):
            assert all(piece.first == 0 for piece in list(walk.pieces(worker))[1:])


def test_walk_by_hand() -> None:
    walk = Walk.stream(3, 4, 2)
    assert walk.streamed == 3 and [*walk.pieces(0)] == [Piece(0, 0, 4), Piece(1, 0, 2)]
    assert [*walk.pieces(1)] == [Piece(1, 2, 4), Piece(2, 0, 4)]
    assert walk.busy == 1 and Walk.whole(3, 4, 2).busy == 0.75
    drawn = timeline(walk, 2, "two workers")
    assert [span.kind for span in drawn.spans] == ["consume", "produce", "hand-off", "consume"]


def test_clocks_by_hand() -> None:
    wide = Plan(plans.PAIRS, 2, 256, 4, pair=2)
    assert waves.products_clocks(wide) == 2 * 4 * 128
    assert waves.copies_clocks(wide, SQUARE) == (128 + 256) * 128 / 64
    alone = Plan(plans.SMALL, 1, 128, 8)
    assert waves.products_clocks(alone) == 256 and alone.tiles(SQUARE) == 128
    few = Plan(plans.FEW, 2, 16, 10)  # shared memory, not the tensor cores
    assert waves.products_clocks(few) == 2 * 4 * 20
    assert few.grid(Shape(16, 14336, 4096)) == (112, 1)


def test_rows_that_begin_at_no_line_are_asked_for_twice() -> None:
    alone = Plan(plans.SMALL, 1, 128, 8)
    once, twice = (waves.copies_clocks(alone, Shape(*3 * (n,))) for n in (1024, 1000))
    assert twice == 2 * once


def test_seven_rows_of_eight_begin_inside_a_line() -> None:
    assert doctest.testmod(row_lines) == (0, 1)
    rows = str(row_lines.drawn(1000)).splitlines()[1:]
    assert sum("2" in row.partition("|")[2] for row in rows) == 7 and len(rows) == 8
    assert all(row.count("1") + row.count("2") - row.partition("|")[0].count("1")
               - row.partition("|")[0].count("2") == 8 for row in rows)  # fmt: skip


def test_every_shape_has_a_choice() -> None:
    for shape in SHAPES:
        assert choose(shape) == candidates(shape)[0]


def test_the_map_of_multiprocessors_counts_tiles() -> None:
    drawn = view.on_multiprocessors(Plan(plans.SMALL, 2, 256, 4), SQUARE).alt
    assert "on average it is busy 24% of the time" in drawn and drawn.count("·") == 100


def test_slips_are_single_changes() -> None:
    assert len(shape_slips.SLIPS) >= 15
    for slip in shape_slips.SLIPS.values():
        assert slip.source != slip.where[0].text


def test_a_tile_that_lies_whole_in_a_share_is_not_counted_as_cut() -> None:
    assert (Walk.stream(6, 5, 4).streamed, Walk.stream(6, 5, 4).cut) == (6, 2)
    assert (Walk.stream(400, 79, 66).streamed, Walk.stream(400, 79, 66).cut) == (70, 64)
    assert Walk.whole(6, 5, 4).cut == 0
