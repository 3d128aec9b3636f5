"""The arguments of a launch as the bytes of a kernel's parameters.

Where arrays go is for a :class:`DeviceArrays` to say: into the emulator's memory, or into a GPU's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from phasebit.emulator.api.placed import Placed
from phasebit.emulator.copy_engine.tensormap import SIZE as MAP_SIZE
from phasebit.emulator.copy_engine.tensormap import Descriptor, TensorMap
from phasebit.emulator.errors import LaunchError
from phasebit.emulator.machine.device_memory import Allocation, Memory
from phasebit.emulator.ptx.mangling import parameter_types
from phasebit.emulator.ptx.placement import Layout
from phasebit.emulator.ptx.syntax import Function, Variable


class DeviceArrays(Protocol):
    """The arrays of a launch, in the memory of a device."""

    def place(self, array: Any, name: str) -> int:
        """Bring a NumPy array there, and give its address."""

    def adopt(self, array: Any, what: str) -> int:
        """The address of an array that lies on a GPU already; ``what`` names the argument."""

    def tensor_map(self, made: Descriptor) -> bytes:
        """The 128 bytes of a tensor map."""

    def give_back(self) -> list[str]:
        """See :class:`DeviceArrays`."""


class EmulatedArrays:
    """The arrays of a launch, in the emulator's memory."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.placed: list[tuple[Any, Allocation]] = []

    def place(self, array: Any, name: str) -> int:
        """See :class:`DeviceArrays`."""
        allocation = self.memory.allocate(array.nbytes, name)
        self.memory.bytes(allocation)[:] = np.frombuffer(array.tobytes(), np.uint8)
        self.placed.append((array, allocation))
        return allocation.address

    def adopt(self, array: Any, what: str) -> int:
        """Refused: the emulator's memory is elsewhere."""
        raise LaunchError(
            f"{what} lies on a GPU, where the emulator cannot look: launch with "
            "device='gpu', or pass a NumPy array (cupy.asnumpy)"
        )

    def tensor_map(self, made: Descriptor) -> bytes:
        """See :class:`DeviceArrays`."""
        return made.encode()

    def give_back(self) -> list[str]:
        """See :class:`DeviceArrays`."""
        spoilt = []
        for array, allocation in self.placed:
            there = self.memory.bytes(allocation)
            if not array.nbytes:
                pass
            elif array.flags.writeable:
                array.reshape(-1).view(np.uint8)[:] = there
            elif array.tobytes() != there.tobytes():
                spoilt.append(allocation.name)
            self.memory.free(allocation)
        self.placed.clear()
        return spoilt


def refuse_written(names: Sequence[str]) -> None:
    """Raise :class:`LaunchError` where a kernel wrote an array that its owner made read-only."""
    if names:
        raise LaunchError(
            f"the kernel wrote {names[0]}, an array that is read-only, so what it wrote is lost: "
            "pass array.copy(), or make it writeable (array.setflags(write=True))"
        )


def marshal(
    name: str, function: Function, layout: Layout, args: Sequence[Any], arrays: DeviceArrays
) -> bytes:
    """The bytes of all parameters of the kernel ``name``; arrays are brought to the device.

    Raises :class:`LaunchError` for an argument that is none of its parameter's type.
    """
    wanted = function.parameters
    if len(args) != len(wanted):
        raise LaunchError(f"{name} takes {len(wanted)} arguments, not {len(args)}")
    data = bytearray(layout.parameter_size)
    known = Placed(args, arrays.place)
    declared = parameter_types(function.name)
    for i, (arg, parameter) in enumerate(zip(args, wanted, strict=True)):
        if isinstance(arg, np.ndarray):
            alike = len(declared) == len(wanted)
            check_elements(arg.dtype, declared[i] if alike else "", f"argument {i} of {name}")
        raw = _argument(arg, parameter, i, f"argument {i} of {name}", arrays, known)
        offset = layout.parameters[parameter.name]
        data[offset : offset + len(raw)] = raw
    return bytes(data)


_POINTER = re.compile(r"([a-z ]+?)(?: const)?\*(?: const)?")
_ELEMENTS = {
    "float": "f4", "double": "f8", "bool": "b1", "signed char": "i1", "short": "i2",
    "unsigned short": "u2", "int": "i4", "unsigned int": "u4", "long": "i8", "unsigned long": "u8",
    "long long": "i8", "unsigned long long": "u8",
}  # fmt: skip
"""What C++ calls a number -> NumPy's kind and size."""


def check_elements(given: np.dtype[Any], declared: str, what: str) -> None:
    """Raise :class:`LaunchError` where an array's numbers are not those of the parameter.

    ``declared``: the parameter's type in C++, such as ``float const*``; empty where it is not
    known.  Unsigned numbers of the same size stand for bits, bytes for anything, on either side; of
    types that are no numbers of C++ nothing is said.
    """
    if given.hasobject:
        raise LaunchError(f"{what} is an array of Python objects; use a numeric dtype")
    if given.kind not in "biufcV":
        raise LaunchError(f"{what} is an array of {given}, which a kernel cannot read; use numbers")
    if not given.isnative:
        raise LaunchError(
            f"{what} is an array of {given.str}, whose bytes are in the other order; pass "
            "array.astype(array.dtype.newbyteorder('='))"
        )
    match = _POINTER.fullmatch(declared)
    wanted = _ELEMENTS.get(match[1]) if match else None
    if wanted is None or given.kind == "V" or given.str[1:] == "u1":
        return
    kind, size = wanted[0], int(wanted[1])
    number = given.itemsize // 2 if given.kind == "c" else given.itemsize
    alike = {"c": "f", "u": "i", "b": "i"}
    same = alike.get(given.kind, given.kind) == alike.get(kind, kind)
    if number != size or not (same or given.kind == "u"):
        raise LaunchError(
            f"{what} is {declared}, but an array of {given} was given; pass "
            f"array.astype(np.{np.dtype(wanted)})"
        )


def _argument(
    arg: Any, parameter: Variable, number: int, what: str, arrays: DeviceArrays,
    known: Placed,
) -> bytes:  # fmt: skip
    """One parameter's bytes; ``known``: where the launch's arrays lie."""
    size = parameter.size
    if isinstance(arg, TensorMap):
        return _tensor_map(arg, parameter, number, what, arrays, known)
    if isinstance(arg, np.ndarray):
        if size != 8:
            raise LaunchError(f"{what} is a number of {size} bytes, but an array was given")
        if not arg.flags.c_contiguous:
            raise LaunchError(f"{what} is not contiguous; pass np.ascontiguousarray(...)")
        own = np.asarray(arg)  # of a masked array, a matrix: what lies below
        return known.address(own, f"argument {number}").to_bytes(8, "little")
    if hasattr(arg, "__cuda_array_interface__"):
        address = arrays.adopt(arg, what)
        if size != 8:
            raise LaunchError(f"{what} is a number of {size} bytes, but an array was given")
        if not _contiguous(arg.__cuda_array_interface__):
            raise LaunchError(f"{what} is not contiguous; pass cupy.ascontiguousarray(...)")
        return address.to_bytes(8, "little")
    if isinstance(arg, bytes | bytearray | np.void):
        raw = bytes(arg) if not isinstance(arg, np.void) else arg.tobytes()
        if len(raw) != size:
            raise LaunchError(f"{what} has {size} bytes, but {len(raw)} were given")
        return raw
    if isinstance(arg, bool | int | float | np.generic):
        return _number(arg, parameter, what)
    raise LaunchError(
        f"{what}: a {type(arg).__name__} cannot be passed; give an array, a number or bytes"
    )


def _tensor_map(
    arg: TensorMap, parameter: Variable, number: int, what: str, arrays: DeviceArrays,
    known: Placed,
) -> bytes:  # fmt: skip
    """The 128 bytes of a tensor map, for the place that its array gets."""
    if parameter.size != MAP_SIZE:
        raise LaunchError(
            f"{what} has {parameter.size} bytes, but a tensor map "
            f"of {MAP_SIZE} was given: declare it const __grid_constant__ CUtensorMap"
        )
    address = arg.tensor
    if not isinstance(address, int):
        pointer = Variable(parameter.name, "param", "u64", 8, 8, parameter.line)
        raw = _argument(address, pointer, number, what, arrays, known)
        address = int.from_bytes(raw, "little")
    return arrays.tensor_map(arg.at(address))


def _contiguous(array: dict[str, Any]) -> bool:
    """Whether a ``__cuda_array_interface__`` describes rows without gaps, last axis fastest."""
    step = np.dtype(array["typestr"]).itemsize
    for extent, stride in zip(reversed(array["shape"]), reversed(array.get("strides") or ()),
                              strict=False):  # fmt: skip
        if extent > 1 and stride != step:
            return False
        step *= extent
    return True


def _number(arg: Any, parameter: Variable, what: str) -> bytes:
    """A scalar by the parameter's type; ``.b`` parameters take what fits their size."""
    size = parameter.size
    kind = parameter.type
    if isinstance(arg, np.generic):
        if arg.dtype.kind in "SUMmO" or (arg.dtype.kind == "c" and kind[0] in "usf"):
            raise LaunchError(f"{what}: a {arg.dtype} cannot be passed as a number")
        if arg.dtype.itemsize != size:
            raise LaunchError(
                f"{what} has {size} bytes, but a {arg.dtype} of {arg.dtype.itemsize} was given"
            )
        if kind in ("f32", "f64") and arg.dtype.kind != "f":
            raise LaunchError(f"{what} is a floating-point number, but a {arg.dtype} was given")
        if kind[0] in "us" and arg.dtype.kind == "f":
            raise LaunchError(f"{what} is an integer, but a {arg.dtype} was given")
        return bytes(arg.tobytes())
    if size not in (1, 2, 4, 8) or parameter.elements is not None:
        raise LaunchError(
            f"{what} is a struct of {size} bytes; pass bytes or a NumPy structured scalar"
        )
    if isinstance(arg, float) and kind not in ("f16", "f32", "f64") and (
        kind[0] != "b" or size == 1
    ):  # fmt: skip
        raise LaunchError(f"{what} is an integer, but {arg!r} was given")
    if isinstance(arg, float) or kind in ("f16", "f32", "f64"):
        try:
            with np.errstate(over="ignore"):  # it is infinite then, as in C++
                return bytes(np.dtype(f"f{size}").type(arg).tobytes())
        except OverflowError as error:
            raise LaunchError(f"{what} has {size} bytes: {error}") from error
    number = int(arg)
    if not -(1 << 8 * size - 1) <= number < 1 << 8 * size:
        raise LaunchError(f"{what} has {size} bytes; {number} does not fit")
    return (number & ((1 << 8 * size) - 1)).to_bytes(size, "little")
