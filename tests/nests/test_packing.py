"""The packing analysis decides as the source does, and estimates what the simulator counts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from phasebit import caches, nests
from phasebit.nests import examples, misses, packing
from phasebit.nests.loops import Pack

EXAMPLE = examples.EXAMPLES["contraction"]


def decided(plan: packing.Plan) -> set[tuple[str, int]]:
    return {(pack.array, pack.depth) for pack in plan.chosen.packs}


def test_the_worked_example_of_rohwedder() -> None:
    plan = packing.analyse(EXAMPLE)
    assert decided(plan) == {("A", 1)}
    assert plan.candidates[0].shape == (1, 80, 100)
    assert plan.candidates[0].pages == (391, 8) and plan.candidates[0].stride == (50, 1)
    assert plan.candidates[0].uses == 60
    # A alone saves less than B alone, and both save more than either.
    cycles = [
        misses.estimate(nest).cycles
        for nest in (
            EXAMPLE,
            EXAMPLE.pack("A", 1),
            EXAMPLE.pack("B", 0),
            EXAMPLE.pack("A", 1).pack("B", 0),
            EXAMPLE.interchange("l", "k", "i", "j"),
        )
    ]
    assert cycles == sorted(cycles, reverse=True)
    assert decided(packing.analyse(EXAMPLE, whole=True)) == {("A", 1), ("B", 0)}
    assert "decision: pack A at depth 1" in str(plan)


def test_what_needs_no_packing_is_left_alone() -> None:
    for nest in (
        EXAMPLE.interchange("l", "k", "i", "j"),
        nests.parse("C[i][j] += A[i][k] * B[j][k]", i=240, j=240, k=240),
        nests.parse("y[i] += A[j][i] * x[j]", i=900, j=900),  # no element is used twice
        nests.parse("C[i][j] += A[i][k] * B[k][j]", i=8, j=8, k=8),
    ):
        plan = packing.analyse(nest, whole=True)
        assert plan.chosen == nest and "do not pack" in str(plan)


def test_places_are_where_a_loop_comes_back() -> None:
    tiled = nests.parse("C[i][j] += A[i][k] * B[k][j]", i=64, k=64, j=64).tile(k=16, j=16)
    found = packing.places(tiled)  # k/16 j/16 i k j
    assert Pack("B", 2) in found  # the block, again for each i
    assert Pack("B", 0) not in found  # all of B is not used twice between its blocks
    assert all(pack.depth > 0 for pack in packing.places(tiled, whole=False))
    overlap = nests.parse("O[y] += I[y + r][c] * W[r][c]", y=40, c=9, r=5)
    assert Pack("I", 0) in packing.places(overlap)


def test_every_choice_is_there_once() -> None:
    found = packing.every(EXAMPLE)
    assert found[0] == EXAMPLE and len(found) == len(set(found)) == 4
    assert all(len({p.array for p in nest.packs}) == len(nest.packs) for nest in found)
    assert packing.analyse(EXAMPLE, whole=True).chosen.interchange(*"ijkl").packs


def test_a_packed_nest_is_not_analysed_again() -> None:
    with pytest.raises(ValueError, match="packs already"):
        packing.analyse(EXAMPLE.pack("A", 1))


def test_entries_are_those_that_the_elements_touch() -> None:
    nest = nests.parse("C[i][j] += A[k][2*i + j][i] * B[k][j]", i=7, j=90, k=11)
    shape = nest.shape("A")
    for depth, granule in itertools.product(range(4), (64, 4096)):
        box = nest.box("A", depth)
        at = np.ravel_multi_index(np.indices(box).reshape(3, -1), shape)
        assert misses.entries(nest, "A", depth, granule) == len(set(at * 4 // granule))


SMALL = (
    EXAMPLE.interchange("i", "k", "j", "l"),
    nests.parse("C[i][j] += A[k][l][i] * B[l][k][j]", i=20, j=30, k=40, l=50).pack("A", 1),
    nests.parse("C[i][j] += A[i][k] * B[k][j + 128]", i=128, j=128, k=128).pack("B", 0),
    nests.parse("C[i][j] += A[k][i] * B[k][j + 384]", i=128, k=128, j=128).tile(k=32, j=32),
    nests.parse("O[f][y][x] += I[y + r][x + s][f] * W[r][s]", f=16, y=30, x=30, r=3, s=3),
)


@pytest.mark.nvcc
@pytest.mark.parametrize("nest", SMALL, ids=str)
def test_the_estimate_is_near_what_the_simulator_counts(nest: nests.Nest) -> None:
    counts = misses.counted(nests.build(nest, options=["-O1"]).watch())
    told = misses.estimate(nest)
    assert told.accesses == counts.accesses
    assert told.cycles == pytest.approx(counts.cycles, rel=0.15)


def test_the_examples_are_what_their_comment_says() -> None:
    assert len(examples.EXAMPLES) >= 8
    for nest in examples.EXAMPLES.values():
        size = 4 * sum(np.prod(nest.shape(each.array)) for each in nest.references)
        assert nest.iterations >= 2_000_000 and size > caches.TYPICAL[0].bytes
