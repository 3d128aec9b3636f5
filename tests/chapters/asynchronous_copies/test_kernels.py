"""The filters of *Asynchronous copies*: compiled for every target, right, and each mistake seen."""

from __future__ import annotations

import functools

import pytest

from phasebit import files, hardware, process, toolchain
from phasebit.chapters.asynchronous_copies import exercises as check
from phasebit.chapters.asynchronous_copies import record as benchmark
from phasebit.chapters.asynchronous_copies import view
from phasebit.edits import replace_once
from tests.kernels import targets
from tests.kernels.emulated import emulate

FILTERS = ("loads", "groups", "pipeline", "mbarrier")
TARGETS = ("sm_75", "sm_100a")  # sm_90a is what the tests below run
THREADS = {"mbarrier": 160}

UNSEEN: dict[str, tuple[str, str, str, str]] = {
    # No result shows these with eager copies: (kernel, the file's line, the mistake, its finding).
    "no wait": ("groups", "__pipeline_wait_prior(STAGES - 1);", ";", "async"),
    "a wait too weak": (
        "groups", "__pipeline_wait_prior(STAGES - 1)", "__pipeline_wait_prior(STAGES)", "async",
    ),
    "no barrier behind the wait": (
        "groups", "__syncthreads();                    // and", "//", "async",
    ),
    "the slot is taken back": (
        "groups", "__syncthreads();                    // the slot", "//", "race",
    ),
    "no consumer_wait": ("pipeline", "pipe.consumer_wait();", "", "async"),
    "no producer_acquire": ("pipeline", "pipe.producer_acquire();", "", "race"),
    "the copies do not arrive": (
        "mbarrier", "__pipeline_arrive_on(&ring.full[slot]);", "", "async",
    ),
    "no wait for empty": ("mbarrier", "wait(ring.empty[slot], phase ^ 1);", "", ""),
}  # fmt: skip

WRONG: dict[str, tuple[str, str, str]] = {
    # What the harness itself must see, on any device.
    "the halo is left out": ("loads", "tile * TILE - RADIUS + 4", "tile * TILE + 4"),
    "the last chunk is not loaded": ("groups", "chunk < CHUNKS;", "chunk < CHUNKS - 1;"),
    "only the block's first tile": ("groups", "tile += gridDim.x, next", "tile += tiles, next"),
    "one tile too many": ("loads", "(n + TILE - 1) / TILE;", "n / TILE;"),
}


HARNESS = '#include "asynchronous_copies/filter_harness.cuh"'


def text(kernel: str) -> str:
    return files.kernel(f"asynchronous_copies/{kernel}")


@functools.cache
def assembled() -> dict[str, targets.Assembled]:
    texts = {f"kernel_{each}": text(each).replace(HARNESS, "") for each in FILTERS}
    return targets.assemble_each(texts, *TARGETS)


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", FILTERS)
def test_compiles_without_spills_or_warnings(kernel: str) -> None:
    build = assembled()[f"kernel_{kernel}"]
    assert build.warnings == ""
    assert len(build.resources) == len(TARGETS) and not any(use.spills for use in build.resources)


@pytest.mark.nvcc
def test_the_walk_compiles_without_spills_or_warnings() -> None:
    build = targets.assemble(files.kernel("asynchronous_copies/latency"), *TARGETS)
    assert build.warnings == ""
    assert not any(use.spills for use in build.resources)


@pytest.mark.nvcc
@pytest.mark.parametrize("stages", [1, 3, 16])
@pytest.mark.parametrize("kernel", FILTERS)
def test_right_with_every_number_of_slots(kernel: str, stages: int) -> None:
    if kernel == "loads" and stages > 1:
        with pytest.raises(ValueError, match="one slot"):
            benchmark.staged(kernel, stages)
        return
    source = benchmark.staged(kernel, stages)
    for schedule in ("eager", "late", "random"):
        run, right = check.run(source, THREADS.get(kernel, 128), schedule=schedule, seed=stages)
        assert right and not run.findings


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", [*FILTERS, "latency"])
def test_the_program_runs_on_the_emulator(kernel: str) -> None:
    done = emulate(text(kernel))
    assert done.ok and not done.stderr, done.stdout + done.stderr


@pytest.mark.nvcc
@pytest.mark.parametrize("name", UNSEEN)
def test_a_missing_wait_is_found_whatever_the_result(name: str) -> None:
    kernel, line, mistake, kind = UNSEEN[name]
    source = text(kernel)
    assert line in source
    run, right = check.run(
        source.replace(line, mistake), THREADS.get(kernel, 128), schedule="eager"
    )
    assert right, "with eager copies no result shows it"
    assert (kind or "race") in {finding.kind for finding in run.findings}


@pytest.mark.nvcc
@pytest.mark.parametrize("name", WRONG)
def test_the_harness_sees_a_wrong_result(name: str) -> None:
    kernel, line, mistake = WRONG[name]
    source = text(kernel)
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
    source = files.kernel("asynchronous_copies/latency")
    done = emulate(replace_once(source, right, wrong), right=source)
    assert done.status == 2 and "the walk ended at" in done.stderr, done.stdout + done.stderr


@pytest.mark.gpu
@pytest.mark.skipif(hardware.gpu() is None, reason="no NVIDIA GPU here")
@pytest.mark.parametrize("kernel", FILTERS)
def test_right_on_the_gpu(kernel: str) -> None:
    done = process.run([toolchain.build(text(kernel)).program], timeout=60)
    assert done.ok and done.stdout.startswith("filter: OK"), done.stdout + done.stderr


@pytest.mark.nvcc
def test_a_tile_that_fits_takes_one_pass_of_copies() -> None:
    """An instruction a warp for each of the 22 tiles that are whole; 130 pieces take more."""
    plain, fits = text("groups"), benchmark.fitting(text("groups"))
    copies = []
    for source in (plain, fits):
        for schedule in ("eager", "late", "random"):
            run, right = check.run(source, 128, schedule=schedule, tiles=24)
            assert right and not run.findings
        copies.append(run.counters["smsp__sass_inst_executed_op_ldgsts.sum"])
    assert copies[1] == 4 * 22 < copies[0]
    for other in (benchmark.resident(), benchmark.unwaited()):
        assert benchmark.fitting(other) != other


@pytest.mark.parametrize("stages", [1, 2, 4])
def test_the_picture_of_groups(stages: int) -> None:
    spans = view.groups_under_way(5, stages).spans
    copies = [span for span in spans if span.kind == "copy"]
    assert sorted(span.label for span in copies) == list("01234")
    for span in copies:  # no slot is filled while another tile is in it
        others = [o for o in spans if o.row == span.row and o is not span]
        assert all(o.end <= span.start or o.start >= span.end for o in others)
    together = max(sum(c.start <= at < c.end for c in copies) for at in range(200))
    assert together == min(stages, 5)
