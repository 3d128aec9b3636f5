"""One bit is not enough where workers take turns: each slot needs the same worker."""

from __future__ import annotations

import pytest

from phasebit import measure
from phasebit.chapters.warp_specialisation import view, worker_warps


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["late", "eager", "random"])
def test_slots_that_fit_are_right(schedule: str) -> None:
    assert worker_warps.run(16, schedule) == ([], True)
    assert worker_warps.run(8, schedule) == ([], True)


@pytest.mark.nvcc
def test_too_few_slots_are_found() -> None:
    assert worker_warps.run(4) == (["async"], False)


def test_a_parity_does_not_tell_phases_two_apart() -> None:
    """The picture: a wait for phase 1 ends while phase 0 is open; one for phase 0 does not."""
    seen: dict[str, list[str]] = {}
    for span in view.parity().spans:
        seen.setdefault(span.row.partition(",")[0], []).append(span.kind)
    assert seen["consumer 0"] == ["wait", "full", "wait"]
    assert seen["consumer 4"] == ["bad", "wait", "full"]


def test_the_words_of_the_chapter() -> None:
    sweep = measure.read("clock_stamps")["sweep"]
    rings = {tuple(p["constants"].values()): p for p in sweep if p["kernel"] == "e_warp_workers"}
    warm = [rings[producers, 8, 16]["warm_us"] for producers in (1, 2, 4, 8)]
    assert warm[0] > 1.05 * warm[1] > 1.1 * warm[2] and warm[3] > warm[2]
    own = [point["warm_us"] for point in sweep if point["kernel"] == "g_own_ring"]
    assert min(own) < min(point["warm_us"] for point in rings.values())
    assert len(rings) > 4 and min(warm) == min(point["warm_us"] for point in rings.values())
    assert len(str(worker_warps.chart()).splitlines()) == 1 + len(warm) + len(own)
