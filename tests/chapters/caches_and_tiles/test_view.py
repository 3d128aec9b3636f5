"""The pictures of *Caches and tiles*, and what GCC is quoted with."""

from __future__ import annotations

import pytest

from phasebit import caches, nests, toolchain
from phasebit.chapters.caches_and_tiles import view

L1 = caches.TYPICAL[0]


def test_the_bits_of_an_address_are_its_line_its_set_and_its_byte() -> None:
    picture = view.addresses([4096 + 64 * 5 + 3], L1, bits=13)
    assert picture.alt.splitlines()[1].split("|")[1].split() == list("1000101000011")
    with pytest.raises(ValueError, match="96 sets"):
        view.addresses([0], caches.Level("L1", 64, 96, 2))


def test_a_set_is_drawn_with_the_line_used_last_first() -> None:
    picture = view.ways([0, 4096, 64, 0], L1)
    rows = [line.split("|")[1].split() for line in picture.alt.splitlines()[1:]]
    assert [row[:2] for row in rows] == [["0", "."], ["64", "0"], ["0", "64"]]


def test_a_turn_uses_a_block_of_b_once_for_each_row() -> None:
    rows = [line.split("|")[1].split() for line in view.turn(6, 3, 3, 0).alt.splitlines()[1:]]
    a, b, c = ([row[first : first + 6] for row in rows] for first in (0, 8, 16))
    assert a == [["·"] * 3 + ["1"] * 3] * 6 and c == [["3"] * 3 + ["·"] * 3] * 6
    assert b == [["·"] * 6] * 3 + [["6"] * 3 + ["·"] * 3] * 3
    assert "7" in view.turn(7, 4, 4, 4).alt, "blocks may end at the edge"


@pytest.mark.nvcc
def test_gcc_makes_vectors_of_the_outer_loop_of_one_order_only() -> None:
    if not toolchain.host_compiler().version.startswith("g++ 12"):
        pytest.skip("other compilers do other things")
    nest = nests.parse("C[i][j] += A[i][k] * B[k][j]", i=512, j=512, k=512)
    said = {order: view.compiler_says(order, nest.interchange(*order)) for order in ("ijk", "jik")}
    assert "j: loop vectorized" in said["ijk"] and "vectorized" not in said["jik"]
    assert "unroll and jam" in view.compiler_says("ikj", nest.interchange(*"ikj"))
