"""PyTorch's `cuda` without a GPU: tensors of the CPU, in the device memory of this process.

    with emulated(90):
        x = torch.randn(64, device="cuda")     # x.is_cuda, x.device is cuda:0
        y = (x @ x).cpu()

`pip install torch`; a build for the CPU is enough. Arithmetic is the CPU's. What a call of
PyTorch's makes of such tensors is one of them and lies in device memory, so that kernels see it at
`data_ptr()`; only what takes part in automatic differentiation stays where it was made, and is
copied for each launch (`borrowed`). Streams and events are there and order nothing, since every
launch ends before the next call. Where PyTorch is installed it is imported here, since it has to
come after the stand-ins for CUDA's libraries; without it nothing happens.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from phasebit.doors import cuda_streams, scaled_products
from phasebit.doors.patched import patched
from phasebit.emulator.capabilities import MULTIPROCESSORS, USUAL_SHARED, WARP, limits
from phasebit.runtime import in_process


@contextmanager
def emulated(capability: int) -> Iterator[None]:
    """Within the block `cuda` is this process's device, of `capability` (90 for sm_90)."""
    if importlib.util.find_spec("torch") is None:
        yield
        return
    import torch

    with ExitStack() as stack:
        for name, value in _module(capability).items():
            stack.enter_context(patched(torch.cuda, name, value))
        for owner, name, value in (
            (torch.utils.dlpack, "to_dlpack", _capsule(torch.utils.dlpack.to_dlpack)),
            (torch._C, "_cuda_getCurrentRawStream", lambda *_: cuda_streams.current().cuda_stream),
            (torch.profiler.profile, "__init__", _of_the_host(torch.profiler.profile.__init__)),
        ):
            stack.enter_context(patched(owner, name, value))
        stack.enter_context(_factories()())
        yield


def _of_the_host(init: Any) -> Any:
    """PyTorch's profiler, which a build for the CPU cannot let look at a GPU."""

    def wrapped(self: Any, *, activities: Any = None, **more: Any) -> None:
        from torch.profiler import ProfilerActivity

        init(self, activities=[ProfilerActivity.CPU], **more)

    return wrapped


def _capsule(to_dlpack: Any) -> Any:
    """PyTorch's way to a capsule of DLPack, for tensors of `cuda` that of their own."""

    def wrapped(tensor: Any) -> Any:
        return tensor.__dlpack__() if isinstance(tensor, tensor_type()) else to_dlpack(tensor)

    return wrapped


def _is_cuda(device: Any) -> bool:
    import torch

    if isinstance(device, str):
        return device.startswith("cuda")
    if isinstance(device, torch.device):
        return bool(device.type == "cuda")
    return isinstance(device, int) and not isinstance(device, bool)


@cache
def tensor_type() -> Any:
    """The class of the tensors: made when PyTorch is there."""
    import torch

    def refused(owner: Any) -> Any:
        raise AttributeError("__dlpack_c_exchange_api__")

    class WithoutExchange(type(torch.Tensor)):  # type: ignore[misc]
        """C code asks the class, or the tensor, for an exchange that takes a tensor for what it is,
        the CPU's; without it, it asks the tensor for `__dlpack__`."""

        def __getattribute__(cls, name: str) -> Any:
            if name == "__dlpack_c_exchange_api__":
                refused(cls)
            return super().__getattribute__(name)

    class CudaTensor(torch.Tensor, metaclass=WithoutExchange):
        """A tensor that says it is on the GPU, and lies in device memory."""

        __dlpack_c_exchange_api__ = property(refused)
        is_cuda = property(lambda self: True)
        device = property(lambda self: torch.device("cuda", 0))

        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            more = dict(kwargs or {})
            if func is torch._scaled_mm and scaled_products.are_blocks(*args, **more):
                with torch._C.DisableTorchFunction():
                    return placed(scaled_products.product(*args, **more))
            leaves = func in _LEAVING or _goes_to_cpu(func, args, more)
            args = tuple("cpu" if _names_cuda(arg) else arg for arg in args)
            if _is_cuda(more.get("device")):
                more["device"] = "cpu"
            made = super().__torch_function__(func, types, args, more)
            if leaves:
                return made.as_subclass(torch.Tensor) if isinstance(made, torch.Tensor) else made
            return _each(made, lambda one: placed(one) if type(one) is CudaTensor else one)

        def get_device(self) -> int:
            """The number of the device."""
            return 0

        def cuda(self, *_: Any, **__: Any) -> Any:
            """Itself."""
            return self

        def cpu(self, *_: Any, **__: Any) -> Any:
            """A copy in memory of the host."""
            with torch._C.DisableTorchFunction():
                return self.clone().as_subclass(torch.Tensor)

        def record_stream(self, stream: Any) -> None:
            """Nothing: every launch has ended."""

        def __dlpack_device__(self) -> Any:
            return (2, 0)  # kDLCUDA

        def __dlpack__(self, **asked: Any) -> Any:
            from phasebit.doors.device_arrays import name_device

            asked.pop("stream", None)
            with torch._C.DisableTorchFunction():
                capsule = self.detach().as_subclass(torch.Tensor).__dlpack__(**asked)
            name_device(capsule)
            return capsule

        @property
        def __cuda_array_interface__(self) -> Any:
            with torch._C.DisableTorchFunction():
                return self.detach().as_subclass(torch.Tensor).numpy().__array_interface__

    _LEAVING = {torch.Tensor.numpy, torch.Tensor.tolist, torch.Tensor.item}
    return CudaTensor


def _names_cuda(arg: Any) -> bool:
    import torch

    return isinstance(arg, str | torch.device) and _is_cuda(arg)


def _goes_to_cpu(func: Any, args: Any, more: Any) -> bool:
    import torch

    if func is not torch.Tensor.to:
        return False
    named = [*args[1:], more.get("device")]
    return any(str(one) == "cpu" for one in named if isinstance(one, str | torch.device))


def _each(made: Any, change: Any) -> Any:
    import torch

    if isinstance(made, torch.Tensor):
        return change(made)
    if type(made) in (list, tuple):
        return type(made)(_each(one, change) for one in made)
    return made


def placed(tensor: Any) -> Any:
    """A tensor as one of `cuda`: itself where it lies in device memory, else a copy there."""
    import torch

    kind = tensor_type()
    with torch._C.DisableTorchFunction():
        storage = tensor.untyped_storage()
        here = not storage.nbytes() or in_process.holds(storage.data_ptr())
        if here or tensor.grad_fn is not None:
            return tensor.as_subclass(kind)
        plain = tensor.detach().as_subclass(torch.Tensor)
        name = f"tensor {list(plain.shape)} of {str(plain.dtype).removeprefix('torch.')}"
        memory = in_process.allocate(storage.nbytes(), name)
        ctypes.memmove(memory, storage.data_ptr(), storage.nbytes())
        flat = torch.frombuffer(memory, dtype=torch.uint8)
        moved = torch.empty(0, dtype=plain.dtype)
        offset, shape, steps = plain.storage_offset(), plain.shape, plain.stride()
        moved.set_(flat.untyped_storage(), offset, shape, steps)
        return moved.as_subclass(kind).requires_grad_(tensor.requires_grad)


def view(memory: Any, like: Any) -> Any:
    """A tensor of `cuda` in a NumPy array of bytes, with another's type, extents and strides."""
    import torch

    with torch._C.DisableTorchFunction():
        made = torch.empty(0, dtype=like.dtype)
        storage = torch.from_numpy(memory.view(np.ndarray)).untyped_storage()
        made.set_(storage, like.storage_offset(), like.shape, like.stride())
        return made.as_subclass(tensor_type())


@cache
def _factories() -> Any:
    """The mode in which calls that name the device `cuda` make tensors of it."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Factories(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            more = dict(kwargs or {})
            if func is torch.Tensor.cuda:
                return placed(args[0])
            moved = func is torch.Tensor.to and any(_names_cuda(arg) for arg in args[1:])
            if not moved and not _is_cuda(more.get("device")):
                return func(*args, **more)
            if "device" in more:
                more["device"] = "cpu"
            more.pop("pin_memory", None)
            args = tuple("cpu" if _names_cuda(arg) else arg for arg in args)
            made = func(*args, **more)
            return _each(made, placed)

    return Factories


def _module(capability: int) -> dict[str, Any]:
    """What `torch.cuda` says."""
    own = limits(capability)
    memory = in_process.process().memory.total
    about = SimpleNamespace(
        name=f"phasebit emulator (sm_{capability})", major=capability // 10,
        minor=capability % 10, total_memory=memory, multi_processor_count=MULTIPROCESSORS,
        warp_size=WARP, max_threads_per_multi_processor=own.threads,
        shared_memory_per_block=USUAL_SHARED,
        shared_memory_per_block_optin=own.block_shared,
        shared_memory_per_multiprocessor=own.shared, regs_per_multiprocessor=own.registers,
        L2_cache_size=4 << 20,
    )  # fmt: skip

    def nothing() -> Any:  # a function of its own for each name: PyTorch keeps a table by function
        return lambda *_, **__: None

    return {
        "is_available": lambda: True, "is_initialized": lambda: True, "init": nothing(),
        "_lazy_init": nothing(), "device_count": lambda: 1, "current_device": lambda: 0,
        "set_device": nothing(), "synchronize": nothing(), "empty_cache": nothing(),
        "get_device_capability": lambda *_: (capability // 10, capability % 10),
        "get_device_name": lambda *_: about.name, "get_device_properties": lambda *_: about,
        "device": lambda *_: nullcontext(),
        "memory_allocated": lambda *_: 0, "max_memory_allocated": lambda *_: 0,
        "reset_peak_memory_stats": nothing(), "mem_get_info": lambda *_: (memory, memory),
        "manual_seed": nothing(), "manual_seed_all": nothing(), **cuda_streams.names(),
    }  # fmt: skip
