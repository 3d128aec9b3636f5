"""The chapter's kernel with a mistake planted in it, and one product on the emulator."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasebit import files
from phasebit.edits import replace_once
from phasebit.launching.launch import Kernel
from phasebit.launching.launch import compile as compile_ptx

ROWS, THREADS = 8, 256  # of a block
_INSTANCE = """
template __global__
void matvec(int, int, const float*, const float*, float*);"""


def matvec_with(right: str, wrong: str) -> Kernel:
    """The matrix-vector product in f32 with ``wrong`` in the place of ``right``.

    Two empty texts change nothing. Raises ``ValueError`` where the kernel does not say ``right``
    exactly once.
    """
    source = "#define OWN_MAIN\n" + files.kernel("measuring/matvec")
    if right:
        source = replace_once(source, right, wrong)
    module = compile_ptx(source + _INSTANCE, "sm_75")
    return module[module.kernels[0]]


def product(
    kernel: Kernel, A: NDArray[np.float32], x: NDArray[np.float32], y: NDArray[np.float32]
) -> NDArray[Any]:
    """y = A · x by the kernel, on the emulator; ``y`` keeps what the kernel does not write."""
    M, K = A.shape
    kernel.launch(-(-M // ROWS), THREADS, [M, K, A, x, y], device="emulator")
    return y
