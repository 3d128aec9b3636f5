"""NumPy's own OpenBLAS: the vendor's matrix product that a processor's are timed beside.

C = alpha·A·B + beta·C in f32, from NumPy arrays.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasebit import toolchain

Matrix = NDArray[np.float32]
Product = Callable[..., None]
"""``product(a, b, c, alpha=1, beta=0)`` writes C (M, N) from A (M, K) and B (K, N)."""

_ROW_MAJOR, _NO_TRANSPOSE = 101, 111  # of the C interface to BLAS


def shape(a: Matrix, b: Matrix, c: Matrix) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """M, N, K, and floats from row to row of each; raises ``ValueError`` where they disagree."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"A {a.shape} and B {b.shape} have no product: give (M, K) and (K, N)")
    if c.shape != (a.shape[0], b.shape[1]):
        raise ValueError(f"C has shape {c.shape}, the product {(a.shape[0], b.shape[1])}")
    leading = []
    for name, matrix in (("A", a), ("B", b), ("C", c)):
        row, element = matrix.strides
        if matrix.size > 1 and ((matrix.shape[1] > 1 and element != 4) or row % 4 or row < 0):
            raise ValueError(f"{name} does not lie row by row: give numpy.ascontiguousarray of it")
        leading.append(max(row // 4, matrix.shape[1], 1))
    return (a.shape[0], b.shape[1], a.shape[1]), (leading[0], leading[1], leading[2])


def _library() -> tuple[Any, Path]:
    """NumPy's own OpenBLAS, which is in this process already."""
    folder = Path(np.__file__).parent.parent / "numpy.libs"
    for path in sorted(folder.glob("libscipy_openblas64_*")):
        return ctypes.CDLL(os.fspath(path)), path
    raise toolchain.ToolMissing(
        "NumPy was not built with its own OpenBLAS: install NumPy's wheel, pip install numpy"
    )


def sgemm() -> Product:
    """OpenBLAS on one thread. Raises :class:`toolchain.ToolMissing` where NumPy has none."""
    library, _ = _library()
    gemm = library.scipy_cblas_sgemm64_
    gemm.restype = None
    number, real, pointer = ctypes.c_int64, ctypes.c_float, ctypes.c_void_p
    gemm.argtypes = [ctypes.c_int] * 3 + [number] * 3 + [real, pointer, number, pointer, number]
    gemm.argtypes += [real, pointer, number]

    def product(a: Matrix, b: Matrix, c: Matrix, alpha: float = 1.0, beta: float = 0.0) -> None:
        (m, n, k), (lda, ldb, ldc) = shape(a, b, c)
        library.scipy_openblas_set_num_threads64_(1)
        order = (_ROW_MAJOR, _NO_TRANSPOSE, _NO_TRANSPOSE)
        at = [matrix.ctypes.data for matrix in (a, b, c)]
        gemm(*order, m, n, k, alpha, at[0], lda, at[1], ldb, beta, at[2], ldc)

    return product


def version() -> str:
    """Version and kernels of NumPy's OpenBLAS: ``"OpenBLAS 0.3.31 … SkylakeX …"``."""
    library, _ = _library()
    library.scipy_openblas_get_config64_.restype = ctypes.c_char_p
    library.scipy_openblas_get_corename64_.restype = ctypes.c_char_p
    words = library.scipy_openblas_get_config64_().decode().split()
    return f"{' '.join(words[:2])}, {library.scipy_openblas_get_corename64_().decode()}"
