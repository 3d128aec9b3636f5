"""The sparse product of *Other forms of the product*: right on the emulator, each mistake seen."""

from __future__ import annotations

import re

import numpy as np
import pytest

from phasebit import files
from phasebit.chapters.other_forms import exercises as check
from phasebit.chapters.other_forms import halved
from phasebit.edits import replace_once
from phasebit.emulator import EmulatorError, sparse
from tests.book.notebooks import ROOT, solutions

CHAPTER = next(ROOT.glob("book/*/other_forms.ipynb"))
TEXT = files.kernel(halved.KERNEL)


def test_half_of_each_four_is_zero() -> None:
    for same in (True, False):
        a, _ = halved.numbers(1, same)
        assert ((a.reshape(-1, 4) != 0).sum(axis=1) == 2).all()
    assert (halved.numbers(1, True)[0].reshape(-1, 4)[:, 2:] == 0).all()


def test_what_is_stored_is_expanded_again() -> None:
    a, _ = halved.numbers(2)
    stored, bits = sparse.compress(a, 4)
    along = sparse.columns(bits[None], 4, legal=sparse.ORDERED)
    assert np.array_equal(sparse.expand(stored[None], along, halved.K)[0], a)


@pytest.mark.parametrize("chunk", [2, 8])
def test_other_chunks_are_expanded_again(chunk: int) -> None:
    """tf32, and packed numbers of 4 bits, of which pairs are stored; some have fewer numbers."""
    draw = np.random.default_rng(chunk)
    pairs = max(1, chunk // 4)
    whole = draw.integers(1, 9, (16, 8, chunk // pairs, pairs))
    kept = np.argsort(draw.random(whole.shape[:3]), axis=2) < whole.shape[2] // 2
    whole *= (kept & (draw.random(kept.shape) < 0.8))[..., None]
    whole = whole.reshape(16, -1)
    stored, bits = sparse.compress(whole, chunk)
    along = sparse.columns(bits[None], chunk, legal=sparse.ORDERED)
    assert np.array_equal(sparse.expand(stored[None], along, whole.shape[1])[0], whole)
    with pytest.raises(ValueError, match="chunk 0 of row 0 has more than half"):
        sparse.compress(np.ones((2, chunk)), chunk)


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_the_kernel_is_right(schedule: str) -> None:
    for seed in (1, 2):
        exact, run = halved.multiply(*halved.numbers(seed), schedule=schedule)
        assert exact and not run.findings and run.counters["tcgen05.mma"] == 4


@pytest.mark.nvcc
def test_places_are_those_of_cutlass() -> None:
    """tmem_e_frg: ((8, 2, 8), (16, 2)) : ((1, 2048, 16), (128, 8))."""
    lines = [line.split("|")[1].replace(",", " ").split()
             for line in halved.places().alt.splitlines()[1:]]  # fmt: skip
    for lane, line in enumerate(lines):
        for group in range(8):
            row, chunk = lane % 8 + 8 * (group // 4), group % 4 + 4 * (lane // 8)
            assert line[2 * group : 2 * group + 2] == [str(row), str(chunk)]


MISTAKES = {
    "the selector is forgotten": ("SPARSE | i % 2,", "SPARSE,", "WRONG", True),
    "the address steps by one column": (
        "METADATA + i / 2 * 2,", "METADATA + i,", "they begin at an even one", False),
    "B steps as a dense one": ("+ i % 2 * 4,", "+ i % 2 * 2,", "WRONG", True),
    "A steps by K of the product": (
        "_128B(a) + i * 2,", "_128B(a) + i * 4,", "begins in row 1 of the 128B swizzle", False),
    "the descriptor says dense": (" | 1 << 2;", ";", "bit 2 says that A is dense", False),
    "no copy": ("        copy_metadata(base", "        if (0) copy_metadata(base",
                "takes metadata from .* nobody has written", False),
    "the metadata under the sum": ("METADATA = N;", "METADATA = N - 2;", "its own metadata", False),
    "no proxy fence": (
        "    ptx::fence_proxy_async_shared();  // copy and products see the tiles and the "
        "metadata\n", "", "async proxy", False),
    "another thread copies": (
        "        copy_metadata(base + METADATA, ptx::tcgen05_descriptor_none(e, 16, 128));\n",
        "    }\n    if (t == 32)\n        copy_metadata(base + METADATA, "
        "ptx::tcgen05_descriptor_none(e, 16, 128));\n    if (t == 0) {\n",
        "takes metadata from", False),
}  # fmt: skip
"""What is replaced by what, what is said, and whether only a test of the result sees it."""


@pytest.mark.nvcc
@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_is_seen(name: str) -> None:
    old, new, words, silent = MISTAKES[name]
    text = replace_once(TEXT, old, new)
    try:
        exact, run = halved.multiply(*halved.numbers(3), text)
        said = "\n".join([*map(str, run.findings), "" if exact else "WRONG"])
        assert not silent or not run.findings
    except EmulatorError as error:
        said = "\n".join([str(error), *map(str, error.findings)])
    assert re.search(words, said), said


@pytest.mark.nvcc
def test_the_same_places_everywhere_hide_a_forgotten_selector() -> None:
    text = replace_once(TEXT, "SPARSE | i % 2,", "SPARSE,")
    exact, run = halved.multiply(*halved.numbers(2, True), text)
    assert exact and not run.findings


def right(row: list[int], order: bool = True, fill: tuple[int, ...] = (0, 1, 2, 3)) -> (
    tuple[list[int], list[int]]
):  # fmt: skip
    stored, bits = [], []
    for i in range(0, len(row), 4):
        places = [p for p in range(4) if row[i + p]]
        places += [p for p in fill if p not in places][: 2 - len(places)]
        first, second = sorted(places, reverse=not order)
        stored += [row[i + first], row[i + second]]
        bits.append(first | second << 2)
    return stored, bits


def twice(row: list[int]) -> tuple[list[int], list[int]]:
    """Where there is one number its place is named twice."""
    stored, bits = right(row)
    for i in range(len(bits)):
        places = [p for p in range(4) if row[4 * i + p]]
        if len(places) == 1:
            bits[i] = places[0] * 5
    return stored, bits


def test_compress_accepts_any_free_place() -> None:
    for fill in ((0, 1, 2, 3), (3, 2, 1, 0)):
        assert "compress: OK" in check.compress.verdict(lambda row, f=fill: right(row, fill=f))


def test_the_solution_on_the_page_is_right() -> None:
    names: dict[str, object] = {}
    exec(next(text for text in solutions(CHAPTER) if "def compress" in text), names)
    assert "compress: OK" in check.compress.verdict(names["compress"])
    assert check.compress.verdict(lambda *a: ...).endswith("not answered yet")


WRONG = {
    "not in order": lambda row: right(row, order=False),
    "second in the low bits": lambda row: (right(row)[0], [b >> 2 | (b & 3) << 2
                                                           for b in right(row)[1]]),
    "only what is not zero": lambda row: ([x for x in row if x], right(row)[1]),
    "a place twice": twice,
    "always the first two": lambda row: ([x for i in range(0, len(row), 4) for x in row[i : i + 2]],
                                         [0b0100] * (len(row) // 4)),
    "metadata by the number": lambda row: (right(row)[0], [x for b in right(row)[1]
                                                           for x in (b & 3, b >> 2)]),
    "metadata packed into one": lambda row: (right(row)[0], sum(
        b << 4 * i for i, b in enumerate(right(row)[1]))),
    "a mask of places": lambda row: (right(row)[0], [1 << (b & 3) | 1 << (b >> 2)
                                                     for b in right(row)[1]]),
    "places from one": lambda row: (right(row)[0], [b + 0b0101 for b in right(row)[1]]),
    "the two swapped": lambda row: ([x for i in range(0, len(row), 4)
                                     for x in right(row)[0][i // 2 : i // 2 + 2][::-1]],
                                    right(row)[1]),
    "metadata alone": lambda row: right(row)[1],
    "the row itself": lambda row: (row, right(row)[1]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_compress_refuses(name: str) -> None:
    assert "not right yet" in check.compress.verdict(WRONG[name])
