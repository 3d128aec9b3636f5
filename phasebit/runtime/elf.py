"""Look at a program before running it: will it load the stand-in at all?

A program with the CUDA runtime linked in (nvcc's default) or linked against CUDA 11
would run and find no driver; the reader would be told that a GPU is missing. So the names of the
shared libraries that it needs are read out of its dynamic section first.
System V ABI, ch. 5, "Dynamic Section".
"""

from __future__ import annotations

import struct
from pathlib import Path

from phasebit.runtime.library import SONAME, SONAME_12

_REMEDY = "build it with `python -m phasebit nvcc FILE.cu -o PROGRAM`"
_LOAD, _DYNAMIC = 1, 2  # segment types
_NEEDED, _STRTAB = 1, 5  # dynamic entries


class UnsuitableProgram(Exception):
    """A program that cannot use the stand-in; the text says why and what to do."""


def needed(data: bytes) -> list[str]:
    """The shared libraries that a 64-bit little-endian ELF file asks for; empty if static."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    (table,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    segments = [struct.unpack_from("<IIQQQQ", data, table + i * size) for i in range(count)]

    def offset(address: int) -> int:
        for kind, _, at, start, _, length in segments:
            if kind == _LOAD and start <= address < start + length:
                return int(at + address - start)
        raise ValueError("an address outside all segments")

    for kind, _, at, _, _, length in segments:
        if kind != _DYNAMIC:
            continue
        entries = list(struct.iter_unpack("<QQ", data[at : at + length // 16 * 16]))
        names = [value for tag, value in entries if tag == _NEEDED]
        strings = offset(next(value for tag, value in entries if tag == _STRTAB))
        return [data[strings + name : data.index(b"\0", strings + name)].decode() for name in names]
    return []


def check(program: Path) -> None:
    """Raise UnsuitableProgram for a program that would not load the stand-in.

    What is not an ELF file (a script that starts one) passes.
    """
    if not program.is_file():
        raise UnsuitableProgram(f"no program {program}: {_REMEDY}")
    try:
        data = program.read_bytes()
    except OSError as error:
        raise UnsuitableProgram(f"cannot read {program}: {error.strerror}") from error
    if data[:4] != b"\x7fELF":
        return
    try:
        libraries = needed(data)
    except (ValueError, struct.error, StopIteration) as error:
        raise UnsuitableProgram(f"{program} is not a program for this machine: {error}") from error
    if SONAME in libraries or SONAME_12 in libraries:
        return
    others = [name for name in libraries if name.startswith("libcudart.so")]
    if others:
        raise UnsuitableProgram(
            f"{program} was built for {others[0]}, the stand-in is {SONAME_12} and {SONAME}; "
            f"{_REMEDY}"
        )
    if b".nv_fatbin" in data:
        raise UnsuitableProgram(f"{program} has the CUDA runtime linked into it; {_REMEDY}")
