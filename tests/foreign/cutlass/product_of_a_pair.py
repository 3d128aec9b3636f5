# mypy: ignore-errors
"""CuTe DSL's block-scaled product of a pair, 2cta_mma_blockscale_m128.py, of 128 × 256 × 512.

Its path is given.  The numbers are small and whole, of four bits, all scales are 1, and the result
is exact.  Prints `right` or `wrong: 3 of 32768`.
"""

import sys

import cuda.bindings.driver as cuda
import numpy as np
from cutlass.cute.runtime import from_dlpack

from phasebit.emulator import formats
from tests.foreign.cutlass.loading import load

M, N, K = 128, 256, 512
rng = np.random.default_rng(0)


def operand(rows):
    """Numbers, (rows, K), and the same as two in a byte, which fill the first half of (K, rows)."""
    numbers = rng.integers(-2, 3, (rows, K)).astype(float)
    low, high = np.asarray(formats.encode("e2m1", numbers)).reshape(-1, 2).T
    bytes_ = np.concatenate([low | high << 4, np.zeros(rows * K // 2)]).astype(np.uint8)
    return numbers, tensor(bytes_.view(np.int8).reshape(rows, K).T, 0)


def scales(rows):
    """A scale of 1 for each 16 numbers, (512, K / 64, rows / 128)."""
    one = np.asarray(formats.encode("e4m3", np.ones(1))).astype(np.int8)
    return tensor(np.tile(one, (rows // 128, K // 64, 512)).T, 0, 32)


def tensor(array, leading, align=16):
    return from_dlpack(array, assumed_align=align).mark_layout_dynamic(leading_dim=leading)


(a, packed_a), (b, packed_b) = operand(M), operand(N)
c = np.full((M, N), np.nan, np.float16)
load(sys.argv[1]).gemm(
    packed_a, packed_b, scales(M), scales(N), tensor(c, 1), (M, N, K), cuda.CUstream(0)
)
wrong = np.count_nonzero(c != (a @ b.T).astype(np.float16))
print(f"wrong: {wrong} of {c.size}" if wrong else "right")
