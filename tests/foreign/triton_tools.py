# mypy: ignore-errors
"""From a kernel in Triton to a launch in the emulator; Triton compiles without a GPU.

A launch goes through `phasebit.triton`, so Triton's own host code makes it.
"""

from __future__ import annotations

import re

import numpy as np
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as GluonDescriptor
from triton.tools.tensor_descriptor import TensorDescriptor

import phasebit.triton
from phasebit.doors import device_arrays
from phasebit.emulator import TensorMap
from phasebit.launching.launch import Module

SWIZZLES = ("none", "32B", "64B", "128B")
TYPES = {"fp16": tl.float16, "bf16": tl.bfloat16, "fp32": tl.float32, "fp8e4nv": tl.float8e4nv,
         "fp8e5": tl.float8e5, "i8": tl.int8, "u8": tl.uint8, "i32": tl.int32}  # fmt: skip


class Typed:
    """An array on the device whose elements are of one of Triton's types."""

    def __init__(self, array, kind):
        self.array, self.dtype = array, TYPES[kind]
        self.shape, self.data_ptr, self.stride = array.shape, array.data_ptr, array.stride


def hashable(value):
    """A constant as Triton's own launch takes it."""
    return tuple(map(hashable, value)) if isinstance(value, list) else value


def argument(array, kind):
    """What a signature's `kind` asks for: a pointer, or a descriptor of boxes."""
    if kind.startswith("*"):
        return Typed(array, kind[1:])
    kind, sizes, layout = re.fullmatch(r"tensordesc<(\w+)\[([\d,]+)\],?(.*)>", kind).groups()
    given = [Typed(array, kind), [*array.shape], [*array.stride()], [*map(int, sizes.split(","))]]
    if layout:
        return GluonDescriptor(*given, eval(layout, vars(gl)))
    return TensorDescriptor(*given)


class Built:
    """A kernel in Triton or Gluon for one target (90 or 100), as Triton compiles it."""

    def __init__(self, function, types, constants, capability, *, warps=4, stages=3, blocks=1):
        self.function, self.types, self.constants = function, types, constants
        self.target = f"sm_{capability}a"
        self.options = {"num_warps": warps, "num_stages": stages, "num_ctas": blocks}
        signature = types | dict.fromkeys(constants, "constexpr")
        whole = {(i,): [["tt.divisibility", 16]] for i, t in enumerate(types.values())
                 if not t.startswith("tensordesc")}  # fmt: skip
        made_of = GluonASTSource if function.is_gluon() else triton.compiler.ASTSource
        source = made_of(function, signature=signature, constexprs=constants, attrs=whole)
        target = GPUTarget("cuda", capability, 32)
        made = triton.compile(source, target=target, options=self.options)
        self.about = made.metadata
        module = Module(made.asm["ptx"])
        self.kernel = module[module.kernels[0]]

    def launch(self, grid, args, how):
        """Arrays are boxes where the kernel wants a tensor map, else pointers."""
        with phasebit.triton.emulated(self.target, schedules=[how]) as runs:
            triton.set_allocator(lambda size, align, stream: device_arrays.empty(size, np.uint8))
            hosts = [arg.array if isinstance(arg, Tiled) else arg for arg in args]
            devices = [device_arrays.array(x) if isinstance(x, np.ndarray) else x for x in hosts]
            given = {name: argument(x, kind) if isinstance(x, np.ndarray) else x
                     for x, (name, kind) in zip(devices, self.types.items(), strict=True)}
            fixed = {name: hashable(value) for name, value in self.constants.items()}
            self.function[grid](**given, **fixed, **self.options)
        assert len(runs.launches) == 1 and runs.findings == [], str(runs)
        for host, device in zip(hosts, devices, strict=True):
            if isinstance(host, np.ndarray):
                host[...] = device

    def launch_here(self, grid, args, how):
        """The same without Triton's host code, for who keeps the arguments (`saved/make.py`)."""
        given, maps = [], list(self.about.tensordesc_meta or [])
        for arg in args:
            if isinstance(arg, Tiled):
                about = maps.pop(0)
                box = TensorMap(arg.array, box=about["block_size"][::-1],
                                swizzle=SWIZZLES[about["swizzle"]])  # fmt: skip
                given += [box, *arg.array.shape, arg.array.shape[1], 1]
            else:
                given.append(arg)
        scratch = np.zeros(self.about.global_scratch_size * int(np.prod(grid)) + 256, np.uint8)
        given += [scratch, 0][: len(self.kernel.function.parameters) - len(given)]
        blocks = self.about.num_ctas
        threads = int(np.prod(self.kernel.function.directives["reqntid"]))
        run = self.kernel.launch(
            (grid[0] * blocks, *grid[1:]), threads, given, shared=self.about.shared,
            schedule=how[0], seed=how[1], cluster=(blocks, 1, 1) if blocks > 1 else None,
        )  # fmt: skip
        assert run.findings == [], [str(h) for h in run.findings[:2]]


class Tiled:
    """An array that a kernel gets as a tensor descriptor."""

    def __init__(self, array):
        self.array = array
