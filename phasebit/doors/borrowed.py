"""Arrays and tensors of the host that kernels are to see: lent to the device, and brought back.

    loans = Loans()
    on_device = loans.lend(tensor)     # in device memory, of the same extents and strides
    with loans.current():
        ...                            # a launch: it sees what the host holds, and changes it

All of the memory that a tensor is a view of is lent, so views of one array stay views of one array.
"""

from __future__ import annotations

import ctypes
import dataclasses
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from phasebit.doors import cuda_tensors, device_arrays
from phasebit.emulator import LaunchError
from phasebit.runtime import in_process

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class Loans:
    """What of the host's memory lies on the device too."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[Any, Bytes, device_arrays.DeviceArray]] = {}

    def lend(self, value: Any) -> Any:
        """An array or a tensor as one in device memory. Anything else, and what lies there
        already, is returned as it is; of tuples and tensor descriptors, their parts are lent."""
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self.lend, value))
        if isinstance(value, tuple):
            return tuple(map(self.lend, value))
        if dataclasses.is_dataclass(value) and _is_tensor(getattr(value, "base", None)):
            base = self.lend(getattr(value, "base"))  # noqa: B009
            if base is getattr(value, "base"):  # noqa: B009
                return value
            same = object.__new__(type(value))
            for name, part in {**vars(value), "base": base}.items():
                object.__setattr__(same, name, part)
            return same
        if not _is_tensor(value) or in_process.holds(_address(value)):
            return value
        owner, whole = _memory_behind(value)
        start = whole.ctypes.data
        if start not in self._copies:
            self._copies[start] = owner, whole, device_arrays.array(whole)
        return _alike(value, self._copies[start][2], _address(value) - start)

    @contextmanager
    def current(self) -> Iterator[None]:
        """The device's copies hold what the host does, then the host what the device does.

        Raises LaunchError where a kernel has changed an array that may not be written.
        """
        for _, host, device in self._copies.values():
            device[...] = host
        yield
        for owner, host, device in self._copies.values():
            if np.array_equal(host, device):
                continue
            if isinstance(owner, np.ndarray) and not owner.flags.writeable:
                raise LaunchError(
                    f"a kernel changed an array of shape {owner.shape} that may not be written: "
                    "give it one that may"
                )
            host[...] = device


def _is_tensor(value: Any) -> bool:
    """Whether it has memory: a fake tensor of PyTorch's, of extents alone, has none."""
    torch, fake = sys.modules.get("torch"), sys.modules.get("torch._subclasses.fake_tensor")
    if fake is not None and isinstance(value, fake.FakeTensor):
        return False
    return isinstance(value, np.ndarray) or (torch is not None and isinstance(value, torch.Tensor))


def _address(value: Any) -> int:
    return int(value.ctypes.data if isinstance(value, np.ndarray) else value.data_ptr())


def _bytes(address: int, size: int) -> Bytes:
    memory = memoryview((ctypes.c_uint8 * size).from_address(address)).cast("B")
    return np.frombuffer(memory, np.uint8)


def _memory_behind(value: Any) -> tuple[Any, Bytes]:
    """Who owns the memory that a tensor is a view of, and its bytes."""
    if not isinstance(value, np.ndarray):
        storage = value.untyped_storage()
        return storage, _bytes(storage.data_ptr(), storage.nbytes())
    while isinstance(value.base, np.ndarray):
        value = value.base
    low, high = getattr(np.lib, "array_utils", np).byte_bounds(value)  # np.lib's since NumPy 2
    return value, _bytes(low, high - low)


def _alike(value: Any, copy: device_arrays.DeviceArray, offset: int) -> Any:
    """A view of the copy with a tensor's extents and strides."""
    if not isinstance(value, np.ndarray):
        return cuda_tensors.view(copy, value)
    made = np.ndarray(value.shape, value.dtype, copy, offset, value.strides)
    return made.view(device_arrays.DeviceArray)
