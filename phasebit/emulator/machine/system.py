"""Functions that device code calls and the system provides: printf, assert, malloc and free.

Source: CUDA C++ Programming Guide, formatted output, assertion, dynamic global memory allocation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from phasebit.emulator.errors import FailedAssertion, InvalidFree, OutOfBounds
from phasebit.emulator.findings import say
from phasebit.emulator.machine.group import Group
from phasebit.emulator.ptx.placement import GLOBAL_BASE, LOCAL_BASE, WINDOW_SHIFT

_SPEC = re.compile(
    r"%(%|([-+ #0]*)(\*|\d+)?(\.(?:\*|\d*))?(hh|h|ll|l|z|j|t)?([diouxXeEfFgGaAcsp]))"
)

_SHORT = {"hh": "1", "h": "2"}
"""Of an integer that is passed in four bytes how many count."""


def _read(g: Group, lane: int, address: int, size: int) -> bytes:
    """Bytes at a generic address, for one thread."""
    memory, batch = g.memory, g.batch
    if address >> WINDOW_SHIFT == LOCAL_BASE >> WINDOW_SHIFT:
        start = batch.local_base + lane * batch.local_stride + (address & 0xFFFFFFFF)
    else:
        start = address - GLOBAL_BASE
    if not 0 <= start < len(memory.u1):
        raise OutOfBounds(
            "printf reads the invalid address {:#x}: {}; {}",
            address, batch.describe(np.array([lane])), batch.machine.where(g),
        )  # fmt: skip
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
    """``printf``: each thread prints in the order of the lanes.

    It returns how many arguments were printed, not how many characters as in C.
    """
    counts: list[int] = []
    formats, buffers = _local(g, arguments[0], "u8"), _local(g, arguments[1], "u8")
    for lane, where, buffer in zip(
        g.lanes.tolist(), formats.tolist(), buffers.tolist(), strict=True
    ):
        text = _string(g, lane, where)
        data = _read(g, lane, buffer, 1024) if buffer else b""
        written, count = _format(g, lane, text, data)
        g.batch.machine.printed.append(written)
        counts.append(count)
    if results:
        width = (g.lanes * g.batch.local_stride + g.batch.local_base + results[0]) // 4
        g.memory.u4[width] = counts


def _format(g: Group, lane: int, text: str, data: bytes) -> tuple[str, int]:
    """C's printf over the packed arguments, each aligned to its size; and how many it took."""
    at = taken = 0

    def take(form: str) -> Any:
        nonlocal at, taken
        size = np.dtype(form).itemsize
        at = -(-at // size) * size
        value = np.frombuffer(data[at : at + size], form)[0]
        at += size
        taken += 1
        return value

    def replace(match: re.Match[str]) -> str:
        if match.group(1) == "%":
            return "%"
        flags, width, precision, length, kind = match.group(2, 3, 4, 5, 6)
        wide = int(take("i4")) if width == "*" else int(width or 0)
        if wide < 0:
            flags, wide = f"{flags}-", -wide
        digits = None
        if precision:
            digits = int(take("i4")) if precision == ".*" else int(precision[1:] or 0)
            digits = None if digits < 0 else digits
        value: Any
        if kind in "diouxX":
            sign = "i" if kind in "di" else "u"
            passed = take(sign + ("4" if length in (None, "h", "hh") else "8"))
            value = int(passed.astype(sign + _SHORT[length]) if length in _SHORT else passed)
        elif kind == "c":
            value = chr(int(take("u4")) & 0xFF)
        elif kind == "s":
            value = _string(g, lane, int(take("u8")))[:digits]
        elif kind == "p":
            place = int(take("u8"))
            value = hex(place) if place else "(nil)"
        else:
            value = float(take("f8"))
        return _written(flags, wide, digits, kind, value)

    return _SPEC.sub(replace, text), taken


def _written(flags: str, width: int, digits: int | None, kind: str, value: float | str) -> str:
    """A value as C's printf writes it: a sign, a prefix, what it is, and what fills the width."""
    if isinstance(value, str):
        return value.ljust(width) if "-" in flags else value.rjust(width)
    sign, prefix, fill = "", "", "0" in flags
    if kind not in "ouxX":
        sign = "-" if math.copysign(1, value) < 0 else "+" if "+" in flags else " " * (" " in flags)
    if isinstance(value, int):
        text = format(abs(value), kind.translate({ord("i"): "d", ord("u"): "d"}))
        text = "" if digits == 0 == value else text.rjust(digits or 0, "0")
        fill = fill and digits is None
        if "#" in flags and kind in "xX" and value:
            prefix = f"0{kind}"
        elif "#" in flags and kind == "o" and not text.startswith("0"):
            text = f"0{text}"
    elif not math.isfinite(value):
        text, fill = (f"%{kind}" if kind not in "aA" else "%f") % abs(value), False
        text = text.upper() if kind == "A" else text
    elif kind in "aA":
        prefix, text = "0x", _hexadecimal(abs(value), digits, "#" in flags)
        if kind == "A":
            prefix, text = "0X", text.upper()
    else:
        point = "#" * ("#" in flags)
        text = f"%{point}.{6 if digits is None else digits}{kind}" % abs(value)
    if fill and "-" not in flags:
        text = text.rjust(width - len(sign + prefix), "0")
    text = sign + prefix + text
    return text.ljust(width) if "-" in flags else text.rjust(width)


def _hexadecimal(number: float, digits: int | None, point: bool) -> str:
    """A number as C's ``%a`` writes it: as many digits as it needs, or as are asked for."""
    mantissa, exponent = number.hex()[2:].split("p")
    whole, _, behind = mantissa.partition(".")
    if digits is None:
        behind = behind.rstrip("0")
    elif digits >= len(behind):
        behind = behind.ljust(digits, "0")
    else:  # to the nearest, to an even one between two
        unit = 16 ** (len(behind) - digits)
        rounded, rest = divmod(int(whole + behind, 16), unit)
        rounded += 2 * rest > unit or (2 * rest == unit and rounded % 2)
        written = f"{rounded:0{1 + digits}x}"
        whole, behind = written[: len(written) - digits], written[len(written) - digits :]
    return f"{whole}{'.' if behind or point else ''}{behind}p{exponent}"


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
