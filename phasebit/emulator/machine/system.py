"""Functions that device code calls and the system provides: printf, assert, malloc and free.

Source: CUDA C++ Programming Guide, formatted output, assertion, dynamic global memory allocation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from phasebit.emulator.errors import FailedAssertion, InvalidFree, OutOfBounds
from phasebit.emulator.findings import say
from phasebit.emulator.machine.group import Group
from phasebit.emulator.ptx.placement import GLOBAL_BASE, LOCAL_BASE, WINDOW_SHIFT

_SPEC = re.compile(
    r"%(%|([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l|z|j|t)?([diouxXeEfFgGaAcsp]))"
)


def _read(g: Group, lane: int, address: int, size: int) -> bytes:
    """Bytes at a generic address, for one thread."""
    memory, batch = g.memory, g.batch
    if address >> WINDOW_SHIFT == LOCAL_BASE >> WINDOW_SHIFT:
        start = batch.local_base + lane * batch.local_stride + (address & 0xFFFFFFFF)
    else:
        start = address - GLOBAL_BASE
    if not 0 <= start < len(memory.u1):
        raise OutOfBounds("printf reads the invalid address {:#x}", address)
    return memory.u1[start : start + size].tobytes()


def _string(g: Group, lane: int, address: int) -> str:
    raw = _read(g, lane, address, 4096)
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


def _local(g: Group, place: int, form: str) -> Any:
    """A call argument of every thread."""
    width = np.dtype(form).itemsize
    base = (g.lanes * g.batch.local_stride + g.batch.local_base + place) // width
    return getattr(g.memory, form)[base]


def vprintf(g: Group, arguments: list[int], results: list[int]) -> None:
    """``printf``: each thread prints in the order of the lanes."""
    formats, buffers = _local(g, arguments[0], "u8"), _local(g, arguments[1], "u8")
    for lane, where, buffer in zip(
        g.lanes.tolist(), formats.tolist(), buffers.tolist(), strict=True
    ):
        text = _string(g, lane, where)
        data = _read(g, lane, buffer, 1024) if buffer else b""
        g.batch.machine.printed.append(_format(g, lane, text, data))
    if results:
        width = (g.lanes * g.batch.local_stride + g.batch.local_base + results[0]) // 4
        g.memory.u4[width] = 1


def _format(g: Group, lane: int, text: str, data: bytes) -> str:
    """C's printf over the packed arguments; each is aligned to its size."""
    at = 0

    def take(size: int, form: str) -> Any:
        nonlocal at
        at = -(-at // size) * size
        value = np.frombuffer(data[at : at + size], form)[0]
        at += size
        return value

    def replace(match: re.Match[str]) -> str:
        if match.group(1) == "%":
            return "%"
        flags, width, precision, length, kind = match.group(2, 3, 4, 5, 6)
        if width == "*":
            width = str(int(take(4, "i4")))
        if precision == "*":
            precision = str(int(take(4, "i4")))
        spec = f"%{flags or ''}{width or ''}{'.' + precision if precision is not None else ''}"
        long = length in ("l", "ll", "z", "j", "t")
        if kind in "di":
            return f"{spec}d" % int(take(8, "i8") if long else take(4, "i4"))
        if kind in "ouxX":
            value = int(take(8, "u8") if long else take(4, "u4"))
            return f"{spec}{'d' if kind == 'u' else kind}" % value
        if kind == "c":
            return f"{spec}s" % chr(int(take(4, "u4")) & 0xFF)
        if kind == "s":
            return f"{spec}s" % _string(g, lane, int(take(8, "u8")))
        if kind == "p":
            return f"{spec}s" % hex(int(take(8, "u8")))
        number = float(take(8, "f8"))
        return number.hex() if kind in "aA" else f"{spec}{kind}" % number

    return _SPEC.sub(replace, text)


def assert_fail(g: Group, arguments: list[int], results: list[int]) -> None:
    """``assert``: the kernel ends with the message that CUDA prints."""
    lane = int(g.lanes[0])
    message, file, line, function = (
        int(_local(g, place, "u8")[0]) if i != 2 else int(_local(g, place, "u4")[0])
        for i, place in enumerate(arguments[:4])
    )
    raise FailedAssertion(
        "{}:{}: {}: {}: Assertion `{}` failed.",
        _string(g, lane, file), line, _string(g, lane, function), g.batch.describe(g.lanes[:1]),
        _string(g, lane, message),
    )


def malloc(g: Group, arguments: list[int], results: list[int]) -> None:
    """``malloc``, which ``new`` calls: memory that lives until some kernel frees it.

    Each thread gets its own; a null pointer where the device's memory is full.
    """
    sizes = _local(g, arguments[0], "u8").tolist()
    addresses = [g.memory.malloc(size) for size in sizes]
    base = (g.lanes * g.batch.local_stride + g.batch.local_base + results[0]) // 8
    g.memory.u8[base] = addresses


def free(g: Group, arguments: list[int], results: list[int]) -> None:
    """``free``, which ``delete`` calls: only what ``malloc`` gave, and once."""
    for lane, address in zip(g.lanes, _local(g, arguments[0], "u8").tolist(), strict=True):
        thread, where = g.batch.describe(np.array([lane])), g.batch.machine.where(g)
        if address and not g.memory.release(address, say("by {}: {}", thread, where)):
            raise InvalidFree(
                "{} frees {:#x}, which no malloc of a kernel gave: it is {}; {}",
                thread, address, g.memory.near(address - GLOBAL_BASE), where,
            )


EXTERNALS: dict[str, Callable[..., None]] = {
    "vprintf": vprintf, "__assertfail": assert_fail, "malloc": malloc, "free": free,
}  # fmt: skip
"""The functions by the names that nvcc calls them by."""
