"""NumPy arrays in the device memory of this process, for packages that launch kernels on arrays.

    a = array(numpy_array)         # a copy, on the device
    c = empty((128, 128), np.float32)

A `DeviceArray` is a NumPy array in every respect. Beyond that it says what such packages ask of an
array on a GPU: `data_ptr()` and `stride()` as PyTorch has them, `__dlpack__` with a CUDA device,
`__cuda_array_interface__`.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from phasebit.runtime import in_process

CUDA = 2
"""DLPack's number for memory of a CUDA device (`kDLCUDA`)."""

# How DLPack begins: struct DLTensor { void *data; DLDevice { int32 type, id } device; … }
_TYPE_AT = ctypes.sizeof(ctypes.c_void_p)
_IN_VERSIONED = 32  # DLManagedTensorVersioned: version, manager_ctx, deleter, flags


class DeviceArray(np.ndarray[Any, np.dtype[Any]]):
    """A NumPy array that lies in device memory."""

    is_cuda = True

    def data_ptr(self) -> int:
        """The address of the first element, the same for the host and for kernels."""
        return int(self.ctypes.data)

    def stride(self, dim: int | None = None) -> Any:
        """Elements between neighbours along one dimension, or a tuple for all."""
        steps = tuple(step // self.itemsize for step in self.strides)
        return steps if dim is None else steps[dim]

    def is_contiguous(self) -> bool:
        """Whether rows lie one after another."""
        return bool(self.flags.c_contiguous)

    def numel(self) -> int:
        """How many elements there are."""
        return int(self.size)

    def element_size(self) -> int:
        """Bytes of an element."""
        return int(self.itemsize)

    def dim(self) -> int:
        """How many dimensions there are."""
        return int(self.ndim)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return dict(self.__array_interface__)

    def __dlpack_device__(self) -> Any:
        return (CUDA, 0)

    def __dlpack__(self, **asked: Any) -> Any:
        """A capsule of DLPack whose device is CUDA's number 0; `asked` may say `stream`."""
        version = asked.get("max_version")
        capsule = np.asarray(self).__dlpack__(**({"max_version": version} if version else {}))
        name_device(capsule)
        return capsule


def name_device(capsule: Any) -> None:
    """Say CUDA's device 0 in a capsule of DLPack that nobody has taken yet."""
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    name = api.PyCapsule_GetName(ctypes.py_object(capsule))
    at = api.PyCapsule_GetPointer(ctypes.py_object(capsule), name)
    offset = _TYPE_AT + (_IN_VERSIONED if name == b"dltensor_versioned" else 0)
    (ctypes.c_int32 * 2).from_address(at + offset)[:] = [CUDA, 0]


def empty(shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> DeviceArray:
    """A new array on the device, row by row, of zeros."""
    kind = np.dtype(dtype)
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    count = int(np.prod(extents, dtype=np.int64))
    memory = in_process.allocate(count * kind.itemsize, f"array {list(extents)} of {kind}")
    made = np.frombuffer(memoryview(memory).cast("B"), kind, count)
    return made.reshape(extents).view(DeviceArray)


def array(values: npt.ArrayLike) -> DeviceArray:
    """A copy of an array on the device, row by row."""
    given = np.asarray(values)
    made = empty(given.shape, given.dtype)
    made[...] = given
    return made
