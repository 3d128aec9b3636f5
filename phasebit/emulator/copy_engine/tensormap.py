"""Tensor maps: what the copy engine must know of a tensor to copy boxes of it (PTX ISA 5.5.8).

On a GPU the driver's ``cuTensorMapEncodeTiled`` makes 128 bytes whose layout is not
public.  The emulator makes them as far as that is known (``tensormap_image``); arguments,
their order and the checks are the driver's.

    tile = pb.TensorMap(array, box=(64, 8), swizzle="128B")
    kernel.launch(grid, block, [tile, out])         // const __grid_constant__ CUtensorMap

Everything is given from the innermost dimension outwards: an array of shape (rows, columns)
has the dimensions (columns, rows).

Source: CUDA Driver API, Tensor Map Object Management, cuTensorMapEncodeTiled.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasebit.emulator.capabilities import limits
from phasebit.emulator.copy_engine.tensormap_image import HALF, SIZE, Image
from phasebit.emulator.errors import LaunchError
from phasebit.emulator.numbers.swizzle import MODES

TYPES = (
    "u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32.ftz", "tf32",
    "tf32.ftz", "b4x16", "b4x16_p64", "b6x16_p32",
)  # fmt: skip
"""Element types, in the order of the driver's ``CUtensorMapDataType``."""

BITS = {
    "u8": 8, "u16": 16, "f16": 16, "bf16": 16, "u64": 64, "s64": 64, "f64": 64, "b4x16": 4,
    "b4x16_p64": 4, "b6x16_p32": 6,
}  # fmt: skip
"""Bits of an element; 32 for the others."""

PACKED = frozenset({"b4x16", "b4x16_p64", "b6x16_p32"})
WIDE = frozenset({"b4x16_p64", "b6x16_p32"})
"""Types that need an alignment of 32 bytes, and boxes of 128 elements."""

MOST_BYTES = limits(90).block_shared
"""Of a box, as the driver counts: element strides divide, rounded down.  [seen with an H200]"""

WIDE_SWIZZLES = {
    "b4x16_p64": ("none", "128B", "128B_ATOM_32B"),
    "b6x16_p32": ("none", "128B", "128B_ATOM_32B", "128B_ATOM_64B"),
}
"""Their swizzles; 128B_ATOM_64B is for copies to global memory only."""

ELEMENT_TYPES = (
    "u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32.ftz", "f64", "bf16", "tf32",
    "tf32.ftz", "b4x16", "b4x16_p64", "b6x16_p32",
)  # fmt: skip
"""Element types as ``tensormap.replace`` numbers them (PTX ISA 9.7.9.28, table 33)."""

_KINDS = tuple(kind for kind in ELEMENT_TYPES if not kind.startswith("tf32"))
"""As the image numbers them: there tf32 is f32, rounded."""

FLOATS = frozenset({"f16", "f32", "f64", "bf16", "f32.ftz", "tf32", "tf32.ftz"})
INTERLEAVES = ("none", "16B", "32B")
SWIZZLES = tuple(MODES)
L2_PROMOTIONS = ("none", "64B", "128B", "256B")
FILLS = ("zeros", "nan")
MODES_OF_COPY = ("tile", "im2col")

_FROM_NUMPY = {"u1": "u8", "i1": "u8", "u2": "u16", "i2": "u16", "u4": "u32", "i4": "s32",
               "u8": "u64", "i8": "s64", "f2": "f16", "f4": "f32", "f8": "f64"}  # fmt: skip


@dataclass(frozen=True)
class Descriptor:
    """What a tensor map says; tuples begin with the innermost dimension."""

    data_type: str
    address: int
    dims: tuple[int, ...]
    """Elements along each dimension."""
    strides: tuple[int, ...]
    """Bytes from one index to the next, of each dimension but the innermost."""
    box: tuple[int, ...]
    """How far a copy reaches along each dimension, in elements."""
    element_strides: tuple[int, ...]
    """It takes every so-manieth element."""
    interleave: str = "none"
    swizzle: str = "none"
    l2_promotion: str = "none"
    oob_fill: str = "zeros"
    mode: str = "tile"
    """``im2col``: the box is channels and pixels, walked through the window between corners."""
    lower: tuple[int, ...] = ()
    """im2col: the window's corner, from that of the tensor, of width, height and depth."""
    upper: tuple[int, ...] = ()
    """im2col: the opposite corner, from that of the tensor."""

    unit: int = 0
    """Bytes that count as one element, where not those of the type: see :meth:`plain`."""

    @property
    def bits(self) -> int:
        return 8 * self.unit or BITS.get(self.data_type, 32)

    @property
    def rank(self) -> int:
        return len(self.dims)

    def plain(self) -> Descriptor:
        """The same tensor without interleave (PTX ISA 5.5.6).

        Interleaved channels lie in slices of 16 or 32 bytes, pixel after pixel.  So a pixel's
        slice is like an element, the innermost dimension is the width, and the last but one
        counts slices, of which a box has one, whatever it says.  [seen on an H200]
        """
        if self.interleave == "none":
            return self
        box = (1, self.box[1]) if self.mode == "im2col" else (*self.box[:-2], 1, self.box[-1])
        unit = int(self.interleave[:-1])
        return dataclasses.replace(self, box=box, interleave="none", unit=unit)

    @functools.cached_property
    def counts(self) -> tuple[int, ...]:
        """Elements of the box that are copied, along each dimension."""
        if self.mode == "im2col":
            return self.box
        steps = self.element_strides if self.unit else (1, *self.element_strides[1:])
        return tuple(-(-b // e) for b, e in zip(self.box, steps, strict=True))

    @functools.cached_property
    def nbytes(self) -> int:
        """Bytes of a box in shared memory: what the mbarrier counts, at the edges too."""
        if self.interleave != "none":
            return self.plain().nbytes
        elements = 1
        for count in self.counts:
            elements *= count
        return elements * self.bits // 8

    @property
    def footprint(self) -> int:
        """Bytes of shared memory from a box's first byte to its last, before the swizzle.

        More than :attr:`nbytes` where rows are narrower than the swizzle's span.
        """
        return (self.nbytes // self.row - 1) * self.pitch + self.row

    @property
    def row(self) -> int:
        """Bytes of a row of a box."""
        return self.counts[0] * self.bits // 8

    @property
    def pitch(self) -> int:
        """Bytes from one row of a box to the next in shared memory."""
        span = MODES[self.swizzle].span
        dense = self.swizzle == "none" or self.unit
        return self.row if dense else -(-self.row // span) * span

    def encode(self) -> bytes:
        """The 128 bytes."""
        def filled(values: Sequence[int], count: int, fill: int = 1) -> list[int]:
            return [*values, *[fill] * (count - len(values))]

        rounded = self.data_type.startswith("tf32")
        kind = self.data_type.replace("tf32", "f32")
        return Image(
            _KINDS.index(kind), self.rank, INTERLEAVES.index(self.interleave),
            SWIZZLES.index(self.swizzle), L2_PROMOTIONS.index(self.l2_promotion),
            FILLS.index(self.oob_fill), rounded, MODES_OF_COPY.index(self.mode), self.address,
            filled(self.dims, 5), filled(self.strides, 4, 0), filled(self.box, 5),
            filled(self.element_strides, 5), [*self.lower, *self.upper],
        ).pack()  # fmt: skip

    def call(self) -> tuple[str, list[tuple[str, Any]]]:
        """The driver's function that makes this tensor map, and its arguments with their types."""
        function = "cuTensorMapEncodeTiled"
        box: list[tuple[str, Any]] = [("uint32", self.box)]
        if self.mode == "im2col":
            function = "cuTensorMapEncodeIm2col"
            box = [("int", self.lower), ("int", self.upper), *(("uint32", n) for n in self.box)]
        return function, [
            ("int", TYPES.index(self.data_type)), ("uint32", self.rank), ("uint64", self.address),
            ("uint64", self.dims), ("uint64", self.strides), *box,
            ("uint32", self.element_strides), ("int", INTERLEAVES.index(self.interleave)),
            ("int", SWIZZLES.index(self.swizzle)), ("int", L2_PROMOTIONS.index(self.l2_promotion)),
            ("int", FILLS.index(self.oob_fill)),
        ]  # fmt: skip

    def check(self) -> None:
        """The driver's rules.  Raises :class:`LaunchError` with the one that is broken."""
        rank, bits = self.rank, self.bits
        wide = 32 if self.interleave == "32B" or self.data_type in WIDE else 16
        _rule(1 <= rank <= 5, f"a tensor has 1 to 5 dimensions, not {rank}")
        _rule(
            self.interleave == "none" or rank >= 3,
            f"an interleaved tensor has at least 3 dimensions, not {rank}",
        )
        for what, values, wanted in (
            ("strides", self.strides, rank - 1),
            ("box", self.box, 2 if self.mode == "im2col" else rank),
            ("element_strides", self.element_strides, rank),
        ):  # fmt: skip
            _rule(
                len(values) == wanted,
                f"{what} needs {wanted} numbers for {rank} dimensions, not {len(values)}",
            )
        _rule(
            self.address % wide == 0,
            f"the tensor begins at {self.address:#x}, which is no multiple of {wide} bytes",
        )
        for i, n in enumerate(self.dims):
            _rule(1 <= n <= 1 << 32, f"dimension {i} has {n} elements; allowed are 1 to 2^32")
        for i, n in enumerate(self.strides):
            _rule(
                n % wide == 0 and 0 <= n < 1 << 40,
                f"the stride of dimension {i + 1} is {n} bytes; it must be a multiple of {wide} "
                "below 2^40",
            )
        if self.mode == "im2col":
            self._check_window()
        for i, n in enumerate(self.box):
            most = 1024 if i and self.mode == "im2col" else 256
            _rule(
                1 <= n <= most,
                f"the box has {n} elements in dimension {i}; allowed are 1 to {most}",
            )
        for i, n in enumerate(self.element_strides):
            _rule(1 <= n <= 8, f"the element stride of dimension {i} is {n}; allowed are 1 to 8")
        whole = bits
        for n, step in zip(self.box, self.element_strides, strict=False):
            whole *= n // (1 if self.mode == "im2col" else step)
        _rule(
            whole <= 8 * MOST_BYTES,
            f"the box has {whole // 8} bytes; {MOST_BYTES}, all of shared memory, are allowed",
        )
        inner = self.box[0] * bits // 8
        if self.data_type in WIDE:
            _rule(self.dims[0] % 128 == 0, f"{self.data_type} needs rows of 128 elements or more")
            _rule(self.box[0] == 128, f"a box of {self.data_type} has 128 elements in dimension 0")
            allowed = WIDE_SWIZZLES[self.data_type]
            _rule(
                self.swizzle in allowed,
                f"{self.data_type} takes the swizzles {', '.join(allowed)}, not {self.swizzle}",
            )
        else:
            _rule(
                inner % 16 == 0,
                f"the box has {inner} bytes in dimension 0, which is no multiple of 16",
            )
        _rule(
            self.data_type != "b6x16_p32" or self.interleave == "none",
            "b6x16_p32 cannot be interleaved",
        )
        if self.data_type == "b4x16":
            _rule(self.dims[0] % 2 == 0, "4-bit elements come in pairs")
        if self.interleave == "none" and self.swizzle != "none":
            span = MODES[self.swizzle].span
            _rule(
                inner <= span,
                f"the box has {inner} bytes in dimension 0; swizzle {self.swizzle} allows {span}",
            )
        _rule(
            self.oob_fill == "zeros" or self.data_type in FLOATS,
            f"only floating-point elements can be filled with NaN, and {self.data_type} is none",
        )

    def _check_window(self) -> None:
        """The rules of im2col."""
        _rule(3 <= self.rank <= 5, f"im2col needs 3 to 5 dimensions, not {self.rank}")
        most = {3: 1 << 15, 4: 1 << 7, 5: 1 << 4}[self.rank]
        for what, corner in (("lower", self.lower), ("upper", self.upper)):
            _rule(
                len(corner) == self.rank - 2 and all(-most <= c < most for c in corner),
                f"the {what} corner needs {self.rank - 2} numbers from {-most} to {most - 1}",
            )
        spatial = self.dims[1:-1] if self.interleave == "none" else self.dims[:-2]
        for n, low, high in zip(spatial, self.lower, self.upper, strict=True):
            end = (n + high + (1 << 31)) % (1 << 32) - (1 << 31)  # the driver has 32 bits for it
            _rule(end > low, "the window between the corners is empty")


def _rule(holds: bool, text: str) -> None:
    if not holds:
        raise LaunchError(f"this is no tensor map: {text}")


BLANK = Image().pack()
"""A map in which nothing is set; no copy may use it yet."""


@functools.lru_cache(maxsize=1024)
def decode(image: bytes) -> Descriptor | None:
    """What 128 bytes say, of which the first 64 count; None if they are no tensor map."""
    made = Image.unpack(image)
    if (
        made is None or made.swizzle >= len(SWIZZLES) or made.interleave >= len(INTERLEAVES)
        or made.kind >= len(_KINDS)
    ):  # fmt: skip
        return None
    kind = _KINDS[made.kind]
    rank, window = made.rank, bool(made.window)
    return Descriptor(
        f"t{kind}" if made.rounded and kind.startswith("f32") else kind, made.address,
        tuple(made.dims[:rank]), tuple(made.strides[: rank - 1]),
        tuple(made.box[: 2 if window else rank]), tuple(made.steps[:rank]),
        INTERLEAVES[made.interleave], SWIZZLES[made.swizzle], L2_PROMOTIONS[made.promotion],
        FILLS[made.fill], MODES_OF_COPY[made.window], tuple(made.corners[: rank - 2]),
        tuple(made.corners[rank - 2 :]),
    )  # fmt: skip


@functools.lru_cache(maxsize=1024)
def problem(d: Descriptor) -> str:
    """Which rule a descriptor breaks that a kernel has changed; empty if none."""
    try:
        d.check()
    except LaunchError as error:
        return str(error)
    return ""


_PLACES = {"global_dim": "dims", "global_stride": "strides", "box_dim": "box",
           "element_stride": "steps"}  # fmt: skip
"""What a field of several numbers is called in the image."""
_MOST = {"dims": 1 << 32, "strides": 1 << 40, "box": 256, "steps": 8}


def replaced(image: bytes, field: str, ordinal: int, value: int) -> bytes:
    """An image with one field changed (PTX ISA 9.7.9.28).  Raises :class:`LaunchError`."""
    made = Image.unpack(image)
    assert made is not None
    if field in _PLACES:
        name = _PLACES[field]
        numbers: list[int] = getattr(made, name)
        _rule(ordinal < len(numbers), f"{field} has {len(numbers)} ordinals, and {ordinal} is none")
        least = 0 if name == "strides" else 1
        whole = name != "strides" or value % 16 == 0
        _rule(least <= value <= _MOST[name] and whole, f"{field} of {value}")
        numbers[ordinal] = value
    elif field == "global_address":
        made.address = value
    elif field == "rank":
        _rule(value < 5, f"rank {value} + 1 is more than 5")
        made.rank = value + 1
    elif field == "elemtype":
        _rule(value < len(ELEMENT_TYPES), f"there is no element type {value}")
        kind = ELEMENT_TYPES[value]
        made.kind, made.rounded = _KINDS.index(kind.replace("tf32", "f32")), kind.startswith("tf32")
    elif field == "swizzle_atomicity":
        _rule(value <= 3 <= made.swizzle or not value, "atoms other than 16B need swizzle_mode 3")
        made.swizzle = 3 + value if value else min(made.swizzle, 3)
    else:
        places = {"interleave_layout": ("interleave", 3), "swizzle_mode": ("swizzle", 4),
                  "fill_mode": ("fill", 2)}  # fmt: skip
        name, most = places[field]
        _rule(value < most, f"there is no {field} {value}")
        setattr(made, name, value)
    return made.pack()[:HALF] + image[HALF:]


def described(words: Sequence[int]) -> Descriptor:
    """From the driver's numbers: type, rank, address, dims (5), strides (4), box (5), element
    strides (5), interleave, swizzle, L2 promotion, fill.  For im2col the box is channels and
    pixels, and the window's corners follow, lower (3) and upper (3).  Raises
    :class:`LaunchError`."""
    kind, rank, address, *rest = words
    _rule(1 <= rank <= 5, f"a tensor has 1 to 5 dimensions, not {rank}")
    names = []
    for what, number, values in zip(
        ("data type", "interleave", "swizzle", "L2 promotion", "fill"),
        (kind, *rest[19:23]), (TYPES, INTERLEAVES, SWIZZLES, L2_PROMOTIONS, FILLS), strict=True,
    ):  # fmt: skip
        _rule(0 <= number < len(values), f"there is no {what} number {number}")
        names.append(values[number])
    made = Descriptor(
        names[0], address, tuple(rest[:rank]), tuple(rest[5 : 4 + rank]),
        tuple(rest[9 : 9 + rank]), tuple(rest[14 : 14 + rank]), names[1], names[2], names[3],
        names[4],
    )  # fmt: skip
    if len(rest) > 23:
        corners = [tuple(n - (n >> 63 << 64) for n in rest[i : i + rank - 2]) for i in (23, 26)]
        made = dataclasses.replace(
            made, box=tuple(rest[9:11]), mode="im2col", lower=corners[0], upper=corners[1]
        )
    made.check()
    return made


class TensorMap:
    """A kernel's argument of type ``CUtensorMap``: boxes of an array.

    ``tensor``: a NumPy array, row by row (on a GPU also one with
    ``__cuda_array_interface__``), or an address, with ``data_type`` and ``dims``.
    ``box``: elements along each dimension, **innermost first**, as all that follows.
    ``data_type``: a PTX name such as ``"bf16"`` where NumPy has no type of that kind.
    ``dims``, ``strides``: the extents in elements, and the bytes between indices of the
    outer dimensions, where they are not those of the array.
    ``element_strides``: take every so-manieth element of the outer dimensions.
    ``interleave`` none, 16B, 32B; ``swizzle`` none, 32B, 64B, 128B, 128B_ATOM_32B,
    128B_ATOM_32B_FLIP_8B, 128B_ATOM_64B; ``l2_promotion`` none, 64B, 128B, 256B;
    ``oob_fill`` zeros, nan: what elements outside of the tensor become.

    Raises :class:`LaunchError` where the driver would return CUDA_ERROR_INVALID_VALUE.  (A driver
    for Hopper also refuses atoms other than 16 bytes, which came with sm_100.)

    What copies ask beyond that: rows begin at multiples of 16 bytes, a store's box at no negative
    coordinate; a swizzled row takes the swizzle's whole span of shared memory.
    """

    def __init__(
        self, tensor: Any, box: Sequence[int], *, data_type: str | None = None,
        dims: Sequence[int] | None = None, strides: Sequence[int] | None = None,
        element_strides: Sequence[int] | None = None, interleave: str = "none",
        swizzle: str = "none", l2_promotion: str = "none", oob_fill: str = "zeros",
    ) -> None:  # fmt: skip
        self.tensor = tensor
        if not isinstance(tensor, int):
            form, shape = _form_of(tensor)
            data_type = data_type or _FROM_NUMPY.get(form.str[1:])
            _rule(data_type is not None, f"data_type is needed: none goes by itself with {form}")
            dims = tuple(reversed(shape)) if dims is None else dims
        for what, name, values in (
            ("data_type", data_type, TYPES), ("interleave", interleave, INTERLEAVES),
            ("swizzle", swizzle, SWIZZLES), ("l2_promotion", l2_promotion, L2_PROMOTIONS),
            ("oob_fill", oob_fill, FILLS),
        ):  # fmt: skip
            _rule(name in values, f"{what} is one of {', '.join(values)}; {name!r} is none")
        assert data_type is not None
        _rule(dims is not None, "an address needs dims")
        assert dims is not None
        dims = _numbers(dims, "dims")
        _rule(len(dims) > 0, "a tensor has 1 to 5 dimensions, not 0")
        if strides is None:
            size = dims[0] * BITS.get(data_type, 32) // 8
            strides = [size := size * (dims[i] if i else 1) for i in range(len(dims) - 1)]
        self.descriptor = Descriptor(
            data_type, tensor if isinstance(tensor, int) else 0, dims,
            _numbers(strides, "strides"), _numbers(box, "box"),
            _numbers([1] * len(dims) if element_strides is None else element_strides,
                     "element_strides"), interleave, swizzle, l2_promotion, oob_fill,
        )  # fmt: skip
        self.descriptor.check()

    @property
    def nbytes(self) -> int:
        """Bytes of one box: what to expect at the mbarrier.

        In shared memory it has the same, or where its numbers lie in slots of 16 bytes
        (b4x16_p64, b6x16_p32) one for each number.
        """
        return self.descriptor.nbytes

    def at(self, address: int) -> Descriptor:
        """The descriptor for the array at its address."""
        made = dataclasses.replace(self.descriptor, address=address)
        made.check()
        return made

    @classmethod
    def im2col(
        cls, tensor: Any, channels: int, pixels: int, lower: Sequence[int], upper: Sequence[int],
        **more: Any,
    ) -> TensorMap:  # fmt: skip
        """For convolutions: the tensor is (images, …, height, width, channels).

        A copy takes ``channels`` of each of ``pixels``, which are walked, width fastest, through
        the window from ``lower`` to the tensor's extent plus ``upper`` (both of width, height,
        depth), and on through the next image; ``more`` as for tiles.  The driver's
        cuTensorMapEncodeIm2col.
        """
        rank = len(more.get("dims") or _form_of(tensor)[1])
        made = cls(tensor, (channels, *[1] * (rank - 1)), **more)
        made.descriptor = dataclasses.replace(
            made.descriptor, box=(channels, pixels), mode="im2col", lower=_numbers(lower, "lower"),
            upper=_numbers(upper, "upper"),
        )  # fmt: skip
        made.descriptor.check()
        return made

    def __repr__(self) -> str:
        d = self.descriptor
        return f"<TensorMap of {d.data_type} {d.dims}, box {d.box}, swizzle {d.swizzle}>"


def _form_of(tensor: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
    if isinstance(tensor, np.ndarray):
        return tensor.dtype, tensor.shape
    interface = getattr(tensor, "__cuda_array_interface__", None)
    if interface is None:
        raise LaunchError(
            f"a tensor map is made of an array or an address, not of a {type(tensor).__name__}"
        )
    return np.dtype(interface["typestr"]), tuple(interface["shape"])


def _numbers(values: Sequence[int], what: str) -> tuple[int, ...]:
    if isinstance(values, np.ndarray):  # one without dimensions is no sequence
        values = values.ravel().tolist()
    if not isinstance(values, Sequence) or not all(
        isinstance(value, int | np.integer) for value in values
    ):
        raise LaunchError(
            f"{what} of a tensor map is a list of whole numbers, innermost first, not {values!r}"
        )
    return tuple(map(int, values))


__all__ = ["SIZE", "Descriptor", "TensorMap", "decode", "described", "problem", "replaced"]
