"""Launch a kernel on an NVIDIA GPU: the CUDA driver through ctypes, nothing to install.

The driver assembles the PTX that the emulator reads, so both run the same text.

Source: CUDA Driver API, chapters Module Management, Memory Management,
Execution Control and Event Management.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from phasebit.toolchain import CudaError

_CLUSTER_DIMENSION, _COOPERATIVE, _MAX_DYNAMIC_SHARED = 4, 2, 8
_JIT_ERROR_LOG, _JIT_ERROR_LOG_SIZE, _LOG_BYTES = 5, 6, 8192
_FLUSH_BYTES = 256 << 20

# Each thread reads 16 times 16 bytes, a grid apart. The store never happens, since all is zero;
# the loads happen because of it.
_FLUSH = """
.version 6.4
.target sm_75
.address_size 64
.visible .entry flush(.param .u64 memory)
{
    .reg .pred %p;
    .reg .u32 %i, %n, %t, %a, %b, %c, %d, %sum;
    .reg .u64 %at, %start, %step;
    ld.param.u64 %start, [memory];
    mov.u32 %i, %ctaid.x;
    mov.u32 %n, %ntid.x;
    mov.u32 %t, %tid.x;
    mad.lo.u32 %i, %i, %n, %t;
    mul.wide.u32 %at, %i, 16;
    add.u64 %at, %at, %start;
    mov.u32 %t, %nctaid.x;
    mul.lo.u32 %n, %n, %t;
    mul.wide.u32 %step, %n, 16;
    mov.u32 %sum, 0;
    mov.u32 %i, 0;
again:
    ld.global.v4.u32 {%a, %b, %c, %d}, [%at];
    or.b32 %sum, %sum, %a;
    or.b32 %sum, %sum, %b;
    or.b32 %sum, %sum, %c;
    or.b32 %sum, %sum, %d;
    add.u64 %at, %at, %step;
    add.u32 %i, %i, 1;
    setp.lt.u32 %p, %i, 16;
    @%p bra again;
    setp.eq.u32 %p, %sum, 0;
    @%p ret;
    st.global.u32 [%start], %sum;
    ret;
}
"""


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


class Gpu:
    """The first GPU, with its primary context.  Raises :class:`CudaError` where there is none."""

    def __init__(self) -> None:
        try:
            self.driver = ctypes.CDLL("libcuda.so.1")
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
        self._flush: Callable[[], None] | None = None

    def call(self, name: str, *arguments: Any) -> None:
        """One call of the driver; anything but success is an error with the driver's words."""
        code = getattr(self.driver, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self.driver.cuGetErrorString(code, ctypes.byref(text))
            said = (text.value or b"unknown error").decode()
            raise CudaError(f"{name} on {getattr(self, 'name', 'the GPU')}: {said} ({code})")

    def module(self, ptx: str) -> ctypes.c_void_p:
        """Load PTX; the driver assembles it for this GPU."""
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

    def allocate(self, data: Any) -> int:
        """Copy an array's bytes to device memory; the address."""
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(1, data.nbytes)))
        if data.nbytes:
            self.call("cuMemcpyHtoD_v2", pointer, ctypes.c_void_p(data.ctypes.data),
                      ctypes.c_size_t(data.nbytes))  # fmt: skip
        return int(pointer.value)

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

    def take_back(self, address: int, data: Any) -> None:
        """Copy device memory into an array, and free it."""
        if data.nbytes and data.flags.writeable:
            self.call("cuMemcpyDtoH_v2", ctypes.c_void_p(data.ctypes.data),
                      ctypes.c_uint64(address), ctypes.c_size_t(data.nbytes))  # fmt: skip
        self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def prepare(
        self, ptx: str, kernel: str, grid: Sequence[int], block: Sequence[int],
        cluster: Sequence[int] | None, cooperative: bool, shared: int, parameters: bytes,
        offsets: Sequence[int],
    ) -> Callable[[], None]:  # fmt: skip
        """A function that launches a kernel once and does not wait for it.

        ``parameters`` are the bytes of all parameters, ``offsets`` where each begins.
        """
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), self.module(ptx), kernel.encode())
        if shared > 48 * 1024:
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

    def flusher(self) -> Callable[[], None]:
        """A function that launches a kernel which fills the caches with other data.

        It reads 256 MiB, more than any L2 cache holds. Writing them would leave work behind: what
        is in the cache and was changed must go to memory while the next kernel runs.
        """
        if self._flush is None:
            pointer = ctypes.c_uint64()
            self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(_FLUSH_BYTES))
            self.call("cuMemsetD8_v2", pointer, 0, ctypes.c_size_t(_FLUSH_BYTES))
            grid = (_FLUSH_BYTES // 16 // 256 // 16, 1, 1)
            parameters = pointer.value.to_bytes(8, "little")
            self._flush = self.prepare(
                _FLUSH, "flush", grid, (256, 1, 1), None, False, 0, parameters, [0]
            )
        return self._flush


@functools.cache
def gpu() -> Gpu:
    """This machine's GPU; opened once."""
    return Gpu()
