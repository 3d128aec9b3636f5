"""The changes that are timed where rows of A are few compute what they should."""

import pytest

from phasebit.chapters.every_shape import few_rows, on_emulator, plans
from phasebit.chapters.every_shape.plans import Plan
from phasebit.edits import replace_each

WEIGHTS = Plan(plans.WEIGHTS, 1, 16, 2)
TEXTS = {
    few_rows.AHEAD: few_rows.ahead(WEIGHTS),
    "ahead, exchanged": few_rows.ahead(Plan(plans.FEW, 1, 16, 2)),
    **{name: few_rows.shared(WEIGHTS, blocks) for name, blocks in few_rows.SHARED.items()},
}


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("name", TEXTS)
def test_right_and_without_findings(name: str, schedule: on_emulator.Schedule) -> None:
    m, n = (10, 128) if "exchanged" in name else (60, 64)
    done = on_emulator.multiply(TEXTS[name], m, n, 328, schedule=schedule)
    assert done.exact and not done.run.findings, done.run.findings


@pytest.mark.nvcc
def test_a_slot_that_is_given_back_in_one_block_alone_is_found() -> None:
    """The other block writes into it, too."""
    edits = (
        ("if (step > 0 && threadIdx.x % 32 < SHARERS)", "if (step > 0 && threadIdx.x % 32 == 0)"),
        ("mbarrier_arrive_at_after_reads(&ring.empty[before], threadIdx.x % 32)",
         "mbarrier_arrive(&ring.empty[before])"),
        ("init(&ring.empty[s], CONSUMERS / 32 * SHARERS)", "init(&ring.empty[s], CONSUMERS / 32)"),
    )  # fmt: skip
    done = on_emulator.multiply(replace_each(few_rows.shared(WEIGHTS, 2), edits), 60, 64, 328)
    assert done.run.findings


def test_what_is_timed_and_what_must_be_right() -> None:
    for shape, plan in few_rows.PLANS.items():
        found = few_rows.tried(plan)
        assert [name for name, each in found.items() if not each.right] == [few_rows.NO_PRODUCTS]
        assert len({each.text for each in found.values()}) == len(found)
        _, columns = plan.grid(shape)
        if plan.kernel == plans.WEIGHTS:
            assert all(columns % blocks == 0 for blocks in few_rows.SHARED.values())
