"""Chapter 12's filters: they compile for every target, are right, and each mistake is seen."""

from __future__ import annotations

import functools

import pytest

from phasebit import files, machine, process, toolchain
from phasebit.benchmarks import async_copies as benchmark
from phasebit.exercises import async_copies as check
from tests.kernels import targets
from tests.kernels.emulated import emulate

FILTERS = ("12_loads", "12_groups", "12_pipeline", "12_mbarrier")
TARGETS = ("sm_75", "sm_100a")  # sm_90a is what the tests below run
THREADS = {"12_mbarrier": 160}

UNSEEN: dict[str, tuple[str, str, str, str]] = {
    # No result shows these with eager copies: (kernel, the file's line, the mistake, its finding).
    "no wait": ("12_groups", "__pipeline_wait_prior(STAGES - 1);", ";", "async"),
    "a wait too weak": (
        "12_groups", "__pipeline_wait_prior(STAGES - 1)", "__pipeline_wait_prior(STAGES)", "async",
    ),
    "no barrier behind the wait": (
        "12_groups", "__syncthreads();                    // and", "//", "async",
    ),
    "the slot is taken back": (
        "12_groups", "__syncthreads();                    // the slot", "//", "race",
    ),
    "no consumer_wait": ("12_pipeline", "pipe.consumer_wait();", "", "async"),
    "no producer_acquire": ("12_pipeline", "pipe.producer_acquire();", "", "race"),
    "the copies do not arrive": (
        "12_mbarrier", "__pipeline_arrive_on(&ring.full[slot]);", "", "async",
    ),
    "no wait for empty": ("12_mbarrier", "wait(ring.empty[slot], phase ^ 1);", "", ""),
}  # fmt: skip

WRONG: dict[str, tuple[str, str, str]] = {
    # What the harness itself must see, on any device.
    "the halo is left out": ("12_loads", "tile * TILE - RADIUS + 4", "tile * TILE + 4"),
    "the last chunk is not loaded": ("12_groups", "chunk < CHUNKS;", "chunk < CHUNKS - 1;"),
    "only the block's first tile": ("12_groups", "tile += gridDim.x, next", "tile += tiles, next"),
    "one tile too many": ("12_loads", "(n + TILE - 1) / TILE;", "n / TILE;"),
}


HARNESS = '#include "filter_harness.cuh"'


@functools.cache
def assembled() -> dict[str, targets.Assembled]:
    texts = {f"kernel_{each}": files.kernel(each).replace(HARNESS, "") for each in FILTERS}
    return targets.assemble_each(texts, *TARGETS)


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", FILTERS)
def test_compiles_without_spills_or_warnings(kernel: str) -> None:
    build = assembled()[f"kernel_{kernel}"]
    assert build.warnings == ""
    assert len(build.resources) == len(TARGETS) and not any(use.spills for use in build.resources)


@pytest.mark.nvcc
def test_the_walk_compiles_without_spills_or_warnings() -> None:
    build = targets.assemble(files.kernel("12_latency"), *TARGETS)
    assert build.warnings == ""
    assert not any(use.spills for use in build.resources)


@pytest.mark.nvcc
@pytest.mark.parametrize("stages", [1, 3, 16])
@pytest.mark.parametrize("kernel", FILTERS)
def test_right_with_every_number_of_slots(kernel: str, stages: int) -> None:
    if kernel == "12_loads" and stages > 1:
        with pytest.raises(ValueError, match="one slot"):
            benchmark.staged(kernel, stages)
        return
    source = benchmark.staged(kernel, stages)
    for schedule in ("eager", "late", "random"):
        run, right = check.run(source, THREADS.get(kernel, 128), schedule=schedule, seed=stages)
        assert right and not run.hazards


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", [*FILTERS, "12_latency"])
def test_the_program_runs_on_the_emulator(kernel: str) -> None:
    done = emulate(files.kernel(kernel))
    assert done.ok and not done.stderr, done.stdout + done.stderr


@pytest.mark.nvcc
@pytest.mark.parametrize("name", UNSEEN)
def test_a_missing_wait_is_found_whatever_the_result(name: str) -> None:
    kernel, line, mistake, kind = UNSEEN[name]
    source = files.kernel(kernel)
    assert line in source
    run, right = check.run(
        source.replace(line, mistake), THREADS.get(kernel, 128), schedule="eager"
    )
    assert right, "with eager copies no result shows it"
    assert (kind or "race") in {hazard.kind for hazard in run.hazards}


@pytest.mark.nvcc
@pytest.mark.parametrize("name", WRONG)
def test_the_harness_sees_a_wrong_result(name: str) -> None:
    kernel, line, mistake = WRONG[name]
    source = files.kernel(kernel)
    assert line in source
    done = emulate(source.replace(line, mistake), right=source)
    assert not done.ok
    assert "filter: WRONG" in done.stdout or "the emulator found a mistake" in done.stderr


WALKS = {
    "a step is left out": ("for (int step = 0; step < STEPS; ++step)\n        at = __ldcg",
                           "for (int step = 1; step < STEPS; ++step)\n        at = __ldcg"),
    "it stays where it is": ("__ldcg(&next[at])", "__ldcg(&next[at]) * 0"),
    "it does not say where it ended": ("*last = at;", ""),
}  # fmt: skip


@pytest.mark.nvcc
@pytest.mark.parametrize("name", WALKS)
def test_a_walk_that_took_another_way_is_seen(name: str) -> None:
    right, wrong = WALKS[name]
    source = files.kernel("12_latency")
    assert source.count(right) == 1
    done = emulate(source.replace(right, wrong), right=source)
    assert done.status == 2 and "the walk ended at" in done.stderr, done.stdout + done.stderr


@pytest.mark.gpu
@pytest.mark.skipif(machine.gpu() is None, reason="no NVIDIA GPU here")
@pytest.mark.parametrize("kernel", FILTERS)
def test_right_on_the_gpu(kernel: str) -> None:
    done = process.run([toolchain.build(files.kernel(kernel)).program], timeout=60)
    assert done.ok and done.stdout.startswith("filter: OK"), done.stdout + done.stderr
