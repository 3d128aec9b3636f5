"""What *Attention* draws from its record and from runs."""

from __future__ import annotations

import pytest

from phasebit import measure
from phasebit.chapters.attention import attend, encounters, rungs, view


def test_the_record_has_every_contender_in_every_case_within_its_bound() -> None:
    recorded = measure.read("attention")
    assert len(recorded["ladder"]) == 12
    for case in recorded["ladder"]:
        assert set(case["contenders"]) == {*rungs.LADDER, *rungs.RIVALS}
        assert all(case["largest_error"][rung] <= 1 for rung in rungs.LADDER)
    for case in recorded["variants"]:
        assert set(case["contenders"]) >= {*rungs.LADDER, *rungs.VARIANTS}


def test_a_change_is_shown_with_what_was_expected_of_it() -> None:
    tried = [name for rung in ("persistent", "dynamic") for name in rungs.variants(rung)]
    assert list(rungs.EXPECTED) == tried
    names, case = rungs.variants("dynamic"), (64, True, 4096)
    recorded = measure.read("attention")
    bare = view.tried(recorded, "dynamic", names, [case])
    table = view.tried(recorded, "dynamic", names, [case], expected=True)
    assert table.heading == ("", "expected", *bare.heading[1:])
    assert [each[1] for each in table.rows] == ["", *(rungs.EXPECTED[name] for name in names)]
    assert [(each[0], *each[2:]) for each in table.rows] == list(bare.rows)


def test_two_groups_could_keep_the_tensor_cores_busy() -> None:
    products = [span for span in view.plan().spans if span.row.endswith("products")]
    turns = sorted((span.start, span.end) for span in products if span.row[:6] == "group ")
    assert turns == [(1024 * n, 1024 * (n + 1)) for n in range(6)]
    assert [span.start for span in products if span.row[:3] == "one"] == [0, 3072, 6144]


def test_stamps_are_of_both_groups() -> None:
    recorded = measure.read("attention_stamps")
    for rung in rungs.STAMPED:
        assert {span.row[:7] for span in view.stamped(recorded, rung, 10, 12).spans} == {
            "group 0", "group 1",
        }  # fmt: skip


@pytest.mark.nvcc
def test_the_picture_has_both_rings_and_both_groups() -> None:
    text = attend.source(attend.OVERLAPPED)
    with encounters.watching(text) as log:
        done = attend.attend(text, attend.heads(encounters.D, 64, 520))
    assert done.error <= 1
    drawn = view.roles(text, log, "rings")
    assert "tile 3 of K lies in slot 1" in drawn.alt and "tile 2 of V lies in slot 0" in drawn.alt


@pytest.mark.nvcc
def test_the_picture_of_tasks_has_all_three_rings() -> None:
    text = attend.source(attend.DYNAMIC)
    with encounters.watching(text) as log:
        done = attend.attend(text, attend.heads(encounters.D, 100, 300, layers=4), True, blocks=1)
    assert done.error <= 1 and not done.run.findings
    alt = view.tasks(text, log, "tasks").alt
    assert alt == "tasks. Filled and emptied: task slot 4 times, K slot 20 times, V slot 20 times."
