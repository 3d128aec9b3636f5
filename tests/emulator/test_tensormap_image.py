"""The bytes of tensor maps: those that CuTe DSL's host code writes itself, and all others."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from phasebit.emulator.copy_engine.tensormap import (
    BLANK,
    FILLS,
    INTERLEAVES,
    L2_PROMOTIONS,
    SWIZZLES,
    TYPES,
    Descriptor,
    decode,
    problem,
    replaced,
)
from phasebit.emulator.machine.device_memory import POISON

ADDRESS = 0x7F0012345680
DEEP = (192, 256, 7, 3, 5)

CUTE = [
    ("f16", "128B", (192, 256), (384,), (64, 128),
     (0x1800046312, 0, 0, 0xFF000000BF, 0, 0x3F00000000000000, 0x7F)),
    ("f16", "64B", (192, 256), (384,), (32, 16),
     (0x1800044312, 0, 0, 0xFF000000BF, 0, 0x1F00000000000000, 0xF)),
    ("f16", "32B", (192, 256), (384,), (16, 16),
     (0x1800042312, 0, 0, 0xFF000000BF, 0, 0xF00000000000000, 0xF)),
    ("bf16", "none", (192, 256), (384,), (16, 16),
     (0x1800040512, 0, 0, 0xFF000000BF, 0, 0xF00000000000000, 0xF)),
    ("f32", "none", (192, 256), (768,), (16, 16),
     (0x3000240392, 0, 0, 0xFF000000BF, 0, 0xF00000000000000, 0xF)),
    ("tf32", "none", (192, 256), (768,), (16, 16),
     (0x3000250392, 0, 0, 0xFF000000BF, 0, 0xF00000000000000, 0xF)),
    ("u8", "none", (192, 256), (192,), (16, 16),
     (0xC00040012, 0, 0, 0xFF000000BF, 0, 0xF00000000000000, 0xF)),
    ("f64", "none", (192, 256), (1536,), (16, 16),
     (0x6000240492, 0, 0, 0xFF000000BF, 0, 0xF00000000000000, 0xF)),
    ("f32", "128B_ATOM_32B", (192, 256), (768,), (32, 16),
     (0x30002C6392, 0, 0, 0xFF000000BF, 0, 0x1F00000000000000, 0xF)),
    ("b4x16", "none", (192, 256), (96,), (64, 16),
     (0x600040592, 0, 0, 0xFF000000BF, 0, 0x3F00000000000000, 0xF)),
    ("b6x16_p32", "none", (256, 256), (192,), (128, 16),
     (0xC00040692, 0, 0, 0xFF000000FF, 0, 0x7F00000000000000, 0xF)),
    ("f16", "none", (256,), (), (64,), (0x40302, 0, 0, 0xFF, 0, 0x3F00000000000000, 0)),
    ("f16", "none", DEEP, (384, 98304, 688128, 2064384), (64, 16, 2, 3, 1),
     (0x1800240342, 0xA80000001800, 0x1F800, 0xFF000000BF, 0x200000006, 0x3F00000000000004,
      0x2010F)),
    ("f16", "none", DEEP, ((1 << 36) + 32, (1 << 37) + 16, 1 << 38, 1 << 39), (64, 16, 2, 3, 1),
     (0x200240342, 1, 0x842100000000, 0xFF000000BF, 0x200000006, 0x3F00000000000004, 0x2010F)),
]  # fmt: skip
"""What a compiled host function writes (read in its LLVM IR), after the word of the address."""


@pytest.mark.parametrize(
    ("kind", "swizzle", "dims", "strides", "box", "words"), CUTE,
    ids=[f"{case[0]} {case[1]} {len(case[2])}" for case in CUTE],
)  # fmt: skip
def test_what_cute_writes_inline(
    kind: str, swizzle: str, dims: tuple[int, ...], strides: tuple[int, ...],
    box: tuple[int, ...], words: tuple[int, ...],
) -> None:  # fmt: skip
    image = struct.pack("<8Q", ADDRESS, *words)
    wanted = Descriptor(kind, ADDRESS, dims, strides, box, (1,) * len(dims), "none", swizzle,
                        "128B", "zeros")  # fmt: skip
    assert decode(image.ljust(128, b"\xee")) == wanted, "the second half is not looked at"
    written = struct.unpack_from("<8Q", wanted.encode())
    assert written == (ADDRESS, words[0] & ~(1 << 21), *words[1:])


def drawn(random: np.random.Generator) -> Descriptor:
    """A descriptor with numbers up to their limits."""

    def up_to(most: int) -> int:
        return int(random.integers(1, min(most, 1 << int(random.integers(1, 41))) + 1))

    mode = "im2col" if random.random() < 0.3 else "tile"
    rank = int(random.integers(3 if mode == "im2col" else 1, 6))
    corner = {3: 1 << 15, 4: 1 << 7, 5: 1 << 4}.get(rank, 0)
    corners = [tuple(int(n) for n in random.integers(-corner, corner, rank - 2))
               for _ in range(2)] if mode == "im2col" else [(), ()]  # fmt: skip
    box = (up_to(256), up_to(1024)) if mode == "im2col" else tuple(
        up_to(256) for _ in range(rank))  # fmt: skip
    return Descriptor(
        str(random.choice(TYPES)), 16 * up_to(1 << 44), tuple(up_to(1 << 32) for _ in range(rank)),
        tuple(16 * int(random.integers(0, 1 << 36)) for _ in range(rank - 1)), box,
        tuple(int(n) for n in random.integers(1, 9, rank)), str(random.choice(INTERLEAVES)),
        str(random.choice(SWIZZLES)), str(random.choice(L2_PROMOTIONS)),
        str(random.choice(FILLS)), mode, *corners,
    )  # fmt: skip


def test_every_map_comes_back_from_its_first_half() -> None:
    random = np.random.default_rng()
    for _ in range(2000):
        made = drawn(random)
        image = made.encode()
        assert len(image) == 128 and not any(image[64:])
        assert decode(image[:64] + bytes(random.bytes(64))) == made


def test_what_is_no_map() -> None:
    assert decode(bytes(128)) is None
    assert decode(struct.pack("<I", POISON) * 32) is None
    numbers = decode(np.arange(32, dtype=np.uint32).tobytes())
    assert numbers is None or problem(numbers), "by chance, but not one to copy by"
    random = np.random.default_rng()
    assert sum(decode(random.bytes(128)) is not None for _ in range(1000)) == 0


@pytest.mark.parametrize(
    ("field", "ordinal", "value"),
    [("global_dim", 5, 1), ("global_dim", 0, 0), ("global_stride", 4, 16), ("global_stride", 0, 8),
     ("box_dim", 0, 257), ("element_stride", 0, 9), ("rank", 0, 5), ("elemtype", 0, 16),
     ("swizzle_mode", 0, 4), ("swizzle_atomicity", 0, 1), ("fill_mode", 0, 2)],
)  # fmt: skip
def test_what_no_field_can_be(field: str, ordinal: int, value: int) -> None:
    with pytest.raises(Exception, match="this is no tensor map") as caught:
        replaced(BLANK, field, ordinal, value)
    assert "\n" not in str(caught.value)


def test_a_map_made_field_by_field() -> None:
    image = BLANK
    for field, ordinal, value in (
        ("global_address", 0, ADDRESS), ("rank", 0, 1), ("elemtype", 0, 11), ("box_dim", 0, 32),
        ("box_dim", 1, 8), ("global_dim", 0, 64), ("global_dim", 1, 1 << 32),
        ("global_stride", 0, 1 << 38), ("element_stride", 1, 2), ("swizzle_mode", 0, 3),
        ("swizzle_atomicity", 0, 1), ("fill_mode", 0, 1),
    ):  # fmt: skip
        image = replaced(image, field, ordinal, value)
    assert decode(image) == Descriptor(
        "tf32", ADDRESS, (64, 1 << 32), (1 << 38,), (32, 8), (1, 2), "none", "128B_ATOM_32B",
        "none", "nan",
    )  # fmt: skip
