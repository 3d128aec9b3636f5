"""Read the PTX out of the fat binary that nvcc puts into a program.

A fat binary is a header and a row of entries, each for one target: PTX text (kind 1) or machine
code (kind 2). The layout is not documented by its maker; what is used here was read off files
that nvcc 13.0 wrote, and every field is checked before it is believed:

    header   u32 magic · u16 version · u16 header size · u64 bytes that follow
    entry    u16 kind · u16 version · u32 header size · u64 payload size · u32 compressed size
             … u32 target at 28 … u64 flags at 40 … u64 text size at 56
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import re
import struct
from dataclasses import dataclass

MAGIC = 0xBA55ED50
_TARGET = re.compile(rb"^\s*\.target\s+sm_(\d+)", re.MULTILINE)
PTX, MACHINE_CODE = 1, 2
COMPRESSED = 0x2000 | 0x8000  # LZ4 and Zstandard

REMEDY = "build it with `python -m phasebit nvcc FILE.cu -o PROGRAM`"


class FatBinaryError(Exception):
    """A fat binary without PTX that can be read; the text names the remedy."""


@dataclass(frozen=True)
class Image:
    """One entry: `target` is 90 for sm_90; `payload` as stored."""

    kind: int
    target: int
    flags: int
    payload: bytes

    @property
    def compressed(self) -> bool:
        return bool(self.flags & COMPRESSED)


def images(blob: bytes) -> list[Image]:
    """The entries of a fat binary; text or machine code by itself is the one entry.

    Raises FatBinaryError where the layout does not hold.
    """
    if whole := alone(blob):
        return [whole]
    if len(blob) < 16:
        raise FatBinaryError(f"the program's fat binary is cut off; {REMEDY}")
    magic, _, header, size = struct.unpack_from("<IHHQ", blob)
    if magic != MAGIC or header < 16 or header + size > len(blob):
        raise FatBinaryError(f"the program's fat binary has an unknown layout; {REMEDY}")
    found = []
    at, end = header, header + size
    while at + 64 <= end:
        kind, _, entry, payload, packed = struct.unpack_from("<HHIQI", blob, at)
        (target,) = struct.unpack_from("<I", blob, at + 28)
        (flags,) = struct.unpack_from("<Q", blob, at + 40)
        start = at + entry
        if entry < 64 or start + payload > end:
            raise FatBinaryError(f"the program's fat binary has an unknown layout; {REMEDY}")
        stored = blob[start : start + (packed or payload)]
        found.append(Image(kind, target, flags, stored))
        at = start + payload
    return found


def alone(blob: bytes) -> Image | None:
    """What a program gives to cuModuleLoadData without a fat binary around it."""
    if blob[:4] == b"\x7fELF":
        return Image(MACHINE_CODE, 0, 0, blob)
    target = _TARGET.search(blob)
    if blob[:4] == struct.pack("<I", MAGIC) or target is None:
        return None
    return Image(PTX, int(target[1]), 0, blob)


def units(blob: bytes) -> list[bytes]:
    """The fat binaries that stand one after another: one for each unit compiled apart."""
    if alone(blob):
        return [blob]
    found: list[bytes] = []
    while len(blob) >= 16 or not found:
        images(blob)
        _, _, header, size = struct.unpack_from("<IHHQ", blob)
        found.append(blob[: header + size])
        blob = blob[header + size :]
    return found


def digest(blob: bytes) -> bytes:
    """By what machine code is known, in a fat binary or by itself."""
    with contextlib.suppress(FatBinaryError):
        for image in images(blob):
            if image.kind == MACHINE_CODE and not image.compressed:
                return hashlib.sha256(image.payload).digest()
    return b""


def text_of(image: Image) -> str:
    """The PTX of one entry, unpacked where this Python can."""
    payload = image.payload
    if image.compressed:
        try:
            payload = importlib.import_module("compression.zstd").decompress(payload)
        except Exception as error:  # no such module before Python 3.14, or LZ4
            raise FatBinaryError(f"the program's PTX is compressed; {REMEDY}") from error
    return payload.rstrip(b"\0").decode("utf-8", "replace").strip("\n")


def newest_ptx(blob: bytes, limit: int | None = None) -> str:
    """The PTX for the newest target (at most `limit`, as 90 for sm_90) in a fat binary.

    Of several units one text after another. Raises FatBinaryError.
    """
    return "\n".join(_newest(unit, limit) for unit in units(blob))


def _newest(unit: bytes, limit: int | None) -> str:
    found = images(unit)
    ptx = [item for item in found if item.kind == PTX]
    if not ptx:
        kinds = "only machine code" if found else "no code"
        raise FatBinaryError(f"the program carries {kinds}, and the emulator reads PTX; {REMEDY}")
    fitting = [item for item in ptx if limit is None or item.target <= limit]
    if not fitting:
        oldest = min(item.target for item in ptx)
        raise FatBinaryError(f"the program's PTX needs sm_{oldest}, the device is sm_{limit}")
    return text_of(max(fitting, key=lambda item: item.target))
