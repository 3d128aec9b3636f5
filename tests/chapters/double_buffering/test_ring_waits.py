"""The rings that never sleep, and those with a third slot: right, and what ncu prints is read."""

from __future__ import annotations

import pytest

from phasebit import files
from phasebit.chapters.double_buffering import clock_stamps, ring_waits
from tests.kernels.emulated import emulate

CHANGED = [name for name, (_, edits) in ring_waits.VARIANTS.items() if edits]


def test_an_edit_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "kernel", lambda name: "nothing")
    for name in CHANGED:
        with pytest.raises(ValueError, match="once to be changed there"):
            ring_waits.text(name)


def test_stamps_fit() -> None:
    for name in ring_waits.STAMPED:
        assert clock_stamps.stamped(ring_waits.FIRST, ring_waits.text(name)).count("stamp(") == 6


def test_what_the_profiler_prints_is_read() -> None:
    said = (
        '==PROF== Connected\n"#","Source","Warp Stall Sampling (All Samples)","stall_sleeping"\n'
        '"1","LDS R1, [R2]","1,203","0"\n"2","NANOSLEEP R3","7","7"\n'
    )
    assert ring_waits.sampled(said) == [
        {"source": "LDS R1, [R2]", "Warp Stall Sampling (All Samples)": 1203},
        {"source": "NANOSLEEP R3", "Warp Stall Sampling (All Samples)": 7, "stall_sleeping": 7},
    ]
    with pytest.raises(ValueError, match="no page of source lines"):
        ring_waits.sampled("==ERROR== nothing")


@pytest.mark.nvcc
@pytest.mark.parametrize("name", CHANGED)
def test_right_on_the_emulator(name: str) -> None:
    done = emulate(ring_waits.text(name), "--seed", "7")
    assert done.ok and "OK on normal random numbers" in done.stdout, done.stdout + done.stderr
