"""The rings that never sleep, and those with a third slot: right, and what ncu prints is read."""

from __future__ import annotations

import re
import statistics
from pathlib import Path
from typing import Any

import pytest

from phasebit import files, measure, process, toolchain
from phasebit.chapters.double_buffering import clock_stamps, ring_waits, view
from phasebit.instruments import clocks, profiler, programs, samples
from tests.kernels.emulated import emulate

RINGS = ring_waits.STAMPED
CHANGED = [name for name, (_, edits) in ring_waits.VARIANTS.items() if edits]


def test_an_edit_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "kernel", lambda name: "nothing")
    for name in CHANGED:
        with pytest.raises(ValueError, match="once to be changed there"):
            ring_waits.text(name)


def test_stamps_fit() -> None:
    for name in ring_waits.STAMPED:
        assert clock_stamps.stamped(ring_waits.FIRST, ring_waits.text(name)).count("stamp(") == 6


def test_what_the_profiler_says_is_put_into_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def page(command: object, kernel: str, *, skip: int, options: tuple[str, ...]) -> str:
        asked.append(options)
        if "--warp-sampling-interval" in options:
            raise toolchain.CudaError("unrecognised option")
        head = '"Address","Source","Instructions Executed","stall_sleeping"'
        return f'{head}\n"1","NANOSLEEP R3 ","7","2"'

    saved: list[dict[str, Any]] = []
    monkeypatch.setattr(measure, "facts", lambda: {"gpu": "a GPU"})
    monkeypatch.setattr(
        measure, "read", lambda name: {"gpu": "another", "times": 1, "protocol": {}}
    )
    monkeypatch.setattr(measure, "save", saved.append)
    monkeypatch.setattr(clocks, "built", lambda build, names: dict.fromkeys(names, _Built))
    monkeypatch.setattr(profiler, "count", lambda command, metrics: [("matmul", {"cycles": 3})])
    monkeypatch.setattr(profiler, "version", lambda: "Nsight Compute")
    monkeypatch.setattr(samples, "page", page)
    lap = {"warm_us": [1.0], "flushed_us": [2.0]}
    monkeypatch.setattr(programs, "times", lambda *asked: lap)
    ring_waits.again()
    first = ring_waits.COUNTED[0]
    assert saved[1]["gpu"] == "another" and saved[1]["profiled"] == {"gpu": "a GPU"}
    assert saved[1]["times"] == 1 and saved[1]["counters"][first] == {"cycles": 3}
    assert saved[1]["samples"][first] == ["NANOSLEEP executed 7, sleeping 2"]
    name = ring_waits.SCHEDULED[-1]
    assert saved[0]["schedules"][name] == {"warm_us": [1.0] * 3, "flushed_us": [2.0] * 3}
    assert len(asked) == 2 * len(ring_waits.COUNTED)


class _Built:
    program = Path("program")


def test_what_the_chapter_says_of_the_two_rings() -> None:
    record = measure.read("double_buffering_waits")

    def lead(times: dict[str, Any], how: str, kind: str = "warm_us") -> float:
        first, other = (statistics.median(times[f"{ring}{how}"][kind]) for ring in RINGS)
        return other / first

    times, schedules = record["times"], record["schedules"]
    for how in ("", ", try_wait", ", test_wait"):
        assert 1.09 < lead(times, how) < 1.14, "the waits do not"
    assert 1.11 < lead(schedules, "") < 1.13
    assert 1.01 < lead(schedules, ", consumers apart") < 1.024, "2 per cent"
    assert 0.865 < lead(schedules, ", more registers") < 0.885, "an eighth less"
    for how in ("", ", consumers apart", ", more registers"):
        assert lead(schedules, how, "flushed_us") < 0.66, "flushed, the order of the loads decides"
    for ring in RINGS:
        asleep = "smsp__average_warps_issue_stalled_sleeping_per_issue_active.ratio"
        assert record["counters"][ring][asleep] == 0
        assert not any("sleeping" in line for line in record["samples"][ring])
    assert len(view.two_rings(record).rows) == 6


@pytest.mark.nvcc
def test_how_far_the_consumers_load_ahead() -> None:
    """Half as far again in the first ring; equally far, and further, with more registers.

    The loads and the multiply-adds are the same ones everywhere; their order is another.
    """
    try:
        tool = toolchain.tool("cuobjdump")
    except toolchain.CudaError as missing:
        pytest.skip(str(missing))

    orders = []

    def ahead(name: str) -> float:
        source = ring_waits.text(name).replace('#include "harness.cuh"', "int main() {}")
        program = toolchain.build(source, target="sm_90a").program
        said = process.run([tool, "-sass", program], timeout=60)
        assert said.ok, said.stderr
        orders.append(re.findall(r"\b(?:LDS|FFMA)\S*", said.stdout))
        return ring_waits.ahead(said.stdout)

    first, other, first_apart, other_apart, first_more, other_more = map(
        ahead, ring_waits.SCHEDULED
    )
    assert 8.5 < first < 9.5 and max(other, first_apart, other_apart) < 5.5
    assert 27 < first_more < 29 and 27 < other_more < 29
    assert all(sorted(order) == sorted(orders[0]) for order in orders)
    assert orders[0] != orders[1], "in another order"


@pytest.mark.nvcc
@pytest.mark.parametrize("name", CHANGED)
def test_right_on_the_emulator(name: str) -> None:
    done = emulate(ring_waits.text(name), "--seed", "7")
    assert done.ok and "OK on normal random numbers" in done.stdout, done.stdout + done.stderr
