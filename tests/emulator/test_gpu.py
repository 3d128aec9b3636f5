"""One launch call, two devices: the same kernels on a GPU give the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phasebit
from phasebit import hardware
from phasebit.emulator.errors import LaunchError
from phasebit.launching.devices import DeviceError
from phasebit.launching.launch import Module, compile
from phasebit.launching.on_gpu import GpuArrays

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
@pytest.mark.skipif(hardware.gpu() is None, reason="no NVIDIA GPU")
@pytest.mark.parametrize("kernel", LAUNCHES)
def test_a_gpu_gives_the_same_bits(kernel: str) -> None:
    found = hardware.gpu()
    assert found is not None
    module = compile(CUDA / "features.cu", found.target)
    run, theirs = launch(module, kernel, "gpu")
    assert run.device == found.name and run.milliseconds > 0
    _, ours = launch(module, kernel, "emulator")
    for a, b in zip(theirs, ours, strict=True):
        assert a.tobytes() == b.tobytes()


COPY = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry copy(.param .u64 from, .param .u64 to)
{
    .reg .b32 %r<3>; .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [from]; cvta.to.global.u64 %rd1, %rd1; mov.u32 %r1, %tid.x;
    ld.param.u64 %rd2, [to]; cvta.to.global.u64 %rd2, %rd2; mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;
    ld.global.u32 %r2, [%rd1]; add.u32 %r2, %r2, 1; st.global.u32 [%rd2], %r2; ret;
}
"""


class OnGpu:
    """What CuPy's and PyTorch's arrays say of themselves."""

    def __init__(self, strides: tuple[int, ...] | None = None) -> None:
        self.__cuda_array_interface__ = {
            "shape": (4, 8), "typestr": "<i4", "data": (4096, False), "version": 3,
            "strides": strides, "stream": 1,
        }  # fmt: skip


class FakeDriver:
    """Where arrays lie, as the driver says."""

    def __init__(self) -> None:
        self.adopted: list[Any] = []

    def adopt(self, array: Any) -> int:
        self.adopted.append(array)
        return int(array.__cuda_array_interface__["data"][0])


def test_the_emulator_cannot_look_into_a_gpu() -> None:
    message = r"argument 0 of copy lies on a GPU, .* launch with device='gpu', or pass a NumPy"
    with pytest.raises(LaunchError, match=message):
        Module(COPY)["copy"].launch(args=[OnGpu(), np.zeros(32, np.int32)])


@pytest.mark.parametrize("strides", [None, (32, 4), (64, 4), (4, 16)])
def test_an_array_on_a_gpu_is_passed_as_it_lies(strides: tuple[int, ...] | None) -> None:
    kernel, driver = Module(COPY)["copy"], FakeDriver()
    arrays, array = GpuArrays(driver), OnGpu(strides)
    if strides in (None, (32, 4)):
        assert kernel.marshal([array, 7], arrays)[:8] == (4096).to_bytes(8, "little")
        assert driver.adopted == [array] and not arrays.placed
    else:
        with pytest.raises(LaunchError, match="argument 0 of copy is not contiguous"):
            kernel.marshal([array, 7], arrays)


@pytest.mark.gpu
@pytest.mark.skipif(hardware.gpu() is None, reason="no NVIDIA GPU")
def test_cupy_arrays_on_the_gpu() -> None:
    cupy = pytest.importorskip("cupy")
    here, there = cupy.arange(32, dtype=np.int32), cupy.zeros(32, np.int32)
    back = np.zeros(32, np.int32)
    kernel = Module(COPY)["copy"]
    kernel.launch(1, 32, [here, there], device="gpu")
    kernel.launch(1, 32, [there, back], device="gpu")
    assert cupy.asnumpy(there).tolist() == list(range(1, 33))
    assert back.tolist() == list(range(2, 34))


def test_auto_follows_the_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    head = ".version 9.0\n.target sm_90a\n.address_size 64\n"
    module = Module(f"{head}.visible .entry k() {{ ret; }}\n")
    monkeypatch.setattr(phasebit, "device", "emulator")
    assert module["k"].launch(device="auto").device == "emulator"
    monkeypatch.setattr(phasebit, "device", "moon")
    with pytest.raises(DeviceError, match="device is 'moon'"):
        module["k"].launch(device="auto")
