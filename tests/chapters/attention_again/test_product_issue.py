"""What the multiplier executes from one product to the next, in PTX and in machine code."""

from __future__ import annotations

import pytest

from phasebit import toolchain
from phasebit.chapters.attention_again import product_issue, role_counts, softmax_code
from phasebit.chapters.attention_again import tensor_attention as kernels

ROW = ["mma"] + ["add", "mma"] * 3 + ["mma"] * 4


def test_stretches_stay_within_rows_of_products() -> None:
    found = product_issue.stretches(["wait", *ROW, "wait", "mov", *ROW], "mma")
    assert found == ([["add", "mma"]] * 3 + [["mma"]] * 4) * 2
    assert product_issue.usual(found) == (1, ["mma"])
    with pytest.raises(ValueError, match="9 products are not whole rows of 8"):
        product_issue.stretches([*ROW, "mma"], "mma")


def test_the_second_kernel_differs_in_the_choice_alone() -> None:
    ours, other = kernels.source(kernels.REGISTERS), product_issue.elected()
    assert other.replace(product_issue.ELECTED, "").replace(
        product_issue.CHOSEN, product_issue.FIRST_LANE) == ours  # fmt: skip


def test_what_is_said_of_the_record() -> None:
    record = role_counts.recorded()
    issue = record["issue"]
    said = {name: (side["executed"], side["ptx"], side["machine"]) for name, side in issue.items()}
    assert said == {"ours": (872, 4, 11), "elected": (872, 4, 1), "cutlass": (2624, 14, 3)}
    for name, side in (("ours", "ours"), ("cutlass", "cutlass")):
        assert issue[name]["executed"] == record[side]["instructions"]["multiplier"]
    for side in issue.values():
        assert (len(side["opcodes"]), len(side["instructions"])) == (side["ptx"], side["machine"])
        assert "UTCHMMA" in side["instructions"][-1]
    ours = " ".join(issue["ours"]["instructions"])
    assert all(word in ours for word in ("ELECT", "BRA.U.ANY", "R2UR"))
    assert "elect.sync" in issue["cutlass"]["opcodes"]
    table = product_issue.table()
    assert [row[3] for row in table.rows] == ["11", "1", "3"]
    assert {len(row) for row in table.rows} == {len(table.heading)}


@pytest.mark.nvcc
@pytest.mark.parametrize("name", ["ours", "elected"])
def test_the_record_is_that_of_the_kernels(name: str) -> None:
    kept = role_counts.recorded()
    if softmax_code.version("nvcc") != kept["nvcc"]:
        pytest.skip(f"the record was made with nvcc {kept['nvcc']}")
    text = kernels.source(kernels.REGISTERS) if name == "ours" else product_issue.elected()
    try:
        toolchain.tool("nvdisasm")
    except toolchain.ToolMissing:
        assert ptx(text) == (kept["issue"][name]["executed"], kept["issue"][name]["ptx"])
        return
    assert product_issue.ours(text) == kept["issue"][name]


def ptx(text: str) -> tuple[int, int]:
    """Instructions of PTX in all, and of a product."""
    data = kernels.draw(role_counts.SHAPE)
    with product_issue.executed(role_counts.OURS["multiplier"].start) as opcodes:
        made = kernels.attend(text, data, schedule="eager")
    assert not made.run.findings and kernels.off(role_counts.SHAPE, data, made.out) <= 1
    return len(opcodes), product_issue.usual(product_issue.stretches(opcodes, "tcgen05.mma"))[0]
