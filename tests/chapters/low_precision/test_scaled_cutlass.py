"""Our products of NVFP4 beside CUTLASS's: the record is of these kernels, no count is worse."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from phasebit.chapters.low_precision import scaled_cutlass
from phasebit.instruments import executed

RECORD = scaled_cutlass.recorded()

@pytest.mark.nvcc
@pytest.mark.parametrize("name", scaled_cutlass.COMPARED)
def test_ours_are_recorded(name: str) -> None:
    """But for instructions and their clock, which are a compiler's, a run counts what it has."""
    counts = asdict(scaled_cutlass.ours(*scaled_cutlass.COMPARED[name]))
    recorded = dict(RECORD["counts"][name]["ours"])
    assert recorded.pop("instructions").keys() == counts.pop("instructions").keys()
    assert all(each.pop("slots") > each["products"] for each in (counts, recorded))
    assert counts == recorded


@pytest.mark.parametrize("name", scaled_cutlass.COMPARED)
def test_ours_are_no_worse(name: str) -> None:
    sides = RECORD["counts"][name]
    ours, theirs = sides["ours"], sides["cutlass"]
    for role in scaled_cutlass.ROLES:
        assert ours["instructions"][role] <= theirs["instructions"][role], role
    for what in ours.keys() - {"instructions"}:
        assert ours[what] <= theirs[what], what


def test_the_table_has_a_column_for_each_kernel() -> None:
    table = scaled_cutlass.table()
    assert table.heading[1:] == ("a block: ours", "a block: CUTLASS's", "a pair: ours",
                                 "a pair: CUTLASS's")  # fmt: skip
    assert [row[0].partition(": ")[2] for row in table.rows[:3]] == ["load", "multiply", "store"]


def test_a_pair_of_ours_asks_for_a_copy_a_slice_less() -> None:
    stored, slices = 64, 4 * 4 * 2  # copies out; of four tiles, in both blocks
    pair = RECORD["counts"]["a pair"]
    assert [(pair[whose]["copies"] - stored) / slices for whose in ("ours", "cutlass")] == [4, 5]


def test_products_commits_and_bytes_are_equal_as_the_page_says() -> None:
    for sides in RECORD["counts"].values():
        for what in ("products", "commits", "columns", *executed.LEVELS.values()):
            assert sides["ours"][what] == sides["cutlass"][what], what
