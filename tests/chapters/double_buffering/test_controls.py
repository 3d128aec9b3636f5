"""The controls of the ring: right under every schedule, equal where the chapter says so."""

from __future__ import annotations

import itertools
import re

import pytest

from phasebit import files, process, toolchain
from phasebit.chapters.double_buffering import clock_stamps, controls, observed
from phasebit.chapters.double_buffering import record as benchmark
from phasebit.edits import replace_once
from phasebit.measure import load, read

WAVEFRONTS = observed.COUNTERS["wavefronts of shared loads"]
MEETINGS = observed.COUNTERS["arrivals at __syncthreads()"]


def test_what_is_timed() -> None:
    timed = benchmark.timed_kernels()
    assert set(timed) == {*benchmark.KERNELS, *controls.CONTROLS}
    assert len(set(timed.values())) == len(timed), "no two are the same"
    assert controls.source("tiled") == files.kernel("double_buffering/tiled")


@pytest.mark.nvcc
@pytest.mark.parametrize("name", controls.CONTROLS)
@pytest.mark.parametrize("depth", [32, 192])  # one tile; six
def test_a_control_is_right_under_every_schedule(name: str, depth: int) -> None:
    for schedule, seed in (("late", 0), ("eager", 0), ("random", 3)):
        run, right = observed.emulate(controls.source(name), depth, schedule, seed)
        assert right and not run.findings


@pytest.mark.nvcc
def test_a_control_without_its_barrier_is_found() -> None:
    line = "        __syncthreads();  // the other slot is full, and this one is empty\n"
    run, _ = observed.emulate(replace_once(controls.source("no_roles"), line, ""), 192)
    assert {finding.kind for finding in run.findings} == {"race"}


@pytest.mark.nvcc
def test_equal_work() -> None:
    """The wavefronts of the ring; a barrier more is a meeting more for each thread and tile."""
    names = ("barrier_double_buffer", "one slot, 4 rows", "no roles, 4 rows", "ring, one slot")
    counts = [observed.emulate(controls.source(name), 192)[0].counters for name in names]
    assert len({each[WAVEFRONTS] for each in counts}) == 1
    more = observed.emulate(controls.source("no roles, second barrier"), 192)[0].counters
    assert more[MEETINGS] - counts[2][MEETINGS] == 256 * 6


def memory_order(name: str) -> str:
    """Loads and stores of a kernel's machine code in order, as ``LDG 8; STS 8``."""
    try:
        tool = toolchain.tool("cuobjdump")
    except toolchain.CudaError as missing:
        pytest.skip(str(missing))
    text = controls.source(name).replace('#include "harness.cuh"', "int main() {}")
    program = toolchain.build(text, target="sm_90a").program
    said = process.run([tool, "-sass", program], timeout=60)
    assert said.ok, said.stderr
    codes = re.findall(r"/\*[0-9a-f]{4}\*/\s+(?:@!?U?P\d+ )?(LDG|STS|LDS|BAR|BRA)\b", said.stdout)
    return "; ".join(f"{code} {len(list(same))}" for code, same in itertools.groupby(codes))


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("name", "pattern", "count"),
    [
        ("barrier_double_buffer", "LDG 4; STS 4", 2),  # the trip for A, then the trip for B
        ("tiled", "LDG 4; STS 4", 1),
        ("a_wide_loads", "LDG 2; STS 2", 1),
        ("ring, loads first", "LDG 8; STS 8", 1),
        ("no roles, 4 rows", "LDG 8; LDS", 1),  # under way while it multiplies
    ],
)
def test_the_machine_code_loads_and_stores_in_that_order(
    name: str, pattern: str, count: int
) -> None:
    assert memory_order(name).count(pattern) == count


def test_the_words_of_the_chapter() -> None:
    every, inside = load("double_buffering"), read("clock_stamps")
    times = {
        point["constants"]["SLOTS"]: (point["warm_us"], point["flushed_us"])
        for point in inside["sweep"] if point["kernel"] == "a_wide_loads"
    }  # fmt: skip
    assert 0.08 < 1 - times[2][0] / times[1][0] < 0.14, "a tenth, warm"
    assert 1 / 3 < 1 - times[2][1] / times[1][1] < 0.42, "more than a third, flushed"
    assert all(abs(times[n][i] / times[2][i] - 1) < 0.02 for n in (3, 4) for i in (0, 1))
    tiled, ring, wide = (every[k] for k in ("tiled", "barrier_double_buffer", "a_wide_loads"))
    assert 1.25 < tiled.warm / ring.warm < 1.4 and abs(tiled.flushed / ring.flushed - 1) < 0.03
    assert ring.warm < wide.warm < wide.flushed
    assert 2.5 < every["b_register_tiles"].warm / 16.5 < 2.8, "more than two and a half floors"
    assert 0.45 < every["b_register_tiles"].warm / wide.warm < 0.55, "almost halved"

    def waits(kernel: str, kind: str) -> tuple[float, float]:
        stamps = clock_stamps.load(inside, kernel, kind)
        return stamps.producer_waits, stamps.consumer_waits

    for kernel, kind, producers in (
        ("barrier_double_buffer", "warm", True), ("barrier_double_buffer", "flushed", False),
        ("a_wide_loads", "warm", True), ("a_wide_loads", "flushed", True),
        ("b_register_tiles", "warm", False), ("b_register_tiles", "flushed", False),
    ):  # fmt: skip
        producer, consumer = waits(kernel, kind)
        assert (producer > 2 * consumer) if producers else (consumer > 1.5 * producer)


def test_what_the_chapter_says_of_the_controls() -> None:
    every = load("double_buffering")
    ring, one, alone = (
        every[name] for name in ("barrier_double_buffer", "ring, one slot", "one slot, 4 rows")
    )
    free, first, wide = (
        every[name] for name in ("no roles, 4 rows", "ring, loads first", "a_wide_loads")
    )
    assert 0.6 < ring.warm / one.warm < 0.7 and 0.7 < ring.flushed / one.flushed < 0.8
    assert one.warm > alone.warm and one.flushed > alone.flushed, "roles only cost"
    assert ring.warm < min(free.warm, one.warm, alone.warm), "the fastest of the four, warm"
    assert 0.6 < free.flushed / ring.flushed < 0.7, "a third less time"
    barrier, early = every["no roles, second barrier"], every["no roles, stored at once"]
    for kind in ("warm", "flushed"):
        assert 1.01 < getattr(barrier, kind) / getattr(free, kind) < 1.05, "a few percent"
        assert 0.9 < getattr(first, kind) / getattr(free, kind) < 0.95, "less than a tenth"
        assert 0.9 < getattr(first, kind) / getattr(every["no roles, 2 rows"], kind) < 0.98
        more = every["no roles, 2 rows"]
        assert getattr(first, kind) < getattr(more, kind) < getattr(free, kind), "closer still"
        assert getattr(wide, kind) < getattr(first, kind), "wide loads gain on top"
    assert abs(early.warm / free.warm - 1) < 0.02, "hardly shows warm"
    gained, back = alone.flushed - free.flushed, early.flushed - free.flushed
    assert 0.5 < back / gained < 0.9, "most of what the second slot gained"
    assert 1.08 < first.warm / ring.warm < 1.15, "a tenth"


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("name", "overlap"),
    [("no roles, 4 rows", True), ("no roles, second barrier", True),
     ("no roles, stored at once", False)],
)  # fmt: skip
def test_the_pictures_of_loads_under_way(name: str, overlap: bool) -> None:
    """Loads of the next tile are under way while a warp multiplies, unless it stores at once."""
    spans = observed.loads_under_way(controls.source(name), 4, name).spans
    mine = [span for span in spans if span.row == "warp 0" and span.kind == "consume"]
    loads = [span for span in spans if span.row == "loads"]
    assert [span.label for span in mine] == [span.label for span in loads] == ["0", "1", "2", "3"]
    both = [(int(load.label), int(one.label)) for load in loads for one in mine
            if load.start < one.end and one.start < load.end]  # fmt: skip
    assert both == ([(1, 0), (2, 1), (3, 2)] if overlap else [])
    slots = [span.row for span in spans if span.kind == "consume" and span.row != "warp 0"]
    assert slots == ["slot 0", "slot 1"] * 2
