"""One launch call, two devices: the same kernels on a GPU give the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phasebit
from phasebit import machine
from phasebit.emulator.errors import LaunchError
from phasebit.emulator.launch import Module, compile

CUDA = Path(__file__).with_name("cuda")
RNG = np.random.default_rng(11)
A = RNG.integers(-1000, 1000, 256).astype(np.int32)
B = RNG.integers(-(1 << 62), 1 << 62, 256)
C = RNG.integers(-(1 << 15), 1 << 15, 256).astype(np.int16)
F = RNG.normal(0, 10, 256).astype(np.float32)
LINE = np.zeros((), [("slope", "f4"), ("pad", "i4"), ("offset", "f8"), ("power", "i4", 4)])
LINE["slope"], LINE["offset"], LINE["power"] = 0.5, 10.25, (1, 20, 300, 0)

LAUNCHES: dict[str, tuple[int, int, list[Any], int]] = {
    "integers": (2, 128, [A, B, C, np.zeros(256, np.int64)], 0),
    "by_value": (1, 64, [LINE[()], np.zeros(64, np.float32)], 0),
    "collatz": (4, 64, [abs(A) + 1, np.zeros(256, np.int32)], 0),
    "functions": (1, 96, [A, np.zeros(96, np.int32)], 0),
    "pointers": (1, 64, [A, np.zeros(64, np.int32)], 0),
    "warps": (1, 96, [A % 100, np.zeros(96, np.int32)], 0),
    "half_warps": (1, 64, [A % 100, np.zeros(64, np.int32)], 0),
    "reduce": (2, 128, [A.astype(np.float32), np.zeros(2, np.float32), 250], 512),
    "floats": (1, 128, [F, B * 1e-9, np.zeros(128, np.float32), np.zeros(128)], 0),
    "votes": (1, 128, [A % 100, np.zeros(128, np.int32)], 0),
    "groups": (1, 64, [A, np.zeros(64, np.int32)], 0),
}


def launch(module: Module, kernel: str, device: str) -> tuple[Any, list[Any]]:
    grid, block, args, shared = LAUNCHES[kernel]
    args = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    run = module[kernel].launch(grid, block, args, shared=shared, device=device)
    return run, [a for a in args if isinstance(a, np.ndarray)]


@pytest.mark.gpu
@pytest.mark.skipif(machine.gpu() is None, reason="no NVIDIA GPU")
@pytest.mark.parametrize("kernel", LAUNCHES)
def test_a_gpu_gives_the_same_bits(kernel: str) -> None:
    found = machine.gpu()
    assert found is not None
    module = compile(CUDA / "features.cu", found.target)
    run, theirs = launch(module, kernel, "gpu")
    assert run.device == found.name and run.milliseconds > 0
    _, ours = launch(module, kernel, "emulator")
    for a, b in zip(theirs, ours, strict=True):
        assert a.tobytes() == b.tobytes()


def test_auto_follows_the_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    head = ".version 9.0\n.target sm_90a\n.address_size 64\n"
    module = Module(f"{head}.visible .entry k() {{ ret; }}\n")
    monkeypatch.setattr(phasebit, "device", "emulator")
    assert module["k"].launch(device="auto").device == "emulator"
    monkeypatch.setattr(phasebit, "device", "moon")
    with pytest.raises(LaunchError, match="device 'moon'"):
        module["k"].launch(device="auto")
