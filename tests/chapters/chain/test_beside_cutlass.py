"""Our products beside CUTLASS's: the record is of these kernels, and no count is worse unsaid."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from phasebit.chapters.chain import beside_cutlass, kernels
from phasebit.edits import replace_once
from phasebit.instruments.executed import counting

RECORD = beside_cutlass.recorded()
WORSE = {"launch control": {"barriers"}}
"""Of what ours has more, and the page says so: a second slot for answers, two barriers a block."""


@pytest.mark.nvcc
@pytest.mark.parametrize("out", ["f32", "bf16"])
@pytest.mark.parametrize("name", beside_cutlass.COMPARED)
def test_ours_are_recorded(name: str, out: str) -> None:
    """But for instructions and their clock, which are a compiler's, a run counts what it has."""
    counts = asdict(beside_cutlass.ours(beside_cutlass.COMPARED[name][0], out))
    recorded = dict(RECORD["counts"][out][name]["ours"])
    assert recorded.pop("instructions").keys() == counts.pop("instructions").keys()
    assert all(each.pop("slots") > each["products"] for each in (counts, recorded))
    assert counts == recorded


@pytest.mark.parametrize("out", ["f32", "bf16"])
@pytest.mark.parametrize("name", beside_cutlass.COMPARED)
def test_ours_are_no_worse_but_where_the_page_says_so(name: str, out: str) -> None:
    sides = RECORD["counts"][out][name]
    ours, theirs = sides["ours"], sides["cutlass"]
    for role in beside_cutlass.ROLES:
        assert ours["instructions"][role] <= theirs["instructions"][role], role
    for what in ours.keys() - WORSE.get(name, set()) - {"instructions"}:
        assert ours[what] <= theirs[what], what


@pytest.mark.parametrize("out", ["f32", "bf16"])
def test_mbarriers_of_launch_control_are_those_that_the_page_names(out: str) -> None:
    block, pairs = (RECORD["counts"][out][f"launch control{more}"] for more in ("", ", pairs"))
    assert [block[whose]["barriers"] for whose in ("ours", "cutlass")] == [32, 28]
    assert pairs["ours"]["barriers"] == pairs["cutlass"]["barriers"]
    for sides in (block, pairs):
        assert sides["ours"]["copies"] == sides["cutlass"]["copies"]


@pytest.mark.nvcc
def test_with_one_slot_for_answers_ours_has_as_many_mbarriers() -> None:
    one = replace_once(kernels.source(kernels.LAUNCH_CONTROL), "ANSWERS = 2", "ANSWERS = 1")
    with counting(beside_cutlass.ROLES) as counts:
        run, exact = kernels.multiply(one, *beside_cutlass.SHAPE, schedule="eager")
    assert exact and not run.findings
    assert counts.barriers == RECORD["counts"]["f32"]["launch control"]["cutlass"]["barriers"]


def test_the_table_has_a_column_for_each_kernel() -> None:
    table = beside_cutlass.table(("a block", "a pair"))
    assert table.heading[1:] == ("a block: ours", "a block: CUTLASS's", "a pair: ours",
                                 "a pair: CUTLASS's")  # fmt: skip
    assert not any("schedule" in row[0] for row in table.rows)


def test_some_rows_are_those_of_the_whole() -> None:
    whole = beside_cutlass.table(("a block",)).rows
    few = beside_cutlass.table(("a block",), some=("multiply", "bulk copies")).rows
    assert few == tuple(row for row in whole if "multiply" in row[0] or "bulk copies" in row[0])
    assert len(few) == 2 < len(whole)
