# mypy: ignore-errors
"""From a kernel in CuTe DSL to a launch in the emulator: compiled without a GPU, with fake tensors.

A `Product` is launched through `phasebit.cute`, by the kernel's own host code. What else is here
does without it: extents are static, so a kernel's parameters are what its signature says: the tiled
MMA (a struct of flags, all zero here), a tensor map for each copy atom, a pointer for each tensor.
"""

from __future__ import annotations

import functools
import re
import tempfile
from dataclasses import dataclass, field

import cutlass
import cutlass.cute as cute
import numpy as np
from cutlass.cute.runtime import from_dlpack, make_fake_compact_tensor

import phasebit.cute
from phasebit.emulator import TensorMap, formats
from phasebit.launching.launch import Module

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
    grid: tuple[int, int] | None = None
    """Where it is not one block a tile."""

    def box(self, copy, inner, kind, copies=1) -> None:
        found = re.search(r'tma_gbasis = <"(.*?)">', str(copy._trait.value.type))
        self.boxes.append(Box(found[1], SWIZZLES[str(inner)[2:7]], kind, copies))


def stored(kind, values):
    """Numbers as the bits of an element type."""
    if kind in FORMATS:
        return np.asarray(formats.encode(FORMATS[kind], values.astype(np.float64)))
    return values.astype(PLAIN[kind])


def shown(kind, bits):
    return formats.decode(FORMATS[kind], bits) if kind in FORMATS else bits


def fake(kind, shape, major="row"):
    """A tensor of fixed extents whose last (``row``) or first index moves fastest."""
    order = (1, 0) if major == "row" else (0, 1)
    return make_fake_compact_tensor(kind, shape, stride_order=order, assumed_align=16)


def tensor(kind, array, major="row"):
    """An array, its rows or its columns one after another, as a tensor of an element type."""
    made = from_dlpack(array if major == "row" else array.T, assumed_align=16)
    made.element_type = kind
    return made


def compiled(kernel, tensors, arch):
    with tempfile.TemporaryDirectory() as folder:  # it also writes the text into a file
        options = f"--gpu-arch {arch} --keep-ptx --dump-dir={folder}"
        module = Module(cute.compile(kernel, *tensors, options=options).__ptx__)
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
    assert run.findings == [], [str(h) for h in run.findings[:2]]
    return run


@dataclass
class Product:
    """A kernel class for C = A·Bᵀ, built for one shape (m, n, k), and its check."""

    gemm: object
    shape: tuple[int, int, int]
    arch: str

    def __post_init__(self) -> None:
        gemm, (m, n, k) = self.gemm, self.shape
        gemm.notes = Notes()
        self.kinds = (gemm.kind, getattr(gemm, "kind_b", gemm.kind), gemm.out)
        self.shapes = ((m, k), (n, k), (m, n))
        self.majors = (*("row" if major == "k" else "column" for major in gemm.majors), "row")
        parts = zip(self.kinds, self.shapes, self.majors, strict=True)
        self.tensors = [fake(*one) for one in parts]
        with phasebit.cute.emulated(self.arch):
            self.compiled = cute.compile(gemm, *self.tensors)

    @functools.cached_property
    def kernel(self):
        """Its PTX, for a launch without host code."""
        self.gemm.notes = Notes()
        return compiled(self.gemm, self.tensors, self.arch)

    def check(self, how, check=True) -> None:
        """Small random integers, which every element type holds; the product is exact."""
        gemm, random = self.gemm, np.random.default_rng()
        m, n, k = self.shape
        a, b = random.integers(-4, 5, (m, k)), random.integers(-4, 5, (n, k))
        arrays = [stored(kind, values if major == "row" else np.ascontiguousarray(values.T))
                  for kind, values, major in zip(self.kinds, (a, b, np.full((m, n), 77)),
                                                 self.majors, strict=True)]  # fmt: skip
        with phasebit.cute.emulated(self.arch, schedules=[how], check=check) as runs:
            self.compiled(*map(tensor, self.kinds, arrays, self.majors))
        assert len(runs.launches) == 1 and runs.findings == [], str(runs)
        wanted = stored(gemm.out, a @ b.T)
        assert np.array_equal(shown(gemm.out, arrays[2]), shown(gemm.out, wanted))

    def check_here(self, how, check=True) -> None:
        """The same without host code, for who keeps the arguments (`saved/make.py`)."""
        gemm, random = self.gemm, np.random.default_rng()
        m, n, k = self.shape
        a, b = random.integers(-4, 5, (m, k)), random.integers(-4, 5, (n, k))
        given = [stored(kind, values if major == "row" else np.ascontiguousarray(values.T))
                 for kind, values, major in zip(self.kinds[:2], (a, b), self.majors[:2],
                                                strict=True)]  # fmt: skip
        c = stored(gemm.out, np.full((m, n), 77))
        parts = zip(gemm.notes.boxes, (*given, c), self.shapes, self.majors, strict=False)
        share = 2 if getattr(gemm, "pair", False) else 1
        tiles = [-(-m // (gemm.tile[0] // share)), -(-n // gemm.tile[1])]
        grid = [-(-t // s) * s for t, s in zip(tiles, gemm.cluster, strict=True)]
        args = [*(tensor_map(*part) for part in parts), c]
        cluster = (*gemm.cluster, 1) if gemm.cluster != (1, 1) else None
        launch(self.kernel, gemm.notes.grid or grid, gemm.threads, args, how,
               shared=gemm.notes.shared, cluster=cluster, check=check)  # fmt: skip
        wanted = stored(gemm.out, a @ b.T)
        assert np.array_equal(shown(gemm.out, c), shown(gemm.out, wanted))
