"""The kernels of *Layouts*: right under every schedule, and their checks see planted mistakes."""

from __future__ import annotations

import pytest

from phasebit import hardware
from tests.kernels import own_header

PACKING = "layouts/packing"
SINCE = "sm_75"

MISTAKES: dict[str, tuple[str, str, str]] = {
    "tiles are packed row by row": (
        PACKING, "packed[(tile * BK + i / ROWS) * BM + m0 % BM + i % ROWS]",
        "packed[(tile * BM + m0 % BM + i % ROWS) * BK + i / ROWS]"),
    "all products of a batch read the first tiles": (
        PACKING, "(size_t(batch) * gridDim.y + blockIdx.y)",
        "(size_t(0) * gridDim.y + blockIdx.y)"),
    "the last product of a batch is not packed": (
        PACKING, "b < EACH && b0 + b < p.batch; ++b) {",
        "b < EACH && b0 + b + 1 < p.batch; ++b) {"),
    "k is read beyond the matrix": (PACKING, "return m < p.M && k < p.K ?", "return m < p.M ?"),
    "strides exchanged": (PACKING, "p.A[m * p.sm + k * p.sk", "p.A[m * p.sk + k * p.sm"),
    "nobody waits for the tiles": (
        PACKING, "        __syncthreads();  // the tiles are there\n", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_fits_its_kernel(name: str) -> None:
    assert own_header.planted(MISTAKES, name) != own_header.text(PACKING)


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["late", "eager"])
def test_right_on_the_emulator(schedule: str) -> None:
    own_header.right_on_the_emulator(PACKING, SINCE, schedule)


@pytest.mark.nvcc
@pytest.mark.parametrize("name", MISTAKES)
def test_the_emulator_sees_the_mistake(name: str) -> None:
    own_header.seen_on_the_emulator(MISTAKES, name, SINCE)


@pytest.mark.nvcc
def test_compiles_without_spills_or_warnings() -> None:
    own_header.no_spills_nor_warnings(PACKING, SINCE, "sm_90a")


@pytest.mark.gpu
@pytest.mark.skipif(hardware.gpu() is None, reason="no NVIDIA GPU here")
def test_right_on_the_gpu() -> None:
    own_header.right_on_the_gpu(PACKING)
