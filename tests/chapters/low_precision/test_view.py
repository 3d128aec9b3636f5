"""What the pictures of tensor memory with scales say."""

from __future__ import annotations

import re

import numpy as np
import pytest

from phasebit.chapters.low_precision import view


@pytest.mark.nvcc
def test_a_tile_begins_when_the_columns_that_both_sums_have_are_fetched() -> None:
    events = view.overlap().alt.splitlines()[1:]
    begins = [i for i, event in enumerate(events) if event.startswith("tile ")]
    assert [events[i] for i in begins] == [
        "tile 0 may begin in 0 to 255", "tile 1 may begin in 112 to 367",
        "tile 2 may begin in 0 to 255",
    ]  # fmt: skip
    fetched: set[int] = set()
    for event in events[begins[0] : begins[1]]:
        if found := re.fullmatch(r"fetched: (\d+) to (\d+)", event):
            fetched |= {*range(int(found[1]), int(found[2]) + 1)}
    assert {*range(112, 256)} <= fetched and 0 not in fetched


@pytest.mark.nvcc
def test_both_blocks_of_a_pair_hold_the_scales_of_all_of_b() -> None:
    lines = view.scales_of_a_pair().alt.splitlines()[1:]
    found = [re.fullmatch(r"block (\d), columns (\d+) to \d+: (.), rows (\d+) to .*, .* (\d)", line)
             for line in lines]  # fmt: skip
    read = {(int(m[1]), int(m[2])): (m[3], int(m[4]), int(m[5])) for m in found if m}
    assert len(read) == len(lines) == 2 * 12
    for block in range(2):
        assert [read[block, 256 + 4 * step] for step in range(4)] == [
            ("A", 128 * block, step) for step in range(4)]  # fmt: skip
        assert [read[block, 272 + 4 * i] for i in range(8)] == [
            ("B", 128 * (i % 2), i // 2) for i in range(8)]  # fmt: skip


@pytest.mark.nvcc
def test_an_atom_goes_to_four_columns_and_to_every_quarter_of_the_lanes() -> None:
    lane, column = np.indices((128, 4))
    assert (view.copied_atom() == lane % 32 + 32 * column).all()
    assert len(set(view.lanes_of_scales().alt.replace("|", "").split("\n")[1:])) == 4
