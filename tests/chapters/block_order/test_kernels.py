"""The kernel of *The order of blocks*: right under every schedule; planted mistakes are seen."""

from __future__ import annotations

import pytest

from phasebit import hardware
from tests.kernels import own_header

ORDER = "block_order/order"
SINCE = "sm_80"

MISTAKES: dict[str, tuple[str, str, str]] = {
    "an entry of the table is used twice": (
        ORDER, "order[blockIdx.x]", "order[blockIdx.x / 2 * 2]"),
    "the table is not looked at": (
        ORDER, "const Part part = order[blockIdx.x];", "const Part part = {0, int(blockIdx.x)};"),
    "nobody waits for the copies": (
        ORDER, "        ptx::cp_async_wait_group<ORDER_SLOTS - 2>();\n", ""),
    "a slot is filled while it is read": (
        ORDER, "        __syncthreads();  // this tile is full", "        //"),
    "the tile after the next is filled": (
        ORDER, "        fill(tile + ORDER_SLOTS - 1);", "        fill(tile + ORDER_SLOTS);"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_fits_its_kernel(name: str) -> None:
    assert own_header.planted(MISTAKES, name) != own_header.text(ORDER)


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["late", "eager"])
def test_right_on_the_emulator(schedule: str) -> None:
    own_header.right_on_the_emulator(ORDER, SINCE, schedule)


@pytest.mark.nvcc
@pytest.mark.parametrize("name", MISTAKES)
def test_the_emulator_sees_the_mistake(name: str) -> None:
    own_header.seen_on_the_emulator(MISTAKES, name, SINCE)


@pytest.mark.nvcc
def test_compiles_without_spills_or_warnings() -> None:
    own_header.no_spills_nor_warnings(ORDER, SINCE, "sm_90a")


@pytest.mark.gpu
@pytest.mark.skipif(hardware.gpu() is None, reason="no NVIDIA GPU here")
def test_right_on_the_gpu() -> None:
    own_header.right_on_the_gpu(ORDER)
