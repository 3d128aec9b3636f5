"""The words that the two halves of the stand-in runtime exchange.

A CUDA program runs as its own process. The C library inside it (the *host half*) talks over a
socket pair to this Python process (the *device half*), which owns device memory and executes
kernels. A message is a header, some 64-bit words and some bytes; everything is little-endian.

    request   u32 op · u32 words · u64 bytes · the words · the bytes
    reply     u32 kind · i32 status · i32 fault · u32 bytes · the bytes

Only operations below `Op.CALLS` are answered. The others are *posted*: the program goes on at
once, as it does after a launch on a GPU, and what went wrong is told with the next reply, in
`fault`. That is why an illegal address shows up at the next synchronising call and not before.

`header()` prints this file's numbers as C, so that they are written down once.
"""

from __future__ import annotations

import struct
from enum import IntEnum

from phasebit.emulator import capabilities

REQUEST = struct.Struct("<IIQ")
REPLY = struct.Struct("<IiiI")

# The environment variable that tells a program who serves it: "socket,memory,words" (three
# file descriptors, the last for what the host half itself has to say).
ENVIRONMENT = "PHASEBIT_SERVER"

NOTE = "note: "
"""How a line of the host half begins that accuses nobody; the device half leaves it out."""

#: Offset, behind the last byte of device memory, of the count of finished launches.
CONTROL_BYTES = 4096

_FACTS = ("MAX_BLOCK_EXTENTS", "MAX_GRID", "PORTABLE_CLUSTER", "MAX_CLUSTER", "USUAL_SHARED",
          "USUAL_HEAP")  # fmt: skip
"""What a GPU has, of :mod:`phasebit.emulator.capabilities`, that the C half must know too."""


class Kind(IntEnum):
    """What a frame from the device half is."""

    REPLY = 0
    TEXT = 1  # what kernels printed; a reply follows


class Op(IntEnum):
    """What the host half can ask for."""

    # Answered.
    HELLO = 1
    SYMBOL = 2
    KERNEL = 3
    ALLOCATE = 4
    FREE = 5
    RANGE = 6
    COPY = 7
    FILL = 8
    SYNCHRONIZE = 9
    ELAPSED = 10
    PROPERTIES = 11
    ATTRIBUTE = 12
    OCCUPANCY = 13
    MEMORY_INFO = 14
    TENSOR_MAP = 15
    OPEN = 16
    QUERY = 17
    VALUE = 18
    CALLS = 64
    # Posted.
    MODULE = 65
    LAUNCH = 66
    RECORD = 67
    WAIT = 68
    STREAM = 69
    HOST_WROTE = 70
    UNLOAD = 71
    REFUSED = 72
    ASKED = 73
    PEER = 74


#: Devices that a program may have; each has two streams of its own, numbered first.
MOST_DEVICES = 8
#: Waits for all streams of a device: this minus the device's number.
DEVICE_STREAMS = 2**64 - 2


class Space(IntEnum):
    """Who may touch an allocation. Values below 16 travel in `Op.ALLOCATE`."""

    DEVICE = 0  # kernels only
    HOST = 1  # pinned host memory, mapped into the device
    MANAGED = 2  # both
    SYMBOL = 3  # a module's .global or .const variable: kernels only


class Copy(IntEnum):
    """`cudaMemcpyKind`."""

    HOST_TO_HOST = 0
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    DEVICE_TO_DEVICE = 3
    DEFAULT = 4


class Status(IntEnum):
    """The `cudaError` codes that the device half itself produces."""

    SUCCESS = 0
    INVALID_VALUE = 1
    MEMORY_ALLOCATION = 2
    INVALID_SYMBOL = 13
    INVALID_MEMCPY_DIRECTION = 21
    INVALID_DEVICE_FUNCTION = 98
    INVALID_KERNEL_IMAGE = 200
    NO_KERNEL_IMAGE = 209
    INVALID_PTX = 218
    INVALID_RESOURCE_HANDLE = 400
    ILLEGAL_ADDRESS = 700
    LAUNCH_OUT_OF_RESOURCES = 701
    LAUNCH_TIMEOUT = 702
    ASSERT = 710
    ILLEGAL_INSTRUCTION = 715
    MISALIGNED_ADDRESS = 716
    INVALID_ADDRESS_SPACE = 717
    LAUNCH_FAILURE = 719
    NOT_SUPPORTED = 801


def header() -> str:
    """The C text of `protocol.h`."""
    lines = ["/* Written from protocol.py by library.py. */", "#pragma once"]
    for name, group in (("op", Op), ("kind", Kind), ("space", Space)):
        lines.append(f"enum {name} {{")
        lines += [f"    {name.upper()}_{item.name} = {item.value}," for item in group]
        lines.append("};")
    lines.append(f'#define ENVIRONMENT "{ENVIRONMENT}"')
    lines.append(f'#define NOTE "{NOTE}"')
    lines.append(f"#define CONTROL_BYTES {CONTROL_BYTES}")
    lines.append(f"#define MOST_DEVICES {MOST_DEVICES}")
    lines.append(f"#define DEVICE_STREAMS {DEVICE_STREAMS}u")
    lines.append("enum {")
    for name in _FACTS:
        value = getattr(capabilities, name)
        each = zip("XYZ", value, strict=True) if isinstance(value, tuple) else [("", value)]
        lines += [f"    {'_'.join(filter(None, (name, axis)))} = {one}," for axis, one in each]
    lines.append("};")
    return "\n".join(lines) + "\n"
