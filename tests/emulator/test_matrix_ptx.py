"""Matrix instructions from end to end: CUDA by nvcc, PTX in the emulator, an oracle of loops.

Every kernel here is one instruction: a thread loads its registers from global
memory, executes it, stores what it got.  The same kernels ran on an H200; its
answers are in ``test_matrix_h200.npz`` and must come out of the emulator bit by
bit, rounding, NaNs and all (``RECORD`` says how they were made).
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.formats import FORMATS, decode, encode
from phasebit.emulator.fragments import accumulator, operand_a, operand_b, pack, unpack

RECORD = Path(__file__).with_name("test_matrix_h200.npz")


@dataclass(frozen=True)
class Case:
    """One ``mma``: its shape and the types of D, A, B and C."""

    shape: tuple[int, int, int]
    types: tuple[str, str, str, str]
    suffix: str = ""

    @property
    def name(self) -> str:
        m, n, k = self.shape
        return f"m{m}n{n}k{k}_" + "_".join(self.types) + self.suffix.replace(".", "_")

    @property
    def opcode(self) -> str:
        m, n, k = self.shape
        types = ".".join(self.types)
        return f"mma.sync.aligned.m{m}n{n}k{k}.row.col{self.suffix}.{types}"

    @property
    def per_register(self) -> int:
        return {"f16": 2, "bf16": 2, "tf32": 1, "f64": 1, "s4": 8, "u4": 8}.get(self.types[1], 4)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Registers of A, B and C a thread."""
        m, n, k = self.shape
        of_c = m * n // 32 // (2 if self.types[0] == "f16" else 1)
        return m * k // 32 // self.per_register, n * k // 32 // self.per_register, of_c


def _floats(kind: str, accumulate: str, *shapes: tuple[int, int, int]) -> list[Case]:
    return [Case(shape, (accumulate, kind, kind, accumulate)) for shape in shapes]


MMA = [
    *_floats("f16", "f32", (16, 8, 8), (16, 8, 16)),
    *_floats("f16", "f16", (16, 8, 8), (16, 8, 16)),
    *_floats("bf16", "f32", (16, 8, 8), (16, 8, 16)),
    *_floats("tf32", "f32", (16, 8, 4), (16, 8, 8)),
    *_floats("e4m3", "f32", (16, 8, 32)),
    *_floats("e5m2", "f32", (16, 8, 32)),
    Case((16, 8, 32), ("f32", "e4m3", "e5m2", "f32")),
    *_floats("f64", "f64", (8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16)),
    *_floats("s8", "s32", (8, 8, 16), (16, 8, 16), (16, 8, 32)),
    *_floats("u8", "s32", (16, 8, 32)),
    Case((16, 8, 32), ("s32", "s8", "u8", "s32")),
    Case((16, 8, 32), ("s32", "s8", "s8", "s32"), ".satfinite"),
    *_floats("s4", "s32", (8, 8, 32), (16, 8, 32), (16, 8, 64)),
    *_floats("u4", "s32", (16, 8, 64)),
]  # fmt: skip


def source(case: Case) -> str:
    """The kernel of a case."""
    word, letter = ("double", "d") if case.types[0] == "f64" else ("unsigned", "r")
    a, b, c = case.counts
    number = iter(range(a + b + 2 * c))
    lists = ["{" + ",".join(f"%{next(number)}" for _ in range(n)) + "}" for n in (c, a, b, c)]
    outputs = ", ".join(f'"={letter}"(d[i * {c} + {j}])' for j in range(c))
    inputs = ", ".join(
        f'"{letter}"({x}[i * {n} + {j}])' for x, n in zip("abc", (a, b, c), strict=True)
        for j in range(n)
    )  # fmt: skip
    return f"""
extern "C" __global__ void {case.name}(const {word} *a, const {word} *b, const {word} *c, {word} *d)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    asm volatile("{case.opcode} {", ".join(lists)};" : {outputs} : {inputs});
}}"""


# -- inputs ----------------------------------------------------------------------

MODES = ("integers", "normal", "wide", "sparse", "tiny", "patterns", "special", "large")
"""What the numbers of a warp are like; the modes take turns."""


def values(kind: str, mode: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Numbers of one mode, as bit patterns of a float format."""
    form = FORMATS[kind]
    reach = 2 ** (form.exponent_bits - 1) - 2
    normal = rng.standard_normal(shape)
    if mode == "integers":
        x = rng.integers(-8, 9, shape).astype(np.float64)
    elif mode == "normal":
        x = normal
    elif mode in ("wide", "large"):
        span = min(reach // 2, 40)
        x = normal * 2.0 ** rng.integers(-span, span + 1, shape)
        if mode == "large":
            x = normal * 2.0 ** (reach - rng.integers(0, 8, shape))
    elif mode == "sparse":
        x = np.where(rng.random(shape) < 0.7, np.copysign(0.0, normal), normal)
    else:
        limit = form.largest + 1 if mode == "patterns" else 3 << form.mantissa_bits
        code = rng.integers(0, limit, shape) | np.where(normal < 0, form.sign_bit, 0)
        bits = (code << form.low_bits).astype(form.storage)
        if mode != "special":
            return bits
        x = np.where(rng.random(shape) < 0.97, normal, decode(kind, bits))
        strange = rng.choice([np.inf, -np.inf, np.nan, 0.0], shape)
        x = np.where(rng.random(shape) < 0.03, strange, x)
    return encode(kind, x, satfinite=mode != "special")


def inputs(case: Case, warps: int) -> list[np.ndarray]:
    """The registers of A, B and C for ``warps`` warps, [warps, 32, registers]."""
    seed = int.from_bytes(hashlib.sha256(case.name.encode()).digest()[:4], "little")
    rng = np.random.default_rng(seed)
    result = []
    for count, kind in zip(case.counts, case.types[1:], strict=True):
        size = (warps, 32, count)
        if kind == "f64":
            x = rng.standard_normal(size) * 2.0 ** rng.integers(-30, 30, size)
            result.append(np.where(rng.random(size) < 0.05, rng.choice([0.0, -0.0, 1.0], size), x))
        elif kind in FORMATS:
            elements = np.concatenate([
                values(kind, MODES[w % len(MODES)], (1, 32, count * 4 // FORMATS[kind].storage.itemsize), rng)
                for w in range(warps)
            ])  # fmt: skip
            if kind == "f32":  # in some warps the accumulator is zero, or near the products
                elements[1::16] = 0
                elements[4::16] = 0
            result.append(pack(elements))
        else:
            result.append(rng.integers(0, 1 << 32, size, np.uint32))
    if case.types[0] == "s32":
        result[2][1::2] >>= 8
    return result


def digest(arrays: list[np.ndarray]) -> np.ndarray:
    """A fingerprint of the inputs: the record is good for these only."""
    joined = b"".join(np.ascontiguousarray(x).tobytes() for x in arrays)
    return np.frombuffer(hashlib.sha256(joined).digest()[:8], np.uint8)


def run(module: Any, case: Case, operands: list[np.ndarray]) -> np.ndarray:
    """The registers of D from the emulator, four warps a block."""
    d = np.zeros_like(operands[2])
    module[case.name].launch(
        grid=(len(d) // 4,), block=(128,), args=[*operands, d], device="emulator", check=False
    )
    return d
