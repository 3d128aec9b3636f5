"""The CUDA driver through ctypes: memory, modules, launches and events, nothing to install.

The driver assembles the PTX that the emulator reads, so both run the same text.

Source: CUDA Driver API, chapters Module Management, Memory Management,
Execution Control and Event Management.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from phasebit.emulator.capabilities import USUAL_SHARED
from phasebit.toolchain import CudaError

_CLUSTER_DIMENSION, _COOPERATIVE, _MAX_DYNAMIC_SHARED = 4, 2, 8
_UNSUPPORTED_PTX_VERSION = 222
_JIT_ERROR_LOG, _JIT_ERROR_LOG_SIZE, _LOG_BYTES = 5, 6, 8192


class _Attribute(ctypes.Structure):
    """``CUlaunchAttribute``: a number, and a value of 64 bytes."""

    _fields_ = (
        ("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint * 16),
    )  # fmt: skip


class _Config(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )  # fmt: skip


class Driver:
    """The driver with the primary context of the first GPU.

    ``library`` is ``libcuda`` itself unless a test gives another. Raises :class:`CudaError` where
    there is no driver, and for whatever it refuses.
    """

    def __init__(self, library: Any = None) -> None:
        try:
            self.library = library or ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise CudaError("there is no NVIDIA driver: launch with device='emulator'") from error
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        name = ctypes.create_string_buffer(100)
        self.call("cuDeviceGetName", name, 100, device)
        self.name = name.value.decode()
        self.modules: dict[str, ctypes.c_void_p] = {}

    def call(self, name: str, *arguments: Any) -> None:
        """One call of the driver; anything but success is an error with the driver's words."""
        code = getattr(self.library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self.library.cuGetErrorString(code, ctypes.byref(text))
            said = (text.value or b"unknown error").decode()
            if code == _UNSUPPORTED_PTX_VERSION:
                said = (
                    "its driver is older than the nvcc that this PTX comes from: update the "
                    "driver, take an older nvcc, or launch with device='emulator'"
                )
            raise CudaError(f"{name} on {getattr(self, 'name', 'the GPU')}: {said} ({code})")

    def module(self, ptx: str) -> ctypes.c_void_p:
        """Load PTX, once; the driver assembles it for this GPU."""
        if ptx not in self.modules:
            log = ctypes.create_string_buffer(_LOG_BYTES)
            options = (ctypes.c_int * 2)(_JIT_ERROR_LOG, _JIT_ERROR_LOG_SIZE)
            values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
            handle = ctypes.c_void_p()
            try:
                self.call("cuModuleLoadDataEx", ctypes.byref(handle), ptx.encode() + b"\0", 2,
                          options, values)  # fmt: skip
            except CudaError as error:
                raise CudaError(f"{error} {log.value.decode(errors='replace')}".strip()) from error
            self.modules[ptx] = handle
        return self.modules[ptx]

    def load(self, image: bytes) -> ctypes.c_void_p:
        """Load a module that is forgotten again: machine code, or PTX that ends in a zero byte."""
        handle = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(handle), image)
        return handle

    def unload(self, handle: ctypes.c_void_p) -> None:
        """Forget a module."""
        self.call("cuModuleUnload", handle)

    def reserve(self, size: int) -> int:
        """Device memory of ``size`` bytes; its address."""
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(1, size)))
        return int(pointer.value)

    def free(self, address: int) -> None:
        """Give device memory back."""
        self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def clear(self, address: int, size: int) -> None:
        """Write zeros to ``size`` bytes of device memory."""
        self.call("cuMemsetD8_v2", ctypes.c_uint64(address), 0, ctypes.c_size_t(size))

    def write(self, address: int, array: Any) -> None:
        """Copy a NumPy array's bytes to device memory."""
        self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), ctypes.c_void_p(array.ctypes.data),
                  ctypes.c_size_t(array.nbytes))  # fmt: skip

    def read(self, address: int, array: Any) -> None:
        """Copy device memory into a NumPy array."""
        self.call("cuMemcpyDtoH_v2", ctypes.c_void_p(array.ctypes.data), ctypes.c_uint64(address),
                  ctypes.c_size_t(array.nbytes))  # fmt: skip

    def adopt(self, array: Any) -> int:
        """The address of an array that is on this GPU already (CuPy's, PyTorch's).

        Work that its owner has sent to a stream is waited for, as the CUDA Array Interface
        (version 3) asks.
        """
        described = array.__cuda_array_interface__
        stream = described.get("stream")
        if stream is not None:
            self.call("cuStreamSynchronize", ctypes.c_void_p(stream))
        return int(described["data"][0])

    def tensor_map(self, function: str, arguments: Sequence[tuple[str, Any]]) -> bytes:
        """The 128 bytes that a function of the driver makes, such as ``cuTensorMapEncodeTiled``.

        ``arguments``: each with the C type of a number, or of the items of a tuple.
        """
        types: dict[str, Any] = {
            "int": ctypes.c_int, "uint32": ctypes.c_uint32, "uint64": ctypes.c_uint64,
        }  # fmt: skip
        room = ctypes.create_string_buffer(256)
        start = -(-ctypes.addressof(room) // 128) * 128
        given = [
            (types[kind] * max(1, len(value)))(*value) if isinstance(value, tuple)
            else types[kind](value)
            for kind, value in arguments
        ]  # fmt: skip
        self.call(function, ctypes.c_void_p(start), *given)
        return ctypes.string_at(start, 128)

    def prepare(
        self, module: ctypes.c_void_p, kernel: str, grid: Sequence[int], block: Sequence[int],
        parameters: bytes, offsets: Sequence[int], *, cluster: Sequence[int] | None = None,
        cooperative: bool = False, shared: int = 0,
    ) -> Callable[[], None]:  # fmt: skip
        """A function that launches a kernel of a module once and does not wait for it.

        ``parameters`` are the bytes of all parameters, ``offsets`` where each begins;
        ``shared``: bytes of dynamic shared memory.
        """
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, kernel.encode())
        if shared > USUAL_SHARED:
            self.call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, shared)
        attributes = (_Attribute * 2)()
        count = 0
        if cluster is not None:
            attributes[0].id = _CLUSTER_DIMENSION
            attributes[0].value[0], attributes[0].value[1], attributes[0].value[2] = cluster
            count = 1
        if cooperative:
            attributes[count].id = _COOPERATIVE
            attributes[count].value[0] = 1
            count += 1
        three = ctypes.c_uint * 3
        config = _Config(three(*grid), three(*block), shared, None, attributes, count)
        buffer = ctypes.create_string_buffer(parameters, max(1, len(parameters)))
        start = ctypes.addressof(buffer)
        pointers = (ctypes.c_void_p * max(1, len(offsets)))(*[start + o for o in offsets])

        def launch() -> None:
            _ = buffer, attributes  # what config and pointers point to must live on
            self.call("cuLaunchKernelEx", ctypes.byref(config), function, pointers, None)

        return launch

    def events_around(
        self, launches: Iterable[Callable[[], None]], before: Callable[[], None] = lambda: None
    ) -> list[float]:
        """Launch, wait for the end, and give milliseconds between events around each launch.

        What ``before`` puts into the queue in front of each is not counted.
        """
        pairs = []
        for launch in launches:
            pair = ctypes.c_void_p(), ctypes.c_void_p()
            pairs.append(pair)
            for event in pair:
                self.call("cuEventCreate", ctypes.byref(event), 0)
            before()
            self.call("cuEventRecord", pair[0], None)
            launch()
            self.call("cuEventRecord", pair[1], None)
        times = []
        for first, last in pairs:
            self.call("cuEventSynchronize", last)
            milliseconds = ctypes.c_float()
            self.call("cuEventElapsedTime", ctypes.byref(milliseconds), first, last)
            times.append(float(milliseconds.value))
            for event in (first, last):
                self.call("cuEventDestroy_v2", event)
        return times


@functools.cache
def driver() -> Driver:
    """This machine's driver; opened once."""
    return Driver()
