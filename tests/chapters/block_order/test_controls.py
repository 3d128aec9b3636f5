"""The stamps fit the kernel, and what is told of them follows from their definition."""

from __future__ import annotations

import pytest

from phasebit import toolchain
from phasebit.chapters.block_order import block_order_controls as controls
from phasebit.chapters.block_order import orders


@pytest.mark.nvcc
def test_the_kernel_with_stamps_compiles() -> None:
    assert toolchain.build(controls.stamped(), name="blocks_stamped", library=True).program.exists()


def test_in_lockstep_nothing_lags_and_nothing_is_displaced() -> None:
    order = orders.rows_first(4, 4)
    stamps = [(1000 * (i // 8), 1000 * (i // 8 + 1), i) for i in range(16)]
    assert controls.told(order, stamps, 8) == {
        "displaced": 0, "block_us": 1.0, "lag_a": 0.0, "lag_b": 0.0,
    }  # fmt: skip


def test_lag_and_displacement_are_seen() -> None:
    order = orders.rows_first(2, 4)  # one wave; columns meet four numbers later
    begins = [0, 10, 20, 30, 250, 260, 270, 280]
    stamps = [
        (b, b + 1000, place) for b, place in zip(begins, (1, 0, 2, 3, 4, 5, 7, 6), strict=True)
    ]
    told = controls.told(order, stamps, 8)
    assert (told["displaced"], told["lag_a"], told["lag_b"]) == (1, 0.01, 0.25)
