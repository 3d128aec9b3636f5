"""The rungs that lead to the chain: the record is of these kernels, the model falls, diffs fit."""

from __future__ import annotations

from itertools import pairwise

import pytest

from phasebit import toolchain
from phasebit.chapters.chain import climb, kernels


def test_each_rung_has_a_file_and_a_count() -> None:
    assert climb.recorded()["executed"].keys() == climb.RUNGS.keys()
    assert {rung.file for rung in climb.RUNGS.values()} >= {*kernels.RUNGS, kernels.CHAIN}


@pytest.mark.nvcc
@pytest.mark.parametrize("name", climb.RUNGS)
def test_the_record_is_what_is_executed(name: str) -> None:
    """Red after a change of a kernel or a header: `python -m phasebit.chapters.chain.climb`."""
    record = climb.recorded()
    executed = climb.executed(name)  # right, or it raises
    if toolchain.nvcc().version == record["nvcc"]:
        assert executed == record["executed"][name]


def test_what_the_chapter_says_of_them() -> None:
    counts, clocks = climb.recorded()["executed"], [climb.clocks(name) for name in climb.RUNGS]
    saved = {b: counts[a] - counts[b] for a, b in pairwise(climb.RUNGS)}
    assert max(saved, key=lambda name: saved[name]) == "a ring"
    assert saved["pieces"] > 0.75 * counts["roles"] and saved["roles"] < 0.02 * counts["a ring"]
    steps = [a - b for a, b in pairwise(clocks)]
    assert steps[0] == max(steps) and steps[1:4] == [0] * 3 and all(step > 0 for step in steps[4:])
    assert counts["pieces"] < counts["one box"] < 1.02 * counts["pieces"]


def test_differences_are_of_the_functions_alone() -> None:
    said = climb.difference("roles", "pieces", "store")
    assert "cp_async_bulk_tensor_store" in said and "mbarrier_init" not in said
    met = climb.difference("pieces", "one_box", "store")
    assert "+        ptx::bar_sync(1, 32 * EPILOGUE)" in met and "-        __syncwarp();" in met
    assert climb.difference("chain", "chain", "load", "multiply") == ""
    assert "for_each_tile(s, m, 1" in climb.difference("chain", "launch_control", "load")


@pytest.mark.nvcc
def test_one_box_leaves_by_a_quarter_of_the_copies_and_a_meeting_each() -> None:
    pieces, box, twice = climb.ways_out().rows
    assert pieces[1:] == ("32", "4", "36", "0")
    assert box[1:] == ("8", "16", "9", "8")
    assert twice[1:] == ("8", "16", "9", "16")


@pytest.mark.nvcc
def test_bytes_at_each_level() -> None:
    rows = {row[0]: row[1:] for row in climb.levels().rows}
    assert rows["a block alone"][1:4] == ("3,072",) * 3
    assert rows["two that share B"][1:4] == ("2,048", "3,072", "3,072")
    assert rows["a pair"][1:4] == ("2,048",) * 3
    assert rows["two products of a pair"][1:4] == ("1,536", "1,536", "2,048")


def test_the_rungs_of_a_block_are_all_but_the_pair() -> None:
    assert {*climb.RUNGS} - {*climb.OF_A_BLOCK} == {"a pair"}
    assert [row[0] for row in climb.table().rows] == [*climb.OF_A_BLOCK]
    assert climb.table(("a pair",)).rows[0][0] == "a pair"
