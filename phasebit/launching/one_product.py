"""A product on tensor cores of Blackwell whose tiles and descriptors are arguments of its kernel.

:func:`tile` lays a matrix out, :func:`product` launches a kernel that takes the arguments of
``kernels/one_thread_multiplies/described.cu``, and :func:`stretch` names the rows that lanes hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from phasebit.emulator import Run
    from phasebit.launching.launch import Kernel

BYTES = 16_384
"""Of a tile in shared memory."""


class Tile(NamedTuple):
    """A tile in shared memory and the descriptor that leads to its elements."""

    image: Any
    """What shared memory holds, as words of 32 bits."""
    descriptor: int
    """As if the tile began at address 0."""


BITS = {
    "tf32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "e2m3": 6, "e3m2": 6,
    "e2m1": 4,
}  # fmt: skip
"""Of a number; 16 numbers of four or six bits stand packed at the beginning of 16 bytes."""


def tile(matrix: Any, kind: str = "bf16", *, mn_major: bool = False) -> Tile:
    """Lay a matrix (rows, k) of a type of :data:`BITS` out as the 128-byte swizzle wants it.

    K-major: lines of 128 bytes along k. MN-major: lines of 128 bytes along the rows, one for each
    k, in boxes one behind the other.
    """
    import numpy as np

    from phasebit.emulator import matrix_descriptors, swizzle

    (rows, depth), numbers = matrix.shape, _numbers(matrix, kind)
    leading = depth * 128 if mn_major else 16
    bits = matrix_descriptors.encode(0, leading, 1024, swizzle.B128, "tcgen05")
    where = matrix_descriptors.places(
        matrix_descriptors.decode(bits, "tcgen05"), rows, depth, numbers.itemsize, mn_major
    )
    image = np.zeros(BYTES // numbers.itemsize, numbers.dtype)
    image[where // numbers.itemsize] = numbers
    return Tile(image.view(np.uint32), bits)


def _numbers(matrix: Any, kind: str) -> Any:
    """The numbers as shared memory holds them: bits of one element a number, a byte at least."""
    import numpy as np

    from phasebit.emulator import formats, sub_byte

    if kind in ("s8", "u8"):
        return np.asarray(matrix, np.int8 if kind == "s8" else np.uint8).view(np.uint8)
    bits = np.asarray(formats.encode(kind, np.asarray(matrix, np.float64)))
    if (width := BITS[kind]) >= 8:
        return bits.view(f"u{width // 8}")
    codes = bits.astype(np.uint8)
    return sub_byte.packed_to_slots(sub_byte.codes_to_packed(codes, width), width, 0)


def prepare(
    text: str, a: Tile, b: Tile, instruction: int, *, times: int = 1, columns: int = 64
) -> tuple[Kernel, list[Any]]:
    """The kernel and its arguments, of which the seventh is the sum; see :func:`product`."""
    import numpy as np

    from phasebit.launching.launch import compile

    out = np.zeros((128, columns), np.uint32)
    kernel = compile(text, "sm_100a")["described"]
    return kernel, [a.image, b.image, a.descriptor, b.descriptor, instruction, times, out, columns]


def product(
    text: str, a: Tile, b: Tile, instruction: int, *, times: int = 1, columns: int = 64,
    **options: Any,
) -> tuple[Any, Run]:  # fmt: skip
    """Add the product of two tiles ``times`` times: the bits of every cell, and the run.

    ``text``: the kernel ``described``, perhaps changed. ``columns``: how many of the sum are
    fetched, a multiple of 32; the cells are [128, columns]. ``options``: those of a launch.
    """
    kernel, arguments = prepare(text, a, b, instruction, times=times, columns=columns)
    return arguments[6], kernel.launch(1, 128, arguments, **options)


def stretch(numbers: Any) -> str:
    """Numbers that follow each other as ``16–31``; several such stretches with commas between."""
    found: list[list[int]] = []
    for n in map(int, numbers):
        if found and n == found[-1][-1] + 1:
            found[-1].append(n)
        else:
            found.append([n])
    return ", ".join(f"{one[0]}–{one[-1]}" if len(one) > 1 else str(one[0]) for one in found)
