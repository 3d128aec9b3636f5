"""Launches of *The same in CuTe DSL* to compare with a GPU's, bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from phasebit.chapters.cute_dsl import cute_ptx, ptx_runs
from phasebit.launching.two_devices import Case

SHAPES = (256, 256, 64), (300, 260, 200)
"""A whole tile or two, and several ragged ones."""


def cases() -> list[Case]:
    """Both products on random numbers, whose sums are rounded, by the PTX of the record."""
    gemm, scaled = (cute_ptx.kept(cute_ptx.source(cute_ptx.file_of(entry)), entry)
                    for entry in ("matmul", "scaled"))  # fmt: skip
    return [
        *(Case("gemm.py, {} × {} × {}".format(*shape), gemm, cute_ptx.TARGET, 2.0,
               _product(gemm, shape)) for shape in SHAPES),
        Case("scaled.py, 256 × 256 × 1280", scaled, cute_ptx.TARGET, 3.0, _scaled(scaled)),
    ]  # fmt: skip


def _product(ptx: str, shape: tuple[int, int, int]) -> Callable[[str], Mapping[str, Any]]:
    def launch(device: str) -> Mapping[str, Any]:
        import numpy as np

        draw, (m, n, k) = np.random.default_rng(26), shape
        a, b = draw.standard_normal((m, k)), draw.standard_normal((n, k))
        made = ptx_runs.product(ptx, a, b, workers=1)
        made.run(device=device)
        return {"C": made.c}

    return launch


def _scaled(ptx: str) -> Callable[[str], Mapping[str, Any]]:
    def launch(device: str) -> Mapping[str, Any]:
        import numpy as np

        draw = np.random.default_rng(27)
        operands = [
            (draw.integers(0, 256, (256, 640), np.uint8),  # e2m1, any code is a number
             draw.integers(0x20, 0x50, (40, 512), np.uint8))  # ue4m3: 1/8 to 15
            for _ in range(2)
        ]  # fmt: skip
        return {"C": ptx_runs.scaled(ptx, operands, device=device)[1]}

    return launch
