"""What is tried for heads of 64: right on the emulator, and what the page says of it."""

from __future__ import annotations

import pytest

from phasebit import measure
from phasebit.chapters.attention import attend, controls_view, narrow_heads
from phasebit.edits import replace_once
from phasebit.emulator import Schedule


@pytest.fixture(scope="module")
def programs() -> attend.Programs:
    texts = {name: narrow_heads.text(name) for name in narrow_heads.TRIED}
    return attend.Programs(texts, (64, True))


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("name", narrow_heads.TRIED)
def test_right_and_without_findings(
    programs: attend.Programs, name: str, schedule: Schedule
) -> None:
    """Of several tiles of the output a block's groups take other queries of each."""
    h = attend.heads(64, 300, 131, layers=3, seed=len(name))
    done = programs.attend(name, h, True, schedule=schedule, blocks=1)
    assert not done.run.findings and done.error <= 1


@pytest.mark.nvcc
def test_queries_of_another_group_are_noticed() -> None:
    """Each group takes its queries, and stores its output, at the same rows."""
    text = replace_once(narrow_heads.text("groups in turn"), "task.row + 64 * part",
                        "task.row + 64 * group")  # fmt: skip
    done = attend.attend(text, attend.heads(64, 300, 131, layers=3), True, blocks=1)
    assert done.error > 1


def test_what_the_page_says() -> None:
    record = measure.read(narrow_heads.NAME)
    table = {row[0]: [float(cell) for cell in row[2:]] for row in controls_view.narrow(record).rows}
    names = [*table]
    assert names == [narrow_heads.LAST, *narrow_heads.TRIED]
    assert [(each["causal"], each["sequence"]) for each in record["times"]] == [
        (False, 1024), (False, 4096), (True, 1024), (True, 4096),
    ]  # fmt: skip
    assert all(abs(part - 1) < 0.01 for part in table["groups in turn"])
    assert all(0.78 < part < 0.86 for part in table["Q in registers"])
    three, held = table["three groups"], table["three groups, Q in registers"]
    assert all(0.89 < part < 0.97 for part in three)
    assert all(-0.005 < a - b < 0.025 for a, b in zip(three, held, strict=True))


@pytest.mark.nvcc
@pytest.mark.parametrize("name", narrow_heads.TRIED)
def test_what_is_spilled(name: str) -> None:
    assert (controls_view.spilled(name, 64) > 0) == (name == "Q in registers")
