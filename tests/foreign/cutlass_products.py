# mypy: ignore-errors
"""CUTLASS's dense and block-scaled products in CuTe DSL for Blackwell, with arrays of ours.

Their own programs draw numbers by PyTorch; here each kernel is given whole numbers, and its product
is exact.
"""

from __future__ import annotations

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import cutlass.utils as utils
import numpy as np
from cutlass.cute.nvgpu import OperandMajorMode
from cutlass.cute.runtime import from_dlpack, make_ptr

import phasebit.cute
from phasebit.doors import device_arrays as device
from phasebit.emulator import formats
from tests.foreign import cutlass_grouped as grouped

DENSE = "cute/blackwell/kernel/dense_gemm/"
SCALED = "cute/blackwell/kernel/blockscaled_gemm/dense_blockscaled_gemm_persistent.py"


def dense(example, name, shape, *, pair, tile, cluster, clusters=0):
    """C = A · Bᵀ of bf16 into f32: whether it is exact, and what was found.

    ``name``: of the kernel's class; ``clusters``: how many of a persistent one there are.
    """
    m, n, k = shape
    draw = np.random.default_rng(3)
    numbers = [draw.integers(-4, 5, (rows, k)).astype(float) for rows in (m, n)]
    with phasebit.cute.emulated("sm_100a", schedules="all") as runs:
        tensors = []
        for values in numbers:
            bits = np.asarray(formats.encode("bf16", values)).reshape(*values.shape, 1)
            tensors.append(_tensor(device.array(np.ascontiguousarray(bits)), cutlass.BFloat16))
        c = device.array(np.full((m, n, 1), np.nan, np.float32))
        tensors.append(_tensor(c, cutlass.Float32))
        kernel = getattr(example, name)(cutlass.Float32, pair, tile, cluster, True)
        more = [clusters] if clusters else []
        stream = cuda.CUstream(0)
        cute.compile(kernel, *tensors, *more, stream, options="--opt-level 2")(*tensors, stream)
    wanted = (numbers[0] @ numbers[1].T).astype(np.float32)
    return np.array_equal(np.asarray(c)[..., 0], wanted), runs.findings


def _tensor(array, kind):
    made = from_dlpack(array, assumed_align=16)
    made.element_type = kind
    return made.mark_layout_dynamic(leading_dim=1)


def scaled(example, shape, *, of, scale, vector, tile, cluster, clusters):
    """The same of numbers of four or eight bits with a scale for each ``vector`` of them."""
    m, n, k = shape
    draw = np.random.default_rng(4)
    with phasebit.cute.emulated("sm_100a", schedules="all") as runs:
        codes, scales, wide = [], [], []
        for rows in (m, n):
            values = draw.choice(grouped.SMALL, (rows, k))
            factors, atoms = grouped._scales(draw, rows, k // vector, scale)
            codes.append(device.array(grouped._stored(values, of)))
            scales.append(device.array(atoms))
            wide.append(values * np.repeat(factors, vector, axis=1))
        c = device.array(np.full((m, n), np.nan, np.float32))
        types = (grouped.TYPES[of],) * 2 + (grouped.TYPES[scale],) * 2 + (cutlass.Float32,)
        aligned = 32, 32, 32, 32, 16
        given = [make_ptr(kind, array.data_ptr(), cute.AddressSpace.gmem, assumed_align=align)
                 for kind, array, align in zip(
                     types, (*codes, *scales, c), aligned, strict=True)]  # fmt: skip
        k_major = OperandMajorMode.K
        layouts = k_major, k_major, utils.LayoutEnum.ROW_MAJOR
        kernel = example.Sm100BlockScaledPersistentDenseGemmKernel(vector, tile, cluster)
        size, stream = (m, n, k, 1), cuda.CUstream(0)
        made = cute.compile(
            kernel, *given, layouts, size, clusters, stream, options="--opt-level 2"
        )
        made(*given, size, stream)
    wanted = (wide[0] @ wide[1].T).astype(np.float32)
    return np.array_equal(np.asarray(c), wanted), runs.findings
