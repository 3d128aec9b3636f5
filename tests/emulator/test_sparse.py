"""Structured sparsity: whose bits are whose, what is illegal and how it is said; there and back."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from phasebit.emulator.errors import Fault, IllegalMetadata
from phasebit.emulator.numbers import sparse
from phasebit.emulator.numbers.sparse import CHUNK, columns, compress, expand, met, places


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("chunks", [4, 8, 16])
def test_9_7_14_6_2_which_lane_has_the_bits_of_which_chunk(chunks: int, wide: bool) -> None:
    if not wide and chunks == 4:
        return  # there is none
    lanes = chunks // 4
    words = np.random.default_rng(chunks).integers(0, 1 << 32, (2, 32), np.uint64).astype(np.uint32)
    for selector in range(4 // lanes):
        found = places(words, selector, chunks, wide)
        assert found.shape == (2, 16, chunks)
        for warp, row, chunk in itertools.product(range(2), range(16), range(chunks)):
            group, low = row % 8, row >= 8
            if wide:  # four chunks of row g, then of row g + 8, and the next lane has more
                lane, nibble = chunk // 4, chunk % 4 + 4 * low
            else:  # eight chunks of row g, and the next lane those of row g + 8
                lane, nibble = chunk // 8 * 2 + low, chunk % 8
            word = int(words[warp, 4 * group + selector * lanes + lane])
            assert found[warp, row, chunk] == word >> 4 * nibble & 15


@pytest.mark.parametrize(
    ("chunks", "selector", "below"), [(4, 4, 4), (8, 2, 2), (16, 1, 1), (8, -1, 2)]
)
def test_a_selector_of_no_lanes(chunks: int, selector: int, below: int) -> None:
    says = f"^x: the sparsity selector is {selector}; here it is below {below}$"
    with pytest.raises(Fault, match=says):
        places(np.zeros((1, 32), np.uint32), selector, chunks, True, "x")
    with pytest.raises(Fault, match=r"^mma\.sp: "):
        places(np.zeros((1, 32), np.uint32), selector, chunks, True)


def metadata(*bits: int) -> np.ndarray:
    """Of one row of the second of two warps."""
    found = np.full((2, 3, len(bits)), 0b0100)
    found[1, 2] = bits
    return found


@pytest.mark.parametrize(("bits", "chunk", "legal", "says"), [
    ((0b0100, 0b0101), 4, sparse.DIFFERENT,
     "0101 for chunk 1, which is invalid: two elements for one"
     " place; legal are 0100, 1000, 1100, 0001, 1001, 1101, 0010, 0110, 1110, 0011, 0111, 1011"),
    ((0b0000,), 4, sparse.DIFFERENT,
     "0000 for chunk 0, which is invalid: two elements for one place; "
     "has anybody written them?; legal are 0100,"),
    ((0b0001, 0b0100), 4, sparse.ORDERED,
     "0001 for chunk 0, which is invalid: not in order; legal are "
     "0100, 1000, 1100, 1001, 1101, 1110"),
    ((0b1111,), 8, sparse.LISTED, "1111 for chunk 0, which is invalid: two elements for one place; "
     "legal are 0100, 1000, 1100, 1001, 1101, 1110, 0110"),
    ((0b0110,), 2, sparse.DIFFERENT,
     "0110 for chunk 0, which is invalid: no place of a pair; legal are"
     " 0100, 1110"),
])  # fmt: skip
def test_illegal_metadata_is_named(
    bits: tuple[int, ...], chunk: int, legal: tuple[int, ...], says: str
) -> None:
    given = metadata(*bits)
    with pytest.raises(IllegalMetadata) as raised:
        columns(given, chunk, "wgmma.sp", legal)
    assert str(raised.value).startswith(f"wgmma.sp: the metadata of row 2 has {says}")
    with pytest.raises(IllegalMetadata, match=r"^mma\.sp: the metadata of row 2 has"):
        columns(given, chunk, legal=legal)


@pytest.mark.parametrize(("bits", "stored", "fine"), [
    (0b0000, [0, 0], True), (0b0000, [0, 1], False), (0b0000, [1, 0], False),
    (0b0101, [0, 0], False),
])  # fmt: skip
def test_nothing_may_stand_for_a_chunk_of_zeros(bits: int, stored: list[int], fine: bool) -> None:
    given = np.array([[[0b1101, bits]]])
    values = np.array([[[1, 2, *stored]]])
    if fine:
        assert columns(given, 4, stored=lambda: values)[0, 0, :2].tolist() == [1, 3]
    else:
        with pytest.raises(IllegalMetadata, match=re.escape(f"{bits:04b} for chunk 1")):
            columns(given, 4, stored=lambda: values)


def test_what_is_stored_is_asked_only_where_something_is_wrong() -> None:
    def never() -> np.ndarray:
        raise AssertionError

    columns(np.array([[[0b1101]]]), 4, stored=never)


@pytest.mark.parametrize(("chunk", "bits", "along"), [
    (2, [0b0100, 0b1110], [0, 3]), (4, [0b0100, 0b1110, 0b0011], [0, 1, 6, 7, 11, 8]),
    (8, [0b0100, 0b1110], [0, 1, 2, 3, 12, 13, 14, 15]), (8, [0b0001], [2, 3, 0, 1]),
])  # fmt: skip
def test_the_columns_that_are_stored(chunk: int, bits: list[int], along: list[int]) -> None:
    assert columns(np.array([[bits]]), chunk).tolist() == [[along]]


def test_the_lists_of_legal_bits() -> None:
    assert sparse.HALVES == (4, 14) and sparse.ORDERED == (4, 8, 12, 9, 13, 14)
    assert sparse.LISTED == (4, 8, 12, 9, 13, 14, 6)
    assert {*sparse.DIFFERENT} == {each for each in range(16) if each & 3 != each >> 2}
    assert [kind for kind in CHUNK if CHUNK[kind] == 2] == ["tf32"]
    assert [kind for kind in CHUNK if CHUNK[kind] == 8] == ["s4", "u4"]
    assert len(CHUNK) == 12 and sparse.WIDE == ("tf32", "f16", "bf16")


@pytest.mark.parametrize("chunk", [2, 4, 8])
def test_compressed_and_expanded_again(chunk: int) -> None:
    rng = np.random.default_rng(chunk)
    rows, k, together = 5, 32, max(1, chunk // 4)
    whole = rng.integers(1, 100, (rows, k)).reshape(rows, -1, chunk // together, together)
    for row, place in np.ndindex(whole.shape[:2]):  # from none to half of the places
        count = int(rng.integers(0, whole.shape[2] // 2 + 1))
        gone = rng.permutation(whole.shape[2])[count:]
        whole[row, place, gone] = 0
    whole = whole.reshape(rows, k)
    stored, bits = compress(whole, chunk)
    assert stored.shape == (rows, k // 2) and bits.shape == (rows, k // chunk)
    assert {*bits.ravel().tolist()} <= {*(sparse.HALVES if chunk == 2 else sparse.ORDERED)}
    along = columns(bits[None], chunk, legal=sparse.ORDERED)
    assert np.array_equal(expand(stored[None], along, k)[0], whole)
    b = rng.integers(0, 9, (1, k, 3))
    partners = met(b, along)
    assert partners.shape == (1, k // 2, 3, rows)
    product = np.einsum("wrs,wsnr->wrn", stored[None], partners)
    assert np.array_equal(product, whole[None] @ b)


@pytest.mark.parametrize(("row", "bits"), [
    ([1, 2, 0, 0], 0b0100), ([0, 0, 1, 2], 0b1110), ([0, 1, 0, 0], 0b1101), ([0, 0, 0, 0], 0b1100),
    ([0, 0, 0, 1], 0b1100), ([1, 0, 0, 0], 0b1100), ([0, 0, 1, 0], 0b1110), ([0, 1, 1, 0], 0b1001),
])  # fmt: skip
def test_a_chunk_with_few_elements_is_filled_up(row: list[int], bits: int) -> None:
    assert compress(np.array([row]), 4)[1].tolist() == [[bits]]


def test_a_chunk_with_too_many() -> None:
    for chunk, place, row in ((4, 1, [1, 1, 0, 0, 1, 1, 1, 0]), (2, 0, [1, 1, 0, 0, 0, 0, 0, 0]),
                              (8, 0, [1, 0, 0, 1, 1, 0, 0, 0])):  # fmt: skip
        says = f"^chunk {place} of row 1 has more than half of its elements: prune it first$"
        with pytest.raises(ValueError, match=says):
            compress(np.array([[0] * 8, row]), chunk)
