"""The picture of a pair says who tells whom, as the table of the page does."""

from __future__ import annotations

import re

import pytest

from phasebit import two_widths
from phasebit.chapters.chain import kernels, pair_signals
from phasebit.edits import replace_once

pytestmark = pytest.mark.nvcc

PAIR = kernels.source(kernels.PAIR)


def told(source: str) -> set[tuple[str, int, str, int]]:
    return {(s.what, s.block, s.barrier, s.there) for s in pair_signals.told(source).signals}


def test_every_signal_of_a_pair() -> None:
    assert told(PAIR) == {
        ("copy", 0, "full", 0), ("copy", 1, "full", 0), ("arrival", 0, "full", 0),
        ("commit", 0, "empty", 0), ("commit", 0, "empty", 1),
        ("commit", 0, "sum full", 0), ("commit", 0, "sum full", 1),
        ("arrival", 0, "sum empty", 0), ("arrival", 1, "sum empty", 0),
    }  # fmt: skip


def test_where_its_halves_lie() -> None:
    found = pair_signals.told(PAIR)
    assert found.sums == [0, 1]
    assert found.halves == [
        pair_signals.Half(block, matrix, range(128 * block, 128 * block + 128))
        for block in (0, 1) for matrix in "AB"
    ]  # fmt: skip


def test_a_change_of_the_kernel_changes_the_picture() -> None:
    late = replace_once(PAIR, "row + rank * ROWS, full", "row + (1 - rank) * ROWS, full")
    halves = pair_signals.told(late).halves
    assert [h.rows.start for h in halves if h.matrix == "A"] == [128, 0]


def test_the_picture_has_each_signal_and_what_nobody_uses() -> None:
    drawn = pair_signals.picture(PAIR)
    assert drawn.svg.count("<polygon") == 11  # 9 signals; copies come from A's box and from B's
    assert drawn.svg.count("stroke-dasharray") == 3  # full, sum empty and warp 5 of block 1
    assert "block 0: warp 5: multiplies → block 1: empty: a commit" in drawn.alt


def test_the_narrow_picture_has_the_same_signals_within_a_phone() -> None:
    drawn = pair_signals.picture(PAIR)
    assert drawn.narrow.count("<polygon") == 11 and drawn.narrow.count("<rect") == 22
    for part in re.findall(r'(?:<path d="|<rect )[^/]*', drawn.narrow):
        along = re.findall(r'H([-\d.]+)|M([-\d.]+)|(?<= )x="([-\d.]+)"', part)
        assert all(0 <= float("".join(each)) <= two_widths.NARROW - 4 for each in along), part


def test_no_two_lines_between_blocks_share_a_lane() -> None:
    lanes = re.findall(r"H(29[7-9]|3\d\d)", pair_signals.picture(PAIR).narrow)
    assert len(set(lanes)) == 4 and len(lanes) == 5, "but for the copies of both halves"
