"""Blocks that run together need not have passed their barriers at the same time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from phasebit.emulator.checker.races import Races, SharedShadow

THREADS = 4


def group_of_two_blocks() -> tuple[SharedShadow, Any]:
    """Two blocks in one batch: block 0 passed its barrier at time 1, block 1 at time 5."""
    machine = SimpleNamespace(cluster_size=1, next_block=2)
    batch = SimpleNamespace(
        threads=THREADS, count=2, lanes=2 * THREADS, shared_stride=64, shared_base=0,
        machine=machine, first=0, slots=lambda lanes: lanes // THREADS,
    )  # fmt: skip
    shadow = SharedShadow(cast(Any, batch), 2, False)
    shadow.barrier(np.array([0]), 1)
    shadow.barrier(np.array([1]), 5)
    return shadow, SimpleNamespace(batch=batch, lanes=np.arange(2 * THREADS), known=None)


@pytest.mark.parametrize(("block", "written", "races"), [(1, 4, False), (1, 6, True), (0, 4, True)])
def test_each_thread_has_the_floor_of_its_own_block(
    monkeypatch: pytest.MonkeyPatch, block: int, written: int, races: bool
) -> None:
    """A word of one block, written by its last thread, is read by all threads of that block."""
    shadow, group = group_of_two_blocks()
    word = block * 16
    shadow.write_time[word], shadow.writer[word] = written, THREADS - 1
    shadow.write_time[16 - word], shadow.writer[16 - word] = 1, THREADS - 1
    reported: list[object] = []
    monkeypatch.setattr(Races, "_report", lambda *args, **rest: reported.append(args))
    words = np.where(group.lanes // THREADS == block, word, 16 - word)
    checker = Races.__new__(Races)
    checker._against_writer(shadow, group, words, 0, False, "reads")
    assert bool(reported) is races
