"""Launch a kernel of a module on this machine's GPU, through CuPy.

The driver takes the same PTX that the emulator reads and the same bytes of parameters; only the
addresses in them differ.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from phasebit.devices import DeviceError
from phasebit.emulator.launch import Kernel

# CUDA Driver API, cuLaunchKernel and CUfunction_attribute
_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 0
_MOST_DYNAMIC_SHARED = 8

_LOADED: dict[str, Any] = {}
"""PTX -> CuPy's module of it."""


class Run:
    """What a launch on a GPU did: how long it took, by the GPU's clock."""

    device = "gpu"

    def __init__(self, milliseconds: float) -> None:
        self.milliseconds = milliseconds

    def __repr__(self) -> str:
        return "<Run on the gpu>"  # no time: a cell that shows it prints the same everywhere

    @property
    def counters(self) -> NoReturn:
        """A GPU counts only for a profiler."""
        self._ask_the_emulator("counters")

    @property
    def hazards(self) -> NoReturn:
        """A GPU checks nothing."""
        self._ask_the_emulator("hazards")

    @property
    def timeline(self) -> NoReturn:
        """A GPU keeps no record of its warps."""
        self._ask_the_emulator("timeline")

    def _ask_the_emulator(self, what: str) -> NoReturn:
        raise DeviceError(f"a run on the GPU has no {what}: launch with device='emulator'")


def launch(
    kernel: Kernel,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    args: Sequence[Any],
    shared: int,
) -> Run:
    """Run the kernel on the current CUDA device and wait for its end.

    NumPy arrays are copied to the GPU and back; CuPy arrays are used where they are. Raises
    :class:`DeviceError` without CuPy and for a launch that fails.
    """
    try:
        cupy: Any = importlib.import_module("cupy")
    except ImportError:
        raise DeviceError(
            "a launch on the GPU from Python needs CuPy, which is not installed: "
            "pip install cupy-cuda13x, or launch with device='emulator'"
        ) from None
    copies: dict[tuple[int, int], tuple[Any, Any]] = {}
    values = []
    for number, arg in enumerate(args):
        if isinstance(arg, np.ndarray | cupy.ndarray) and not arg.flags.c_contiguous:
            raise DeviceError(f"argument {number} of {kernel.name} is not contiguous: pass a copy")
        if isinstance(arg, np.ndarray):
            place = (arg.__array_interface__["data"][0], arg.nbytes)
            copies.setdefault(place, (arg, cupy.asarray(arg)))
            arg = copies[place][1]
        values.append(arg.data.ptr if isinstance(arg, cupy.ndarray) else arg)
    data = kernel.parameter_bytes(values)
    try:
        milliseconds = _start(cupy, kernel, grid, block, data, shared)
    except (cupy.cuda.driver.CUDADriverError, cupy.cuda.runtime.CUDARuntimeError) as error:
        raise DeviceError(f"{kernel.name} failed on the GPU: {error}") from error
    for array, copy in copies.values():
        if array.flags.writeable:
            array[...] = copy.get()
    return Run(milliseconds)


def _start(
    cupy: Any,
    kernel: Kernel,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    data: bytes,
    shared: int,
) -> float:
    ptx = kernel.module.ptx
    if ptx not in _LOADED:
        _LOADED[ptx] = cupy.cuda.function.Module()
        _LOADED[ptx].load(ptx.encode() + b"\0")
    function = _LOADED[ptx].get_function(kernel.function.name)
    driver = cupy.cuda.driver
    if shared:
        driver.funcSetAttribute(function.ptr, _MOST_DYNAMIC_SHARED, shared)
    buffer = ctypes.create_string_buffer(data, max(len(data), 1))
    size = ctypes.c_size_t(len(data))
    extra = (ctypes.c_void_p * 5)(
        _BUFFER_POINTER, ctypes.addressof(buffer), _BUFFER_SIZE, ctypes.addressof(size), _END
    )
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    begin.record()
    stream = cupy.cuda.get_current_stream().ptr
    driver.launchKernel(function.ptr, *grid, *block, shared, stream, 0, ctypes.addressof(extra))
    end.record()
    end.synchronize()
    return float(cupy.cuda.get_elapsed_time(begin, end))
