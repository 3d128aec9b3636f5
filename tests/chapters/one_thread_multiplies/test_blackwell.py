"""What compilers made of the kernels is fresh."""

from __future__ import annotations

import sys

from phasebit import assembled, files, replay
from phasebit.chapters.one_thread_multiplies import blackwell
from tests.book.notebooks import ROOT, code, source

sys.path.insert(0, str(ROOT / "tools"))

import compiled

CHAPTER = next(ROOT.glob("book/*/??_one_thread_multiplies.ipynb"))


def test_the_record_is_of_these_sources() -> None:
    """Red after a change of a kernel or a header, until `python tools/compiled.py` has run."""
    record = assembled.record()
    for name in compiled.KERNELS:
        assert record["kernels"][name]["source"] == replay.key(files.kernel(name)), name
        assert record["kernels"][name]["instructions"] == len(assembled.sass(name)) > 500


def test_the_cell_that_shows_a_kernel_holds_the_file() -> None:
    cells = [source(cell) for cell in code(CHAPTER)]
    (cell,) = [text for text in cells if text.startswith("ONE = r'''")]
    assert cell.split("'''")[1] == files.kernel(blackwell.ONE)
