"""A nest given to MLIR computes the same; without MLIR that is said."""

from __future__ import annotations

import pytest

from phasebit import nests, toolchain
from phasebit.nests import mlir

NESTS = (
    nests.parse("C[i][j] += A[k][l][i] * B[l][k][j]", i=5, j=6, k=8, l=10),
    nests.parse("M[i][r] += T[j][k][i] * F[j][r] * G[k][r]", i=6, r=5, j=7, k=9),
    nests.parse("O[f][y] += I[2*y + r + 1] * W[f][r]", f=4, y=9, r=3),
)
needed = pytest.mark.skipif(mlir.tools() is None, reason="needs mlir-opt, mlir-translate, clang++")


def test_the_text_has_the_loops_and_the_statement() -> None:
    text = mlir.write(NESTS[2])
    assert "affine.for %y = 0 to 9 {" in text
    assert "affine.load %I[2 * %y + %r + 1] : memref<20xf32>" in text
    assert "affine.store %sum, %O[%f, %y] : memref<4x9xf32>" in text


def test_what_mlir_is_to_do_itself_is_refused() -> None:
    for nest in (NESTS[0].pack("A", 1), NESTS[0].tile(k=4)):
        with pytest.raises(ValueError, match="by itself"):
            mlir.write(nest)


def test_without_the_tools_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlir, "tools", lambda: None)
    with pytest.raises(toolchain.ToolMissing, match=r"install mlir-\d+-tools and clang"):
        mlir.build(NESTS[0])


@needed
@pytest.mark.parametrize("nest", NESTS, ids=str)
def test_it_computes_the_same_whatever_the_passes_do(nest: nests.Nest) -> None:
    tile = mlir.tile(*[4] * len(nest.order))
    for passes in ([], [tile], [tile, mlir.copy(1)]):
        assert mlir.build(nest, passes).check() == "OK"
    assert "memref.alloc" in mlir.transform(nest, [tile, mlir.copy(1)])
    assert "memref.alloc" not in mlir.transform(nest, [tile])


@needed
def test_what_mlir_refuses_is_told() -> None:
    with pytest.raises(toolchain.CudaError, match="mlir-opt"):
        mlir.transform(NESTS[0], ["--no-such-pass"])
