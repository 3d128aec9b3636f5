"""The kernels of *Tensor memory*: run, watched, drawn; what compilers made of them is fresh."""

from __future__ import annotations

import re

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
    assert record["cute"]["source"] == blackwell.fingerprint(blackwell.CUTE)
    assert record["cute"]["shape"] == list(blackwell.CUTE_SHAPE)


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_the_kernel_of_cute_dsl_is_right(schedule: str) -> None:
    run, right = blackwell.multiply_cute(blackwell.cute_ptx()[0], schedule=schedule)
    assert right and not run.findings and run.counters["tcgen05.mma"] > 0


def test_a_chain_obeys_both_rings() -> None:
    done = blackwell.chain(9, 3, stages=2, sums=2, copy=2, product=3, epilogue=5)
    ends = {(work.role, work.number): work for work in done}
    for (role, number), work in ends.items():
        assert work.end > work.begin >= 0
        if role == "tensor core":
            assert work.begin >= ends["copy engine", number].end
            if number % 3 == 0 and number >= 6:
                assert work.begin >= ends["epilogue", number // 3 - 2].end
        if role == "copy engine" and number >= 2:
            assert work.begin >= ends["tensor core", number - 2].end
        if role == "epilogue":
            assert work.begin >= ends["tensor core", 3 * number + 2].end
    assert blackwell.per_tile(done) == 9


@pytest.mark.nvcc
@pytest.mark.parametrize("sums", [1, 2])
def test_the_picture_says_what_overlaps(sums: int) -> None:
    text = blackwell.source(blackwell.RING).replace("SUMS = 2", f"SUMS = {sums}")
    with blackwell.watching() as log:
        run, right = blackwell.multiply(text, 512, 256, 192, schedule="eager")
    assert right and not run.findings
    said = blackwell.picture(text, log).alt.splitlines()
    assert len(said) == 5 and said[1] == "tile 0 is added up in sum 0, alone"
    beside = "alone" if sums == 1 else "while tile 1 is carried out"
    assert said[3] == f"tile 2 is added up in sum 0, {beside}"
    rows = {span.row for span in blackwell.timeline(text, log).spans}
    assert {"slot 3", "tensor core", f"sum {sums - 1}", "epilogue"} <= rows


@pytest.mark.nvcc
def test_tensor_memory_fills_and_empties_by_columns() -> None:
    text = blackwell.source(blackwell.RING)
    with blackwell.watching() as log:
        blackwell.multiply(text, 384, 256, 64, schedule="eager")
    drawn = blackwell.columns(text, log)
    assert "tile 1 in columns 256 to 511; tile 2 in columns 0 to 255" in drawn.alt
    fetched = [seen.barrier for seen in log if seen.what == "fetches" and seen.warp == 3]
    pieces = [f"{first}-{first + 32}" for first in range(0, 512, 32)]
    assert fetched == pieces + pieces[:8]
    assert len(re.findall(r"columns \d+ to \d+ fetched<", drawn.svg)) == 24
    assert "tile 2 begins" in drawn.svg


def test_watching_leaves_the_emulator_as_it_was() -> None:
    from phasebit.emulator import MbarrierObserver
    from phasebit.emulator.machine.events import Told

    with blackwell.watching():
        assert Told()[MbarrierObserver.completes]
    assert not Told()[MbarrierObserver.completes]


def test_the_cell_that_shows_a_kernel_holds_the_file() -> None:
    cells = [source(cell) for cell in code(CHAPTER)]
    (cell,) = [text for text in cells if text.startswith("ONE = r'''")]
    assert cell.split("'''")[1] == blackwell.source(blackwell.ONE)
