"""The ladder of chapter 8 is right on every rung, and a wrong product is found."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from phasebit import files, gemm, machine, native

pytestmark = pytest.mark.nvcc

SMALL = gemm.Block(28, 64, 64)
"""Several blocks in every direction of the larger shapes."""


@pytest.mark.parametrize("name", gemm.RUNGS)
@pytest.mark.parametrize("block", [None, SMALL, gemm.Block(1, 1, 1)], ids=["model", "small", "one"])
def test_a_rung_is_right(name: str, block: gemm.Block | None) -> None:
    shapes = gemm.SHAPES if block != gemm.Block(1, 1, 1) else gemm.SHAPES[:6]
    assert gemm.verify(gemm.rung(name, block), shapes) == "OK"


def test_openblas_is_right() -> None:
    assert gemm.verify(gemm.openblas()) == "OK"
    assert gemm.openblas_version().startswith("OpenBLAS 0.")


def planted(name: str, old: str, new: str) -> gemm.Product:
    """A rung with a mistake in it."""
    source = (files.kernels() / "cpu" / f"{gemm.RUNGS[name]}.cpp").read_text(encoding="utf-8")
    assert source.count(old) == 1, old
    return gemm.rung(name, SMALL, native.compile(source.replace(old, new)))


MISTAKES: dict[str, tuple[str, str, str]] = {
    "the last row of a tile": (
        "registers",
        "i < MR; i++) {\n            sum",
        "i < MR - 1; i++) {\n            sum",
    ),
    "alpha forgotten": ("registers", "+= alpha * sum[i][1]", "+= sum[i][1]"),
    "one step too few": ("registers", "p < kc; p++, a", "p < kc - 1; p++, a"),
    "one column too many": ("naive", "j < n; j++", "j < n + 1; j++"),
    "beta twice": (
        "packed",
        "    const Buffer",
        "    scale(m, n, beta, c, ldc);\n    const Buffer",
    ),
    "stale packing": (
        "packed",
        "p < p1; p++)\n                std",
        "p < p1 * !j0; p++)\n                std",
    ),
    "zeros skipped": ("naive", "sum += a", "if (b[p * ldb + j] != 0) sum += a"),
    "leading dimension": ("tiled", "b[p * ldb + j]", "b[p * n + j]"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_planted_mistake_is_found(what: str) -> None:
    name, old, new = MISTAKES[what]
    assert gemm.verify(planted(name, old, new)).startswith("WRONG")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda c, a: c.fill(0), "elements, the first at"),
        (lambda c, a: np.nan_to_num(c, copy=False), "elements|NaN or infinity is lost"),
    ],
)
def test_a_spoiled_product_is_found(
    spoil: Callable[[gemm.Matrix, gemm.Matrix], object], said: str
) -> None:
    right = gemm.rung("interchanged")

    def wrong(a: gemm.Matrix, b: gemm.Matrix, c: gemm.Matrix, *factors: float) -> None:
        right(a, b, c, *factors)
        spoil(c, a)

    answer = gemm.verify(wrong)
    assert answer.startswith("WRONG") and re.search(said, answer)


def test_blocks_follow_the_caches() -> None:
    cpu = machine.Cpu(
        "some",
        tuple(
            machine.Cache(i + 1, size, 8, 64) for i, size in enumerate((49152, 2 << 20, 32 << 20))
        ),
        4096,
        (),
    )
    block = gemm.model(14, 32, cpu)
    assert block == gemm.Block(4088, 512, 512)
    smaller = gemm.model(14, 32, replace(cpu, caches=cpu.caches[:1]))
    assert smaller.kc == block.kc and smaller.nc < block.nc


@pytest.mark.parametrize(
    ("a", "b", "c", "said"),
    [
        ((2, 3), (4, 5), (2, 5), "have no product"),
        ((2, 3), (3, 5), (2, 4), r"C has shape \(2, 4\), the product \(2, 5\)"),
    ],
)
def test_shapes_that_disagree(
    a: tuple[int, int], b: tuple[int, int], c: tuple[int, int], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        gemm.rung("naive")(*(np.zeros(shape, np.float32) for shape in (a, b, c)))


def test_a_transposed_matrix_is_refused() -> None:
    square = np.zeros((3, 4), np.float32)
    with pytest.raises(ValueError, match="B does not lie row by row"):
        gemm.rung("naive")(square, square.T, np.zeros((3, 3), np.float32))


def test_no_such_rung() -> None:
    with pytest.raises(ValueError, match="has no rung 'fast': choose from naive"):
        gemm.rung("fast")
    with pytest.raises(ValueError, match="give positive numbers"):
        gemm.rung("packed", gemm.Block(0, 1, 1))
