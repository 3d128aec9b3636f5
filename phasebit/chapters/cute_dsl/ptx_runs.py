"""CuTe DSL's kernels by their PTX: products, and the small rings.

No GPU that they are for was at hand: they run on the emulator, and on such a GPU where it is asked
for. Their host code is not needed: a kernel's parameters are its tiled MMA (flags, all zero here),
a tensor map for each copy atom, a pointer for each tensor, and the extents that are open.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from phasebit import hardware
from phasebit.chapters.cute_dsl import cute_ptx
from phasebit.emulator import Schedule

if TYPE_CHECKING:
    from phasebit.emulator import Run
    from phasebit.launching.launch import Kernel

ROLES = {"load": (4,), "multiply": (5,), "store": (0, 1, 2, 3)}
"""Warps of each role: of ``gemm.py``, and of ``kernels/chain/chain.cu``."""

SHARED = 2048 + 4 * 49_152 + 2 * 16_384
"""Bytes of shared memory: barriers and address, four slots, two pieces."""


SCALED_SHARED = 2048 + 3 * 36_864
"""The same of ``scaled.py``: three slots of numbers and scales."""


class Made(NamedTuple):
    """What a kernel made on the emulator."""

    run: Run
    exact: bool


@dataclass(frozen=True)
class Prepared:
    """A product's kernel with all that it is launched with."""

    kernel: Kernel
    grid: tuple[int, ...]
    arguments: list[Any]
    c: Any
    """The argument that it writes, float32, full of NaN."""
    shared: int

    def run(self, **options: Any) -> Run:
        """Launch it once."""
        return self.kernel.launch(self.grid, 192, self.arguments, shared=self.shared, **options)

    def times(self, count: int) -> list[float]:
        """Microseconds of so many launches on this machine's GPU."""
        return self.kernel.times(self.grid, 192, [self.arguments], count=count, shared=self.shared)


def loaded(text: str) -> Kernel:
    """The kernel of a PTX text that has one; for the chip of this machine, if it is a relative."""
    from phasebit.launching.launch import Module

    here = hardware.gpu()
    if here is not None and here.takes(cute_ptx.TARGET):
        target = here.in_place_of(cute_ptx.TARGET)
        text = text.replace(f".target {cute_ptx.TARGET}\n", f".target {target}\n")
    module = Module(text)
    (name,) = module.kernels
    return module[name]


def _whole(*shape: int, seed: int) -> Any:
    import numpy as np

    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float64)


def _extents(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}i", *numbers)


def multiply(
    ptx: str, m: int, n: int, k: int, *, workers: int = 1, schedule: Schedule = "late",
    seed: int = 26,
) -> Made:  # fmt: skip
    """C (m, n) = A (m, k) · B (n, k)ᵀ by the PTX of ``gemm.py``, on whole numbers, all checks.

    ``workers``: blocks; n is a multiple of 4, k of 8.
    """
    import numpy as np

    a, b = _whole(m, k, seed=seed), _whole(n, k, seed=seed + 1)
    made = product(ptx, a, b, workers)
    run = made.run(schedule=schedule)
    return Made(run, bool(np.array_equal(made.c, a @ b.T)))


def product(ptx: str, a: Any, b: Any, workers: int) -> Prepared:
    """What :func:`multiply` launches, on any numbers; A and B are rounded to bf16."""
    import numpy as np

    from phasebit.emulator import TensorMap, formats

    (m, k), n = a.shape, len(b)
    c = np.full((m, n), np.nan, np.float32)
    arguments: list[Any] = [bytes(32)]
    for values, rows in (a, 128), (b, 256):
        bits = np.asarray(formats.encode("bf16", values))
        arguments += [TensorMap(bits, (64, rows), data_type="bf16", swizzle="128B")]
        arguments += [_extents(len(values), k)]
    arguments += [TensorMap(c, (32, 128), swizzle="128B"), _extents(m, n)]
    return Prepared(loaded(ptx), (workers,), arguments, c, SHARED)


def scaled(ptx: str, operands: Sequence[tuple[Any, Any]], **options: Any) -> tuple[Run, Any]:
    """The product by the PTX of ``scaled.py``: the run, and C, float32 (256, 256).

    ``options``: those of a launch.

    ``operands``: of A and of B the numbers, uint8 (256, 640), two in each, and their scales in
    atoms, uint8 (40, 512), as *Low precision, block by block* lays them out.
    """
    import numpy as np

    from phasebit.emulator import TensorMap

    maps, scales = [], []
    for numbers, atoms in operands:
        rows, half = numbers.shape
        down, along = rows // 128, half // 32
        maps.append(TensorMap(numbers, (256, 128), data_type="b4x16", dims=(2 * half, rows),
                              strides=(half,), swizzle="128B"))  # fmt: skip
        scales.append(TensorMap(atoms.reshape(down, along, 512), (256, 4, 1), data_type="u16",
                                dims=(256, along, down), strides=(512, 512 * along)))  # fmt: skip
    c: Any = np.full((len(operands[0][0]), len(operands[1][0])), np.nan, np.float32)
    grid = -(-c.shape[1] // 128), -(-c.shape[0] // 128)
    made = Prepared(loaded(ptx), grid, [bytes(12), *maps, *scales, c], c, SCALED_SHARED)
    return made.run(**{"schedule": "late", **options}), c


def ring(entry: str, ptx: str, *, schedule: Schedule = "late") -> Made:
    """A small kernel by its PTX: five jobs through two slots, with all checks.

    ``by_hand`` and ``copied`` double numbers, ``doubled`` does so from right to left,
    ``multiplied`` multiplies, ``said`` speaks.
    """
    import numpy as np

    from phasebit.emulator import TensorMap, formats

    kernel = loaded(ptx)
    if entry == "said":
        run = kernel.launch(1, 256, [np.arange(256, dtype=np.float32)], schedule=schedule)
        return Made(run, True)
    if entry == "multiplied":
        a, b = _whole(128, 320, seed=1), _whole(64, 320, seed=2)
        c = np.full((128, 64), np.nan, np.float32)
        bits = [np.asarray(formats.encode("bf16", x)) for x in (a, b)]
        run = kernel.launch(1, 160, [bytes(32), *bits, c], shared=53_248, schedule=schedule)
        return Made(run, bool(np.array_equal(c, a @ b.T)))
    by_threads = entry in ("by_hand", "doubled")
    x = _whole(5 if by_threads else 40, 32, seed=3).astype(np.float32)
    y = np.full_like(x, np.nan)
    flat = TensorMap(x.reshape(-1), (256,))  # rows that lie one behind the other: one dimension
    given = [x if by_threads else flat, y]
    run = kernel.launch(1, 64, given, shared=4096, schedule=schedule)
    wanted = 2 * x[:, ::-1] if entry == "doubled" else 2 * x
    return Made(run, bool(np.array_equal(y, wanted)))


def barriers() -> dict[str, str]:
    """What the emulator calls each mbarrier of ``gemm.py`` -> what *chain.cu* calls it."""
    rings = ("", 4), ("sum ", 2)
    names = [f"{ring}{side} {slot}" for ring, slots in rings
             for side in ("full", "empty") for slot in range(slots)]  # fmt: skip
    return {f"__dynamic_shmem__0+{8 * i}".removesuffix("+0"): name for i, name in enumerate(names)}


def as_in(log: Sequence[Any], names: dict[str, str]) -> list[Any]:
    """What was seen at the barriers of ``gemm.py``, with another kernel's names of them.

    ``names``: what the emulator calls each of that kernel's -> the name that :func:`barriers` has.
    """
    there = {name: called for called, name in names.items()}
    mine = {called: there[name] for called, name in barriers().items()}
    return [seen._replace(barrier=mine.get(seen.barrier, seen.barrier)) for seen in log]
