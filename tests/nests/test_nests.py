"""Whatever one does to a loop nest, it computes the same, and the watched nest does too."""

from __future__ import annotations

import re

import numpy as np
import pytest

from phasebit import caches, native, nests
from phasebit.nests import compiled as program
from phasebit.nests.source import write

pytestmark = pytest.mark.nvcc

EXAMPLE = nests.parse("C[i][j] += A[k][l][i] * B[l][k][j]", i=5, j=6, k=8, l=10)
PRODUCT = nests.parse("C[i][j] += A[i][k] * B[k][j]", i=20, j=18, k=33)
CONVOLUTION = nests.parse(
    "O[f][y][x] += I[c][2*y + r][x + s + 1] * W[f][c][r][s]", f=4, c=3, y=7, x=9, r=3, s=3
)

NESTS = (
    EXAMPLE,
    EXAMPLE.pack("A", 1),
    EXAMPLE.pack("B", 0).pack("A", 3),
    EXAMPLE.interchange("k", "l", "i", "j").tile(k=3, l=4).pack("B", 2).pack("A", 4),
    PRODUCT.tile(k=16, j=5).pack("B", 2),
    PRODUCT.interchange("j", "k", "i").tile(at=1, k=11).tile(at=0, i=7, k=22).pack("A", 2),
    PRODUCT.tile(i=8, k=12).tile(at=2, i=4).pack("A", 3).pack("B", 5),
    CONVOLUTION.tile(x=4, y=4).pack("I", 2).pack("W", 3),
    CONVOLUTION.pack("I", 4),
    nests.parse("y[i] += A[i][j] * x[j] * z[2]", i=9, j=70).tile(j=32).pack("x", 1),
)


@pytest.mark.parametrize("nest", NESTS, ids=str)
def test_the_order_does_not_change_the_result(nest: nests.Nest) -> None:
    built = nests.build(nest, options=["-O1"])
    assert built.check() == "OK" and built.check(seed=1) == "OK"
    counts = built.watch()
    copied = 2 * sum(np.prod(nest.shape(pack.array)) for pack in nest.packs)
    accesses = nest.iterations * (2 + len(nest.factors))
    assert counts.accesses >= accesses + (copied if nest.packs else 0)
    if not nest.packs:
        assert counts.accesses == accesses


def test_a_wrong_program_is_found() -> None:
    built = nests.build(PRODUCT, options=["-O1"])
    for old, new in (("k < 33", "k < 32"), ("j < 18", "j < 17"), ("k * 18", "k * 17")):
        assert old in built.source
        built.library = native.compile(built.source.replace(old, new), options=["-O1"])
        assert built.check().startswith("WRONG")


def test_a_buffer_that_is_not_filled_is_found() -> None:
    built = nests.build(EXAMPLE.pack("A", 1), options=["-O1"])
    for old, new in (("d0 < 8", "d0 < 7"), ("d1 < 10", "d1 < 9")):
        assert old in built.source
        built.library = native.compile(built.source.replace(old, new), options=["-O1"])
        assert built.check().startswith("WRONG")


def test_a_pack_is_a_box_in_the_order_of_use() -> None:
    assert EXAMPLE.box("A", 1) == (8, 10, 1) and EXAMPLE.box("A", 0) == (8, 10, 5)
    assert EXAMPLE.dimensions("B") == (2, 1, 0)  # j, k, l: the innermost last
    tiled = CONVOLUTION.tile(y=4)
    assert tiled.box("I", 1) == (3, 2 * 3 + 3, 9 + 3 - 1) and tiled.shape("I") == (3, 15, 12)
    assert "packed_A[d0 * 10 + d1] = A[d0 * 50 + d1 * 5 + i];" in write(EXAMPLE.pack("A", 1))


def test_the_watched_arrays_lie_on_pages_of_their_own() -> None:
    page = (caches.tlb("TLB", 1024),)
    pages = [-(-np.prod(PRODUCT.shape(name)) * 4 // 4096) for name in "ABC"]
    assert nests.build(PRODUCT, options=["-O1"]).watch(page).misses["TLB"] == sum(pages)


def test_the_reference_is_the_definition() -> None:
    arrays = nests.build(CONVOLUTION, options=["-O1"]).arrays(3)
    exact, size = program.reference(CONVOLUTION, arrays)
    image, weight = (arrays[name].astype(np.float64) for name in "IW")
    for f, y, x in ((0, 0, 0), (3, 6, 8), (1, 2, 5)):
        terms = image[:, 2 * y : 2 * y + 3, x + 1 : x + 4] * weight[f]
        assert np.isclose(exact[f, y, x], terms.sum())
        assert np.isclose(size[f, y, x], np.abs(terms).sum())


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (lambda: nests.parse("C[i] = A[i]", i=3), "is no statement"),
        (lambda: nests.parse("C[i] += A", i=3), "'A' is no element of an array"),
        (lambda: nests.parse("C[i] += A[i*i]", i=3), "is no sum of loop variables"),
        (lambda: nests.parse("C[i] += A[3 - i]", i=3), "runs backwards"),
        (lambda: nests.parse("C[i] += C[i]", i=3), "names an array twice"),
        (lambda: nests.parse("C[i] += A[j]", i=3), "no extent is given for j"),
        (lambda: nests.parse("C[i] += A[i]", i=0), "an extent of one or more"),
        (lambda: EXAMPLE.pack("C", 1), "C is not read only"),
        (lambda: EXAMPLE.pack("A", 5), "depth 5: the nest has 4 loops"),
        (lambda: nests.parse("C[i] += A[i]", i="3"), "extent of i is '3': give a whole number"),
        (lambda: EXAMPLE.tile(k=1), "a block has at least two elements"),
        (lambda: EXAMPLE.tile(k="4"), "a block has at least two elements"),
        (lambda: EXAMPLE.tile(q=4), "no extent|needs one loop"),
        (lambda: EXAMPLE.tile(k=4).tile(k=8), None),
        (lambda: EXAMPLE.tile(k=4).tile(at=1, k=8), "k needs one loop of step 1"),
        (lambda: EXAMPLE.interchange("i", "j"), "name each of i, j, k, l once"),
        (lambda: EXAMPLE.tile(k=4).interchange("i", "j", "k", "l"), "interchange first, then tile"),
        (lambda: EXAMPLE.reference("Z"), "has no array 'Z'"),
    ],
)
def test_bad_input_is_a_sentence(work: object, said: str | None) -> None:
    if said is None:
        work()  # type: ignore[operator]
        return
    with pytest.raises(ValueError, match=said):
        work()  # type: ignore[operator]


def test_arrays_that_do_not_fit() -> None:
    built = nests.build(PRODUCT, options=["-O1"])
    arrays = built.arrays()
    with pytest.raises(ValueError, match=re.escape("A must have shape (20, 33), row by row")):
        built.run({**arrays, "A": arrays["A"].T})
