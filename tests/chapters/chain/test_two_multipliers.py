"""The model of two multipliers: with one product it is the chain's, clock by clock."""

from __future__ import annotations

import pytest

from phasebit.chapters.chain import rates, two_multipliers


@pytest.mark.parametrize("k", [128, 512, 4096])
@pytest.mark.parametrize(("stages", "bytes_a_clock"), [(4, 128), (6, 40), (2, 64)])
def test_one_product_is_the_chain_of_a_pair(k: int, stages: int, bytes_a_clock: int) -> None:
    pace = {"stages": stages, "bytes_a_clock": bytes_a_clock}
    chain = rates.gemm(k, pair=True, **pace).per_tile()
    assert two_multipliers.per_tile(k, products=1, **pace) == chain


def test_two_products_need_fewer_bytes_and_wait_for_their_sums() -> None:
    """Copies that bring 40 bytes a clock: 48 KiB for two products beside 32 KiB for one."""
    slow = two_multipliers.per_tile(4096, bytes_a_clock=40)
    assert slow < rates.gemm(4096, pair=True, stages=6, bytes_a_clock=40).per_tile()
    for k in 512, 1024, 4096:  # fetching a sum shows, however deep a tile is
        assert two_multipliers.per_tile(k) - rates.gemm(k, pair=True, stages=6).per_tile() == 1280


def test_a_run_that_is_too_short_says_so() -> None:
    with pytest.raises(ValueError, match="give more"):
        two_multipliers.per_tile(512, tiles=6)
