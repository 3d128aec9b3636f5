"""A stand-in for libcuda: memory is real, kernels are Python functions.

It checks what a driver would check: handles that it gave out, sizes that fit.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

Kernel = Callable[[np.ndarray, np.ndarray, int], None]
"""inputs, outputs, threads"""


class FakeDriver:
    """The calls that running a program makes."""

    def __init__(self, kernels: dict[str, Kernel], fail: str = "", code: int = 716) -> None:
        self.kernels = kernels
        self.fail, self.code = fail, code
        self.memory: dict[int, Any] = {}
        self.calls: list[str] = []
        self._functions: dict[int, Kernel] = {}

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.calls.append(name)
            if name == self.fail:
                return self.code
            known = getattr(type(self), "_" + name.removesuffix("_v2"), None)
            if known:
                known(self, *arguments)
            return 0

        return call

    def _cuGetErrorString(self, code: int, text: Any) -> None:
        text._obj.value = b"misaligned address"

    def _cuDeviceGetName(self, buffer: Any, size: int, device: Any) -> None:
        buffer.value = b"a fake"

    def _cuMemAlloc(self, pointer: Any, size: ctypes.c_size_t) -> None:
        block = ctypes.create_string_buffer(size.value)
        pointer._obj.value = ctypes.addressof(block)
        self.memory[ctypes.addressof(block)] = block

    def _cuMemFree(self, pointer: ctypes.c_uint64) -> None:
        del self.memory[pointer.value]

    def _cuMemcpyHtoD(self, target: ctypes.c_uint64, source: Any, size: ctypes.c_size_t) -> None:
        assert size.value <= len(self.memory[target.value])
        ctypes.memmove(target.value, source.value, size.value)

    def _cuMemcpyDtoH(self, target: Any, source: ctypes.c_uint64, size: ctypes.c_size_t) -> None:
        assert size.value <= len(self.memory[source.value])
        ctypes.memmove(target.value, source.value, size.value)

    def _cuModuleGetFunction(self, function: Any, module: Any, name: bytes) -> None:
        function._obj.value = len(self._functions) + 1
        self._functions[function._obj.value] = self.kernels[name.decode()]

    def _cuLaunchKernelEx(self, config: Any, function: Any, parameters: Any, extra: Any) -> None:
        pointers = [ctypes.c_uint64.from_address(p).value for p in parameters]
        arrays = [np.frombuffer(self.memory[p], np.uint64) for p in pointers]
        spread = config._obj
        self._functions[function.value](arrays[0], arrays[1], spread.grid[0] * spread.block[0])
