"""The bytes of a tensor map, as hardware has them where that is known.

Eight words of 64 bits say everything; the rest of the 128 bytes is not looked at, so that a kernel
may copy the first half alone, as CuTe does.  Counts are kept less one, strides in units of 16
bytes; bit 0 of a word is its lowest.

word  bits
0     0-63 the address
1     1 set in every map; 4-6 rank; 7-10 element type, as PTX numbers them (9.7.9.28) but for
      tf32; 13-14 swizzle; 16 f32 is rounded to tf32; 17-18 L2 promotion; 19-20 atoms of the
      swizzle; 32-63 stride of dimension 1
2     0-31, 32-63 strides of dimensions 2, 3
3     0-31 that of dimension 4; 32-47 bits 32 to 35 of each stride, four for each
4, 5  0-31, 32-63 extents of dimensions 0 to 3
6     0-31 extent of dimension 4; 56-63 the box along dimension 0
7     0-31 the box along dimensions 1 to 4, eight bits each

[read from the host code that CuTe DSL 4.8.1 compiles for sm_90a and sm_100a, which writes these
words itself; bit 21 of word 1 it sets for tensors of 128 KiB and more: nothing here goes by that]

Word 1 also has, in bits 11-12, the interleave.  Where the rest lies on hardware is not known, and
a bit that was never seen makes it no map.  Here it is in words 6 and 7, if it is more than nothing,
with a mark: word 6, bits 32-46 element strides, 47-48 bits 8 and 9 of the box along dimension 1, 49
fill, 50 im2col, 51-55 the mark; word 7, bits 32-63 the corners of an im2col window.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

SIZE = 128
HALF = 64
"""Bytes that count."""
_WORDS = struct.Struct("<8Q")
_MARK = 2
"""The bit that every map has."""
_SEEN = 0x3F7FF2
"""Bits of the lower half of word 1 that were seen in some map."""
_OURS = 21
"""The mark of what is known to be nowhere on hardware."""
_IGNORED = 1 << 21
_CORNER = {3: 16, 4: 8, 5: 5}
"""Rank -> bits of one number of a window's corner."""


def _zeros(count: int) -> list[int]:
    return [0] * count


@dataclass
class Image:
    """What a tensor map's words say, as numbers, each as it is counted elsewhere.

    ``kind``: the element type; ``swizzle``: 0 to 3, then by its atoms 4 to 6.
    """

    kind: int = 0
    rank: int = 1
    interleave: int = 0
    swizzle: int = 0
    promotion: int = 0
    fill: int = 0
    rounded: bool = False
    window: int = 0
    address: int = 0
    dims: list[int] = field(default_factory=lambda: [1] * 5)
    strides: list[int] = field(default_factory=lambda: _zeros(4))
    box: list[int] = field(default_factory=lambda: [1] * 5)
    steps: list[int] = field(default_factory=lambda: [1] * 5)
    corners: list[int] = field(default_factory=list)
    """Of an im2col window: those of the lower one, then those of the upper one."""

    def pack(self) -> bytes:
        """The 128 bytes."""
        low, atoms = min(self.swizzle, 3), max(self.swizzle - 3, 0)
        strides = [stride >> 4 for stride in self.strides]
        ours = _joined([s - 1 for s in self.steps], 3) | (self.box[1] - 1 >> 8) << 15
        ours |= self.fill << 17 | self.window << 18
        ours |= _OURS << 19 if ours else 0
        words = [
            self.address,
            _MARK | self.rank - 1 << 4 | self.kind << 7 | self.interleave << 11 | low << 13
            | self.rounded << 16 | self.promotion << 17 | atoms << 19 | _low(strides[0]) << 32,
            _low(strides[1]) | _low(strides[2]) << 32,
            _low(strides[3]) | _joined([s >> 32 for s in strides], 4) << 32,
            _low(self.dims[0] - 1) | _low(self.dims[1] - 1) << 32,
            _low(self.dims[2] - 1) | _low(self.dims[3] - 1) << 32,
            _low(self.dims[4] - 1) | ours << 32 | (self.box[0] - 1) << 56,
            _joined([n - 1 & 0xFF for n in self.box[1:]], 8)
            | (_joined(self.corners, _CORNER[self.rank]) << 32 if self.corners else 0),
        ]  # fmt: skip
        return _WORDS.pack(*words).ljust(SIZE, b"\0")

    @classmethod
    def unpack(cls, image: bytes) -> Image | None:
        """What bytes say; None where they are no tensor map."""
        words = list(_WORDS.unpack_from(image))
        words[1] &= ~_IGNORED
        ours = words[6] >> 32 & 0xFFFFFF
        if (
            words[1] & 15 != _MARK or _low(words[1]) & ~_SEEN or words[3] >> 48
            or ((ours or words[7] >> 32) and ours >> 19 != _OURS)
        ):  # fmt: skip
            return None
        about = words[1]
        rank, low, atoms = 1 + (about >> 4 & 7), about >> 13 & 3, about >> 19 & 3
        if rank > 5 or (atoms and low < 3):
            return None
        strides = [about >> 32, _low(words[2]), words[2] >> 32, _low(words[3])]
        strides = [s | (words[3] >> 32 + 4 * i & 15) << 32 for i, s in enumerate(strides)]
        box = [1 + (words[6] >> 56), *(1 + n for n in _apart(words[7], 8, 4))]
        box[1] += (ours >> 15 & 3) << 8
        window = ours >> 18 & 1
        corners = _signed(words[7] >> 32, rank) if window and rank in _CORNER else []
        return cls(
            about >> 7 & 15, rank, about >> 11 & 3, low + atoms, about >> 17 & 3, ours >> 17 & 1,
            bool(about >> 16 & 1), window, words[0],
            [1 + n for w in words[4:7] for n in (_low(w), w >> 32)][:5],
            [s << 4 for s in strides], box, [1 + n for n in _apart(ours, 3, 5)], corners,
        )  # fmt: skip


def _low(number: int) -> int:
    return number & 0xFFFFFFFF


def _joined(numbers: list[int], width: int) -> int:
    """Numbers side by side, the first lowest."""
    mask = (1 << width) - 1
    return sum((number & mask) << width * i for i, number in enumerate(numbers))


def _signed(word: int, rank: int) -> list[int]:
    """The numbers of a window's two corners."""
    width = _CORNER[rank]
    return [n - (n >> width - 1 << width) for n in _apart(word, width, 2 * (rank - 2))]


def _apart(word: int, width: int, count: int) -> list[int]:
    mask = (1 << width) - 1
    return [word >> width * i & mask for i in range(count)]


__all__ = ["HALF", "SIZE", "Image"]
