"""What *Four producers, four consumers* draws from a run."""

from __future__ import annotations

import re

import pytest

from phasebit.chapters.chain import kernels, view

pytestmark = pytest.mark.nvcc


@pytest.mark.parametrize("sums", [1, 2])
def test_the_picture_says_what_overlaps(sums: int) -> None:
    text = kernels.source(kernels.CHAIN).replace("SUMS = 2", f"SUMS = {sums}")
    with kernels.watching() as log:
        run, exact = kernels.multiply(text, 384, 256, 192, schedule="eager")
    assert exact and not run.findings
    said = view.picture(text, log).alt.splitlines()
    assert len(said) == 4 and said[1] == "tile 0 is added up in sum 0, alone"
    beside = "alone" if sums == 1 else "while tile 1 is carried out"
    assert said[3] == f"tile 2 is added up in sum 0, {beside}"
    rows = {span.row for span in view.roles(text, log).spans}
    assert {"slot 3", "tensor core", f"sum {sums - 1}", "epilogue"} <= rows


def test_the_picture_of_two_products_of_a_pair() -> None:
    """Each sum is filled by a warp of its own; the names of a cluster's barriers say the block."""
    text = kernels.source(kernels.TWO_PRODUCTS)
    with kernels.watching() as log:
        run, exact = kernels.multiply(text, 1024, 256, 192, schedule="eager")
    assert exact and not run.findings
    said = view.picture(text, log).alt.splitlines()[1:]
    assert [line.rpartition(", ")[2] for line in said] == [
        "alone", "alone", "while product 1 is carried out", "alone"
    ]  # fmt: skip
    assert "tile 3 in columns 256 to 511" in view.columns(text, log).alt


def test_tensor_memory_fills_and_empties_by_columns() -> None:
    text = kernels.source(kernels.CHAIN)
    with kernels.watching() as log:
        kernels.multiply(text, 384, 256, 64, schedule="eager")
    drawn = view.columns(text, log)
    assert "tile 1 in columns 256 to 511; tile 2 in columns 0 to 255" in drawn.alt
    fetched = [seen.barrier for seen in log if seen.what == "fetches" and seen.warp == 3]
    pieces = [f"{first}-{first + 32}" for first in range(0, 512, 32)]
    assert fetched == pieces + pieces[:8]
    assert len(re.findall(r"columns \d+ to \d+ fetched<", drawn.svg)) == 24
    assert "tile 2 begins" in drawn.svg


def test_watching_leaves_the_emulator_as_it_was() -> None:
    from phasebit.emulator import MbarrierObserver
    from phasebit.emulator.machine.events import Told

    with kernels.watching():
        assert Told()[MbarrierObserver.completes]
    assert not Told()[MbarrierObserver.completes]
