"""PTX of other compilers than nvcc: Triton's and CuTe DSL's, of small kernels of our own.

Each file in ``compiled/`` begins with its source and with who compiled it.  No GPU
and no compiler is needed here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phasebit.launching.launch import Module

COMPILED = Path(__file__).with_name("compiled")
SCHEDULES = ("eager", "late", "random")


def launch(name: str, grid: Any, block: int, args: list[Any], shared: int, schedule: str) -> None:
    """Run the file's only kernel; parameters that Triton adds for itself are null."""
    module = Module((COMPILED / f"{name}.ptx").read_text(encoding="utf-8"))
    (kernel,) = (module[name] for name in module.kernels)
    more = len(kernel.function.parameters) - len(args)
    run = kernel.launch(grid, block, [*args, *[0] * more], shared=shared, schedule=schedule)
    assert not run.findings, run.findings[0]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_triton_add(schedule: str) -> None:
    x, y = np.random.default_rng(1).random((2, 1000), np.float32)
    out = np.zeros(1024, np.float32)
    launch("triton_add", 4, 128, [x, y, out, 1000], 0, schedule)
    assert np.array_equal(out[:1000], x + y) and not out[1000:].any()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_triton_softmax(schedule: str) -> None:
    x = np.random.default_rng(2).normal(size=(8, 240)).astype(np.float32)
    out = np.zeros_like(x)
    launch("triton_softmax", 8, 128, [x, out, 240, 240], 16, schedule)
    powers = np.exp(x - x.max(1, keepdims=True).astype(np.float64))
    assert np.abs(out - powers / powers.sum(1, keepdims=True)).max() < 1e-6


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("k", [32, 64, 224])
def test_triton_matmul(k: int, schedule: str) -> None:
    """Copies in three stages, ``ldmatrix`` and ``mma``; whole numbers, so exact."""
    rng = np.random.default_rng(k)
    a = rng.integers(-4, 5, (128, k)).astype(np.float16)
    b = rng.integers(-4, 5, (k, 128)).astype(np.float16)
    c = np.full((128, 128), np.nan, np.float32)
    launch("triton_matmul", (2, 2), 128, [a, b, c, 128, 128, k], 16384, schedule)
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_cute_scale(schedule: str) -> None:
    x = np.arange(512, dtype=np.float32)
    out = np.zeros_like(x)
    launch("cute_scale", 4, 128, [x, out, np.float32(2)], 0, schedule)
    assert np.array_equal(out, 2 * x + 1)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_cute_reverse(schedule: str) -> None:
    x = np.arange(128, dtype=np.float32)
    out = np.zeros_like(x)
    launch("cute_reverse", 1, 128, [x, out], 512, schedule)
    assert np.array_equal(out, x[::-1])
