"""trmm and gramschmidt are right in every version, and what is told of them is so."""

from __future__ import annotations

import pytest

from phasebit import nests, toolchain
from phasebit.chapters.to_pack_or_not import triangles, view
from phasebit.nests.examples import EXAMPLES

pytestmark = pytest.mark.nvcc


@pytest.mark.parametrize("name", triangles.NESTS)
@pytest.mark.parametrize("version", triangles.VERSIONS)
def test_a_version_is_right(name: str, version: str) -> None:
    assert triangles.wrong(name, version, 37) < 1e-4


@pytest.mark.parametrize("name", triangles.NESTS)
def test_a_packed_column_saves_the_misses_of_the_tlb(name: str) -> None:
    plain, packed = (triangles.watch(name, each, 240) for each in triangles.VERSIONS[:2])
    assert packed.misses["TLB"] < plain.misses["TLB"] / 20


def test_a_nest_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="choose from trmm, gramschmidt"):
        triangles.arrays("syrk", 4)


def test_a_column_compares_programs_that_differ_in_one_thing() -> None:
    times = {"x": {"gcc": [2.0, 3.0], "gcc, packed": [1.0], "MLIR": [4.0]}}
    heading, rows = view.compilers(times)
    assert heading[1:] == ("gcc: packed",) and rows == [("x", "2.00")]
    assert view.gain(times["x"], "Polly", "clang") is None


def test_pages_are_drawn_beside_the_entries_of_the_tlb() -> None:
    nest = nests.parse("C[i][j] += A[k][l][i] * B[l][k][j]", i=50, j=60, k=80, l=100)
    drawn = view.pages_beside_entries({"plain": nest, "B packed": nest.pack("B", depth=0)})
    assert "plain: A 5, B 100, A + B 105\nB packed: A 5, B 1, A + B 6" in drawn.alt
    assert "the 64 entries" in drawn.alt


def test_rows_of_512_meet_in_eight_sets() -> None:
    _, far, near, ways = view.block_by_set().alt.splitlines()
    assert far.split(": ")[1].split() == (["32"] * 4 + ["0"] * 28) * 2
    assert near.split(": ")[1].split() == ["4"] * 64
    assert set(ways.split(": ")[1].split()) == {"8"}


def test_gcc_makes_vectors_of_the_convolution_only_when_it_is_packed() -> None:
    if not toolchain.host_compiler().version.startswith("g++ 12"):
        pytest.skip("other compilers do other things")
    nest: nests.Nest = EXAMPLES["convolution, channels last"]
    options = ["-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math"]
    assert view.vectors("x", nest, options) == "⏱ x: no vectors"
    assert view.vectors("x", nest.pack("W", 1), options) == "⏱ x: vectors along c"
