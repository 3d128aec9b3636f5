# mypy: ignore-errors
"""From a kernel in CuTe DSL to a launch in the emulator: compiled without a GPU, with fake tensors.

Extents are static, so a kernel's parameters are what its signature says: the tiled MMA (a struct
of flags, all zero here), a tensor map for each copy atom, a pointer for each tensor.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import cutlass
import cutlass.cute as cute
import numpy as np
from cutlass.cute.runtime import make_fake_compact_tensor

from phasebit.emulator.formats import decode, encode
from phasebit.emulator.launch import Module
from phasebit.emulator.tensormap import TensorMap

SWIZZLES = {"0,4,3": "none", "1,4,3": "32B", "2,4,3": "64B", "3,4,3": "128B",
            "2,5,2": "128B_ATOM_32B"}  # fmt: skip
FORMATS = {cutlass.Float16: "f16", cutlass.BFloat16: "bf16", cutlass.Float8E4M3FN: "e4m3",
           cutlass.Float8E5M2: "e5m2"}  # fmt: skip
PLAIN = {cutlass.Float32: np.float32, cutlass.Int8: np.int8, cutlass.Uint8: np.uint8,
         cutlass.Int32: np.int32, cutlass.TFloat32: np.float32}  # fmt: skip
MAPS = {cutlass.BFloat16: "bf16", cutlass.TFloat32: "tf32"}


@dataclass
class Box:
    """What a copy atom wants of its tensor map."""

    basis: str
    swizzle: str
    kind: object
    copies: int
    """Blocks that share it: each asks for that part of the box, along the outermost dimension."""


@dataclass
class Notes:
    """What ``__call__`` of a kernel class says about its launch."""

    boxes: list[Box] = field(default_factory=list)
    shared: int = 0
    """Bytes of shared memory."""

    def box(self, copy, inner, kind, copies=1) -> None:
        found = re.search(r'tma_gbasis = <"(.*?)">', str(copy._trait.value.type))
        self.boxes.append(Box(found[1], SWIZZLES[str(inner)[2:7]], kind, copies))


def stored(kind, values):
    """Numbers as the bits of an element type."""
    if kind in FORMATS:
        return np.asarray(encode(FORMATS[kind], values.astype(np.float64)))
    return values.astype(PLAIN[kind])


def shown(kind, bits):
    return decode(FORMATS[kind], bits) if kind in FORMATS else bits


def fake(kind, shape, major="row"):
    """A tensor of fixed extents whose last (``row``) or first index moves fastest."""
    order = (1, 0) if major == "row" else (0, 1)
    return make_fake_compact_tensor(kind, shape, stride_order=order, assumed_align=16)


def compiled(kernel, tensors, arch):
    text = cute.compile(kernel, *tensors, options=f"--gpu-arch {arch} --keep-ptx").__ptx__
    module = Module(text)
    return module[module.kernels[0]]


def tensor_map(box, array, shape, major):
    """``array``: the bytes; ``shape``: (rows, columns), the fastest index by ``major``."""
    extents, basis = re.fullmatch(r"\((.*)\):\((.*)\)", box.basis).groups()
    extents = [int(n) for n in re.findall(r"\d+", extents)]
    steps = [(int(n), int(mode)) for n, mode in re.findall(r"(\d+)@(\d+)", basis)]
    fast = 1 if major == "row" else 0
    wide = array.itemsize
    pitch = {fast: wide, 1 - fast: wide * shape[fast]}
    dims, strides = [], []
    for i, (step, mode) in enumerate(steps):
        finer = [s for s, other in steps if other == mode and s > step]
        whole = shape[mode] if not finer else min(finer)
        dims.append(-(-whole // step))
        if i:
            strides.append(pitch[mode] * step)
    assert steps[0] == (1, fast) and extents[-1] % box.copies == 0, box
    extents[-1] //= box.copies
    return TensorMap(array, extents, data_type=MAPS.get(box.kind), dims=dims, strides=strides,
                     swizzle=box.swizzle)  # fmt: skip


def launch(kernel, grid, threads, args, how, *, shared, cluster=None, check=True):
    """``args`` by the order of the signature; a 32-byte struct of flags goes before them."""
    wanted = kernel.function.parameters
    flags = [bytes(p.size) for p in wanted[: len(wanted) - len(args)]]
    run = kernel.launch(grid, threads, [*flags, *args], shared=shared, cluster=cluster,
                        schedule=how[0], seed=how[1], check=check)  # fmt: skip
    assert run.hazards == [], [str(h) for h in run.hazards[:2]]
    return run
