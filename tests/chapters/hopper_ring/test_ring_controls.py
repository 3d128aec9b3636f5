"""What *The ring at full width* changes to find a cause: each contender is right."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit import TensorMap, files
from phasebit.chapters.hopper_ring import ring_controls as controls
from phasebit.chapters.hopper_ring.exercises import BK, BM, BN, STAGE, bf16
from phasebit.launching import launch
from tests.kernels.emulated import emulate


def test_an_edit_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "kernel", lambda name: "nothing")
    for name in (*controls.LOOPS, "boxes, stored by the warp"):
        with pytest.raises(ValueError, match="once to be changed there"):
            controls.text(name)


def test_no_two_are_the_same() -> None:
    texts = [controls.text(name) for name in (*controls.LOOPS, *controls.STORES)]
    assert len(set(texts)) == len(texts)


@pytest.mark.nvcc
@pytest.mark.parametrize("name", [name for name in controls.STORES if "," in name])
@pytest.mark.parametrize("schedule", ["late", "random"])
def test_results_leave_rightly(name: str, schedule: str) -> None:
    done = emulate(controls.text(name), "--seed", "5", schedule=schedule)
    assert done.ok and "OK on normal random numbers" in done.stdout, done.stdout + done.stderr


@pytest.mark.nvcc
@pytest.mark.parametrize("name", controls.LOOPS)
@pytest.mark.parametrize("schedule", ["late", "random"])
def test_every_ring_computes_the_product_of_equal_tiles(name: str, schedule: str) -> None:
    """On matrices whose tiles along K are all the same, whatever is copied, and in what slot."""
    m, n, k = 128, 264, 7 * BK
    draw = np.random.default_rng(16)
    a, b = (np.tile(draw.integers(-1, 2, (rows, BK)), k // BK).astype(np.float32)
            for rows in (m, n))  # fmt: skip
    c = np.full((m, n), 0xFFFF, np.uint16)  # NaN
    maps = [TensorMap(bf16(each), (BK, rows), data_type="bf16", swizzle="128B")
            for each, rows in ((a, BM), (b, BN))]  # fmt: skip
    run = launch.compile(controls.text(name), "sm_90a")["matmul"].launch(
        (2, 1), 384, [*maps, c, m, n, k], shared=4 * STAGE + 1024, schedule=schedule, seed=3,
    )  # fmt: skip
    exact = bf16(a @ b.T)  # sums of few whole numbers
    assert np.array_equal(c, exact) and not run.findings, [str(each) for each in run.findings]
