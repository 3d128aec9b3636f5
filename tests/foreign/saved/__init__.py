"""PTX that CuTe DSL and Triton made of this folder's kernels, kept to run without them.

``make.py`` writes one JSON file a kernel, compressed: the text, by which version for which target
and when, and the launch.  Of the arguments, ``scratch`` is memory that a kernel works in.  Each
multiplies: C = A·Bᵀ, with A, B, C as its first three arrays; the scales of A and B, if there are
any, as the next two; ``columns``: A and B lie column by column.
"""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from phasebit.emulator import Run, TensorMap, formats
from phasebit.launching.launch import Module
from tests.foreign.scaled_numbers import operand

FOLDER = Path(__file__).parent
NAMES = sorted(path.name.removesuffix(".json.xz") for path in FOLDER.glob("*.json.xz"))
Array = np.ndarray[Any, np.dtype[Any]]


def bits(kind: str, values: Array) -> Array:
    """Numbers as an array of an element type."""
    if kind in ("f16", "bf16", "e4m3", "e5m2"):
        return np.asarray(formats.encode(kind, values.astype(np.float64)))
    return values.astype({"f32": np.float32, "s8": np.int8, "s32": np.int32}[kind])


def numbers(kind: str, held: Array) -> Array:
    coded = kind in ("f16", "bf16", "e4m3", "e5m2")
    return np.asarray(formats.decode(kind, held)) if coded else held


@dataclass
class Saved:
    """A kernel and how it is launched."""

    about: dict[str, Any]

    @classmethod
    def load(cls, name: str) -> Saved:
        return cls(json.loads(lzma.decompress((FOLDER / f"{name}.json.xz").read_bytes())))

    def __post_init__(self) -> None:
        module = Module(self.about["ptx"])
        self.kernel = module[module.kernels[0]]

    def multiply(self, schedule: str, seed: int = 0, check: bool = True) -> tuple[bool, Run]:
        """Whether the product of fresh small integers is right, and the run."""
        (m, n, k), kinds, random = self.about["shape"], self.about["kinds"], np.random.default_rng()
        c = bits(kinds[2], np.full((m, n), 77))
        if "scale" in self.about:
            scale, vector = self.about["scale"], self.about["vector"]
            codes_a, scales_a, a = operand(kinds[0], scale, m, k, vector)
            codes_b, scales_b, b = operand(kinds[1], scale, n, k, vector)
            arrays = [codes_a, codes_b, c, scales_a, scales_b]
        else:
            a, b = random.integers(-4, 5, (m, k)), random.integers(-4, 5, (n, k))
            lie = np.transpose if "columns" in self.about else np.asarray
            arrays = [bits(kinds[0], lie(a).copy()), bits(kinds[1], lie(b).copy()), c]
        args = [self._argument(given, arrays) for given in self.about["args"]]
        run = self.kernel.launch(
            self.about["grid"], self.about["threads"], args, shared=self.about["shared"],
            cluster=self.about["cluster"], schedule=schedule, seed=seed, check=check,
        )  # fmt: skip
        wanted = numbers(kinds[2], bits(kinds[2], a @ b.T))
        return bool(np.array_equal(numbers(kinds[2], arrays[2]), wanted)), run

    def _argument(self, given: Any, arrays: list[Array]) -> Any:
        if "box" in given:
            array = arrays[given["array"]]
            more = {key: given[key] for key in ("data_type", "dims", "strides", "swizzle")}
            return TensorMap(array.view(np.uint8).reshape(-1), given["box"], **more)
        if "array" in given:
            return arrays[given["array"]]
        if "scratch" in given:
            return np.zeros(given["scratch"], np.uint8)
        return bytes(given["zeros"]) if "zeros" in given else given["number"]
