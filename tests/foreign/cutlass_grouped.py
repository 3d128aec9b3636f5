# mypy: ignore-errors
"""CUTLASS's grouped products in CuTe DSL for Blackwell, on the emulator: as they stand there.

Nothing of them is in this project. A group has extents, strides and addresses of its own, which lie
in global memory; the kernel makes the tensor maps of the next group on the device.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from unittest.mock import MagicMock

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import cutlass.tensor_utils as tensor_utils
import numpy as np
from cutlass.cute.runtime import from_dlpack

import phasebit.cute
from phasebit.doors import device_arrays as device
from phasebit.emulator import formats

EXAMPLES = "examples/python/CuTeDSL"
KERNELS = "cute/blackwell/kernel"
PLAIN = f"{KERNELS}/grouped_gemm/grouped_gemm.py"
SCALED = f"{KERNELS}/blockscaled_grouped_gemm/grouped_blockscaled_gemm.py"
SMALL = np.array([-2, -1, -0.5, 0, 0.5, 1, 2, 3])
"""Numbers of every format, whose sums are exact."""
TYPES = {"e4m3": cutlass.Float8E4M3FN, "e2m1": cutlass.Float4E2M1FN,
         "ue8m0": cutlass.Float8E8M0FNU}  # fmt: skip


def module(repository: Path, file: str):
    """A module of a checkout; PyTorch, with which it compares by itself, is not asked for."""
    examples = repository / EXAMPLES
    spec = importlib.util.spec_from_file_location(Path(file).stem, examples / file)
    made = importlib.util.module_from_spec(spec)
    stubs = {name: MagicMock() for name in ("torch", "cutlass.torch")
             if importlib.util.find_spec("torch") is None}  # fmt: skip
    sys.modules.update(stubs)
    sys.path.insert(0, str(examples))
    try:
        spec.loader.exec_module(made)
    finally:
        sys.path.remove(str(examples))
        for name in stubs:
            del sys.modules[name]
    return made


def table(values, kind):
    """What the kernel reads of every group."""
    return from_dlpack(device.array(np.array(values, kind)), assumed_align=16)


def pattern(shape, kind, of):
    """A tensor that says no more than a type and a major."""
    made = from_dlpack(device.empty((*shape, 1), kind), assumed_align=16)
    made.element_type = of
    return made.mark_layout_dynamic(leading_dim=1)


def clusters(sizes, high, wide):
    """How many tiles there are."""
    return sum(-(-m // high) * -(-n // wide) for m, n, *_ in sizes)


def plain(example, sizes, tile=(128, 64), cluster=(1, 1), pair=False, maps="SMEM"):
    """Products of bf16; gives whether each is exact, and the findings under all schedules."""
    draw = np.random.default_rng()
    with phasebit.cute.emulated("sm_100a", schedules="all") as runs:
        groups, addresses, strides = [], [], []
        for m, n, k, _ in sizes:
            a, b = draw.choice(SMALL, (m, k)), draw.choice(SMALL, (n, k))
            on = [device.array(np.asarray(formats.encode("bf16", x))) for x in (a, b)]
            c = device.array(np.full((m, n), np.nan, np.float32))
            groups.append((on, c, a @ b.T))
            addresses.append([x.data_ptr() for x in (*on, c)])
            strides.append([[k, 1], [k, 1], [n, 1]])
        like = [pattern((8, 8), np.uint16, cutlass.BFloat16) for _ in "ab"]
        like.append(pattern((4, 4), np.float32, cutlass.Float32))
        total = clusters(sizes, tile[0] // (1 + pair) * cluster[0], tile[1] * cluster[1])
        kernel = example.GroupedGemmKernel(
            cutlass.Float32, pair, tile, cluster, getattr(tensor_utils.TensorMapUpdateMode, maps)
        )
        told = [table(sizes, np.int32), table(strides, np.int32), table(addresses, np.int64)]
        launched(kernel, like, told, len(sizes), total, 3)
    return [bool(np.array_equal(c, right)) for _, c, right in groups], runs.findings


def scaled(example, sizes, of="e4m3", scale="ue8m0", vector=32, tile=(128, 128), cluster=(1, 1)):
    """Products of 8 or 4 bits with a scale for each ``vector`` numbers, likewise."""
    draw = np.random.default_rng()
    with phasebit.cute.emulated("sm_100a", schedules="all") as runs:
        groups, addresses, strides, scales_at = [], [], [], []
        for m, n, k, _ in sizes:
            on, scales, wide = [], [], []
            for rows in m, n:
                x = draw.choice(SMALL, (rows, k))
                factors, atoms = _scales(draw, rows, k // vector, scale)
                on.append(device.array(_stored(x, of)))
                scales.append(device.array(atoms))
                wide.append(x * np.repeat(factors, vector, axis=1))
            c = device.array(np.full((m, n), np.nan, np.float32))
            groups.append((on, scales, c, wide[0] @ wide[1].T))
            addresses.append([x.data_ptr() for x in (*on, c)])
            scales_at.append([x.data_ptr() for x in scales])
            strides.append([[k, 1], [k, 1], [n, 1]])
        like = [pattern((32, 32), np.uint8, TYPES[of]) for _ in "ab"]
        like.append(pattern((4, 4), np.float32, cutlass.Float32))
        for _ in "ab":
            one = device.empty((1, 1, 1, 32, 4, 4), np.uint8).transpose(3, 4, 1, 5, 2, 0)
            made = from_dlpack(one, assumed_align=16)
            made.element_type = TYPES[scale]
            like.append(made.mark_layout_dynamic(leading_dim=3))
        total = clusters(sizes, 128 * cluster[0], tile[1] * cluster[1])
        kernel = example.Sm100GroupedBlockScaledGemmKernel(vector, tile, cluster)
        told = [table(sizes, np.int32), table(strides, np.int32), table(addresses, np.int64),
                table(scales_at, np.int64)]  # fmt: skip
        launched(kernel, like, told, len(sizes), total, 5)
    return [bool(np.array_equal(c, right)) for *_, c, right in groups], runs.findings


def launched(kernel, like, told, groups, total, maps):
    """Compile for two clusters that stay, and launch."""
    room = from_dlpack(device.empty((8, maps, 16), np.int64), assumed_align=128)
    stream, workers = cuda.CUstream(0), min(2, total)
    cute.compile(kernel, *like, groups, *told, total, room, workers, stream,
                 options="--opt-level 2")(*like, *told, room, stream)  # fmt: skip


def _scales(draw, rows, count, kind):
    """Factors (rows, count), and their bytes in atoms of 128 rows × 4."""
    high, wide = -(-rows // 128), -(-count // 4)
    choice = [0.5, 1.0, 2.0] if kind == "ue8m0" else [0.5, 1.0, 1.5, 2.0]
    factors = draw.choice(choice, (high * 128, wide * 4))
    raw = np.log2(factors) + 127 if kind == "ue8m0" else formats.encode(kind, factors)
    raw = np.asarray(raw).astype(np.uint8)
    atoms = raw.reshape(high, 4, 32, wide, 4).transpose(0, 3, 2, 1, 4)
    return factors[:rows, :count], np.ascontiguousarray(atoms)


def _stored(x, of):
    """The bytes of a matrix; two numbers of four bits share one."""
    codes = np.asarray(formats.encode(of, x)).astype(np.uint8)
    return codes if of != "e2m1" else codes[:, ::2] | codes[:, 1::2] << 4
