"""The kernels of *Tensor memory*: run; what compilers made of them is fresh."""

from __future__ import annotations

import pytest

from phasebit.chapters.tensor_memory import blackwell
from tests.book.notebooks import ROOT, code, source

CHAPTER = next(ROOT.glob("book/*/??_one_thread_multiplies.ipynb"))


def test_the_rings_of_a_kernel_are_read_from_its_source() -> None:
    ring = blackwell.Rings.of(blackwell.source(blackwell.RING))
    pair = blackwell.Rings.of(blackwell.source(blackwell.PAIR))
    assert (ring.stages, ring.sums, ring.blocks) == (4, 2, 1)
    assert (pair.stages, pair.sums, pair.blocks) == (6, 2, 2)
    assert ring.shared == pair.shared == 230_400 <= 227 * 1024
    assert list(ring.barriers().values())[::4] == ["full 0", "empty 0", "sum full 0"]
    with pytest.raises(ValueError, match="STAGES"):
        blackwell.Rings.of(blackwell.source(blackwell.ONE))


def test_the_record_is_of_these_sources() -> None:
    """Red after a change of a kernel or a header, until `python tools/compiled.py` has run."""
    record = blackwell.compiled()
    for name in blackwell.KERNELS:
        assert record["kernels"][name]["source"] == blackwell.fingerprint(name), name
        assert record["kernels"][name]["instructions"] == len(blackwell.sass(name)) > 500


def test_the_cell_that_shows_a_kernel_holds_the_file() -> None:
    cells = [source(cell) for cell in code(CHAPTER)]
    (cell,) = [text for text in cells if text.startswith("ONE = r'''")]
    assert cell.split("'''")[1] == blackwell.source(blackwell.ONE)
