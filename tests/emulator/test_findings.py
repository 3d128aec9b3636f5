"""Planted mistakes: each is found, by name; and the correct kernels show nothing.

The mistakes are in ``cuda/mistakes.cu``, chosen by ``-DMISTAKE=n``.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest

from phasebit.emulator import Run
from phasebit.emulator.errors import Deadlock, Fault, Livelock
from phasebit.launching.launch import Module, compile

CUDA = Path(__file__).with_name("cuda")
SCHEDULES = ("eager", "late", "random")

pytestmark = pytest.mark.nvcc


@functools.cache
def module(mistake: int, target: str = "sm_80") -> Module:
    return compile(CUDA / "mistakes.cu", target, [f"-DMISTAKE={mistake}"])


def neighbours(mistake: int, **options: object) -> tuple[Run, bool]:
    data, out = np.arange(128, dtype=np.int32), np.zeros(128, np.int32)
    run = module(mistake)["neighbours"].launch(1, 128, [data, out, 3], **options)  # type: ignore[arg-type]
    want = 3 * (data + np.roll(data, -1)) + 6
    return run, np.array_equal(out, want)


def ring(mistake: int, **options: object) -> tuple[Run, bool]:
    data, out = np.arange(320, dtype=np.int32), np.zeros(32, np.int32)
    run = module(mistake)["ring"].launch(1, 64, [data, out, 10], **options)  # type: ignore[arg-type]
    return run, np.array_equal(out, data.reshape(10, 32).sum(axis=0))


def copies(mistake: int, **options: object) -> tuple[Run, bool]:
    data, out = np.arange(1280, dtype=np.int32), np.zeros(128, np.int32)
    run = module(mistake)["copies"].launch(1, 128, [data, out, 10], **options)  # type: ignore[arg-type]
    want = data.reshape(10, 128)[:, np.arange(128) ^ 1].sum(axis=0)
    return run, np.array_equal(out, want)


def blocks(mistake: int, **options: object) -> Run:
    out, flag = np.zeros(256, np.int32), np.zeros(1, np.int32)
    return module(mistake)["blocks"].launch(2, 128, [out, flag, 256], **options)  # type: ignore[arg-type]


def kinds(run: Run) -> set[str]:
    return {finding.kind for finding in run.findings}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_correct_kernels_show_nothing(schedule: str, seed: int) -> None:
    for launch in (neighbours, ring, copies):
        run, right = launch(0, schedule=schedule, seed=seed)
        assert right
        assert not run.findings, run.findings[0]
    run, right = ring(18, schedule=schedule, seed=seed)
    assert right and not run.findings
    assert not blocks(0, schedule=schedule, seed=seed).findings


@pytest.mark.parametrize("mistake", [1, 2])
def test_a_missing_syncthreads_is_a_race(mistake: int) -> None:
    run, _ = neighbours(mistake)
    assert "race" in kinds(run)
    message = str(run.findings[-1])
    assert "tile" in message and "mistakes.cu:" in message and "nothing orders the two" in message


def test_a_word_nobody_wrote() -> None:
    run, right = neighbours(3)
    assert kinds(run) == {"uninitialised"} and not right
    assert "thread 76 of block 0" in str(run.findings[0]) or "thread 77" in str(run.findings[0])


def test_one_element_too_far_in_shared_memory() -> None:
    with pytest.raises(
        Fault, match=r"thread 12[67] of block 0: address 512 .*outside.*mistakes.cu"
    ):
        neighbours(4)


def test_a_barrier_that_half_the_threads_miss_still_opens_when_they_leave() -> None:
    run, _ = neighbours(5)
    assert "race" in kinds(run)


@pytest.mark.parametrize("mistake", [11, 12, 15, 17])
def test_a_ring_with_a_missing_wait_or_an_early_arrival_races(mistake: int) -> None:
    try:
        findings = ring(mistake)[0].findings
    except Deadlock as error:  # who runs ahead may also leave the other behind
        findings = list(error.findings)
    assert {h.kind for h in findings} & {"race", "uninitialised"}


@pytest.mark.parametrize("mistake", [13, 14])
def test_a_deadlock_says_who_waits_for_what(mistake: int) -> None:
    with pytest.raises(Deadlock) as caught:
        ring(mistake)
    text = str(caught.value)
    barrier = "empty" if mistake == 13 else "full"
    assert f"of mbarrier {barrier}" in text
    assert "pending" in text and "warp" in text and "mistakes.cu" in text


def test_a_parity_that_never_flips() -> None:
    try:
        run, right = ring(16)
    except Deadlock as error:
        assert "parity" in str(error)
    else:
        assert run.findings or not right


@pytest.mark.parametrize("mistake", [21, 22])
def test_a_copy_nobody_waited_for(mistake: int) -> None:
    run, right = copies(mistake, schedule="late")
    assert not right, "under 'late' the bytes must be stale"
    assert kinds(run) & {"async", "uninitialised"}
    run, right = copies(mistake, schedule="eager")
    assert right, "under 'eager' the mistake hides …"
    assert "async" in kinds(run), "… and the checker still sees it"


def test_copies_of_other_threads_need_a_barrier() -> None:
    run, _ = copies(23)
    assert kinds(run) & {"race", "async"}


def test_two_blocks_write_one_element() -> None:
    assert kinds(blocks(31)) == {"race"}


def test_a_flag_without_order() -> None:
    assert kinds(blocks(32)) == {"race"}


def test_past_the_end_of_a_global_array() -> None:
    with pytest.raises(
        Fault, match=r"thread 127 of block 1: .*past the end of argument 0|after the end"
    ):
        blocks(33)


def test_a_misaligned_store() -> None:
    with pytest.raises(Fault, match="not a multiple of 4"):
        blocks(34)


def test_a_kernel_that_never_ends() -> None:
    with pytest.raises(Livelock, match=r"mistakes.cu:\d+"):
        blocks(35, max_steps=20_000)
